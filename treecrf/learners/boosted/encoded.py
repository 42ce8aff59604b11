"""Encoded parts of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.encoded import EncodedSequences, chained
from treecrf.encoding.sequence_keys import SequenceHashes
from treecrf.inputs.sequences import Sequences


@dataclass(frozen=True)
class EncodedLabeled:
    """Labeled sequences of a part in the form that training reads; there is at least one.

    Sequences have the direction of the chain. Where labels are unknown, ``codes`` are one of the
    possible label sequences.
    """

    encoded: EncodedSequences
    codes: np.ndarray
    allowed: np.ndarray | None
    candidates: np.ndarray | None  # None if all labels are known, in all parts
    weights: np.ndarray | None  # sample weights; None if all are 1 in all parts
    # Sample weights multiplied by class weights. If all are 1, the array takes no memory and cannot
    # be written to.
    position_weights: np.ndarray
    # uint64 (n_sequences,) from `sequence_keys`, all different, also from keys in other parts.
    keys: np.ndarray
    # Scores that the trees are added to, from the linear start and the user, as from
    # `score_parts`; None stands for scores of 0.
    start_state: np.ndarray | None = None
    start_transitions: np.ndarray | None = None
    previous: np.ndarray | None = None  # as in `LabeledSequences`
    sequences: Sequences | None = None  # before they were encoded, if ``scoring`` predicts

    @property
    def offsets(self) -> np.ndarray:
        """Start of each sequence among the positions, and the end of the last."""
        return self.encoded.offsets

    @classmethod
    def joined(cls, parts: Sequence[EncodedLabeled]) -> EncodedLabeled:
        """Append the sequences of all parts in a copy, without those before they were encoded."""
        if len(parts) == 1:
            return parts[0]

        def join(name: str, axis: int = 0) -> np.ndarray | None:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays, axis)

        return cls(
            chained([part.encoded for part in parts]),
            join("codes"),
            join("allowed"),
            join("candidates"),
            join("weights"),
            _joined_weights([part.position_weights for part in parts]),
            join("keys"),
            join("start_state", axis=1),
            parts[0].start_transitions,
            join("previous"),
        )


def _joined_weights(weights: list[np.ndarray]) -> np.ndarray:
    """Join position weights; if all are 1, the result takes no memory."""
    if all((of_part == 1).all() for of_part in weights):
        return np.broadcast_to(np.ones(1), sum(map(len, weights)))
    return np.concatenate(weights)


@dataclass(frozen=True)
class EncodedPart:
    """A part of the data, ready for training; None stands for no sequences."""

    training: EncodedLabeled | None
    held_out: EncodedLabeled | None
    # Hashes of training sequences whose keys are not known yet: for the case that some part lists
    # ids, and for the case that no part does. A hash is None in a case that this part rules out,
    # because it has no ids or lists some.
    hashes: tuple[SequenceHashes | None, SequenceHashes | None] | None = None

    def with_keys(self, keys: np.ndarray | None) -> EncodedPart:
        """Return the part with keys of the training sequences in place of their hashes."""
        if keys is None:
            return self
        return EncodedPart(replace(self.training, keys=keys), self.held_out)


@dataclass(frozen=True)
class ListedPositions:
    """Positions of examples: what trees test at them."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8 (n_positions,): number of labels that define the context
    # uint8 (order, n_positions): the label at each lag, if a position has one context only.
    given: np.ndarray | None
