"""Encoding of the parts of the data where they are, and the keys of their sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.sequence_keys import SequenceHashes, encoded_hashes, keys_of, lists_ids
from treecrf.learners.boosted.encoded import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.labeled import recode, take_some
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.learners.boosted.start import LinearStart, starting_parts
from treecrf.learners.evaluation import OBJECTIVES
from treecrf.learners.training_data import LabeledSequences
from treecrf.utils.partitions import Partitions, PartitionsView, PerPartition
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class Encoding:
    """How labeled sequences are encoded."""

    spec: BoostingSpec
    encoder: Encoder
    start: LinearStart | None
    of_labels: np.ndarray  # float64 (n_labels,): weights of the labels
    is_sampled: bool  # whether trees are grown on samples, for which sequences need keys
    threads: Threads | None = None  # for data in this process

    def training(self, data: LabeledSequences) -> EncodedLabeled:
        """Encode training sequences, which get their keys later."""
        return self._encoded(data, self.spec.kind.position_weights(data, self.of_labels))

    def validation(self, data: LabeledSequences) -> EncodedLabeled:
        """Encode validation sequences."""
        # Position weights and keys are for training data.
        encoded = self._encoded(data, np.ones(0))
        if self.spec.scoring in OBJECTIVES:
            return encoded
        return replace(encoded, sequences=data.sequences)

    def _encoded(self, data: LabeledSequences, position_weights: np.ndarray) -> EncodedLabeled:
        threads = self.threads or Threads(1)
        return EncodedLabeled(
            self.encoder.encode(data.sequences, threads),
            data.codes,
            data.allowed,
            data.candidates,
            data.weights,
            position_weights,
            np.zeros(0, dtype=np.uint64),
            *starting_parts(self.start, data.sequences, threads),
        )


@dataclass(frozen=True)
class HashedPart:
    """An encoded part whose training sequences have no keys yet.

    The two hashes are for the cases that some part lists ids, and that no part does. A hash is None
    in a case that this part rules out, because it has no ids or lists some. A part without training
    sequences has no hashes.
    """

    part: EncodedPart
    hashes: tuple[SequenceHashes | None, SequenceHashes | None] | None = None

    def get_hashes(self) -> tuple[SequenceHashes | None, SequenceHashes | None] | None:
        """Return the hashes."""
        return self.hashes

    def with_keys(self, keys: np.ndarray | None) -> EncodedPart:
        """Return the part, with the keys of the training sequences."""
        if keys is None:
            return self.part
        return replace(self.part, training=replace(self.part.training, keys=keys))


EMPTY = HashedPart(EncodedPart(None, None))


def encode_part(
    data: LabeledSequences,
    held_out: np.ndarray | None,  # marks the sequences that are held out, if any
    categories: dict[int, np.ndarray],  # of the training sequences in all parts
    encoding: Encoding,
) -> HashedPart:
    """Encode a part, with some of its sequences held out."""
    validation = None
    if held_out is not None:
        left, data = take_some(data, held_out), take_some(data, ~held_out)
        validation = None if left is None else encoding.validation(left)
    if data is None:
        return HashedPart(EncodedPart(None, validation))
    training = encoding.training(recode(data, categories))
    hashes = None
    if encoding.is_sampled:
        hashes = _hashes(training, [training.position_weights, *data.ties])
    return HashedPart(EncodedPart(training, validation), hashes)


def _hashes(
    data: EncodedLabeled, ties: list[np.ndarray]
) -> tuple[SequenceHashes | None, SequenceHashes | None]:
    """Hash encoded sequences: if any part lists ids, and if none does."""
    arrays = data.encoded, data.codes, data.allowed, data.candidates
    are_possible = data.encoded.n_ids > 0, not lists_ids(data.encoded)
    with_lists, without = (
        encoded_hashes(*arrays, ties=ties, with_lists=case) if is_possible else None
        for case, is_possible in zip((True, False), are_possible, strict=True)
    )
    return with_lists, without


def encode_validation(data: LabeledSequences, encoding: Encoding) -> HashedPart:
    """Encode a part of the validation data."""
    return HashedPart(EncodedPart(None, encoding.validation(data)))


def with_keys(encoded: Partitions, is_sampled: bool) -> Partitions:
    """Return the `EncodedPart` of each `HashedPart`, with keys if trees grow on samples."""
    if not is_sampled:
        return encoded.derive(HashedPart.with_keys, None)
    own = PerPartition(encoded.derive(HashedPart.get_hashes).reduce(_encoded_keys))
    if hasattr(encoded, "make_shards"):
        return encoded.derive(HashedPart.with_keys, own)
    # Scratch files would store the parts again.
    return PartitionsView(encoded, HashedPart.with_keys, own)


def _encoded_keys(
    parts: list[tuple[SequenceHashes | None, SequenceHashes | None] | None],
) -> list[np.ndarray | None]:
    """Return the keys of the training sequences of each part; None if it has none."""
    present = [part for part in parts if part is not None]
    no_part_lists = all(without is not None for _, without in present)
    keys = iter(keys_of([part[no_part_lists] for part in present]))
    return [None if part is None else next(keys) for part in parts]
