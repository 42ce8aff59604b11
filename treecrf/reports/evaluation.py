"""What a model predicts for sequences, beside their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.dataset import RawData
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import check_model, group_values
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.reports.texts import texts_of
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike

UNKNOWN = -1


def checked_sequences(
    model: Any, X: SequencesLike, lengths: LengthsLike, groups: GroupsLike
) -> Sequences:
    """Read sequences as the model's ``predict`` does."""
    check_model(model)
    predictor = fitted_model(model).predictor
    segmentation = predictor.segmentation(X, lengths, groups, may_be_empty=False)
    return predictor.sequences(X, segmentation)


@dataclass(frozen=True)
class Data:
    """Sequences of the user that were checked against a model, with their names and labels."""

    sequences: Sequences
    # Names of the sequences: groups of a long table, or numbers.
    names: list[str]
    # Codes of the labels, `UNKNOWN` where there is none; None without a known label.
    true: np.ndarray | None
    # Texts of the positions; None without.
    texts: list[str] | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: SequencesLike,
        y: LabelsLike | None,
        lengths: LengthsLike,
        groups: GroupsLike,
        symbols: Any = None,
    ) -> Data:
        """Read the data as the model's ``predict`` or ``score`` does."""
        check_model(model)
        predictor = fitted_model(model).predictor
        segmentation = predictor.segmentation(X, lengths, groups, may_be_empty=False)
        if y is None:
            sequences = predictor.sequences(X, segmentation)
            true = None
        else:
            raw = RawData(X, y, segmentation).resolved()
            sequences, labels = predictor.read_labeled(raw)
            codes, _ = labels.encoded(model.classes_)
            true = None
            if labels.known.any():
                true = np.where(labels.known, codes, UNKNOWN).astype(np.int32)
        names = _names(X, segmentation, sequences.offsets)
        return cls(sequences, names, true, texts_of(X, symbols, sequences))

    @property
    def offsets(self) -> np.ndarray:
        """The first position of each sequence, and the number of positions."""
        return self.sequences.offsets


def _names(X: Any, segmentation: Segmentation, offsets: np.ndarray) -> list[str]:
    """Return the groups of a long table, or the numbers of the sequences."""
    if segmentation.is_long and segmentation.groups is not None:
        groups = group_values(X, segmentation)
        return [str(groups[start]) for start in offsets[:-1]]
    return [str(i) for i in range(len(offsets) - 1)]


@dataclass(frozen=True)
class Predictions:
    """Predicted labels and probabilities of all positions."""

    # Codes of the labels that ``predict`` returns, array (n_positions,).
    codes: np.ndarray
    # Array (n_positions, n_labels).
    proba: np.ndarray

    @classmethod
    def of(cls, model: SequenceClassifier, sequences: Sequences) -> Predictions:
        """Predict, in the direction of the input."""
        return cls(
            encode_labels(model.predict(sequences), model.classes_),
            np.concatenate(model.predict_proba(sequences)),
        )

    def log_losses(self, true: np.ndarray) -> np.ndarray:
        """Return minus the logarithm of the probability of each known label, and 0 elsewhere."""
        rows = np.arange(len(true))
        probabilities = self.proba[rows, np.maximum(true, 0)]
        losses = -np.log(np.maximum(probabilities, np.finfo(float).tiny))
        return np.where(true == UNKNOWN, 0.0, losses)
