"""Growth of the trees of an iteration, in one place, on the examples of all shards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.sampling import EXAMPLE_UNIT, Draw, ExampleList, RawDraw, mu_for
from treecrf.encoding.encoded import EncodedSequences, chained
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.crew import Crew
from treecrf.learners.boosted.loop import features_of_tree, tree_seed
from treecrf.learners.boosted.parted.steps import (
    Drawn,
    DrawnExamples,
    Grown,
    ShardSetup,
    Step,
    total,
)
from treecrf.learners.boosted.sampled import ListedPositions
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing._list_grower import ListGrower
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.utils.exact import FRACTION_SUM_BITS, MAX_UNITS_LOG2, round_to, unit_for
from treecrf.utils.threads import Threads


class ListGrowth:
    """Growth of the trees of an iteration on lists of examples.

    The trees are appended to ``forest``. If ``has_curvature``, the weights of examples are
    curvature.
    """

    def __init__(
        self,
        forest: Forest,
        encoder: Encoder,
        positions: ListedPositions,
        growth: Growth,
        has_curvature: bool,
        threads: Threads,
        iteration: int,
        table: TestTable,
    ):
        self.forest = forest
        self.positions = positions
        self.growth = growth
        self.has_curvature = has_curvature
        self.threads = threads
        self.iteration = iteration
        self.table = table
        self.surrogates = encoder.missing == "surrogate"
        self._rows = positions.encoded.rows_from_first
        self._meanings = forest.meanings(self.table)
        self._crew = self._make_crew(positions.encoded)

    def _make_crew(self, encoded: EncodedSequences) -> Crew:
        table, n_threads = self.table, self.threads.n_threads
        features = Features(encoded, table)
        growers = [
            ListGrower(
                features if i == 0 else Features(encoded, table, features),
                table,
                self.growth,
                self.forest.n_labels,
                0 if self._joins_contexts else self.forest.order,
                with_counts=self.with_counts,
                has_curvature=self.has_curvature,
                surrogates=self.surrogates,
                max_parts=n_threads,
            )
            for i in range(min(n_threads, self.forest.n_labels))
        ]
        n_helpers = n_threads if n_threads > 1 else 0
        parts = [growers[0].new_part(Features(encoded, table, features)) for _ in range(n_helpers)]
        return Crew(growers, parts, self.threads)

    @property
    def with_counts(self) -> bool:
        """Whether growers need the number of examples in addition to their weights."""
        return self.growth.min_examples > 0 or self.surrogates or self.has_curvature

    def round(self, draw: Draw) -> None:
        """Round the values of examples in place, so that sums of them or their parts are exact."""
        self.threads.map(self._round_examples, draw.lists)

    def _round_examples(self, examples: ExampleList) -> None:
        weights = examples.curvatures
        if self._joins_contexts and not self.has_curvature:
            # The contexts of a position together have its weight.
            depth = self.positions.depth[examples.positions]
            weights /= self.forest.n_labels ** depth.astype(float)
        for values in (examples.residuals, weights, examples.counts):
            if values is not None:
                self._round(values)

    def _round(self, values: np.ndarray) -> None:
        in_parts = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if in_parts else MAX_UNITS_LOG2
        round_to(values, max(EXAMPLE_UNIT, unit_for(values, bits=bits)))

    def grow(self, draw: Draw) -> None:
        """Add a tree for each label to the forest, grown on its examples, which are rounded."""
        sizes = np.array([len(examples.positions) for examples in draw.lists])

        def begin(grower: ListGrower, k: int) -> None:
            seed = tree_seed(self.growth.seed, self.iteration, k)
            chosen = features_of_tree(self.growth, seed, self.table.n_features)
            grower.begin(*self._listed(draw.lists[k]), seed, chosen, k)

        trees = self._crew.grow(np.argsort(-sizes, kind="stable").tolist(), begin)
        for k in range(self.forest.n_labels):
            self.forest.append(trees[k], self._meanings)

    def _listed(self, examples: ExampleList) -> tuple[np.ndarray | None, ...]:
        """Return the rows, previous labels, values and counts of examples, as growers read them."""
        values, labels, positions = examples.values, examples.labels, examples.positions
        counts = examples.counts if self.with_counts else None
        if self.positions.given is not None:
            labels = np.ascontiguousarray(self.positions.given[:, positions].T)
        if self._joins_contexts:
            first = np.flatnonzero(np.diff(positions, prepend=-1))
            positions, labels = positions[first], np.zeros((len(first), 0), dtype=np.uint8)
            values, counts = _sums_of_runs(values, first), _sums_of_runs(counts, first)
        return self._rows[positions], labels, values, counts

    @property
    def _joins_contexts(self) -> bool:
        """Whether the contexts of a position are one example, because no tree tests labels."""
        return self.forest.transitions is not None


def _sums_of_runs(values: np.ndarray | None, starts: np.ndarray) -> np.ndarray | None:
    """Sum runs of rows, given where they start."""
    return values if values is None or not len(starts) else np.add.reduceat(values, starts)


class ListGrowing:
    """Growth of the trees of an iteration on the examples of all shards.

    It can be pickled, and does the same in any process.

    Parameters
    ----------
    setup : ShardSetup
    """

    def __init__(self, setup: ShardSetup):
        self.setup = setup

    @cached_property
    def _table(self) -> TestTable:
        return number_tests(self.setup.encoder)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def grow(self, drawn: list[Drawn], step: Step, n_threads: int = 1) -> Grown:
        """Join the answers of all shards to a step, and grow trees.

        Parameters
        ----------
        drawn : list of Drawn
            Answers in any order.
        step : Step
            Its trees are not read.
        n_threads : int, default=1
        """
        sampling = self.setup.sampling
        examples = [answer.examples for answer in drawn if answer.examples is not None]
        size = sum(part.size for part in examples)
        mu = mu_for(sampling.threshold, size, sampling.max_examples)
        trees = None
        if step.request is not None and mu >= step.request.mu:
            of_contexts = total(answer.of_contexts for answer in drawn)
            trees = self._trees(examples, mu, size, of_contexts, step, n_threads)
        return Grown(
            trees,
            mu,
            size,
            _mean(answer.value for answer in drawn),
            _mean(answer.validation for answer in drawn),
            {number: p for answer in drawn for number, p in answer.predictions.items()},
            _mean(answer.score for answer in drawn),
            [answer.answer for answer in drawn],
        )

    def _trees(
        self,
        examples: list[DrawnExamples],
        mu: float,
        size: int,
        of_contexts: np.ndarray | None,
        step: Step,
        n_threads: int,
    ) -> dict[str, np.ndarray]:
        """Grow the trees of an iteration; return them as from `Forest.pack`."""
        setup, estimator, forest = self.setup, self.setup.estimator, self.setup.new_forest()
        growth = replace(setup.growth, learning_rate=step.learning_rate)
        with Threads(n_threads) as threads:
            lists = ListGrowth(
                forest,
                setup.encoder,
                _joined([part.positions for part in examples]),
                growth,
                estimator._is_newton(),
                threads,
                step.n_iter,
                self._table,
            )
            raw = RawDraw(_samples(examples, forest.order), step.request.mu, step.request.floor)
            weighted = raw.lists(mu, threads, counted=lists.with_counts, release=True)
            transitions = estimator._transition_growth(forest, growth)
            draw = Draw(weighted, mu, size)
            lists.round(draw)
            lists.grow(draw)
            if transitions is not None:
                transitions.grow(draw, lists.positions.depth, of_contexts)
        return forest.pack()


def _mean(sums: Iterable) -> float:
    joined = total(sums)
    return np.nan if joined is None else float(joined)


def _joined(parts: list[ListedPositions]) -> ListedPositions:
    """Join the positions of all parts, those of the first ones first."""
    has_given = parts[0].given is not None
    return ListedPositions(
        chained([part.encoded for part in parts]),
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.given for part in parts], axis=1) if has_given else None,
    )


def _samples(examples: list[DrawnExamples], order: int) -> list[Sample]:
    """Unpack the samples of all parts; their positions are those of `_joined`."""
    samples, first = [], 0
    for part in examples:
        n_lags = 0 if part.positions.given is not None else order
        samples.append(Sample.unpack(part.examples, part.starts, n_lags, part.size, first))
        first += len(part.positions.depth)
    return samples
