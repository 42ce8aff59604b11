"""Search for features of bags, each discovered by boosting the scores of the instances.

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
from treecrf.encoding.column_layout import bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.booster import Booster
from treecrf.learners.future.features import (
    MAX_SCORE,
    BagFeature,
    Bags,
    FutureEncoder,
    bag_probabilities,
)
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.exact import exact_sum, leave_room, rounded_leaves

# Bound on effects: a feature that separates the labels perfectly would have an infinite one.
MAX_EFFECT = 40.0
# Penalty of squared effects, so that Newton's method has a step where the feature is constant.
RIDGE = 1e-4
# Newton's method ends after this many steps, or with a step that is smaller than the tolerance.
MAX_NEWTON_STEPS = 10
EFFECT_TOLERANCE = 1e-8
# Tolerance of the search for the factor of slopes.
FACTOR_TOLERANCE = 1e-3
# Limit of the logits, which are infinite if a label is forbidden or the only one allowed. Its
# exponential is finite.
MAX_LOGIT = 600.0
# Range of the step by which a tree changes the score. The search is in its logarithm, first on a
# grid of this many values, then between the neighbors of the best one up to the tolerance.
STEP_RANGE = (0.05, 10.0)
N_GRID = 12
STEP_TOLERANCE = 0.02
# Minimum increase of the mean log-likelihood per training position, by a feature alone and by a
# round of its discovery, which ends after some rounds with less.
MIN_GAIN = 1e-5
MAX_POOR_ROUNDS = 2


class OneLabel:
    """A feature Q that adds intercept + slope Q to the score of one label.

    The likelihood is that of a logistic regression, plus a constant. The scores,
    (n_labels, n_positions), are conditional on the true previous labels.
    """

    def __init__(self, scores: np.ndarray, codes: np.ndarray, label: int, weights: np.ndarray):
        others = np.delete(scores, label, axis=0)
        other_scores = log_sum_exp(others)
        self.logits = np.clip(scores[label] - other_scores, -MAX_LOGIT, MAX_LOGIT)
        self.is_label = codes == label
        self.negated_sign = np.where(self.is_label, -1.0, 1.0)
        self.weights = weights
        # Log-likelihood of the other labels, given that the label is one of them.
        log_p_among = scores[codes, np.arange(len(codes))] - other_scores
        self.rest = exact_sum(weights[~self.is_label] * log_p_among[~self.is_label])

    def start(self, slope: float) -> np.ndarray:
        """Return an intercept of 0 and the initial slope."""
        return np.array([0.0, slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Compute the mean log-likelihood per position."""
        logits = self._logits(effect, feature)
        log_p = -np.log1p(np.exp(self.negated_sign * logits))
        return (exact_sum(self.weights * log_p) + self.rest) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Compute the derivative of the log-likelihood by the feature, at each position."""
        return effect[1] * self._residuals(effect, feature)

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Find the best effect by Newton's method, with a ridge and a bound on the slope."""
        for _ in range(MAX_NEWTON_STEPS):
            residuals = self._residuals(effect, feature)
            p = expit(self._logits(effect, feature))
            curvature = self.weights * p * (1 - p)
            intercepts = exact_sum(curvature)
            mixed = exact_sum(curvature * feature)
            slopes = exact_sum(curvature * feature**2)
            hessian = np.array([[intercepts, mixed], [mixed, slopes]]) / len(p)
            derivatives = np.array([exact_sum(residuals), exact_sum(residuals * feature)])
            gradient = derivatives / len(p) - RIDGE * effect
            step = np.linalg.solve(hessian + RIDGE * np.eye(2), gradient)
            before = effect
            effect = self._better(before, step, feature)
            if np.abs(effect - before).max() < EFFECT_TOLERANCE:
                break
        return effect

    def _better(self, effect: np.ndarray, step: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Take a step, halved until it does not lower the penalized likelihood."""
        before = self._penalized(effect, feature)
        for _ in range(MAX_NEWTON_STEPS):
            after = np.clip(effect + step, -MAX_EFFECT, MAX_EFFECT)
            if self._penalized(after, feature) >= before:
                return after
            step = step / 2
        return effect

    def _penalized(self, effect: np.ndarray, feature: np.ndarray) -> float:
        return self.value(effect, feature) - RIDGE * float(effect @ effect) / 2

    def _residuals(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        return self.weights * (self.is_label - expit(self._logits(effect, feature)))

    def _logits(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        return self.logits + effect[0] + effect[1] * feature


class Sloped:
    """A feature Q that adds factor * slope * Q to all scores; positions have fixed slopes."""

    def __init__(
        self, scores: np.ndarray, slopes: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ):
        self.scores = scores
        # Slopes of forbidden labels are undefined and have no effect.
        self.slopes = np.where(np.isfinite(scores), slopes, 0.0)
        self.weights = weights
        every = np.arange(len(codes))
        self.true_scores = scores[codes, every]
        self.true_slopes = self.slopes[codes, every]

    def start(self, slope: float) -> np.ndarray:
        """Return the initial factor."""
        return np.array([slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Compute the mean log-likelihood per position."""
        changed = effect[0] * feature
        log_p = self.true_scores + changed * self.true_slopes
        log_p -= log_sum_exp(self.scores + changed * self.slopes)
        return exact_sum(self.weights * log_p) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Compute the derivative of the log-likelihood by the feature, at each position."""
        scores = self.scores + (effect[0] * feature) * self.slopes
        p = np.exp(scores - log_sum_exp(scores))
        return effect[0] * self.weights * (self.true_slopes - (p * self.slopes).sum(axis=0))

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Find the best factor between 0 and 1."""
        search = minimize_scalar(
            lambda factor: -self.value(np.array([factor]), feature),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": FACTOR_TOLERANCE},
        )
        if -search.fun > self.value(effect, feature):
            return np.array([search.x])
        return effect


# The likelihood of the labels as a function of a feature and its effect on their scores.
Response = OneLabel | Sloped


def log_sum_exp(scores: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the sum of the exponentials of the scores at each position."""
    largest = scores.max(axis=0)
    # If all labels are forbidden, subtracting minus infinity would give NaN.
    largest[np.isneginf(largest)] = 0.0
    with np.errstate(divide="ignore"):
        return largest + np.log(np.exp(scores - largest).sum(axis=0))


@dataclass(frozen=True)
class InstanceTree:
    """A tree, as `TreeGrower.grow` returns it, and its value at every position."""

    # Arrays of its nodes.
    nodes: dict[str, np.ndarray]
    # Its value at each position.
    values: np.ndarray

    def scaled(self, factor: float) -> InstanceTree:
        """Return the tree with its leaf values multiplied by a factor."""
        leaf = rounded_leaves(factor * self.nodes["leaf"])
        return InstanceTree(self.nodes | {"leaf": leaf}, rounded_leaves(factor * self.values))


class InstanceGrower:
    """Grower of trees of the instance score; positions are weighted by their number of bags."""

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        max_leaf_nodes: int,
        l2_regularization: float,
    ):
        layout, encoded = bundle(encoder.layout, encoded)
        table = number_tests(encoder, layout)
        self.n_positions = encoded.n_positions
        self._grower = TreeGrower(
            encoded,
            table,
            TreeSettings(min(max_leaf_nodes, max(2, encoded.n_positions)), l2_regularization),
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
        if not largest > 0:
            return None
        return tree.scaled(1 / largest)


@dataclass
class CandidateFeature:
    """A feature: the trees of its instance score, its values and its effect on the labels."""

    # Score of each position as an instance.
    score: np.ndarray
    # Value of the feature at each position: the probability that its bag is positive.
    feature: np.ndarray
    # Its effect on the scores of labels, as in the response.
    effect: np.ndarray
    # Mean log-likelihood with the feature.
    value: float
    # The trees whose sum is the instance score, but for its initial value.
    trees: list[InstanceTree] = field(default_factory=list)


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
    response: Response,
    bags: Bags,
    grower: InstanceGrower,
    initial_score: float,
    slope: float,
    max_trees: int,
) -> CandidateFeature:
    """Boost the instance score of a feature; its effect on the labels starts with the slope."""
    score = np.full(len(bags.n_holders), initial_score)
    feature = bag_probabilities(bags, score)
    effect = response.start(slope)
    best = CandidateFeature(score, feature, effect, response.value(effect, feature))
    n_poor = 0
    while len(best.trees) < max_trees and n_poor < MAX_POOR_ROUNDS:
        latest = _with_tree(best, response, bags, grower)
        if latest is None or latest.value < best.value:
            break
        n_poor += latest.value < best.value + MIN_GAIN
        best = latest
    return best


def _with_tree(
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
    search = minimize_scalar(
        lambda log_step: -value_at(float(np.exp(log_step))),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, N_GRID - 1)]),
        method="bounded",
        options={"xatol": STEP_TOLERANCE},
    )
    best_log_step = grid[best]
    if -search.fun > values[best]:
        best_log_step = search.x
    return float(np.exp(best_log_step))


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for features, as in `FutureFeatureMEMM`."""

    # Candidate sizes of bags; all features have the size that is best for the first one.
    sizes: tuple[int | None, ...]
    bag_direction: str
    max_future_features: int
    multiclass: str
    n_bins: int
    # Score of every instance before any trees, well below 0: no bag is positive yet.
    initial_score: float
    # Slope of a new feature in the score of a label; a large one would split one pattern.
    initial_effect: float
    instance_max_iter: int
    instance_max_leaf_nodes: int
    instance_l2_regularization: float


class FeatureSearch:
    """Search for features that raise the likelihood of the trees so far.

    The effect of each feature that it finds is added to its ``scores``, from which the search for
    the next one starts.
    """

    def __init__(self, encoder: FutureEncoder, booster: Booster, settings: SearchSettings):
        self.settings = settings
        self.offsets = booster.encoded.offsets
        self.codes = booster.objective.codes
        self.weights = booster.position_weights
        self.scores = booster.scores[:, :, 0].copy()
        self.grower = InstanceGrower(
            encoder.base,
            encoder.without_features(booster.whole),
            settings.instance_max_leaf_nodes,
            settings.instance_l2_regularization,
        )

    def find(self, size: int | None) -> list[tuple[BagFeature, np.ndarray]]:
        """Find features; return them with their values at the training positions."""
        bags = Bags(self.offsets, size, self.settings.bag_direction)
        # With two labels, changing one score is as general as changing both.
        first_label = 1 if len(self.scores) == 2 else 0
        labels = range(first_label, len(self.scores))
        if self.settings.multiclass == "all":
            pairs = [self._feature(size, *self._best(label, bags)) for label in labels]
        else:
            candidates = (self._best(label, bags) for label in labels)
            candidate, effects = max(candidates, key=lambda pair: pair[0].value)
            pairs = [self._feature(size, candidate, effects)]
        return [(feature, values) for feature, values in pairs if feature.gain > MIN_GAIN]

    def rediscover(
        self, feature: BagFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """Discover a feature again, given the scores if it is 0 and if it is 1."""
        bags = Bags(self.offsets, feature.size, feature.direction)
        with np.errstate(invalid="ignore"):
            slopes = high - low
        response = Sloped(low, slopes, self.codes, self.weights)
        return self._feature(feature.size, self._discovered(response, bags, 1), feature.effects)

    def _best(self, label: int, bags: Bags) -> tuple[CandidateFeature, np.ndarray]:
        """Return the better candidate of both signs, and its effects on all labels."""
        response = OneLabel(self.scores, self.codes, label, self.weights)
        both = [self._discovered(response, bags, sign) for sign in (1, -1)]
        best = max(both, key=lambda candidate: candidate.value)
        effects = np.zeros((2, len(self.scores)))
        effects[:, label] = best.effect
        return best, effects

    def _discovered(self, response: Response, bags: Bags, sign: int) -> CandidateFeature:
        """Discover a feature that initially raises (1) or lowers (-1) a score."""
        settings = self.settings
        slope = sign * settings.initial_effect
        return discover(
            response, bags, self.grower, settings.initial_score, slope, settings.instance_max_iter
        )

    def _feature(
        self, size: int | None, candidate: CandidateFeature, effects: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """Make a feature and add it to the scores, with its best effects.

        It has an effect on all labels, or on the one with the largest of the given effects.
        """
        trees = Forest(1, 0)
        trees.trees += (tree.nodes for tree in candidate.trees)
        likelihood = self._mean_log_likelihood()
        before = self.scores.copy()
        if self.settings.multiclass == "shared" and len(self.scores) > 2:
            # Twice: the best effect on a label depends on the effects on the others.
            labels = 2 * list(range(len(self.scores)))
        else:
            labels = [int(np.abs(effects[1]).argmax())]
        effects = np.zeros_like(effects)
        for label in labels:
            self.scores[label] = before[label]
            response = OneLabel(self.scores, self.codes, label, self.weights)
            effects[:, label] = response.fit(effects[:, label], candidate.feature)
            self.scores[label] += effects[0, label] + effects[1, label] * candidate.feature
        gain = self._mean_log_likelihood() - likelihood
        settings = self.settings
        feature = BagFeature(
            size, settings.bag_direction, settings.initial_score, trees, effects, gain
        )
        return feature, candidate.feature

    def _mean_log_likelihood(self) -> float:
        log_p = self.scores - log_sum_exp(self.scores)
        true_log_p = log_p[self.codes, np.arange(len(self.codes))]
        return exact_sum(self.weights * true_log_p) / len(true_log_p)
