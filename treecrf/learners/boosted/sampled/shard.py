"""Shards: parts of the data with their scores, to which trees are added and examples drawn.

An iteration of sampled training needs one exchange. Each shard adds the latest trees to its scores
and draws examples. They are joined in one place, where trees grow on them. Every step states which
iterations it expects, so a step can be repeated. The state of a shard is a function of its parts
and of the first iterations of the forest, so a shard that was lost can be made again. All objects
can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from threading import Lock
from typing import Any

import numpy as np

from treecrf.chains.contexts import true_contexts
from treecrf.chains.likelihood import ChainLabels, MeanSums
from treecrf.chains.local.objective import LocalObjective
from treecrf.chains.partial_labels import unknown_contexts
from treecrf.chains.sampled._samples import EXAMPLE, Sample
from treecrf.encoding.encoded import gathered
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.base.iterations import MEANS, OBJECTIVES, History, PositionMean
from treecrf.learners.boosted.booster import weights_in
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.sampled.listed_positions import ListedPositions
from treecrf.learners.boosted.spec import BoostingSetup, Trained
from treecrf.learners.boosted.training_scores import SampleRequest, Scores
from treecrf.trees.forest import Forest
from treecrf.utils.allocation import Allocate, relocated
from treecrf.utils.exact import ExactSum
from treecrf.utils.threads import Threads

# Parts with fewer positions are joined, up to a number of positions.
SMALL_PART = 1 << 15
LARGE_PART = 1 << 17
# Position weights are rounded to multiples of this unit, so that their sums are exact.
WEIGHT_UNIT = 2.0**-10


def totals_of(part: EncodedPart) -> tuple[ExactSum | None, float | None]:
    """Return the sum of the position weights, and the largest sample weight.

    The first is None for validation data, and the second if all are 1.
    """
    weights = part.labels.weights
    largest = None if weights is None else float(weights.max())
    if part.position_weights is None:
        return None, largest
    return ExactSum.of(part.position_weights), largest


@dataclass(frozen=True)
class IterationRequest:
    """A step of training; every shard carries out the same one."""

    # A shard has at least the iterations before ``first``. Its results are for the first
    # ``n_iter``.
    first: int
    n_iter: int
    trees: Forest  # iterations ``first`` to ``n_iter - 1``
    request: SampleRequest | None  # examples to grow on; None if no trees grow
    learning_rate: float  # factor of the leaf values of the trees that grow
    wants_value: bool = False  # compute the objective, as a request does anyway
    wants_validation: bool = False  # compute the validation value, and what ``scoring`` needs
    query: Callable[[Any], Any] | None = None  # function of a `Shard`, at the top level of a module


@dataclass(frozen=True)
class Stale:
    """Answer of a shard that lacks trees: it has this number of iterations."""

    n_iter: int


@dataclass(frozen=True)
class SampledExamples:
    """Examples of a shard, not weighted yet."""

    positions: ListedPositions
    examples: np.ndarray  # structured, one label after another, as from `Sample.pack`
    starts: np.ndarray  # int64 (n_labels + 1,): first example of each label, and the end
    size: int  # sum over all samples

    @classmethod
    def of(
        cls, drawn: list[list[Sample]], positions: list[ListedPositions], window: tuple[int, int]
    ) -> SampledExamples:
        """Pack the samples of each part, with what trees test at their positions."""
        kept, numbers = [], []
        for samples, of_part in zip(drawn, positions, strict=True):
            marks = np.zeros(of_part.encoded.n_positions, dtype=np.uint8)
            marks[0] = 1  # encoded sequences have at least one position
            for sample in samples:
                sample.mark_positions(marks)
            first = sum(map(len, kept)) - 1
            kept.append(np.flatnonzero(marks))
            numbers.append(np.cumsum(marks, dtype=np.int32) + np.int32(first))
        examples, starts = _packed(drawn, numbers)
        size = sum(sample.size for samples in drawn for sample in samples)
        return cls(_at(positions, kept, window), examples, starts, size)


@dataclass(frozen=True)
class ResidentExamples:
    """Examples of the only part of the data, which trees grow on where they are."""

    positions: ListedPositions
    drawn: list[Sample]

    @property
    def size(self) -> int:
        """Size of all samples."""
        return sum(sample.size for sample in self.drawn)


def _at(
    parts: list[ListedPositions], kept: list[np.ndarray], window: tuple[int, int]
) -> ListedPositions:
    """Return some positions of each part, in the order of the parts."""
    given = None
    if parts[0].given is not None:
        columns = [part.given[:, of_part] for part, of_part in zip(parts, kept, strict=True)]
        given = np.concatenate(columns, axis=1)
    return ListedPositions(
        gathered([part.encoded for part in parts], kept, window),
        np.concatenate([part.depth[of_part] for part, of_part in zip(parts, kept, strict=True)]),
        given,
    )


def _packed(drawn: list[list[Sample]], numbers: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pack the samples of all parts, label by label; return the starts of the labels, too."""
    numbered = [(s, n) for samples, n in zip(drawn, numbers, strict=True) for s in samples]
    runs = [(k, *pair) for k in range(numbered[0][0].n_labels) for pair in numbered]
    ends = offsets_of([sample.n_examples(k) for k, sample, _ in runs])
    examples = np.empty(ends[-1], dtype=EXAMPLE)
    for (k, sample, of_part), first, last in zip(runs, ends[:-1], ends[1:], strict=True):
        sample.pack(k, of_part, examples[first:last])
    return examples, ends[:: len(numbered)]


@dataclass(frozen=True)
class ShardAnswer:
    """Answer of a shard to a step: arrays that are cheap to pickle."""

    # None if there was no request, or no part has training sequences.
    examples: SampledExamples | ResidentExamples | None
    value: MeanSums | None  # objective on the training sequences, if wanted
    validation: MeanSums | None  # objective on the validation sequences, if wanted
    of_contexts: np.ndarray | None  # sums of `ContextWeights`, if transitions need them
    predictions: dict[int, np.ndarray]  # codes by part number, if ``scoring`` needs all of them
    score: MeanSums | None = None  # value of ``scoring`` if it is a mean over the positions
    answer: Any = None  # to the query, if there is one


@dataclass(frozen=True)
class IterationResult:
    """Result of a step, from the answers of all shards."""

    # Trees of iteration ``n_iter`` of the step; None if there was no request, or the step must be
    # repeated with this smaller ``mu``.
    trees: Forest | None
    mu: float  # threshold that keeps no more examples than wanted
    size: int  # sum of the absolute residuals of all examples, in units of 2**-30
    value: float  # objective on the training data; NaN if not computed
    validation: float  # objective on the validation data; NaN if not computed
    predictions: dict[int, np.ndarray]  # codes by part number, if ``scoring`` needs all of them
    score: float  # metric that is a mean over the validation positions
    answers: list  # of all shards to the query, in any order


def total(values: Iterable[Any]) -> Any:
    """Add values, except None; None if there are no others."""
    values = [value for value in values if value is not None]
    return reduce(add, values) if values else None


class Shard:
    """Parts of the data with scores, in one process.

    The object can be pickled and copied. Its methods may be called from several threads.
    ``training`` lists its labeled sequences; ``held_out`` has validation sequences by part number.
    """

    def __init__(
        self,
        setup: BoostingSetup,
        parts: dict[int, EncodedPart],  # by number among all parts
        n_threads: int = 1,
        # Makes the arrays of the scores, like `numpy.zeros`; copies of the shard do not use it.
        allocate: Allocate | None = None,
    ):
        self.setup = setup
        self.n_threads = n_threads
        self._allocate, self._lock = allocate, Lock()
        # Whether trees grow in this process, on the rows of the only part.
        self.is_resident = False
        self.training = self._with_large_parts(
            [part for part in parts.values() if part.position_weights is not None]
        )
        self.held_out = {n: part for n, part in parts.items() if part.position_weights is None}
        self._begin()

    def _with_large_parts(self, parts: list[EncodedPart]) -> list[EncodedPart]:
        """Join small parts with their neighbors; each part takes some time in an iteration."""
        groups: list[list[EncodedPart]] = []
        room = 0
        for part in parts:
            n = part.encoded.n_positions
            if n > room:
                groups.append([])
                room = LARGE_PART if n < SMALL_PART else n
            groups[-1].append(part)
            room -= n
        return list(map(self._joined, groups))

    def _joined(self, parts: list[EncodedPart]) -> EncodedPart:
        joined = EncodedPart.joined(parts)
        if joined is parts[0] or self._allocate is None:
            return joined
        return relocated(joined, self._allocate)

    def _begin(self) -> None:
        """Set the scores to those without trees."""
        self._threads = Threads(self.n_threads)
        self.forest = self.setup.empty.copy()
        arguments = self._threads, self._allocate
        self._training = [ShardPart(self.setup, data, *arguments) for data in self.training]
        self._held_out = {
            number: ShardPart(self.setup, data, *arguments, is_validation=True)
            for number, data in self.held_out.items()
        }

    def run(self, step: IterationRequest) -> ShardAnswer | Stale:
        """Add the trees that are new, and draw examples; a repeated step has the same result."""
        with self._lock:
            if self.forest.n_iter > step.n_iter:
                self._begin()
            if self.forest.n_iter < step.first:
                return Stale(self.forest.n_iter)
            try:
                with nullcontext() if self.is_resident else self._threads:
                    self._add_trees(step)
                    return self._answer(step)
            except BaseException:
                # Some scores may have trees that others lack.
                self._begin()
                raise

    def _add_trees(self, step: IterationRequest) -> None:
        n_known = self.forest.n_iter - step.first
        self.forest.extend(step.trees.iterations(n_known, step.trees.n_iter))
        for part in self._training:
            part.scores.add_trees(self.forest)

    def _answer(self, step: IterationRequest) -> ShardAnswer:
        sums, of_contexts, examples = [], [], None
        if step.wants_value:
            sums = [part.sums(self.forest) for part in self._training]
        if step.request is not None and self._training:
            drawn = [part.draw(step.n_iter, step.request) for part in self._training]
            samples, sums, of_contexts = map(list, zip(*drawn, strict=True))
            positions = [part.positions for part in self._training]
            if self.is_resident:
                examples = ResidentExamples(positions[0], samples[0])
            else:
                examples = SampledExamples.of(samples, positions, self.setup.encoder.window)
        validation, predictions, scores = [], {}, []
        for number, part in self._held_out.items() if step.wants_validation else ():
            validation.append(part.sums(self.forest))
            if part.predicts:
                found = predictions_for(self.setup, part.scores, part.data, self.forest)
                if part.mean is not None:
                    scores.append(part.mean.sums(found))
                else:
                    predictions[number] = found.astype(np.min_scalar_type(self.setup.n_labels))
        return ShardAnswer(
            examples,
            total(sums),
            total(validation),
            total(of_contexts),
            predictions,
            total(scores),
            None if step.query is None else step.query(self),
        )

    def __getstate__(self) -> dict:
        kept = "setup", "n_threads", "training", "held_out"
        with self._lock:
            return {
                "kept": {name: getattr(self, name) for name in kept},
                "forest": self.forest,
                "scores": [part.state() for part in self._parts()],
            }

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state["kept"])
        self._allocate, self._lock, self.is_resident = None, Lock(), False
        self._begin()
        self.forest = state["forest"]
        for part, scores in zip(self._parts(), state["scores"], strict=True):
            vars(part.scores).update(scores)

    def _parts(self) -> list[ShardPart]:
        return [*self._training, *self._held_out.values()]

    def __sizeof__(self) -> int:
        return sum(part.n_bytes() for part in self._parts())


class ShardPart:
    """Labeled sequences of a part, and their scores; examples are drawn from training sequences."""

    # State of `scores` that the trees change.
    CHANGING = ("parts", "scores", "n_iter")

    def __init__(
        self,
        setup: BoostingSetup,
        data: EncodedPart,
        threads: Threads,
        allocate: Allocate | None,
        *,
        is_validation: bool = False,
    ):
        self.setup = setup
        scoring, kind = setup.spec.scoring, setup.spec.kind
        # Sums for a ``scoring`` that is a mean over positions; others need predictions.
        self.mean = None
        if is_validation and scoring in MEANS:
            self.mean = PositionMean(scoring, data.labels)
        self.predicts = is_validation and scoring not in OBJECTIVES
        self.data = data
        self.scores = kind.scores(setup, data, threads, is_validation)
        # All parts have the same scale of the objective's value.
        objective = self.scores.objective
        objective.mean = objective.mean.of_part(setup.largest_weights[is_validation])
        if allocate is not None:
            self.scores.keep_in(allocate)
        if not is_validation:
            self.positions = kind.listed_positions(data)
            weights = data.position_weights
            self.weights = weights if (weights != 1).any() else None
            self.sampler = kind.sampler(data, threads)
            self.contexts = None
            if kind.constant_transitions and not kind.has_curvature:
                self.contexts = ContextWeights(data.labels)

    def draw(
        self, iteration: int, request: SampleRequest
    ) -> tuple[list[Sample], MeanSums | float, np.ndarray | None]:
        """Draw examples, and compute the objective, and the sums that transitions need, if any."""
        data, tree_settings = self.data, self.setup.tree_settings
        arguments = data.encoded.offsets, data.keys, tree_settings, request.last_chosen
        weights = weights_in(iteration, self.weights, *arguments)
        samples, value = self.scores.sample(
            self.sampler, iteration, tree_settings.seed, request, weights
        )
        self._forget_tables()
        return samples, value, None if self.contexts is None else self.contexts.sums(weights)

    def sums(self, forest: Forest) -> MeanSums | float:
        """Add the trees that are new to the scores, and compute the objective."""
        sums = self.scores.objective.sums(self.scores.value(forest))
        self._forget_tables()
        return sums

    def _forget_tables(self) -> None:
        """Free the memory of residuals until the next step."""
        if isinstance(self.scores.objective, LocalObjective):
            self.scores.objective.forget_tables()

    def state(self) -> dict[str, Any]:
        """Return the state that the trees have changed."""
        return {name: value for name, value in vars(self.scores).items() if name in self.CHANGING}

    def n_bytes(self) -> int:
        """Return the memory of the arrays, roughly."""
        data, encoded = self.data, self.data.encoded
        rows = encoded.codes.nbytes + encoded.bits.nbytes + encoded.list_ids.nbytes
        masks = data.labels.constraints.allowed, data.labels.candidates
        arrays = [*masks, data.start_state, *self.state().values()]
        arrays = [value for value in arrays if isinstance(value, np.ndarray)]
        # Rows are stored twice, by rows and by columns.
        scores = 4 * self.setup.n_labels * encoded.n_positions
        return 2 * rows + scores + sum(array.nbytes for array in arrays)


class ContextWeights:
    """Weights of the positions by their true contexts."""

    def __init__(self, data: ChainLabels):
        offsets, n_labels, order = data.offsets, data.n_labels, data.order
        self.shape = order + 1, n_labels**order + 1
        depths, contexts = true_contexts(offsets, data.codes, n_labels, order)
        if data.candidates is not None:
            contexts[unknown_contexts(data.candidates, offsets, order)] = n_labels**order
        self.groups = depths * self.shape[1] + contexts

    def sums(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions, all 1 if None; float64 (order + 1, n_contexts + 1).

        Rows are numbers of previous labels, at most ``order``, and columns are contexts; the last
        column is for positions whose context is unknown. The sums of parts of the data are exact
        and can be added.
        """
        if weights is not None:
            weights = np.rint(weights / WEIGHT_UNIT) * WEIGHT_UNIT
        sums = np.bincount(self.groups, weights, np.prod(self.shape))
        return sums.astype(np.float64).reshape(self.shape)


def predictions_for(
    setup: BoostingSetup, scores: Scores, data: EncodedPart, forest: Forest
) -> np.ndarray:
    """Return the predictions for validation sequences that ``scoring`` needs."""
    start = None  # lattices include it, and other models have none
    trained = Trained(
        setup.classes, setup.tree_settings.seed, setup.encoder, forest, start, History()
    )
    return setup.spec.predict(trained, scores, data, setup.spec.n_jobs)
