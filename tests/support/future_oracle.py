"""Bags, their features and the discovery of one, written out position by position."""

from __future__ import annotations

import math

import numpy as np
from support.tree_oracle import grow_naive_tree

MAX_SCORE, MAX_EFFECT, RIDGE = 30.0, 40.0, 1e-4


def naive_bags(lengths: list[int], size: int | None, direction: str) -> list[list[int]]:
    """The positions in the bag of each position."""
    bags, start = [], 0
    for n in lengths:
        for t in range(n):
            near = [s for s in range(n) if s != t and (size is None or abs(s - t) <= size)]
            sides = {"future": lambda s, t=t: s > t, "past": lambda s, t=t: s < t}
            bags.append([start + s for s in near if sides.get(direction, lambda s: True)(s)])
        start += n
    return bags


def naive_feature(bags: list[list[int]], score: np.ndarray) -> np.ndarray:
    """Q = 1 - prod (1 - p): the probability that an instance of the bag is positive."""
    p = [1 / (1 + math.exp(-max(-MAX_SCORE, min(MAX_SCORE, g)))) for g in score]
    return np.array([1 - math.prod(1 - p[j] for j in bag) for bag in bags])


def naive_log_likelihood(scores: np.ndarray, codes: np.ndarray) -> float:
    """Mean log-probability of the labels under a softmax of their scores."""
    log_z = np.log(np.exp(scores).sum(axis=0))
    return float(np.mean(scores[codes, np.arange(len(codes))] - log_z))


class NaiveDiscovery:
    """Boosts the instance score of one feature for one label; slow and plain.

    Parameters
    ----------
    tests : bool array (n_tests, n_positions)
        Outcomes of all tests of an instance.
    scores, codes, label, bags
        As in the package, with bags as lists of positions.
    """

    def __init__(self, tests, scores, codes, label, bags):
        self.tests, self.scores, self.codes = tests, scores, codes
        self.label, self.bags = label, bags
        self.counts = np.array([sum(j in bag for bag in bags) for j in range(len(codes))])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Mean log-likelihood with the feature."""
        changed = self.scores.copy()
        changed[self.label] += effect[0] + effect[1] * feature
        return naive_log_likelihood(changed, self.codes)

    def gradient(self, effect: np.ndarray, score: np.ndarray) -> np.ndarray:
        """Equation 5.15 of the dissertation, added up bag by bag."""
        feature = naive_feature(self.bags, score)
        changed = self.scores.copy()
        changed[self.label] += effect[0] + effect[1] * feature
        p_label = np.exp(changed[self.label]) / np.exp(changed).sum(axis=0)
        out = np.zeros(len(score))
        for t, bag in enumerate(self.bags):
            r = (self.codes[t] == self.label) - p_label[t]
            for j in bag:
                out[j] += effect[1] * r * (1 - feature[t]) / (1 + math.exp(-score[j]))
        return out

    def tree(self, gradient: np.ndarray, max_leaf_nodes: int, l2: float):
        """The tree of a gradient, and its values, scaled to a largest leaf of size 1."""
        unit = 2.0 ** -math.frexp(np.abs(gradient).max())[1]
        targets = np.rint(gradient * unit * 2.0**32) / 2.0**32
        tree = grow_naive_tree(
            self.tests, np.zeros(len(targets), dtype=int), 1, 0, targets[:, None],
            self.counts[:, None].astype(float), max_leaf_nodes=max_leaf_nodes, l2=l2,
        )  # fmt: skip
        leaves = [node.value for node in tree.nodes if node.true_child < 0]
        return tree, tree.increments[:, 0] / np.abs(leaves).max()
