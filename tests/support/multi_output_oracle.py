"""Slow reference of trees with a value for each label: growth on a table of all positions.

As in ``tree_oracle``, no code of the package is used. Sums over labels are in the order that the
kernel states: blocks of eight labels, and in a block those that are four apart, then two, then one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.tree_oracle import (
    MissingValues,
    NaiveNode,
    NaiveTree,
    _Examples,
    _Grower,
    round_value,
)

BLOCK = 8


def sum_of_labels(values: np.ndarray) -> np.ndarray:
    """Sum over the last axis, block by block."""
    total = np.zeros(values.shape[:-1])
    for first in range(0, values.shape[-1], BLOCK):
        block = values[..., first : first + BLOCK]
        width = 1 << (block.shape[-1] - 1).bit_length()
        lanes = np.zeros((*block.shape[:-1], width))
        lanes[..., : block.shape[-1]] = block
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = lanes[..., :half] + lanes[..., half:]
        total = total + lanes[..., 0]
    return total


@dataclass(frozen=True)
class _Positions(_Examples):
    """All positions; ``target`` and ``weight`` are (N, K)."""

    def sums(self, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return targets (..., K), weights (..., K) and counts of parts of the positions."""
        parts = parts.astype(float)
        return parts @ self.target, parts @ self.weight, parts @ self.count


@dataclass
class _MultiOutputGrower(_Grower):
    """Grows one tree for all labels."""

    def add_leaf(self, parts: np.ndarray, path: tuple, bounds: tuple, above: tuple) -> int:
        node = len(self.nodes)
        G, W, _ = self.examples.sums(parts)
        weight = 0.0
        for label_weight in W.tolist():
            weight += label_weight
        self.nodes.append(NaiveNode(-1, -1, -1, self.leaf_values(G, W), 0.0, weight))
        self.bounds.append(bounds)
        self.above.append(above)
        self.parts.append(parts)
        self.paths.append(path)
        self.candidates[node] = self.best_split(node)
        return node

    def leaf_score(self, G: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the score of each label, 0 where there is no divisor."""
        divisor = self.l2 + W
        return np.where(divisor > 0, (G * G) / np.where(divisor > 0, divisor, 1.0), 0.0)

    def scores(self, parts: np.ndarray, bounds: tuple) -> tuple[np.ndarray, np.ndarray]:
        Gt, Wt, nt = self.examples.sums(self.examples.truth * parts)
        present = ~self.examples.missing * parts
        Gf, Wf, nf = self.examples.sums(~self.examples.truth * present)
        G, W, _ = self.examples.sums(present)
        valid = Wt.any(axis=1) & Wf.any(axis=1)
        valid &= np.minimum(nt, nf) >= self.min_samples_leaf
        of_sides = sum_of_labels(self.leaf_score(Gt, Wt) + self.leaf_score(Gf, Wf))
        of_all = sum_of_labels(self.leaf_score(G, W))
        scores, gains = np.full((2, len(valid)), -math.inf)
        scores[valid] = of_sides[valid]
        gains[valid] = of_sides[valid] - of_all[valid]
        return scores, gains

    def leaf_values(self, G: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the values of all labels in a leaf."""
        divisor = self.l2 + W
        values = np.where(divisor > 0, G / np.where(divisor > 0, divisor, 1.0), 0.0)
        if self.max_leaf_value is not None:
            values = np.clip(values, -self.max_leaf_value, self.max_leaf_value)
        return round_value(values * self.learning_rate)


def grow_naive_multi_output_tree(
    window_tests: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    *,
    max_leaf_nodes: int,
    counts: np.ndarray,
    missing_values: MissingValues,
    position_weights: np.ndarray,
    **settings: Any,
) -> NaiveTree:
    """Grow a tree for all labels; targets and weights are (N, K), as are the increments."""
    n_positions = len(targets)
    positions = _Positions(
        position=np.arange(n_positions),
        context=np.zeros(n_positions, dtype=int),
        truth=window_tests & ~missing_values.missing,
        missing=missing_values.missing,
        target=targets,
        weight=weights,
        count=counts,
        position_weight=position_weights,
    )
    grower = _MultiOutputGrower(positions, missing_values, **settings)
    grower.grow(max_leaf_nodes)
    increments = np.zeros(targets.shape)
    for leaf in grower.candidates:
        increments += round_value(grower.nodes[leaf].value * grower.parts[leaf][:, np.newaxis])
    return NaiveTree(grower.nodes, np.zeros(0, dtype=int), increments)
