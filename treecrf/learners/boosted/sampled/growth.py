"""Growth of the trees of an iteration, in one place, on the examples of all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from queue import SimpleQueue
from threading import Lock

import numpy as np

from treecrf.chains.sampled._samples import Sample
from treecrf.chains.sampled.sampling import EXAMPLE_UNIT, ExampleList, RawSample, mu_for
from treecrf.encoding.encoded import chained
from treecrf.learners.boosted.booster import choices_of_tree
from treecrf.learners.boosted.sampled.listed_positions import ListedPositions
from treecrf.learners.boosted.sampled.shard import (
    IterationRequest,
    IterationResult,
    ResidentExamples,
    SampledExamples,
    ShardAnswer,
    total,
)
from treecrf.learners.boosted.spec import BoostingSetup
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing.settings import TreeSettings
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.trees.lists._list_grower import ListGrower
from treecrf.utils.exact import FRACTION_SUM_BITS, LEAF_UNIT, MAX_UNITS_LOG2, round_to, unit_for
from treecrf.utils.threads import Threads

# Maximum learning rate of constant transitions. Each of them changes the scores of most sequences
# many times, and long steps overshoot.
MAX_TRANSITION_RATE = 0.2
# Bounds the scores of constant transitions in first order, far above useful values.
MAX_TRANSITION = 64.0


class TreeScheduler:
    """Threads with a grower each.

    A thread grows one tree after another. When no tree is left to begin, it works on parts of the
    large nodes of other threads, as do threads without a grower. All sums are exact, so it does not
    matter which thread does what. ``helpers`` are from `ListGrower.new_part`, one for each thread.
    """

    def __init__(self, growers: list[ListGrower], helpers: list, threads: Threads):
        self.threads = threads
        self._members = [*growers, *[None] * (threads.n_threads - len(growers))]
        self._lock = Lock()
        self._helpers = list(helpers)
        self._waiting: list[int] = []
        self._tasks: SimpleQueue = SimpleQueue()
        self._n_open = 0
        # Growers read this without the lock, to return only if a thread can help.
        self._n_idle = np.zeros(1, dtype=np.int32)
        for grower in growers:
            grower.n_idle = self._n_idle

    def set_learning_rate(self, rate: float) -> None:
        """Set the factor of the leaf values of the next trees."""
        for grower in self._members:
            if grower is not None:
                grower.set_learning_rate(rate)

    def grow(self, numbers: Sequence[int], begin: Callable[[ListGrower, int], None]) -> dict:
        """Grow trees; return them as from `ListGrower.describe`, by number.

        ``begin`` begins a tree with a grower. The trees that take longest should come first.
        """
        if not numbers:
            return {}
        self._waiting = list(reversed(numbers))
        self._n_open = len(numbers)
        self._n_idle[0] = 0
        self._tasks = SimpleQueue()
        trees: dict[int, dict] = {}
        errors: list[BaseException] = []

        def work(grower: ListGrower | None) -> None:
            while grower is not None and (k := self._next()) is not None:
                try:
                    trees[k] = self._grow(grower, k, begin)
                except BaseException as error:
                    errors.append(error)
                    self._drop_waiting()
                self._finish_trees(1)
            self._help()

        try:
            self.threads.map(work, self._members)
        except BaseException:  # the user interrupts
            self._drop_waiting()
            raise
        if errors:
            raise errors[0]
        return trees

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _drop_waiting(self) -> None:
        with self._lock:
            n, self._waiting = len(self._waiting), []
        self._finish_trees(n)

    def _grow(self, grower: ListGrower, k: int, begin: Callable[[ListGrower, int], None]) -> dict:
        begin(grower, k)
        while n_parts := grower.advance():
            helpers = self._borrow(n_parts - 1)
            try:
                self._work_together(grower, helpers)
                grower.finish(helpers)
            finally:
                # Not earlier: until they are joined, their sums belong to this tree.
                with self._lock:
                    self._helpers += helpers
        return grower.describe()

    def _work_together(self, grower: ListGrower, helpers: list) -> None:
        """Do all parts of a stage, one in this thread; raise the first error when all are done."""
        n_parts, done = len(helpers) + 1, SimpleQueue()
        for i, helper in enumerate(helpers):
            self._tasks.put((grower, i + 1, n_parts, helper, done))
        try:
            grower.work(0, n_parts)
        finally:
            errors = [error for error in (done.get() for _ in helpers) if error]
        if errors:
            raise errors[0]

    def _borrow(self, n: int) -> list:
        """Reserve a histogram for each of up to n idle threads, which wait for its task."""
        with self._lock:
            n = min(n, int(self._n_idle[0]), len(self._helpers))
            self._n_idle[0] -= n
            helpers, self._helpers = self._helpers[:n], self._helpers[n:]
            return helpers

    def _help(self) -> None:
        """Work for the trees of other threads until all are complete."""
        while True:
            with self._lock:
                self._n_idle[0] += 1
            task = self._tasks.get()
            if task is None:
                return
            grower, part, n_parts, helper, done = task
            try:
                grower.work(part, n_parts, helper)
                done.put(None)
            except BaseException as error:
                done.put(error)

    def _finish_trees(self, n: int) -> None:
        """Note that trees are complete; after the last, the threads that help may return."""
        with self._lock:
            self._n_open -= n
            is_last = n > 0 and self._n_open == 0
        for _ in self._members if is_last else []:
            self._tasks.put(None)


class ListGrowers:
    """Growers of trees on lists of examples at some positions, and their threads."""

    def __init__(
        self, setup: BoostingSetup, table: TestTable, positions: ListedPositions, threads: Threads
    ):
        self.positions = positions
        self.tree_settings = setup.tree_settings
        self.has_curvature = setup.spec.kind.has_curvature  # otherwise, weights of examples
        self.threads = threads
        self.table = table
        self.surrogates = setup.encoder.missing == "surrogate"
        self._rows = positions.encoded.rows_from_first
        self._empty = empty = setup.empty
        self.n_labels = empty.n_labels
        # Whether the contexts of a position are one example, because no tree tests labels.
        self._joins_contexts = empty.transitions is not None
        self._scheduler = self._make_scheduler(0 if self._joins_contexts else empty.order)

    def _make_scheduler(self, order: int) -> TreeScheduler:
        encoded, table, n_threads = self.positions.encoded, self.table, self.threads.n_threads
        features = Features(encoded, table)
        growers = [
            ListGrower(
                features if i == 0 else Features(encoded, table, features),
                table,
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
        parts = [growers[0].new_part(Features(encoded, table, features)) for _ in range(n_helpers)]
        return TreeScheduler(growers, parts, self.threads)

    @property
    def with_counts(self) -> bool:
        """Whether growers need the number of examples in addition to their weights."""
        return self.tree_settings.min_examples > 0 or self.surrogates or self.has_curvature

    def _round(self, examples: ExampleList) -> None:
        """Round the values of examples in place, so that sums of them or their parts are exact."""
        weights = examples.curvatures
        if self._joins_contexts and not self.has_curvature:
            # The contexts of a position together have its weight.
            depth = self.positions.depth[examples.positions]
            weights /= self.n_labels ** depth.astype(float)
        in_parts = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if in_parts else MAX_UNITS_LOG2
        for values, size in zip(
            (examples.residuals, weights, examples.counts), examples.sums, strict=True
        ):
            # Sums of the examples, multiples of `EXAMPLE_UNIT`, are exact as far as this.
            is_exact = not self._joins_contexts and size < EXAMPLE_UNIT * 2.0 ** (bits - 1)
            if values is not None and not is_exact:
                round_to(values, max(EXAMPLE_UNIT, unit_for(values, bits=bits)))

    def grow(self, lists: list[ExampleList], iteration: int, learning_rate: float) -> Forest:
        """Return a forest with a tree for each label, grown on its examples, which are rounded."""
        self.threads.map(self._round, lists)
        self._scheduler.set_learning_rate(learning_rate)
        sizes = np.array([len(examples.positions) for examples in lists])

        def begin(grower: ListGrower, k: int) -> None:
            choices = choices_of_tree(self.tree_settings, iteration, k, self.table.n_features)
            grower.begin(*self._listed(lists[k]), *choices, k)

        trees = self._scheduler.grow(np.argsort(-sizes, kind="stable").tolist(), begin)
        forest = self._empty.copy()
        forest.trees += (trees[k] for k in range(self.n_labels))
        return forest

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


def _sums_of_runs(values: np.ndarray | None, starts: np.ndarray) -> np.ndarray | None:
    """Sum runs of rows, given where they start."""
    return values if values is None or not len(starts) else np.add.reduceat(values, starts)


class SampledGrowth:
    """Growth of the trees of an iteration on the examples of all shards.

    It can be pickled, and does the same in any process.
    """

    def __init__(self, setup: BoostingSetup):
        self.setup = setup
        # Of examples that are where trees grow.
        self._resident: ListGrowers | None = None

    @cached_property
    def _table(self) -> TestTable:
        return number_tests(self.setup.encoder)

    def __getstate__(self) -> dict:
        return {"setup": self.setup, "_resident": None}

    def grow(
        self, drawn: list[ShardAnswer], step: IterationRequest, n_threads: int = 1
    ) -> IterationResult:
        """Grow trees on the answers of all shards, in any order; the step needs no trees."""
        examples = [answer.examples for answer in drawn if answer.examples is not None]
        size = sum(part.size for part in examples)
        mu = mu_for(self.setup.threshold, size, self.setup.spec.max_examples)
        trees = None
        if step.request is not None and mu >= step.request.mu:
            of_contexts = total(answer.of_contexts for answer in drawn)
            trees = self._trees(examples, mu, of_contexts, step, n_threads)
        return IterationResult(
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
        examples: list[SampledExamples | ResidentExamples],
        mu: float,
        of_contexts: np.ndarray | None,
        step: IterationRequest,
        n_threads: int,
    ) -> Forest:
        """Grow the trees of an iteration."""
        growers, samples = self._growers(examples, n_threads)
        raw = RawSample(samples, step.request.mu, step.request.floor)
        with nullcontext() if growers is self._resident else growers.threads:
            lists = raw.lists(mu, growers.threads, counted=growers.with_counts, release=True)
            forest = growers.grow(lists, step.n_iter, step.learning_rate)
        if self.setup.spec.kind.constant_transitions:
            settings = replace(self.setup.tree_settings, learning_rate=step.learning_rate)
            grow_transitions(forest, settings, lists, growers.positions.depth, of_contexts)
        return forest

    def _growers(
        self, examples: list[SampledExamples | ResidentExamples], n_threads: int
    ) -> tuple[ListGrowers, list[Sample]]:
        """Return the growers of an iteration, and the samples of all parts.

        The growers last where the examples stay in one place.
        """
        setup, table, first = self.setup, self._table, examples[0]
        if isinstance(first, ResidentExamples):
            if self._resident is None or self._resident.positions is not first.positions:
                self._resident = ListGrowers(setup, table, first.positions, Threads(n_threads))
            return self._resident, first.drawn
        n_lags = 0 if first.positions.given is not None else setup.spec.kind.order
        samples, n_before = [], 0
        for part in examples:
            samples.append(Sample.unpack(part.examples, part.starts, n_lags, part.size, n_before))
            n_before += len(part.positions.depth)
        positions = _joined([part.positions for part in examples])
        return ListGrowers(setup, table, positions, Threads(n_threads)), samples


def _mean(sums: Iterable) -> float:
    joined = total(sums)
    return np.nan if joined is None else float(joined)


def _joined(parts: list[ListedPositions]) -> ListedPositions:
    """Join the positions of all parts, in order."""
    has_given = parts[0].given is not None
    return ListedPositions(
        chained([part.encoded for part in parts]),
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.given for part in parts], axis=1) if has_given else None,
    )


# Constant transitions


def grow_transitions(
    forest: Forest,
    tree_settings: TreeSettings,
    lists: list[ExampleList],  # for each label
    depths: np.ndarray,  # number of labels before each position that define its context
    of_contexts: np.ndarray | None,  # sums of `ContextWeights`; None if there is a curvature
) -> None:
    """Add a Newton step of constant transitions to the forest, from the examples of its trees.

    Without a curvature, a step is divided by the weight of the positions at which the context of
    the transition is the true one. The values of the examples must be rounded such that sums are
    exact, as `ListGrowers.grow` rounds them. Then the order of the examples does not matter.
    """
    shape = forest.order + 1, forest.n_labels**forest.order
    bound = min(tree_settings.max_leaf_value, MAX_TRANSITION)
    rate = min(tree_settings.learning_rate, MAX_TRANSITION_RATE)
    true_weights = None
    if of_contexts is not None:
        true_weights = of_contexts[:, :-1].copy()
        for depth, weight in enumerate(of_contexts[:, -1]):  # of contexts that are not known
            n_contexts = forest.n_labels**depth
            true_weights[depth, :n_contexts] += weight / n_contexts
    added = []
    for examples in lists:
        groups = depths[examples.positions].astype(np.int64) * shape[1] + examples.contexts
        totals = np.bincount(groups, examples.residuals, np.prod(shape))
        if true_weights is None:
            weights = np.bincount(groups, examples.curvatures, np.prod(shape))
        else:
            weights = true_weights.ravel()
        weights = weights + tree_settings.l2_regularization
        steps = np.divide(totals, weights, out=np.zeros_like(totals), where=weights > 0)
        units = np.rint(np.clip(steps, -bound, bound) * (rate / LEAF_UNIT))
        added.append(units.astype(np.int32).reshape(shape))
    forest.transitions.append(np.stack(added, axis=1))
