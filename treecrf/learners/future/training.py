"""Alternating training: boost trees on all columns so far, then discover another feature."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from treecrf.learners.base.history import History
from treecrf.learners.base.joined_sequences import joined_in_memory
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.booster import Booster, Validation, boost
from treecrf.learners.boosted.engines import run_from
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.learners.future.discovery import FeatureSearch, SearchSettings
from treecrf.learners.future.features import BagFeature, FutureEncoder, bins_of
from treecrf.trees.forest import Forest, make_tree
from treecrf.utils.exact import UNIT, rounded_leaves
from treecrf.utils.threads import Threads

# A feature, and its values at the training positions.
Discovered = tuple[BagFeature, np.ndarray]

# Minimum increase of the mean log-likelihood, on the data that decide, by a feature and the trees
# that follow it.
MIN_RISE = 1e-3
# Number of trees that suffice to compare sizes of bags.
N_TRIAL_TREES = 5


@dataclass(frozen=True)
class State:
    """A model during training: features, trees, and likelihoods after each iteration.

    ``phases`` holds numbers of iterations. The first tuple is the phase before any discovery. Each
    further tuple belongs to one round: the phase after the discovery and, if its result was kept,
    the phase after the rediscovery.
    """

    # Encodes the input, and the features discovered so far.
    encoder: FutureEncoder
    forest: Forest
    # Likelihoods after each iteration; the latest one is that of this state.
    history: History
    phases: tuple[tuple[int, ...], ...] = ()


@dataclass
class AlternatingTraining:
    """Training that alternates between boosting trees and discovering features."""

    # Settings of boosting; ``max_iter`` is the number of trees between two discoveries.
    spec: BoostingSpec
    data: TrainingInput
    threads: Threads
    # Called after each iteration, as in `boost`.
    report: Callable[[int, History], None]
    settings: SearchSettings

    def __post_init__(self) -> None:
        self.stopping = self.spec.stopping
        # Candidate sizes of bags; after the first discovery, only the best one.
        self.sizes = self.settings.sizes

    def run(self) -> State:
        """Train until another feature no longer helps."""
        state = self._boosted(self._first())
        for _ in range(self.settings.max_future_features):
            longer = self._with_features(state)
            if longer is None:
                break
            longer = self._boosted(longer)
            again = self._boosted(self._rediscovered(state, longer))
            if self._criterion(again) > self._criterion(longer) - MIN_RISE:
                longer = again
            if self._criterion(longer) < self._criterion(state) + MIN_RISE:
                break
            state = longer
        return state

    def repeated_on_all(self, state: State) -> State:
        """Repeat the phases of a run on the training and validation data together."""
        data = self.data
        # The size of bags that the run chose.
        sizes = tuple({feature.size: None for feature in state.encoder.features})
        settings = replace(self.settings, sizes=sizes or self.settings.sizes[:1])
        joined = joined_in_memory(data.training, data.held_out, len(data.classes))
        all_data = replace(data, training=joined, held_out=None)
        again = AlternatingTraining(self.spec, all_data, self.threads, self.report, settings)
        return again.replay(state.phases)

    def replay(self, phases: tuple[tuple[int, ...], ...]) -> State:
        """Repeat the phases of an earlier run on other data."""
        (n_first,), *rounds = phases
        state = self._boosted(self._first(), n_first)
        for n_iter, *n_again in rounds:
            longer = self._with_features(state)
            if longer is None:
                break
            longer = self._boosted(longer, n_iter)
            if n_again:
                longer = self._boosted(self._rediscovered(state, longer), *n_again)
            state = longer
        return state

    def _first(self) -> State:
        spec = self.spec
        data = self.data
        encoder = spec.new_encoder()
        encoder.fit(data.training.sequences, data.seed)
        forest = Forest(len(data.classes), spec.kind.order)
        features = FutureEncoder(encoder, (), self.settings.n_bins)
        return State(features, forest, History([0.0], [0.0]), ((),))

    def _begin(self, encoder: FutureEncoder, forest: Forest) -> tuple[Booster, Validation | None]:
        """Prepare a phase of boosting: the booster and the validation data."""
        # A copy, because a run may release the data that it has encoded; other phases need them.
        run = run_from(self.spec, copy(self.data), encoder, forest, None, self.threads)
        return run.booster, run.validation

    def _criterion(self, state: State) -> float:
        """Return the latest likelihood of the validation data or, without them, training data."""
        if self.stopping is None:
            return state.history.train[-1]
        return state.history.validation[-1]

    def _boosted(self, state: State, n_iter: int | None = None) -> State:
        """Add a phase of trees, of ``n_iter`` iterations if they are given.

        The last entry of the history is the score of the new state.
        """
        forest = state.forest.copy()
        stopping = None
        if n_iter is None:
            stopping = self.stopping
            n_iter = self.spec.max_iter
        booster, validation = self._begin(state.encoder, forest)
        max_iter = forest.n_iter + n_iter
        latest_history = boost(booster, max_iter.__gt__, validation, stopping, self.report)
        n_new = latest_history.index_to_keep(stopping)
        history = state.history.continued_by(latest_history.until(n_new))
        forest = forest.copy(state.forest.n_iter + n_new)
        *earlier, latest = state.phases
        return State(state.encoder, forest, history, (*earlier, (*latest, n_new)))

    def _with_features(self, state: State) -> State | None:
        """Return the state with the features of one more round, and trees of their effects."""
        booster, validation = self._begin(state.encoder, state.forest)
        if len(self.sizes) > 1:
            self.sizes = (self._best_size(state, booster, validation),)
        search = FeatureSearch(state.encoder, booster, self.settings)
        discovered = search.find(self.sizes[0])
        if not discovered:
            return None
        return _extended(state, discovered, ())

    def _rediscovered(self, before: State, after: State) -> State:
        """Return the state after a discovery, with its features discovered again.

        The first discovery assumes one effect of the feature on each label. The trees that follow
        may have learned that its effect depends on the position, which shows the pattern more
        clearly.
        """
        booster, _ = self._begin(before.encoder, before.forest)
        search = FeatureSearch(before.encoder, booster, self.settings)
        n = len(before.encoder.features)
        discovered = []
        for index, feature in enumerate(after.encoder.features[n:], n):
            low, high = self._scores_at_extremes(after, index)
            discovered.append(search.rediscover(feature, low, high))
        return _extended(before, discovered, after.phases[-1])

    def _scores_at_extremes(self, state: State, index: int) -> list[np.ndarray]:
        """Compute the training scores for the case that one feature is 0, or 1, everywhere."""
        booster, _ = self._begin(state.encoder, state.forest)
        column = booster.whole.codes.shape[1] - len(state.encoder.features) + index
        scores = []
        for bin_ in (0, self.settings.n_bins - 1):
            codes = booster.whole.codes.copy()
            codes[:, column] = bin_
            encoded = replace(booster.whole, codes=codes)
            given = booster.objective.given
            table = state.forest.scores(state.encoder, encoded, booster.threads, given=given)
            booster.objective.constrain(table)
            scores.append(table[:, :, 0])
        return scores

    def _best_size(
        self, state: State, booster: Booster, validation: Validation | None
    ) -> int | None:
        """Find the size of bags whose first feature gives the highest likelihood."""
        n_trees = min(N_TRIAL_TREES, self.settings.instance_max_iter)
        trial = replace(self.settings, instance_max_iter=n_trees)
        values = []
        for size in self.sizes:
            search = FeatureSearch(state.encoder, booster, trial)
            after = _extended(state, search.find(size), ())
            training, held_out = self._begin(after.encoder, after.forest)
            if validation is None or self.stopping is None:
                values.append(training.value())
            else:
                values.append(held_out.value(after.forest))
        return self.sizes[int(np.argmax(values))]


def _extended(state: State, discovered: list[Discovered], phases: tuple[int, ...]) -> State:
    """Return the state with more features, and with one iteration of trees that hold their effects.

    The features come with their values at the training positions. Their columns follow the others.
    ``phases`` are the phases of this round so far.
    """
    forest = state.forest.copy()
    n_bins = state.encoder.n_bins
    by_label = [make_tree(np.full((2, 1), -1)) for _ in range(forest.n_labels)]
    for column, (feature, values) in enumerate(discovered, len(state.encoder.columns)):
        bins = bins_of(values, n_bins)
        sizes = np.bincount(bins, minlength=n_bins).astype(float)
        # In integers, so that the order of the positions does not matter.
        sums = np.zeros(n_bins, dtype=np.int64)
        np.add.at(sums, bins, np.rint(values / UNIT).astype(np.int64))
        means = sums * UNIT / np.maximum(sizes, 1)
        for label in np.flatnonzero(feature.effects.any(axis=0)):
            intercept, slope = feature.effects[:, label]
            by_label[label] = tree_of_bins(column, intercept + slope * means, sizes)
    forest.trees += by_label
    history = History([*state.history.train, 0.0], [*state.history.validation, 0.0])
    features = state.encoder.features + tuple(feature for feature, _ in discovered)
    encoder = FutureEncoder(state.encoder.base, features, n_bins)
    return State(encoder, forest, history, (*state.phases, phases))


def tree_of_bins(column: int, values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Make a balanced tree with one leaf for each bin of a column that has training positions.

    The leaves have the values of their bins, and ``weights`` are the numbers of training positions.
    Empty bins belong to the nearest other bin.
    """
    filled = np.flatnonzero(weights)
    values = values[filled]
    weights = weights[filled]
    # Each node has a range of the filled bins. The loop itself appends the children.
    ranges = [(0, len(filled))]
    links = []
    for first, end in ranges:
        if end == first + 1:
            links.append((-1, -1))
            continue
        links.append((len(ranges), len(ranges) + 1))
        middle = (first + end) // 2
        ranges += [(middle, end), (first, middle)]
    first, end = np.array(ranges).T
    children = np.array(links).T
    inner = children[0] >= 0

    sums = np.append(0, np.cumsum(values * weights))
    sizes = np.append(0, np.cumsum(weights))
    weight = sizes[end] - sizes[first]
    explained = (sums[end] - sums[first]) ** 2 / weight
    middle = (first + end) // 2
    threshold = (filled[middle - 1] + filled[np.minimum(middle, len(filled) - 1)]) // 2
    return make_tree(
        children,
        column=np.where(inner, column, 0),
        value=np.where(inner, threshold, 0),
        leaf=np.where(inner, 0.0, rounded_leaves(values[first])),
        gain=np.where(inner, np.maximum(explained[children].sum(axis=0) - explained, 0.0), 0.0),
        weight=weight,
        share=np.where(inner, weight[children[0]] / weight, 0.0),
    )
