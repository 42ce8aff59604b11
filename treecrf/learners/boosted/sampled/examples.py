"""Examples that shards have drawn, and what trees test at their positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treecrf.chains.sampled._samples import EXAMPLE, Sample
from treecrf.encoding.encoded import EncodedSequences, chained, gathered
from treecrf.inputs.offsets import offsets_of


@dataclass(frozen=True)
class ListedPositions:
    """Positions of examples: what trees test at them."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8 (n_positions,): number of labels that define the context
    # uint8 (order, n_positions): the label at each lag, if a position has one context only.
    given: np.ndarray | None

    @classmethod
    def joined(cls, partitions: Sequence[ListedPositions]) -> ListedPositions:
        """Join the positions of all partitions, in order."""
        given = None
        if partitions[0].given is not None:
            given = np.concatenate([partition.given for partition in partitions], axis=1)
        return cls(
            chained([partition.encoded for partition in partitions]),
            np.concatenate([partition.depth for partition in partitions]),
            given,
        )

    @classmethod
    def gathered(
        cls,
        partitions: Sequence[ListedPositions],
        numbers: list[np.ndarray],  # numbers of the chosen positions of each partition
        window: tuple[int, int],  # that trees test
    ) -> ListedPositions:
        """Return some positions of each partition, in the order of the partitions."""
        pairs = list(zip(partitions, numbers, strict=True))
        given = None
        if partitions[0].given is not None:
            given = np.concatenate([whole.given[:, chosen] for whole, chosen in pairs], axis=1)
        return cls(
            gathered([partition.encoded for partition in partitions], numbers, window),
            np.concatenate([whole.depth[chosen] for whole, chosen in pairs]),
            given,
        )


class DrawnExamples(ABC):
    """Examples of a shard, not weighted yet."""

    positions: ListedPositions
    # Sum of the absolute residuals of all examples of the shard, in units of 2**-30.
    size: int
    # Whether they stay where they were drawn, and trees grow there.
    is_resident: bool

    @abstractmethod
    def samples(self, n_lags: int, n_before: int) -> list[Sample]:
        """Return the samples, whose examples have ``n_lags`` previous labels.

        ``n_before`` is the number of positions of the shards before this one.
        """


@dataclass(frozen=True)
class SampledExamples(DrawnExamples):
    """Examples of a shard that are sent to the place where trees grow."""

    positions: ListedPositions  # those with examples
    examples: np.ndarray  # structured, one label after another, as from `Sample.pack`
    starts: np.ndarray  # int64 (n_labels + 1,): first example of each label, and the end
    size: int

    is_resident = False

    @classmethod
    def packed(
        cls,
        drawn: list[list[Sample]],  # samples of each partition
        positions: list[ListedPositions],
        window: tuple[int, int],
    ) -> SampledExamples:
        """Pack the samples of each partition, with what trees test at their positions."""
        chosen = []  # numbers of the positions with examples, of each partition
        renumbered = []  # the number of each position among those of all partitions
        n_chosen = 0
        for samples, partition in zip(drawn, positions, strict=True):
            marks = np.zeros(partition.encoded.n_positions, dtype=np.uint8)
            marks[0] = 1  # encoded sequences have at least one position
            for sample in samples:
                sample.mark_positions(marks)
            renumbered.append(np.cumsum(marks, dtype=np.int32) + np.int32(n_chosen - 1))
            chosen.append(np.flatnonzero(marks))
            n_chosen += len(chosen[-1])
        examples, starts = _by_label(drawn, renumbered)
        size = sum(sample.size for samples in drawn for sample in samples)
        return cls(ListedPositions.gathered(positions, chosen, window), examples, starts, size)

    def samples(self, n_lags: int, n_before: int) -> list[Sample]:
        """Return the examples as one sample."""
        return [Sample.unpack(self.examples, self.starts, n_lags, self.size, n_before)]


def _by_label(
    drawn: list[list[Sample]], renumbered: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Pack the samples of all partitions, label by label; return the starts of the labels, too."""
    numbered = [
        (sample, numbers)
        for samples, numbers in zip(drawn, renumbered, strict=True)
        for sample in samples
    ]
    n_labels = numbered[0][0].n_labels
    runs = [(label, sample, numbers) for label in range(n_labels) for sample, numbers in numbered]
    ends = offsets_of([sample.n_examples(label) for label, sample, _ in runs])
    examples = np.empty(ends[-1], dtype=EXAMPLE)
    for (label, sample, numbers), first, last in zip(runs, ends[:-1], ends[1:], strict=True):
        sample.pack(label, numbers, examples[first:last])
    return examples, ends[:: len(numbered)]


@dataclass(frozen=True)
class ResidentExamples(DrawnExamples):
    """Examples of the only partition of the data, which trees grow on where they are."""

    positions: ListedPositions  # all of the partition
    drawn: list[Sample]

    is_resident = True

    @property
    def size(self) -> int:
        """Sum over all samples."""
        return sum(sample.size for sample in self.drawn)

    def samples(self, n_lags: int, n_before: int) -> list[Sample]:
        """Return the samples as they were drawn."""
        return self.drawn
