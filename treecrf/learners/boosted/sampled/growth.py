"""Growth of the trees of an iteration, in one place, on the examples of all shards."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property

import numpy as np

from treecrf.chains.factored.constant_likelihood import TransitionSums
from treecrf.chains.sampled._samples import Sample
from treecrf.chains.sampled.sampling import EXAMPLE_UNIT, ExampleList, RawSample, mu_for
from treecrf.learners.boosted.booster import choices_of_tree
from treecrf.learners.boosted.constant.transitions import transition_step
from treecrf.learners.boosted.sampled.examples import DrawnExamples, ListedPositions
from treecrf.learners.boosted.sampled.exchange import (
    IterationRequest,
    IterationResult,
    ShardAnswer,
    total,
)
from treecrf.learners.boosted.sampled.scheduler import TreeScheduler
from treecrf.learners.boosted.sampled.setup import SampledSetup
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.trees.lists._list_grower import ListGrower
from treecrf.utils.exact import FRACTION_SUM_BITS, MAX_UNITS_LOG2, round_to, unit_for
from treecrf.utils.threads import Threads


class ListGrowers:
    """Growers of trees on lists of examples at some positions, and their threads."""

    def __init__(
        self, setup: SampledSetup, table: TestTable, positions: ListedPositions, threads: Threads
    ):
        self.positions = positions
        self.tree_settings = setup.tree_settings
        self.has_curvature = setup.spec.kind.has_curvature  # otherwise, weights of examples
        self.threads = threads
        self.table = table
        self.surrogates = setup.encoder.missing == "surrogate"
        self._rows = positions.encoded.rows_from_first
        self._empty = setup.empty
        self.n_labels = setup.n_labels
        self._scheduler = self._make_scheduler(setup.tested_labels)

    def _make_scheduler(self, order: int) -> TreeScheduler:
        n_threads = self.threads.n_threads
        encoded = self.positions.encoded
        features = Features(encoded, self.table)
        growers = [
            ListGrower(
                features if i == 0 else Features(encoded, self.table, features),
                self.table,
                self.tree_settings,
                self.n_labels,
                order,
                with_counts=self.with_counts,
                has_curvature=self.has_curvature,
                surrogates=self.surrogates,
                max_parts=n_threads,
            )
            for i in range(min(n_threads, self.n_labels))
        ]
        n_helpers = n_threads if n_threads > 1 else 0
        helpers = [
            growers[0].new_part(Features(encoded, self.table, features)) for _ in range(n_helpers)
        ]
        return TreeScheduler(growers, helpers, self.threads)

    @property
    def with_counts(self) -> bool:
        """Whether growers need the number of examples in addition to their weights."""
        return self.tree_settings.min_examples > 0 or self.surrogates or self.has_curvature

    def grow(self, lists: list[ExampleList], iteration: int, learning_rate: float) -> Forest:
        """Return a forest with a tree for each label, grown on its examples, which are rounded."""
        self.threads.map(self._round, lists)
        self._scheduler.set_learning_rate(learning_rate)

        def begin(grower: ListGrower, label: int) -> None:
            choices = choices_of_tree(self.tree_settings, iteration, label, self.table.n_features)
            grower.begin(*self._grower_arrays(lists[label]), *choices, label)

        sizes = np.array([len(examples.positions) for examples in lists])
        largest_first = np.argsort(-sizes, kind="stable").tolist()
        trees = self._scheduler.grow(largest_first, begin)
        forest = self._empty.copy()
        forest.trees += (trees[label] for label in range(self.n_labels))
        return forest

    def _round(self, examples: ExampleList) -> None:
        """Round the values of examples in place, so that sums of them or fractions are exact."""
        divides_rows = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if divides_rows else MAX_UNITS_LOG2
        arrays = (examples.residuals, examples.curvatures, examples.counts)
        for values, size in zip(arrays, examples.sums, strict=True):
            # Sums of the examples, multiples of `EXAMPLE_UNIT`, are exact as far as this.
            is_exact = size < EXAMPLE_UNIT * 2.0 ** (bits - 1)
            if values is not None and not is_exact:
                round_to(values, max(EXAMPLE_UNIT, unit_for(values, bits=bits)))

    def _grower_arrays(self, examples: ExampleList) -> tuple[np.ndarray | None, ...]:
        """Return the rows, previous labels, values and counts of examples, as growers read them."""
        positions = examples.positions
        labels = examples.labels
        if self.positions.given is not None:
            labels = np.ascontiguousarray(self.positions.given[:, positions].T)
        counts = examples.counts if self.with_counts else None
        return self._rows[positions], labels, examples.values, counts


class SampledGrowth:
    """Growth of the trees of an iteration on the examples of all shards.

    It can be pickled, and does the same in any process.
    """

    def __init__(self, setup: SampledSetup):
        self.setup = setup
        # Growers on examples that are where trees grow; they are made once.
        self._resident: ListGrowers | None = None

    @cached_property
    def _table(self) -> TestTable:
        return number_tests(self.setup.encoder)

    def __getstate__(self) -> dict:
        return {"setup": self.setup, "_resident": None}

    def grow(
        self, answers: list[ShardAnswer], step: IterationRequest, n_threads: int = 1
    ) -> IterationResult:
        """Grow trees on the answers of all shards, in any order; the step needs no trees."""
        examples = [answer.examples for answer in answers if answer.examples is not None]
        size = sum(drawn.size for drawn in examples)
        mu = mu_for(self.setup.threshold, size, self.setup.max_examples)
        trees = None
        if step.request is not None and mu >= step.request.mu:
            sums = total(answer.transition_sums for answer in answers)
            trees = self._grow_trees(examples, mu, sums, step, n_threads)
        return IterationResult(
            trees,
            mu,
            size,
            _mean(answer.value for answer in answers),
            _mean(answer.validation for answer in answers),
            {number: codes for answer in answers for number, codes in answer.predictions.items()},
            _mean(answer.score for answer in answers),
            [answer.answer for answer in answers],
        )

    def _grow_trees(
        self,
        examples: list[DrawnExamples],
        mu: float,
        sums: TransitionSums | None,
        step: IterationRequest,
        n_threads: int,
    ) -> Forest:
        """Grow the trees of an iteration."""
        growers = self._growers(examples, n_threads)
        samples = self._samples(examples)
        raw = RawSample(samples, step.request.mu, step.request.floor)
        with nullcontext() if growers is self._resident else growers.threads:
            lists = raw.lists(mu, growers.threads, counted=growers.with_counts, release=True)
            forest = growers.grow(lists, step.n_iter, step.learning_rate)
        if sums is not None:
            tree_settings = replace(self.setup.tree_settings, learning_rate=step.learning_rate)
            share = self.setup.spec.kind.bound_share
            forest.transitions.append(transition_step(sums, share, tree_settings))
        return forest

    def release_growers(self) -> None:
        """Release the growers of examples that stay in one place."""
        self._resident = None

    def _growers(self, examples: list[DrawnExamples], n_threads: int) -> ListGrowers:
        """Return the growers of an iteration, which last where the examples stay in one place."""
        setup = self.setup
        if not examples[0].is_resident:
            positions = ListedPositions.joined([drawn.positions for drawn in examples])
            return ListGrowers(setup, self._table, positions, Threads(n_threads))
        positions = examples[0].positions
        if self._resident is None or self._resident.positions is not positions:
            self._resident = ListGrowers(setup, self._table, positions, Threads(n_threads))
        return self._resident

    def _samples(self, examples: list[DrawnExamples]) -> list[Sample]:
        """Return the samples of all shards, whose positions are numbered one after another."""
        has_given = examples[0].positions.given is not None
        n_lags = 0 if has_given else self.setup.tested_labels
        samples = []
        n_before = 0
        for drawn in examples:
            samples += drawn.samples(n_lags, n_before)
            n_before += len(drawn.positions.depth)
        return samples


def _mean(sums: Iterable) -> float:
    joined = total(sums)
    return np.nan if joined is None else float(joined)
