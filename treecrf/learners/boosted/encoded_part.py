"""Labeled sequences of a partition in the form that training reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treecrf.chains.likelihood import ChainLabels
from treecrf.encoding.encoded import EncodedSequences, chained
from treecrf.inputs.offsets import joined_arrays
from treecrf.learners.base.training_data import LabeledSequences


@dataclass(frozen=True)
class EncodedPart:
    """Labeled sequences of a part in the form that training reads; there is at least one.

    Sequences have the direction of the chain. All parts have candidates and sample weights, or none
    has.
    """

    encoded: EncodedSequences
    labels: ChainLabels
    # Sample weights multiplied by class weights; None in validation data. If all are 1, the array
    # takes no memory and cannot be written to.
    position_weights: np.ndarray | None
    # Scores that the trees are added to, from the linear start and the user, as from
    # `linear_scores`; None stands for scores of 0.
    start_state: np.ndarray | None = None
    start_transitions: np.ndarray | None = None
    source: LabeledSequences | None = None  # before encoding; only if ``scoring`` predicts
    # uint64 (n_sequences,) from `sequence_keys`, all different, also from keys in other parts; for
    # random choices among training data only.
    keys: np.ndarray | None = None
    # int32 (n_labels,), see `TreeSettings`; also for random choices.
    label_ranks: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[EncodedPart]) -> EncodedPart:
        """Join the sequences of all parts in a copy, without their ``source``."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            chained([part.encoded for part in parts]),
            ChainLabels.joined([part.labels for part in parts]),
            _joined_weights([part.position_weights for part in parts]),
            joined_arrays(parts, "start_state", axis=1),
            parts[0].start_transitions,
            keys=joined_arrays(parts, "keys"),
            label_ranks=parts[0].label_ranks,
        )

    @property
    def weighs_sequences(self) -> bool:
        """Whether trees and the value of the objective have the same weights, of whole sequences.

        Only then, the trees follow the gradient of this value.
        """
        weights = self.position_weights
        values = self.labels.weights
        if values is None:
            return bool((weights == 1).all())
        first = values[self.encoded.offsets[:-1]]
        is_equal = values == np.repeat(first, np.diff(self.encoded.offsets))
        return bool((is_equal & (weights == values)).all())


def _joined_weights(weights: list[np.ndarray]) -> np.ndarray:
    """Join position weights; if all are 1, the result takes no memory."""
    if all((array == 1).all() for array in weights):
        return np.broadcast_to(np.ones(1), sum(map(len, weights)))
    return np.concatenate(weights)
