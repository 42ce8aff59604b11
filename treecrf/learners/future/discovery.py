"""Discovery of one feature by boosting the scores of the instances in bags.

A bag is positive if any of its instances is. If p = expit(G) is the probability that an instance
is positive, its bag is positive with probability Q = 1 - prod (1 - p), the noisy-or. The feature Q
changes the scores of labels, and the instance score G follows the gradient of the likelihood of the
labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from treecrf._tree import TreeGrower
from treecrf.encoding.bundling import bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.future.bags import Bags
from treecrf.learners.future.responses import Response
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.exact import leave_room, rounded_leaves

# Larger scores do not change the probability of an instance noticeably.
MAX_SCORE = 30.0
# Range of the step by which a tree changes the score. The search is in its logarithm.
STEP_RANGE = (0.05, 10.0)
N_GRID = 12
STEP_TOLERANCE = 0.02
# A round with less gain than this is poor; after two of them the discovery ends.
MIN_GAIN = 1e-5
MAX_POOR_ROUNDS = 2


@dataclass(frozen=True)
class InstanceTree:
    """A tree, as `TreeGrower.grow` returns it, and its value at every position."""

    nodes: dict[str, np.ndarray]
    values: np.ndarray

    def scaled(self, factor: float) -> InstanceTree:
        """Return the tree with its leaf values multiplied by a factor."""
        leaf, values = (
            rounded_leaves(factor * array) for array in (self.nodes["leaf"], self.values)
        )
        return InstanceTree(self.nodes | {"leaf": leaf}, values)


class InstanceGrower:
    """Grower of trees of the instance score; positions are weighted by their number of bags."""

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        max_leaf_nodes: int,
        l2_regularization: float,
    ):
        plan, encoded = bundle(encoder, encoded)
        table = number_tests(encoder, plan)
        self.n_positions = encoded.n_positions
        self.meanings = Forest(1, 0).meanings(table)
        self._grower = TreeGrower(
            encoded,
            table,
            Growth(min(max_leaf_nodes, max(2, encoded.n_positions)), l2_regularization),
            n_labels=1,
            order=0,
            weighted=True,
            surrogates=encoder.missing == "surrogate",
        )

    def grow(self, gradient: np.ndarray, n_holders: np.ndarray) -> InstanceTree | None:
        """Fit a tree to the gradient, with 1 as its largest absolute leaf value.

        The gradient of a position is summed over the ``n_holders`` bags that contain it. There is
        no tree if the gradient is 0 or not finite.
        """
        largest = np.abs(gradient).max()
        if not 0 < largest < np.inf:
            return None
        # Gradients are tiny at first; without scaling, rounding would lose them.
        targets = np.ldexp(gradient, -math.frexp(largest)[1])
        leave_room(targets)
        values = np.zeros((self.n_positions, 1))
        weights = n_holders.astype(np.float64)[:, None]
        grown = self._grower.grow(targets[:, None], weights, None, 0, values)
        tree = InstanceTree(grown, values[:, 0])
        largest = np.abs(grown["leaf"]).max()
        return tree.scaled(1 / largest) if largest > 0 else None


@dataclass(frozen=True)
class DiscoverySettings:
    """Settings of the boosting of a feature's instance score."""

    initial_score: float  # of every instance, well below 0: no bag is positive yet
    initial_slope: float  # of the scores of the labels; a large one would split one pattern
    max_trees: int


@dataclass
class CandidateFeature:
    """A feature: the trees of its instance score, its values and its effect on the labels."""

    score: np.ndarray
    feature: np.ndarray
    effect: np.ndarray
    value: float
    trees: list[InstanceTree] = field(default_factory=list)


def bag_probabilities(bags: Bags, score: np.ndarray) -> np.ndarray:
    """Compute the probability that each bag is positive from the scores of the instances."""
    score = np.clip(score, -MAX_SCORE, MAX_SCORE)
    return -np.expm1(bags.sum_members(-np.log1p(np.exp(score))))


def score_gradient(
    bags: Bags, score: np.ndarray, feature: np.ndarray, by_feature: np.ndarray
) -> np.ndarray:
    """Compute the derivative of the log-likelihood with respect to the scores of the instances.

    The derivative with respect to the feature is given. The derivative of the feature of a bag with
    respect to the score of an instance in it is p (1 - Q), because the factor 1 - p of the instance
    completes the product. The contributions of all bags that contain the instance are added.
    """
    p = expit(np.clip(score, -MAX_SCORE, MAX_SCORE))
    return p * bags.sum_holders(by_feature * (1.0 - feature))


def discover(
    response: Response, bags: Bags, grower: InstanceGrower, settings: DiscoverySettings, sign: int
) -> CandidateFeature:
    """Boost the instance score of a feature that initially raises (1) or lowers (-1) a score."""
    score = np.full(len(bags.n_holders), settings.initial_score)
    feature = bag_probabilities(bags, score)
    effect = response.start(sign * settings.initial_slope)
    best = CandidateFeature(score, feature, effect, response.value(effect, feature))
    n_poor = 0
    while len(best.trees) < settings.max_trees and n_poor < MAX_POOR_ROUNDS:
        latest = _improved(best, response, bags, grower)
        if latest is None or latest.value < best.value:
            break
        n_poor += latest.value < best.value + MIN_GAIN
        best = latest
    return best


def _improved(
    old: CandidateFeature, response: Response, bags: Bags, grower: InstanceGrower
) -> CandidateFeature | None:
    """Return the candidate with one more tree and with the best effect for it."""
    by_feature = response.gradient(old.effect, old.feature)
    gradient = score_gradient(bags, old.score, old.feature, by_feature)
    tree = grower.grow(gradient, bags.n_holders)
    if tree is None:
        return None

    def value_at(step: float) -> float:
        return response.value(old.effect, bag_probabilities(bags, old.score + step * tree.values))

    tree = tree.scaled(_best_step(value_at))
    score = old.score + tree.values
    feature = bag_probabilities(bags, score)
    effect = response.fit(old.effect, feature)
    value = response.value(effect, feature)
    return CandidateFeature(score, feature, effect, value, [*old.trees, tree])


def _best_step(value_at: Callable[[float], float]) -> float:
    """Find the best step by a grid of logarithms, followed by a search around the best."""
    grid = np.linspace(*np.log(STEP_RANGE), N_GRID)
    values = [value_at(float(np.exp(log_step))) for log_step in grid]
    best = int(np.argmax(values))
    around = grid[max(best - 1, 0)], grid[min(best + 1, N_GRID - 1)]
    search = minimize_scalar(
        lambda log_step: -value_at(float(np.exp(log_step))),
        bounds=around,
        method="bounded",
        options={"xatol": STEP_TOLERANCE},
    )
    return float(np.exp(search.x if -search.fun > values[best] else grid[best]))
