"""Training by turns: trees on what is known, then the discovery of one more feature of bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

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
    every_label : bool
        Whether a round finds a feature for each label, and not one for the label that gains most.
    n_bins : int
    max_leaf_nodes, l2_regularization
        Of the trees on instances.
    search : Search
    """

    sizes: tuple[int | None, ...]
    direction: str
    max_features: int
    every_label: bool
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
            found = max(found, self._boosted(self._sharpened(state, found)), key=self._judged)
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
        finder = _Finder(state.encoder, booster, self.plan)
        if len(self.sizes) > 1:
            self.sizes = (self._best_size(finder, state, booster, validation),)
        found = list(finder.find(self.sizes[0]))
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
        self,
        finder: _Finder,
        state: State,
        booster: Booster,
        validation: Validation | None,
    ) -> int | None:
        """The size of bags whose feature is best for the data that decide."""
        values = []
        for size in self.sizes:
            found = list(finder.find(size))
            after = _extended(state, found, booster)
            judge = self.start(after.encoder, after.forest)
            if validation is None or self.phase.stopping is None:
                values.append(judge[0].value())
            else:
                values.append(judge[1].value(after.forest, booster.threads))
        return self.sizes[int(np.argmax(values))]


class _Finder:
    """Looks for features where the trees so far have come to."""

    def __init__(self, encoder: FutureEncoder, booster: Booster, plan: Plan):
        self.plan = plan
        self.booster = booster
        encoded = _without_made(booster.whole, encoder)
        self.grower = InstanceGrower(
            encoder.base, encoded, plan.max_leaf_nodes, plan.l2_regularization
        )

    def find(self, size: int | None) -> Iterator[tuple[BagFeature, np.ndarray]]:
        """Features and their values at the training positions."""
        objective, plan = self.booster.objective, self.plan
        bags = Bags(self.booster.encoded.offsets, size, plan.direction)
        scores, found = self.booster.scores[:, :, 0].copy(), []
        n_labels = len(scores)
        # Of two labels, one score tells as much as both.
        for label in range(1 if n_labels == 2 else 0, n_labels):
            response = OneLabel(scores, objective.codes, label, self.booster.position_weights)
            candidate, gain = self._best(response, bags)
            if gain < LEAST_GAIN:
                continue
            effects = response.on_labels(candidate.effect)
            found.append((gain, candidate, effects))
            if plan.every_label:
                scores += effects[0][:, None] + effects[1][:, None] * candidate.feature
        if found and not plan.every_label:
            found = [max(found, key=lambda one: one[0])]
        for gain, candidate, effects in found:
            yield self._feature(size, candidate, effects, gain), candidate.feature

    def sharpen(
        self, feature: BagFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """A feature found again, from the scores where it is 0 and where it is 1."""
        codes, weights = self.booster.objective.codes, self.booster.position_weights
        bags = Bags(self.booster.encoded.offsets, feature.size, feature.direction)
        response = Sloped(low, high - low, codes, weights)
        found = discover(response, bags, self.grower, self.plan.search, 1)
        label = feature.label
        simple = OneLabel(self.booster.scores[:, :, 0], codes, label, weights)
        effect = simple.fit(feature.effects[:, label], found.feature)
        gain = simple.value(effect, found.feature) - simple.value(0 * effect, found.feature)
        effects = simple.on_labels(effect)
        return self._feature(feature.size, found, effects, gain), found.feature

    def _feature(
        self, size: int | None, found: Candidate, effects: np.ndarray, gain: float
    ) -> BagFeature:
        trees = Forest(1, 0)
        for tree in found.trees:
            trees.append(tree.grown, self.grower.meanings)
        search = self.plan.search
        return BagFeature(size, self.plan.direction, search.initial_score, trees, effects, gain)

    def _best(self, response: OneLabel, bags: Bags) -> tuple[Candidate, float]:
        """The better one of two signs, and what it gains."""
        both = [discover(response, bags, self.grower, self.plan.search, s) for s in (1, -1)]
        best = max(both, key=lambda candidate: candidate.value)
        without = response.value(response.start(0.0), best.feature)
        return best, best.value - without


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
        intercept, slope = feature.effects[:, feature.label]
        bins = bins_of(values, n_bins)
        sizes = np.bincount(bins, minlength=n_bins).astype(float)
        sums = np.bincount(bins, weights=values, minlength=n_bins)
        middle = (np.arange(n_bins) + 0.5) / n_bins
        means = np.where(sizes > 0, sums / np.maximum(sizes, 1), middle)
        by_label[feature.label] = tree_of_bins(column, intercept + slope * means, sizes)
    forest.trees += by_label
    features = state.encoder.features + tuple(feature for feature, _ in found)
    return State(FutureEncoder(state.encoder.base, features, n_bins), forest, history)
