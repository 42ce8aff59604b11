"""Training by turns: trees on what is known, then the discovery of one more feature of bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.loop import Booster, Validation, boost
from treecrf.learners.future.encoder import BagFeature, FutureEncoder
from treecrf.learners.future.made_columns import bins_of, constant_tree, tree_of_bins
from treecrf.learners.future.search import FeatureSearch, SearchSettings
from treecrf.learners.stopping import History, Stopping
from treecrf.trees.forest import Forest

Start = Callable[[FutureEncoder, Forest], tuple[Booster, Validation | None]]

# A feature must add this to the mean log-likelihood that is judged, with the trees that follow it.
MIN_RISE = 1e-3
# So many trees of a feature tell whether a size of bags is right.
BRIEF = 5


@dataclass(frozen=True)
class Phase:
    """How trees are boosted between discoveries."""

    max_iter: int
    stopping: Stopping | None


@dataclass(frozen=True)
class State:
    """A model on its way: features, trees, and likelihoods after each iteration.

    ``phases`` holds numbers of iterations: those before any discovery, and of each round those
    after a feature was found and, if it was kept so, those after it was found again.
    """

    encoder: FutureEncoder
    forest: Forest
    history: History
    phases: tuple[tuple[int, ...], ...] = ()


class AlternatingTraining:
    """Boosts trees and discovers features by turns.

    Parameters
    ----------
    plan : SearchSettings
    phase : Phase
    start : callable
        ``start(encoder, forest)`` gives a `Booster` and a `Validation`, or None, for both.
    report : callable
        As in `treecrf.learners.boosted.loop.boost`.
    """

    def __init__(
        self,
        plan: SearchSettings,
        phase: Phase,
        start: Start,
        report: Callable[[int, History], None],
    ):
        self.plan = plan
        self.phase = phase
        self.start = start
        self.report = report
        self.sizes = plan.sizes

    def run(self, encoder: Encoder, forest: Forest) -> State:
        """Train until no further feature helps."""
        state = self._boosted(self._first(encoder, forest))
        for _ in range(self.plan.max_features):
            found = self._with_feature(state)
            if found is None:
                break
            found = self._boosted(found)
            sharp = self._boosted(self._sharpened(state, found))
            if self._judged(sharp) > self._judged(found) - MIN_RISE:
                found = sharp
            if self._judged(found) < self._judged(state) + MIN_RISE:
                break
            state = found
        return state

    def replay(
        self, encoder: Encoder, forest: Forest, phases: tuple[tuple[int, ...], ...]
    ) -> State:
        """Train as an earlier run did, on other data."""
        (n_first,), *rounds = phases
        state = self._boosted(self._first(encoder, forest), n_first)
        for n_found, *n_sharp in rounds:
            found = self._with_feature(state)
            if found is None:
                break
            found = self._boosted(found, n_found)
            if n_sharp:
                found = self._boosted(self._sharpened(state, found), *n_sharp)
            state = found
        return state

    def _first(self, encoder: Encoder, forest: Forest) -> State:
        encoder = FutureEncoder(encoder, (), self.plan.n_bins)
        return State(encoder, forest, History([0.0], [0.0]), ((),))

    def _judged(self, state: State) -> float:
        """The latest likelihood of the data that decide."""
        is_held_out = self.phase.stopping is not None
        return (state.history.validation if is_held_out else state.history.train)[-1]

    def _boosted(self, state: State, n_iter: int | None = None) -> State:
        """Add some trees, or so many as are of use; the last of a history is of the new state."""
        forest, phase = state.forest.copy(), self.phase
        if n_iter is not None:
            phase = Phase(n_iter, None)
        booster, validation = self.start(state.encoder, forest)
        most = forest.n_iter + phase.max_iter
        grown = boost(booster, most, validation, phase.stopping, self.report)
        n_new = grown.kept(phase.stopping)
        history = state.history.continued_by(grown.until(n_new))
        forest = forest.copy(state.forest.n_iter + n_new)
        *earlier, latest = state.phases
        return State(state.encoder, forest, history, (*earlier, (*latest, n_new)))

    def _with_feature(self, state: State) -> State | None:
        """One more feature for a label, or one for each, and the trees that say their effects."""
        booster, validation = self.start(state.encoder, state.forest)
        if len(self.sizes) > 1:
            self.sizes = (self._best_size(state, booster, validation),)
        finder = FeatureSearch(state.encoder, booster, self.plan)
        found = finder.find(self.sizes[0], self.plan.search)
        if not found:
            return None
        return _extended(state, found, booster, ())

    def _sharpened(self, before: State, after: State) -> State:
        """The state after a discovery, with features found again where trees know their effects.

        A feature is found by what it says of the labels by itself. Trees may then have learned
        where it speaks for a label and where against it, which shows the pattern more clearly.
        """
        booster, _ = self.start(before.encoder, before.forest)
        finder = FeatureSearch(before.encoder, booster, self.plan)
        n = len(before.encoder.features)
        found = []
        for place, feature in enumerate(after.encoder.features[n:], n):
            low, high = self._at_extremes(after, place)
            found.append(finder.sharpen(feature, low, high))
        return _extended(before, found, booster, after.phases[-1])

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
            found = FeatureSearch(state.encoder, booster, self.plan).find(size, brief)
            after = _extended(state, found, booster, ())
            judge = self.start(after.encoder, after.forest)
            if validation is None or self.phase.stopping is None:
                values.append(judge[0].value())
            else:
                values.append(judge[1].value(after.forest, booster.threads))
        return self.sizes[int(np.argmax(values))]


def _extended(
    state: State,
    found: list[tuple[BagFeature, np.ndarray]],
    booster: Booster,
    phases: tuple[int, ...],
) -> State:
    """The state with more features, and an iteration of trees on them.

    ``phases`` are those since the features before these.
    """
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
    encoder = FutureEncoder(state.encoder.base, features, n_bins)
    return State(encoder, forest, history, (*state.phases, phases))
