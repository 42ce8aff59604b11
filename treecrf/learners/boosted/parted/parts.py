"""Encoded parts of the training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoded import EncodedSequences, chained
from treecrf.inputs.sequences import Sequences


@dataclass(frozen=True)
class EncodedLabeled:
    """Labeled sequences of a part in the form that training reads.

    Sequences have the direction of the chain, and at least one of them is there.

    Attributes
    ----------
    encoded : EncodedSequences
    codes : int32 array (n_positions,)
        Labels of all positions, as indices into the sorted classes of all parts. Where labels are
        unknown, one of the possible label sequences.
    allowed : bool array (n_positions, n_labels) or None
        Labels that the model may choose from at each position; None if these are all labels.
    candidates : bool array (n_positions, n_labels) or None
        Labels among which the true one is; None if all labels are known in the part.
    weights : float64 array (n_positions,) or None
        Sample weight of each position; None if all are 1 in all parts.
    position_weights : float64 array (n_positions,)
        Sample weights multiplied by class weights. If all are 1, the array takes no memory and
        cannot be written to.
    keys : uint64 array (n_sequences,)
        Keys of `treecrf.encoding.sequence_keys.sequence_keys`, different from those of all other
        sequences in all parts.
    start_state : float64 array (n_labels, n_positions) or None
        Scores that the trees are added to: those of the linear start and those of the user. None
        stands for scores of 0.
    start_transitions : float64 array (n_labels + 1, n_labels) or None
        Scores of the linear start for label v after label u, in ``[u, v]``; the last row is for
        first positions. None stands for scores of 0.
    sequences : Sequences or None
        The sequences before they were encoded, where ``scoring`` needs predictions of them.
    """

    encoded: EncodedSequences
    codes: np.ndarray
    allowed: np.ndarray | None
    candidates: np.ndarray | None
    weights: np.ndarray | None
    position_weights: np.ndarray
    keys: np.ndarray
    start_state: np.ndarray | None = None
    start_transitions: np.ndarray | None = None
    sequences: Sequences | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Start of each sequence among the positions, and the end of the last."""
        return self.encoded.offsets

    @classmethod
    def joined(cls, parts: Sequence[EncodedLabeled], n_labels: int) -> EncodedLabeled:
        """Append the sequences of all parts in a copy, without those before they were encoded."""
        if len(parts) == 1:
            return parts[0]

        def join(name: str, default: Callable[[EncodedLabeled], np.ndarray]) -> np.ndarray | None:
            arrays = [getattr(part, name) for part in parts]
            if all(array is None for array in arrays):
                return None
            pairs = zip(parts, arrays, strict=True)
            return np.concatenate(
                [default(part) if array is None else array for part, array in pairs]
            )

        states = [part.start_state for part in parts]
        return cls(
            chained([part.encoded for part in parts]),
            np.concatenate([part.codes for part in parts]),
            join("allowed", lambda part: np.ones((len(part.codes), n_labels), dtype=bool)),
            join("candidates", lambda part: np.eye(n_labels, dtype=bool)[part.codes]),
            join("weights", lambda part: np.ones(len(part.codes))),
            _joined_weights([part.position_weights for part in parts]),
            np.concatenate([part.keys for part in parts]),
            None if states[0] is None else np.concatenate(states, axis=1),
            parts[0].start_transitions,
        )


def _joined_weights(weights: list[np.ndarray]) -> np.ndarray:
    """Join position weights; if all are 1, the result takes no memory."""
    if all((of_part == 1).all() for of_part in weights):
        return np.broadcast_to(np.ones(1), sum(map(len, weights)))
    return np.concatenate(weights)


@dataclass(frozen=True)
class EncodedPart:
    """A part of the data, ready for training.

    Attributes
    ----------
    training : EncodedLabeled or None
        None if no training sequence is in this part.
    held_out : EncodedLabeled or None
        Validation sequences; None if there are none in this part.
    """

    training: EncodedLabeled | None
    held_out: EncodedLabeled | None
