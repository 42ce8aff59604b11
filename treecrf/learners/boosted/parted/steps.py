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
from typing import Any

import numpy as np

from treecrf.chains._sampling import EXAMPLE, Sample
from treecrf.chains.weighted_mean import MeanSums
from treecrf.encoding.encoded import gathered
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.boosted.parted.parts import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.sampled import ListedPositions, Sampling
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.utils.exact import ExactSum


@dataclass(frozen=True)
class LabeledTotals:
    """Numbers that describe labeled sequences; those of parts can be added.

    Attributes
    ----------
    n_sequences, n_positions : int
    weight : ExactSum
        Sum of the position weights.
    largest_weight : float or None
        The largest sample weight; None if all are 1.
    is_partial : bool
        Whether some labels are unknown.
    """

    n_sequences: int = 0
    n_positions: int = 0
    weight: ExactSum = ExactSum()  # noqa: RUF009
    largest_weight: float | None = None
    is_partial: bool = False

    @classmethod
    def of(cls, data: EncodedLabeled | None) -> LabeledTotals:
        """Describe the sequences of a part."""
        if data is None:
            return cls()
        return cls(
            len(data.offsets) - 1,
            len(data.codes),
            ExactSum.of(data.position_weights),
            None if data.weights is None else float(data.weights.max()),
            data.candidates is not None,
        )

    def __add__(self, other: LabeledTotals) -> LabeledTotals:
        weights = [w for w in (self.largest_weight, other.largest_weight) if w is not None]
        return LabeledTotals(
            self.n_sequences + other.n_sequences,
            self.n_positions + other.n_positions,
            self.weight + other.weight,
            max(weights, default=None),
            self.is_partial or other.is_partial,
        )


@dataclass(frozen=True)
class Totals:
    """Numbers that describe all parts of the data.

    Attributes
    ----------
    training, held_out : LabeledTotals
    """

    training: LabeledTotals
    held_out: LabeledTotals

    @classmethod
    def of(cls, part: EncodedPart) -> Totals:
        """Describe a part."""
        return cls(LabeledTotals.of(part.training), LabeledTotals.of(part.held_out))

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.training + other.training, self.held_out + other.held_out)


@dataclass(frozen=True)
class ShardSetup:
    """Everything but the data that shards and the growth of trees depend on; it never changes.

    Attributes
    ----------
    estimator : BoostedSequenceClassifier
        Parameters, not fitted.
    classes : array (n_labels,)
        The sorted labels.
    encoder : Encoder
    growth : Growth
    sampling : Sampling
    totals : Totals
    """

    estimator: Any
    classes: np.ndarray
    encoder: Encoder
    growth: Growth
    sampling: Sampling
    totals: Totals

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.classes)

    def new_forest(self) -> Forest:
        """Return a forest without trees."""
        return self.estimator._new_forest(self.n_labels)


@dataclass(frozen=True)
class DrawRequest:
    """Which examples a shard draws.

    Attributes
    ----------
    mu : float
        Examples with residuals of this size are all kept, smaller ones with a probability
        proportional to them.
    floor : float
        Probability that an example of weight 1 without a residual is kept.
    last_chosen : int or None
        Sequences whose hash in this iteration is larger are not in its subsample.
    """

    mu: float
    floor: float
    last_chosen: int | None


@dataclass(frozen=True)
class Step:
    """A step of training; every shard carries out the same one.

    Attributes
    ----------
    first, n_iter : int
        A shard has at least the iterations before ``first``. Its results are those under the first
        ``n_iter`` iterations.
    trees : dict of arrays
        Iterations ``first`` to ``n_iter - 1``, as from `Forest.pack`.
    request : DrawRequest or None
        The examples that iteration ``n_iter`` grows on; None if no trees grow.
    learning_rate : float
        Factor of the leaf values of the trees that grow.
    wants_value, wants_validation : bool
        Whether to compute the value of the objective, which a request computes in any case, and
        that of the validation data, with the predictions that ``scoring`` needs.
    query : callable or None
        Function of a `Shard`, defined at the top level of a module.
    """

    first: int
    n_iter: int
    trees: dict[str, np.ndarray]
    request: DrawRequest | None
    learning_rate: float
    wants_value: bool = False
    wants_validation: bool = False
    query: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Behind:
    """Answer of a shard that lacks trees: it has this number of iterations."""

    n_iter: int


@dataclass(frozen=True)
class DrawnExamples:
    """Examples of a shard, not weighted yet.

    Attributes
    ----------
    positions : ListedPositions
        Those of the examples.
    examples : structured array (n,)
        The examples of all labels, one label after another, as from `Sample.pack`.
    starts : int64 array (n_labels + 1,)
        First example of each label, and the number of all.
    size : int
        That of all samples.
    """

    positions: ListedPositions
    examples: np.ndarray
    starts: np.ndarray
    size: int

    @classmethod
    def of(
        cls, drawn: list[list[Sample]], positions: list[ListedPositions], window: tuple[int, int]
    ) -> DrawnExamples:
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

    def samples(self, order: int, first: int) -> list[Sample]:
        """Unpack the examples; ``first`` is the number of positions of the shards before."""
        n_lags = 0 if self.positions.given is not None else order
        return [Sample.unpack(self.examples, self.starts, n_lags, self.size, first)]


@dataclass(frozen=True)
class ResidentExamples:
    """Examples of the only part of the data, which trees grow on where they are."""

    positions: ListedPositions
    drawn: list[Sample]

    @property
    def size(self) -> int:
        """Size of all samples."""
        return sum(sample.size for sample in self.drawn)

    def samples(self, order: int, first: int) -> list[Sample]:
        """Return the samples."""
        return self.drawn


def _at(
    parts: list[ListedPositions], kept: list[np.ndarray], window: tuple[int, int]
) -> ListedPositions:
    """Return some positions of each part, those of the first part first."""
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
class Drawn:
    """Answer of a shard to a step: arrays that are cheap to pickle.

    Attributes
    ----------
    examples : DrawnExamples, ResidentExamples or None
        None if there was no request, or no part has training sequences.
    value, validation : MeanSums or None
        Of the objective on the training and the validation sequences, if there are any and the
        value was wanted.
    of_contexts : float64 array or None
        Sums of `ContextWeights`, if the transitions need them.
    predictions : dict of arrays
        Codes of labels for the validation sequences of each part, by its number, if ``scoring``
        needs them in one place.
    score : MeanSums or None
        Value of ``scoring`` if it is a mean over the positions.
    answer : object
        That of the query, if there is one.
    """

    examples: DrawnExamples | ResidentExamples | None
    value: MeanSums | None
    validation: MeanSums | None
    of_contexts: np.ndarray | None
    predictions: dict[int, np.ndarray]
    score: MeanSums | None = None
    answer: Any = None


@dataclass(frozen=True)
class Grown:
    """Result of a step, from the answers of all shards.

    Attributes
    ----------
    trees : dict of arrays or None
        The trees of iteration ``n_iter`` of the step, as from `Forest.pack`; None if there was no
        request, or the step must be repeated with this smaller ``mu``.
    mu : float
        The threshold that keeps no more examples than wanted.
    size : int
        Sum of the absolute residuals of all examples, in units of 2**-30.
    value : float
        Value of the objective on the training data; NaN if it was not computed.
    validation : float
        The same for the validation data.
    predictions : dict of arrays
        Codes of labels for the validation sequences of each part, by its number, for metrics that
        need them in one place.
    score : float
        Value of a metric that is a mean over the positions of the validation sequences.
    answers : list
        Answers of all shards to the query of the step, in any order.
    """

    trees: dict[str, np.ndarray] | None
    mu: float
    size: int
    value: float
    validation: float
    predictions: dict[int, np.ndarray]
    score: float
    answers: list


def total(values: Iterable[Any]) -> Any:
    """Add values, except None; None if there are no others."""
    values = [value for value in values if value is not None]
    return reduce(add, values) if values else None
