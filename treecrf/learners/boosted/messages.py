"""Steps of training on shards: their settings, the requests of the booster, and the answers.

An iteration of sampled training needs one exchange. Each shard adds the latest trees to its scores
and draws examples. They are joined in one place, where trees grow on them. Every step states which
iterations it expects, so a step can be repeated, and a shard that was lost can be made again from
its parts. All objects can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from treecrf.chains._sampling import EXAMPLE, Sample
from treecrf.chains.objectives import MeanSums
from treecrf.encoding.encoded import gathered
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.boosted.encoded import EncodedLabeled, EncodedPart, ListedPositions
from treecrf.learners.boosted.kinds import Sampling
from treecrf.learners.boosted.scores import SampleRequest, Scores
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.utils.exact import ExactSum
from treecrf.utils.partitions import Partitions
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class LabeledTotals:
    """Numbers that describe labeled sequences; the numbers of several parts can be added."""

    n_sequences: int = 0
    # Sum of the position weights.
    weight: ExactSum = ExactSum()  # noqa: RUF009
    largest_weight: float | None = None  # of the sample weights; None if all are 1
    is_partial: bool = False  # whether some labels are unknown

    @classmethod
    def of(cls, data: EncodedLabeled | None) -> LabeledTotals:
        """Describe the sequences of a part."""
        if data is None:
            return cls()
        return cls(
            len(data.offsets) - 1,
            ExactSum.of(data.position_weights),
            None if data.weights is None else float(data.weights.max()),
            data.candidates is not None,
        )

    def __add__(self, other: LabeledTotals) -> LabeledTotals:
        weights = [w for w in (self.largest_weight, other.largest_weight) if w is not None]
        return LabeledTotals(
            self.n_sequences + other.n_sequences,
            self.weight + other.weight,
            max(weights, default=None),
            self.is_partial or other.is_partial,
        )


class Totals(NamedTuple):
    """Numbers that describe all parts of the data."""

    training: LabeledTotals
    held_out: LabeledTotals

    @classmethod
    def of(cls, partitions: Partitions) -> Totals:
        """Describe partitions of `EncodedPart`."""
        return cls(*map(total, zip(*partitions.map(_totals_of), strict=True)))


def _totals_of(part: EncodedPart) -> tuple[LabeledTotals, LabeledTotals]:
    return LabeledTotals.of(part.training), LabeledTotals.of(part.held_out)


@dataclass(frozen=True)
class ShardSettings:
    """Everything but the data that shards and the growth of trees depend on; it never changes."""

    spec: BoostingSpec
    classes: np.ndarray
    encoder: Encoder
    growth: Growth
    sampling: Sampling | None  # None if trees are fitted to all examples
    totals: Totals | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.classes)

    def new_forest(self) -> Forest:
        """Return a forest without trees."""
        return self.spec.kind.new_forest(self.n_labels)

    def scores_of(
        self, data: EncodedLabeled, threads: Threads, is_validation: bool = False
    ) -> Scores:
        """Return the scores of sequences that trees are added to."""
        kind, on_samples = self.spec.kind, self.sampling is not None
        options = {"on_samples": on_samples, "is_validation": is_validation}
        return kind.scores(kind.chains(data, self.classes), data, self.encoder, threads, **options)


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
