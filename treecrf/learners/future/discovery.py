"""The discovery of a feature of bags: boosting in the score of their instances.

A bag shows the pattern if any of its instances does: with the probability p = expit(G) of an
instance, Q = 1 - prod (1 - p) is that of the bag (noisy or). The feature Q changes the scores of
labels, and the instance score G follows the gradient of their likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from treecrf.learners.future.bags import Bags
from treecrf.learners.future.instances import InstanceGrower, InstanceTree
from treecrf.learners.future.responses import Response

# Beyond this an instance is certain enough.
MAX_SCORE = 30.0
# Instances change by steps of this range in the score; what is best is looked for in its logarithm.
STEP_RANGE = (0.05, 10.0)
N_GRID = 12
STEP_TOLERANCE = 0.02
# A round that gains less than this is poor; the second of them is the last.
MIN_GAIN = 1e-5
MAX_POOR_ROUNDS = 2


@dataclass(frozen=True)
class Search:
    """How a feature is looked for.

    Attributes
    ----------
    initial_score : float
        Score of every instance at the start, well below 0: no bag shows the pattern yet.
    initial_slope : float
        Effect of the feature on the scores at the start, above 0. A large one would part the
        feature into several.
    max_trees : int
        Most trees of the instance score.
    """

    initial_score: float
    initial_slope: float
    max_trees: int


@dataclass
class Candidate:
    """A feature: the trees of its instance score, its values and its effect on the labels."""

    score: np.ndarray
    feature: np.ndarray
    effect: np.ndarray
    value: float
    trees: list[InstanceTree] = field(default_factory=list)


def shown(bags: Bags, score: np.ndarray) -> np.ndarray:
    """Probability that a bag shows the pattern, from the scores of the instances."""
    score = np.clip(score, -MAX_SCORE, MAX_SCORE)
    return -np.expm1(bags.sum_of(-np.log1p(np.exp(score))))


def score_gradient(
    bags: Bags, score: np.ndarray, feature: np.ndarray, by_feature: np.ndarray
) -> np.ndarray:
    """Derivative of the log-likelihood by the score of each instance, from that by the feature.

    The derivative of one bag's feature by the score of its instance is p (1 - Q), as the factor
    1 - p of the instance completes the product; an instance has a part in all bags that hold it.
    """
    p = expit(np.clip(score, -MAX_SCORE, MAX_SCORE))
    return p * bags.sum_holding(by_feature * (1.0 - feature))


def discover(
    response: Response, bags: Bags, grower: InstanceGrower, search: Search, sign: int
) -> Candidate:
    """Boost the instance score of one feature.

    Parameters
    ----------
    sign : {1, -1}
        Whether the feature begins as one that speaks for the label or against it.
    """
    score = np.full(len(bags.n_holding), search.initial_score)
    feature, effect = shown(bags, score), response.start(sign * search.initial_slope)
    best = Candidate(score, feature, effect, response.value(effect, feature))
    n_poor = 0
    while len(best.trees) < search.max_trees and n_poor < MAX_POOR_ROUNDS:
        found = _improved(best, response, bags, grower)
        if found is None or found.value < best.value:
            break
        n_poor += found.value < best.value + MIN_GAIN
        best = found
    return best


def _improved(
    old: Candidate, response: Response, bags: Bags, grower: InstanceGrower
) -> Candidate | None:
    """The candidate with one more tree and the effect that is best then."""
    by_feature = response.gradient(old.effect, old.feature)
    gradient = score_gradient(bags, old.score, old.feature, by_feature)
    tree = grower.grow(gradient, bags.n_holding)
    if tree is None:
        return None
    step = _best_step(
        lambda step: response.value(old.effect, shown(bags, old.score + step * tree.values))
    )
    tree = tree.scaled(step)
    score = old.score + tree.values
    feature = shown(bags, score)
    effect = response.fit(old.effect, feature)
    value = response.value(effect, feature)
    return Candidate(score, feature, effect, value, [*old.trees, tree])


def _best_step(value: Callable[[float], float]) -> float:
    """The step of the greatest value: a grid in its logarithm, then a search around the best."""
    grid = np.linspace(*np.log(STEP_RANGE), N_GRID)
    values = [value(float(np.exp(log_step))) for log_step in grid]
    best = int(np.argmax(values))
    around = grid[max(best - 1, 0)], grid[min(best + 1, N_GRID - 1)]
    found = minimize_scalar(
        lambda log_step: -value(float(np.exp(log_step))),
        bounds=around,
        method="bounded",
        options={"xatol": STEP_TOLERANCE},
    )
    return float(np.exp(found.x if -found.fun > values[best] else grid[best]))
