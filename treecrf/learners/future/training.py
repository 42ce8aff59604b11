"""Alternating training: boost trees on all columns so far, then discover another feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.loop import Booster, boost
from treecrf.learners.boosted.scores import Scores
from treecrf.learners.future.effect_trees import trees_of_effects
from treecrf.learners.future.encoder import BagFeature, FutureEncoder
from treecrf.learners.future.search import FeatureSearch, SearchSettings
from treecrf.learners.stopping import History, Stopping
from treecrf.trees.forest import Forest

Start = Callable[[FutureEncoder, Forest], tuple[Booster, Scores | None]]

# Minimum increase of the mean log-likelihood, on the data that decide, by a feature and the trees
# that follow it.
MIN_RISE = 1e-3
# Number of trees that suffice to compare sizes of bags.
N_TRIAL_TREES = 5


@dataclass(frozen=True)
class Phase:
    """Settings of the boosting of trees between discoveries."""

    max_iter: int
    stopping: Stopping | None


@dataclass(frozen=True)
class State:
    """A model during training: features, trees, and likelihoods after each iteration.

    ``phases`` holds numbers of iterations. The first tuple is the phase before any discovery. Each
    further tuple belongs to one round: the phase after the discovery and, if its result was kept,
    the phase after the rediscovery.
    """

    encoder: FutureEncoder
    forest: Forest
    history: History
    phases: tuple[tuple[int, ...], ...] = ()


class AlternatingTraining:
    """Training that alternates between boosting trees and discovering features.

    Parameters
    ----------
    settings : SearchSettings
    phase : Phase
    start : callable
        ``start(encoder, forest)`` returns a `Booster`, and `Scores` or None.
    report : callable
        As in `treecrf.learners.boosted.loop.boost`.
    """

    def __init__(
        self,
        settings: SearchSettings,
        phase: Phase,
        start: Start,
        report: Callable[[int, History], None],
    ):
        self.settings = settings
        self.phase = phase
        self.start = start
        self.report = report
        self.sizes = settings.sizes

    def run(self, encoder: Encoder, forest: Forest) -> State:
        """Train until another feature no longer helps."""
        state = self._boosted(self._first(encoder, forest))
        for _ in range(self.settings.max_features):
            found = self._with_features(state)
            if found is None:
                break
            found = self._boosted(found)
            again = self._boosted(self._rediscovered(state, found))
            if self._criterion(again) > self._criterion(found) - MIN_RISE:
                found = again
            if self._criterion(found) < self._criterion(state) + MIN_RISE:
                break
            state = found
        return state

    def replay(
        self, encoder: Encoder, forest: Forest, phases: tuple[tuple[int, ...], ...]
    ) -> State:
        """Repeat the phases of an earlier run on other data."""
        (n_first,), *rounds = phases
        state = self._boosted(self._first(encoder, forest), n_first)
        for n_found, *n_again in rounds:
            found = self._with_features(state)
            if found is None:
                break
            found = self._boosted(found, n_found)
            if n_again:
                found = self._boosted(self._rediscovered(state, found), *n_again)
            state = found
        return state

    def _first(self, encoder: Encoder, forest: Forest) -> State:
        encoder = FutureEncoder(encoder, (), self.settings.n_bins)
        return State(encoder, forest, History([0.0], [0.0]), ((),))

    def _criterion(self, state: State) -> float:
        """Return the latest likelihood of the validation data or, without them, training data."""
        is_held_out = self.phase.stopping is not None
        return (state.history.validation if is_held_out else state.history.train)[-1]

    def _boosted(self, state: State, n_iter: int | None = None) -> State:
        """Add a phase of trees, of ``n_iter`` iterations if they are given.

        The last entry of the history is the score of the new state.
        """
        forest, phase = state.forest.copy(), self.phase
        if n_iter is not None:
            phase = Phase(n_iter, None)
        booster, validation = self.start(state.encoder, forest)
        max_iter = forest.n_iter + phase.max_iter
        phase_history = boost(booster, max_iter, validation, phase.stopping, self.report)
        n_new = phase_history.kept(phase.stopping)
        history = state.history.continued_by(phase_history.until(n_new))
        forest = forest.copy(state.forest.n_iter + n_new)
        *earlier, latest = state.phases
        return State(state.encoder, forest, history, (*earlier, (*latest, n_new)))

    def _with_features(self, state: State) -> State | None:
        """Return the state with the features of one more round, and trees of their effects."""
        booster, validation = self.start(state.encoder, state.forest)
        if len(self.sizes) > 1:
            self.sizes = (self._best_size(state, booster, validation),)
        search = FeatureSearch(state.encoder, booster, self.settings)
        found = search.find(self.sizes[0], self.settings.discovery)
        return _extended(state, found, ()) if found else None

    def _rediscovered(self, before: State, after: State) -> State:
        """Return the state after a discovery, with its features discovered again.

        The first discovery assumes one effect of the feature on each label. The trees that follow
        may have learned that its effect depends on the position, which shows the pattern more
        clearly.
        """
        booster, _ = self.start(before.encoder, before.forest)
        search = FeatureSearch(before.encoder, booster, self.settings)
        n = len(before.encoder.features)
        found = []
        for index, feature in enumerate(after.encoder.features[n:], n):
            low, high = self._scores_at_extremes(after, index)
            found.append(search.rediscover(feature, low, high))
        return _extended(before, found, after.phases[-1])

    def _scores_at_extremes(self, state: State, index: int) -> list[np.ndarray]:
        """Compute the training scores for the case that one feature is 0, or 1, everywhere."""
        booster, _ = self.start(state.encoder, state.forest)
        column = booster.whole.codes.shape[1] - len(state.encoder.features) + index
        scores = []
        for bin_ in (0, self.settings.n_bins - 1):
            codes = booster.whole.codes.copy()
            codes[:, column] = bin_
            encoded = replace(booster.whole, codes=codes)
            given = booster.objective.given
            of_all = state.forest.scores(state.encoder, encoded, booster.threads, given=given)
            booster.objective.constrain(of_all)
            scores.append(of_all[:, :, 0])
        return scores

    def _best_size(self, state: State, booster: Booster, validation: Scores | None) -> int | None:
        """Find the size of bags whose first feature gives the highest likelihood."""
        n_trees = min(N_TRIAL_TREES, self.settings.discovery.max_trees)
        trial = replace(self.settings.discovery, max_trees=n_trees)
        values = []
        for size in self.sizes:
            found = FeatureSearch(state.encoder, booster, self.settings).find(size, trial)
            after = _extended(state, found, ())
            training, held_out = self.start(after.encoder, after.forest)
            if validation is None or self.phase.stopping is None:
                values.append(training.value())
            else:
                values.append(held_out.value(after.forest))
        return self.sizes[int(np.argmax(values))]


def _extended(
    state: State, found: list[tuple[BagFeature, np.ndarray]], phases: tuple[int, ...]
) -> State:
    """Return the state with more features, and with one iteration of trees that hold their effects.

    ``phases`` are those of the round so far.
    """
    forest, n_bins = state.forest.copy(), state.encoder.n_bins
    n_columns = len(state.encoder.columns)
    forest.trees += trees_of_effects(found, n_columns, n_bins, forest.n_labels)
    history = History([*state.history.train, 0.0], [*state.history.validation, 0.0])
    features = state.encoder.features + tuple(feature for feature, _ in found)
    encoder = FutureEncoder(state.encoder.base, features, n_bins)
    return State(encoder, forest, history, (*state.phases, phases))
