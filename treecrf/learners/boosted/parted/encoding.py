"""Encoding of the parts of the data where they are, and the keys of their sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.sequence_keys import SequenceHashes, encoded_hashes, keys_of, lists_ids
from treecrf.learners.boosted.parted.labeled import recode, take_some
from treecrf.learners.boosted.parted.parts import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.start import LinearStart, starting_parts
from treecrf.learners.evaluation import OBJECTIVES
from treecrf.learners.training_data import LabeledSequences
from treecrf.utils.fleet import Each, Fleet, View
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class Encoding:
    """How labeled sequences are encoded."""

    estimator: Any  # BoostedSequenceClassifier
    encoder: Encoder
    start: LinearStart | None
    of_labels: np.ndarray  # float64 (n_labels,): weights of the labels

    def weights(self, data: LabeledSequences) -> np.ndarray:
        """Return the weight of each position in tree fitting."""
        return self.estimator._position_weights(data, self.of_labels)


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
    held_out: np.ndarray,
    categories: dict[int, np.ndarray],  # of the training sequences in all parts
    encoding: Encoding,
) -> HashedPart:
    """Encode a part, with some of its sequences held out."""
    validation = _encoded_held_out(take_some(data, held_out), encoding)
    data = take_some(data, ~held_out)
    if data is None:
        return HashedPart(EncodedPart(None, validation))
    data = recode(data, categories)
    training = _encoded(data, encoding, encoding.weights(data))
    ties = [training.position_weights, *data.ties]
    return HashedPart(EncodedPart(training, validation), _encoded_hashes(training, ties))


def encode_validation(data: LabeledSequences, encoding: Encoding) -> HashedPart:
    """Encode a part of the validation data."""
    return HashedPart(EncodedPart(None, _encoded_held_out(data, encoding)))


def with_keys(encoded: Fleet) -> Fleet:
    """Return a fleet of `EncodedPart` whose sequences have keys, from a fleet of `HashedPart`."""
    own = Each(encoded.derive(HashedPart.get_hashes).reduce(_encoded_keys))
    if hasattr(encoded, "make_shards"):
        return encoded.derive(HashedPart.with_keys, own)
    # Scratch files would store the parts again.
    return View(encoded, HashedPart.with_keys, own)


def _encoded_hashes(
    data: EncodedLabeled, ties: list[np.ndarray]
) -> tuple[SequenceHashes | None, SequenceHashes | None]:
    """Hash encoded sequences: if any part lists ids, and if none does."""
    with_lists, without = (
        encoded_hashes(
            data.encoded,
            data.codes,
            data.allowed,
            data.candidates,
            ties=ties,
            with_lists=with_lists,
        )
        if is_possible
        else None
        for with_lists, is_possible in (
            (True, data.encoded.n_ids > 0),
            (False, not lists_ids(data.encoded)),
        )
    )
    return with_lists, without


def _encoded_keys(
    parts: list[tuple[SequenceHashes | None, SequenceHashes | None] | None],
) -> list[np.ndarray | None]:
    """Return the keys of the training sequences of each part; None if it has none."""
    present = [part for part in parts if part is not None]
    no_part_lists = all(without is not None for _, without in present)
    keys = iter(keys_of([part[no_part_lists] for part in present]))
    return [None if part is None else next(keys) for part in parts]


def _encoded_held_out(data: LabeledSequences | None, encoding: Encoding) -> EncodedLabeled | None:
    if data is None:
        return None
    encoded = _encoded(data, encoding)
    if encoding.estimator._scoring in OBJECTIVES:
        return encoded
    return replace(encoded, sequences=data.sequences)


def _encoded(
    data: LabeledSequences, encoding: Encoding, weights: np.ndarray | None = None
) -> EncodedLabeled:
    encoded = encoding.encoder.encode(data.sequences)
    return encoded_labeled(data, encoded, encoding.start, Threads(1), weights)


def encoded_labeled(
    data: LabeledSequences,
    encoded: EncodedSequences,
    start: LinearStart | None,
    threads: Threads,
    position_weights: np.ndarray | None = None,  # not for validation data
) -> EncodedLabeled:
    """Return encoded sequences with labels and starting scores, but without keys."""
    return EncodedLabeled(
        encoded,
        data.codes,
        data.allowed,
        data.candidates,
        data.weights,
        np.ones(0) if position_weights is None else position_weights,
        np.zeros(0, dtype=np.uint64),
        *starting_parts(start, data.sequences, threads),
    )
