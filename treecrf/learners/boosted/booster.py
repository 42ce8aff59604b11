"""The boosting loop of all learners with trees: scores, residuals, trees, new scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol

import numpy as np

from treecrf._tree import TreeGrower
from treecrf.chains.likelihood import ExampleTable, Objective
from treecrf.encoding.column_layout import ColumnLayout, bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.history import History, Stopping
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing.settings import TreeSettings
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.exact import (
    FRACTION_SUM_BITS,
    MAX_UNITS_LOG2,
    UNIT,
    round_to,
    rounded,
    unit_for,
    unit_of,
)
from treecrf.utils.hashing import mix, smallest
from treecrf.utils.threads import Threads

# A step is halved at most so many times. Where it still lowers the objective, it is too short to
# matter, and the cause is another one, such as samples.
MAX_HALVINGS = 6
# Relative error of the values of the objective.
VALUE_ERROR = 1e-9


class Validation(Protocol):
    """Sequences that are scored after each iteration."""

    @property
    def likelihoods(self) -> np.ndarray | None:
        """The latest log-likelihood of each chain; None if the score is not a mean of them."""
        return None

    def value(self, forest: Forest) -> float:
        """Compute the score under the forest."""
        raise NotImplementedError

    def values(self, grown: Iterable[Forest]) -> Iterator[float]:
        """Compute the score after each new iteration of a forest that grows."""
        for forest in grown:
            yield self.value(forest)


@dataclass(frozen=True)
class ScoreStorage:
    """Where the scores of training are, and which examples they belong to."""

    # float64 (n_labels, n_positions, n_contexts), or of another shape that growers can add to.
    scores: np.ndarray
    source: Any  # what the objective computes residuals from: the scores, or an object with them
    # Number of layers of examples, see `TreeGrower`; 0 if all contexts are examples.
    n_layers: int


class Booster:
    """Trees and scores of one training run, in which trees are fitted to all examples."""

    def __init__(
        self,
        forest: Forest,  # trees to start from; new trees are appended
        encoder: Encoder,
        encoded: EncodedSequences,
        objective: Objective,
        tree_settings: TreeSettings,
        position_weights: np.ndarray,
        threads: Threads,
        start: Any = None,  # scores to add trees to, which change; None: 0
        keys: np.ndarray | None = None,  # of the sequences; may be None without subsamples
        halves_steps: bool = False,  # whether steps that lower the objective are halved
    ):
        self.forest = forest
        self.encoder = encoder
        self.whole = encoded
        layout, self.encoded = bundle(encoder.layout, encoded)
        self.objective = objective
        self.tree_settings = tree_settings
        self.weighted = bool((position_weights != 1).any())
        # An array of ones may take no memory.
        self.position_weights = rounded(position_weights) if self.weighted else position_weights
        self.threads = threads
        self.keys = keys
        self.table = number_tests(encoder, layout)
        self.surrogates = encoder.missing == "surrogate"
        # Whether a row can belong to several nodes, with a fraction of its weight in each.
        self._divides_rows = self.table.has_missing and not self.surrogates
        # Logarithm of the number of units in exact sums over examples.
        self._sum_bits = FRACTION_SUM_BITS if self._divides_rows else MAX_UNITS_LOG2
        storage = self._store_scores(layout, start)
        self.scores = storage.scores
        self.source = storage.source
        if self.weighted:
            self._round_weights(self.position_weights)
        # Made by the first iteration.
        self._growers: list[TreeGrower] = []
        self._halves_steps = halves_steps
        # Examples of the next iteration, and the value of the objective, if they are known.
        self._ahead: tuple[ExampleTable, float] | None = None
        self._n_layers = storage.n_layers

    def _store_scores(self, layout: ColumnLayout, start: Any) -> ScoreStorage:
        """Add the trees to start from to the starting scores, under the constraints."""
        given = self.objective.given
        scores = self.forest.scores(
            self.encoder, self.whole, self.threads, start=start, given=given
        )
        self.objective.constrain(scores)
        # With given labels, a position has one example: all of them are one layer.
        n_layers = 0 if given is None else 1
        return ScoreStorage(scores, scores, n_layers)

    def _make_growers(self, n_layers: int) -> list[TreeGrower]:
        """Make one grower, with its own working memory, for each tree that grows concurrently."""
        n_labels = self.forest.n_labels
        tree_settings = self._growth_settings()
        features = Features(self.encoded, self.table)
        growers = [
            TreeGrower(
                self.encoded,
                self.table,
                tree_settings,
                n_labels,
                self._tested_labels,
                weighted=self._weighs_examples(),
                surrogates=self.surrogates,
                n_layers=n_layers,
                features=features,
            )
            for _ in range(min(self.threads.n_threads, n_labels))
        ]
        if self.objective.given is not None:
            self._set_given_examples(growers)
        return growers

    def _growth_settings(self) -> TreeSettings:
        """Return the settings of trees, with no more leaves than a label has examples."""
        n_examples = max(2, self.scores[0].size)
        max_leaf_nodes = min(self.tree_settings.max_leaf_nodes, n_examples)
        return replace(self.tree_settings, max_leaf_nodes=max_leaf_nodes)

    @property
    def _tested_labels(self) -> int:
        """Number of previous labels that trees may test: the order of their growers."""
        return self.forest.order

    def _weighs_examples(self) -> bool:
        """Return whether weights may sum to something other than the number of examples."""
        has_curvature = np.isfinite(self.tree_settings.max_leaf_value)
        is_subsample = self.tree_settings.subsample < 1
        has_counts = self.objective.counts is not None
        return has_curvature or self.weighted or is_subsample or has_counts

    def _set_given_examples(self, growers: list[TreeGrower]) -> None:
        """Make the given context of each position an example, in the position's row."""
        given = self.objective.given
        rows = self.encoded.rows_from_first
        n_rows = growers[0].n_rows
        labels = np.zeros((len(given), n_rows), dtype=np.uint8)
        labels[:, rows] = given
        exists = np.zeros(n_rows, dtype=bool)
        exists[rows] = True
        for grower in growers:
            grower.set_examples(labels, exists)

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self.tree_settings.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.tree_settings = replace(self.tree_settings, learning_rate=rate)
        for grower in self._growers:
            grower.set_learning_rate(rate)

    # An iteration

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        if not self._growers:
            self._growers = self._make_growers(self._n_layers)
        iteration = self.forest.n_iter
        examples, value = self._ahead or self._weighted_examples(iteration)
        self._ahead = None
        self.forest.trees += self._grow_iteration(examples, iteration)
        if self._halves_steps:
            halve_while_worse(value, self._look_ahead, self._halve_latest)
        return value

    def _look_ahead(self) -> float:
        """Compute the examples of the next iteration; return the value of the objective."""
        self._ahead = self._weighted_examples(self.forest.n_iter)
        return self._ahead[1]

    def _halve_latest(self) -> None:
        """Halve the latest iteration, in the forest and in the scores."""
        as_it_was = self.forest.halve_latest()
        halved = self.forest.iterations(self.forest.n_iter - 1, self.forest.n_iter)
        for iteration in (as_it_was.divided(-1.0), halved):
            self._add_to_scores(iteration)

    def _add_to_scores(self, forest: Forest) -> None:
        """Add the trees of another forest to the scores."""
        given = self.objective.given
        forest.scores(self.encoder, self.whole, self.threads, start=self.scores, given=given)

    def _grow_iteration(self, examples: ExampleTable, iteration: int) -> list[dict]:
        """Grow the trees of an iteration, and add their values to the scores."""
        if self._needs_one_tree(examples):
            return self._grow_mirrored(examples, iteration)
        idle = list(self._growers)  # as many as trees that grow concurrently

        def grow(label: int) -> dict:
            """Grow the tree of one label, and add its values to the scores."""
            grower = idle.pop()
            try:
                return self._grow_tree(grower, examples, iteration, label, self.scores[label])
            finally:
                idle.append(grower)

        return self.threads.map(grow, range(self.forest.n_labels))

    def release_growers(self) -> None:
        """Release the working memory of growing trees; the next iteration takes it again."""
        self._growers = []

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        if self._ahead is not None:
            return self._ahead[1]
        return self.objective.value(self.source)

    def _needs_one_tree(self, examples: ExampleTable) -> bool:
        """Return whether the trees of two labels differ in the signs of their leaves only.

        That is so if the residuals do, and nothing else distinguishes the labels.
        """
        settings = self.tree_settings
        is_random = settings.max_features < 1 or settings.max_features_per_tree < 1
        if self.forest.n_labels != 2 or is_random or settings.constraints is not None:
            return False
        return examples.residuals.shape[2] == 1 and examples.are_mirrored()

    def _grow_mirrored(self, examples: ExampleTable, iteration: int) -> list[dict]:
        """Grow one tree for two labels, and add its values to the scores of both."""
        added = np.zeros_like(self.scores[0])
        tree = self._grow_tree(self._growers[0], examples, iteration, 0, added)
        self.scores[0] += added
        self.scores[1] -= added
        return [tree, {**tree, "leaf": 0.0 - tree["leaf"]}]

    def _grow_tree(
        self,
        grower: TreeGrower,
        examples: ExampleTable,
        iteration: int,
        label: int,
        scores: np.ndarray,  # of the label
    ) -> dict:
        """Grow a tree on the examples of a label, and add its values to the scores."""
        residuals = examples.residuals[label]
        curvature = None if examples.curvature is None else examples.curvature[label]
        counts = examples.counts
        seed, features = choices_of_tree(
            self.tree_settings, iteration, label, self.table.n_features
        )
        if self.objective.given is None:
            return grower.grow(residuals, curvature, counts, seed, scores, features, label)
        # The grower reads and writes the rows of the positions, see `_set_given_examples`.
        added = np.zeros((grower.n_rows, 1))
        tree = grower.grow(
            self._in_rows(residuals),
            self._in_rows(curvature),
            self._in_rows(counts),
            seed,
            added,
            features,
            label,
        )
        scores += added[self.encoded.rows_from_first]
        return tree

    def _in_rows(self, values: np.ndarray | None) -> np.ndarray | None:
        """Return values of positions, if there are any, in the rows of the positions."""
        if values is None:
            return None
        in_rows = np.zeros((self._growers[0].n_rows, *values.shape[1:]))
        in_rows[self.encoded.rows_from_first] = values
        return in_rows

    def _weighted_examples(self, iteration: int) -> tuple[ExampleTable, float]:
        """Return the examples of an iteration, and the value of the objective before it."""
        weights = self._iteration_weights(iteration)
        residuals, curvature, value = self.objective.examples(self.source, iteration, weights)
        counts = self.objective.counts
        examples = ExampleTable(residuals, curvature, counts).weighted(weights)
        # Without weights, residuals of one sign sum to at most 1 at a position, or in the
        # pseudo-likelihood, where a label chooses among the contexts of the next labels too, to at
        # most order + 1.
        bound = self.encoded.n_positions * (self.forest.order + 1)
        is_weighted = weights is not None or counts is not None
        if self._divides_rows or is_weighted or unit_of(bound) != UNIT:
            self._round(examples.residuals)
        if curvature is not None:
            self._round(examples.curvature)
        if counts is not None:  # weights are rounded already
            examples = replace(examples, counts=examples.counts.copy())
            self._round_weights(examples.counts)
        return examples, value

    def _iteration_weights(self, iteration: int) -> np.ndarray | None:
        """Return the weights of the positions; 0 in sequences outside this iteration's sample."""
        weights = self.position_weights if self.weighted else None
        return weights_in(iteration, weights, self.encoded.offsets, self.keys, self.tree_settings)

    # Rounding, so that sums are exact

    def _round(self, values: np.ndarray) -> None:
        """Round the values of examples in place, so that sums of them or fractions are exact."""
        bound = 2.0 * values[0].size * max(values.max(), -values.min())
        if unit_of(bound, self._sum_bits) == UNIT:
            return
        for label_values in values:
            unit = unit_for(label_values, bits=self._sum_bits)
            if unit > UNIT:  # they are multiples of it
                round_to(label_values, unit)

    def _round_weights(self, weights: np.ndarray) -> None:
        """Round the weights of positions up, in place, for exact sums over all contexts."""
        n_contexts = self.scores[0].size // self.encoded.n_positions
        round_to(weights, unit_for(weights, n_contexts + 1, self._sum_bits), np.ceil)


# Steps that are too long


def halve_while_worse(
    value: float,  # of the objective before the step
    look_ahead: Callable[[], float],  # computes the value after it
    halve: Callable[[], None],  # halves the step
) -> None:
    """Halve the latest step of boosting as long as it lowers the objective.

    Newton steps are safe where the objective is close to its quadratic approximation. Where labels
    persist, it may not be: sequences that are labeled with confidence, rightly or wrongly, hardly
    have a curvature, and scores that change a little at hundreds of positions flip all of them.
    """
    for _ in range(MAX_HALVINGS):
        if not look_ahead() < value - VALUE_ERROR * abs(value):
            return
        halve()
    look_ahead()


# Random choices


def weights_in(
    iteration: int,
    positions: np.ndarray | None,  # weights of the positions; None if all are 1
    offsets: np.ndarray,
    keys: np.ndarray | None,  # may be None without subsamples
    tree_settings: TreeSettings,
    last_chosen: int | None = None,
) -> np.ndarray | None:
    """Return the weights of positions, 0 in sequences outside the subsample; None if all are 1.

    If these sequences are a partition of the data, ``last_chosen`` is the largest hash of a
    sequence in the subsample, see `subsample_hashes`.
    """
    if tree_settings.subsample >= 1:
        return positions
    hashes = subsample_hashes(keys, tree_settings, iteration)
    if last_chosen is None:
        is_chosen = smallest(hashes, subsample_size(len(keys), tree_settings))
    else:
        is_chosen = hashes <= np.uint64(last_chosen)
    weights = np.repeat(is_chosen, np.diff(offsets)).astype(np.float64)
    return weights if positions is None else weights * positions


def subsample_size(n_sequences: int, tree_settings: TreeSettings) -> int:
    """Return the number of sequences in the subsample of an iteration."""
    return max(1, round(tree_settings.subsample * n_sequences))


def subsample_hashes(keys: np.ndarray, tree_settings: TreeSettings, iteration: int) -> np.ndarray:
    """Return a hash of each sequence; those with the smallest ones are the subsample."""
    return mix(tree_settings.seed, iteration, keys)


def choices_of_tree(
    tree_settings: TreeSettings, iteration: int, label: int, n_features: int
) -> tuple[int, np.ndarray | None]:
    """Return the seed of a tree, 0 if nothing is drawn, and the features that it may test.

    They are a uint8 array (n_features,), or None for all.
    """
    if tree_settings.max_features >= 1 and tree_settings.max_features_per_tree >= 1:
        return 0, None
    number = label
    if tree_settings.label_ranks is not None:
        number = int(tree_settings.label_ranks[label])
    seed = int(mix(tree_settings.seed, iteration, number))
    if tree_settings.max_features_per_tree >= 1:
        return seed, None
    n_chosen = max(1, ceil(tree_settings.max_features_per_tree * n_features))
    return seed, smallest(mix(seed, np.arange(n_features)), n_chosen).astype(np.uint8)


# The loop


def boost(
    booster: Any,  # `Booster`, or another one that adds an iteration in `step`
    is_wanted: Callable[[int], bool],  # whether iterations follow this number of them
    validation: Validation | None,
    stopping: Stopping | None,
    report: Callable[[int, History], Any],
    history: History | None = None,  # earlier values, without the latest training value
) -> History:
    """Run iterations as long as they are wanted, or until early stopping ends training.

    Return the values of the objective before the first and after each iteration. ``report`` is
    called after each iteration with the number of iterations and the history so far, whose latest
    training value is from before that iteration. Training stops if it returns True.
    """
    forest = booster.forest
    if history is None:
        history = History()
        if validation is not None:
            history.validation.append(validation.value(forest))
    is_over = history.is_over(stopping)
    while not is_over and is_wanted(forest.n_iter):
        history.train.append(booster.step())
        if validation is not None:
            history.validation.append(validation.value(forest))
        is_over = report(forest.n_iter, history) is True or history.is_over(stopping)
    history.train.append(booster.value())
    return history
