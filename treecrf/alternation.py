"""Training by turns: trees on what is known, then the discovery of one more feature of bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from treecrf.bags import Bags
from treecrf.boosting import Booster, History, Stopping, Validation, boost
from treecrf.discovery import Candidate, Search, discover
from treecrf.encoding import EncodedSequences, Encoder
from treecrf.forest import Forest
from treecrf.future_encoding import BagFeature, FutureEncoder
from treecrf.instances import InstanceGrower
from treecrf.made_columns import bins_of, constant_tree, tree_of_bins
from treecrf.responses import OneLabel, Sloped

# A feature must add this to the mean log-likelihood that is judged, with the trees that follow it;
LEAST_RISE = 1e-3
# and this to that of the training data by itself.
LEAST_GAIN = 1e-5
# So many trees of a feature tell whether a size of bags is right.
BRIEF = 5


@dataclass(frozen=True)
class Plan:
    """How features are looked for.

    Attributes
    ----------
    sizes : tuple of int or None
        Sizes of bags, of which the best for the first feature is kept; None reaches to the end.
    direction : {"future", "past", "both"}
    max_features : int
        Most rounds of discovery.
    multiclass : {"all", "best", "shared"}
        Whether a round finds a feature for each label; or the one that gains most, for its label;
        or this one for all labels.
    n_bins : int
    max_leaf_nodes, l2_regularization
        Of the trees on instances.
    search : Search
    """

    sizes: tuple[int | None, ...]
    direction: str
    max_features: int
    multiclass: str
    n_bins: int
    max_leaf_nodes: int
    l2_regularization: float
    search: Search


@dataclass(frozen=True)
class Phase:
    """How trees are boosted between discoveries."""

    max_iter: int
    stopping: Stopping | None


@dataclass(frozen=True)
class State:
    """A model on its way: features, trees, and likelihoods after each iteration."""

    encoder: FutureEncoder
    forest: Forest
    history: History


class Alternation:
    """Boosts trees and discovers features by turns.

    Parameters
    ----------
    plan : Plan
    phase : Phase
    start : callable
        ``start(encoder, forest)`` gives a `Booster` and a `Validation`, or None, for both.
    report : callable
        As in `treecrf.boosting.boost`.
    """

    def __init__(
        self,
        plan: Plan,
        phase: Phase,
        start: Callable[[FutureEncoder, Forest], tuple[Booster, Validation | None]],
        report: Callable[[int, History], None],
    ):
        self.plan = plan
        self.phase = phase
        self.start = start
        self.report = report
        self.sizes = plan.sizes

    def run(self, encoder: Encoder, forest: Forest) -> State:
        """Train until no further feature helps."""
        encoder = FutureEncoder(encoder, (), self.plan.n_bins)
        state = self._boosted(State(encoder, forest, History([0.0], [0.0])))
        for _ in range(self.plan.max_features):
            found = self._with_feature(state)
            if found is None:
                break
            found = self._boosted(found)
            sharp = self._boosted(self._sharpened(state, found))
            if self._judged(sharp) > self._judged(found) - LEAST_RISE:
                found = sharp
            if self._judged(found) < self._judged(state) + LEAST_RISE:
                break
            state = found
        return state

    def _judged(self, state: State) -> float:
        """The latest likelihood of the data that decide."""
        is_held_out = self.phase.stopping is not None
        return (state.history.validation if is_held_out else state.history.train)[-1]

    def _boosted(self, state: State) -> State:
        """Add trees until they are of no more use; the last of a history is of the new state."""
        forest = state.forest.copy()
        booster, validation = self.start(state.encoder, forest)
        most = forest.n_iter + self.phase.max_iter
        grown = boost(booster, most, validation, self.phase.stopping, self.report)
        n_new = len(grown.train) - 1
        if self.phase.stopping is not None:
            n_new = int(np.argmax(grown.validation))
        train, held_out = (
            before[:-1] + new[: n_new + 1]
            for before, new in (
                (state.history.train, grown.train), (state.history.validation, grown.validation),
            )
        )  # fmt: skip
        forest = forest.copy(state.forest.n_iter + n_new)
        return replace(state, forest=forest, history=History(train, held_out))

    def _with_feature(self, state: State) -> State | None:
        """One more feature for a label, or one for each, and the trees that say their effects."""
        booster, validation = self.start(state.encoder, state.forest)
        if len(self.sizes) > 1:
            self.sizes = (self._best_size(state, booster, validation),)
        finder = _Finder(state.encoder, booster, self.plan)
        found = finder.find(self.sizes[0], self.plan.search)
        if not found:
            return None
        return _extended(state, found, booster)

    def _sharpened(self, before: State, after: State) -> State:
        """The state after a discovery, with features found again where trees know their effects.

        A feature is found by what it says of the labels by itself. Trees may then have learned
        where it speaks for a label and where against it, which shows the pattern more clearly.
        """
        booster, _ = self.start(before.encoder, before.forest)
        finder = _Finder(before.encoder, booster, self.plan)
        n = len(before.encoder.features)
        found = []
        for place, feature in enumerate(after.encoder.features[n:], n):
            low, high = self._at_extremes(after, place)
            found.append(finder.sharpen(feature, low, high))
        return _extended(before, found, booster)

    def _at_extremes(self, state: State, place: int) -> list[np.ndarray]:
        """Scores at the training positions if a feature were 0, or 1, everywhere."""
        booster, _ = self.start(state.encoder, state.forest)
        column = booster.whole.codes.shape[1] - len(state.encoder.features) + place
        scores = []
        for bin_ in (0, self.plan.n_bins - 1):
            codes = booster.whole.codes.copy()
            codes[:, column] = bin_
            encoded = replace(booster.whole, codes=codes)
            given = booster.objective.given
            of_all = state.forest.scores(state.encoder, encoded, booster.threads, given=given)
            booster.objective.constrain(of_all)
            scores.append(of_all[:, :, 0])
        return scores

    def _best_size(
        self, state: State, booster: Booster, validation: Validation | None
    ) -> int | None:
        """The size of bags whose feature is best for the data that decide."""
        n_trees = min(BRIEF, self.plan.search.max_trees)
        brief = replace(self.plan.search, max_trees=n_trees)
        values = []
        for size in self.sizes:
            found = _Finder(state.encoder, booster, self.plan).find(size, brief)
            after = _extended(state, found, booster)
            judge = self.start(after.encoder, after.forest)
            if validation is None or self.phase.stopping is None:
                values.append(judge[0].value())
            else:
                values.append(judge[1].value(after.forest, booster.threads))
        return self.sizes[int(np.argmax(values))]


class _Finder:
    """Looks for features where the trees so far have come to.

    Each feature that it finds changes its ``scores``, from which it goes on.
    """

    def __init__(self, encoder: FutureEncoder, booster: Booster, plan: Plan):
        self.plan = plan
        self.offsets = booster.encoded.offsets
        self.codes, self.weights = booster.objective.codes, booster.position_weights
        self.scores = booster.scores[:, :, 0].copy()
        encoded = _without_made(booster.whole, encoder)
        self.grower = InstanceGrower(
            encoder.base, encoded, plan.max_leaf_nodes, plan.l2_regularization
        )

    def find(self, size: int | None, search: Search) -> list[tuple[BagFeature, np.ndarray]]:
        """Features and their values at the training positions."""
        bags = Bags(self.offsets, size, self.plan.direction)
        # Of two labels, one score tells as much as both.
        labels = range(1 if len(self.scores) == 2 else 0, len(self.scores))
        if self.plan.multiclass == "all":
            found = [self._feature(size, *self._best(label, bags, search)) for label in labels]
        else:
            of_labels = (self._best(label, bags, search) for label in labels)
            candidate, effects = max(of_labels, key=lambda one: one[0].value)
            found = [self._feature(size, candidate, effects)]
        return [(feature, values) for feature, values in found if feature.gain > LEAST_GAIN]

    def sharpen(
        self, feature: BagFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """A feature found again, from the scores where it is 0 and where it is 1."""
        bags = Bags(self.offsets, feature.size, feature.direction)
        with np.errstate(invalid="ignore"):
            slopes = high - low
        response = Sloped(low, slopes, self.codes, self.weights)
        found = discover(response, bags, self.grower, self.plan.search, 1)
        return self._feature(feature.size, found, feature.effects)

    def _feature(
        self, size: int | None, found: Candidate, effects: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """A feature with the effects that are best now, from others on."""
        trees = Forest(1, 0)
        for tree in found.trees:
            trees.append(tree.grown, self.grower.meanings)
        before = self._value()
        effects = self._take(effects, found.feature)
        gain = self._value() - before
        start = self.plan.search.initial_score
        feature = BagFeature(size, self.plan.direction, start, trees, effects, gain)
        return feature, found.feature

    def _take(self, effects: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Add a feature to the scores of its label or labels; return its effects."""
        is_shared = self.plan.multiclass == "shared" and len(self.scores) > 2
        labels = range(len(self.scores)) if is_shared else [int(np.abs(effects[1]).argmax())]
        effects, before = np.zeros_like(effects), self.scores.copy()
        for label in (*labels, *labels) if is_shared else labels:
            self.scores[label] = before[label]
            response = OneLabel(self.scores, self.codes, label, self.weights)
            effects[:, label] = response.fit(effects[:, label], feature)
            self.scores[label] += effects[0, label] + effects[1, label] * feature
        return effects

    def _value(self) -> float:
        log_p = self.scores - logsumexp(self.scores, axis=0)
        of_true = log_p[self.codes, np.arange(len(self.codes))]
        return float((self.weights * of_true).sum()) / len(of_true)

    def _best(self, label: int, bags: Bags, search: Search) -> tuple[Candidate, np.ndarray]:
        """The better one of two signs, and its effects."""
        response = OneLabel(self.scores, self.codes, label, self.weights)
        both = [discover(response, bags, self.grower, search, sign) for sign in (1, -1)]
        best = max(both, key=lambda candidate: candidate.value)
        return best, response.on_labels(best.effect)


def _without_made(encoded: EncodedSequences, encoder: FutureEncoder) -> EncodedSequences:
    """What the encoder's base has encoded."""
    n = len(encoder.base.plan.n_codes)
    codes = np.ascontiguousarray(encoded.codes[:, :n])
    has_missing = encoded.has_missing[: len(encoder.base.columns)]
    return replace(encoded, codes=codes, has_missing=has_missing)


def _extended(state: State, found: list[tuple[BagFeature, np.ndarray]], booster: Booster) -> State:
    """The state with more features, and an iteration of trees on them."""
    n_columns, forest = len(state.encoder.columns), state.forest.copy()
    history = History([*state.history.train, 0.0], [*state.history.validation, 0.0])
    n_bins = state.encoder.n_bins
    by_label = [constant_tree() for _ in range(forest.n_labels)]
    for column, (feature, values) in enumerate(found, n_columns):
        bins = bins_of(values, n_bins)
        sizes = np.bincount(bins, minlength=n_bins).astype(float)
        sums = np.bincount(bins, weights=values, minlength=n_bins)
        means = sums / np.maximum(sizes, 1)
        for label in np.flatnonzero(feature.effects.any(axis=0)):
            intercept, slope = feature.effects[:, label]
            by_label[label] = tree_of_bins(column, intercept + slope * means, sizes)
    forest.trees += by_label
    features = state.encoder.features + tuple(feature for feature, _ in found)
    return State(FutureEncoder(state.encoder.base, features, n_bins), forest, history)
