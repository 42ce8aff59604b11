"""Two models on the same data."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inspection.fitted import check_model
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.metrics import mcnemar_test
from treecrf.reports.evaluation import UNKNOWN, Data, Predictions
from treecrf.reports.scores import SequenceCounts, difference_with_interval
from treecrf.reports.timelines import packed_codes

# Sequences that are listed, those where the numbers of right labels differ the most.
N_LISTED = 20


def check_other(model: SequenceClassifier, other: Any, data: Data) -> None:
    """Raise an error unless the second model can be compared with the first one."""
    check_model(other, "other")
    if data.true is None:
        raise ValueError("other is given without labels; models are compared on labeled data")
    if other.classes_.tolist() != model.classes_.tolist():
        raise ValueError(
            f"the labels of other are {other.classes_.tolist()}; expected those of model, "
            f"{model.classes_.tolist()}"
        )


def comparison(
    other: SequenceClassifier,
    data: Data,
    predictions: Predictions,
    counts: SequenceCounts,
    weights: np.ndarray,
) -> dict[str, Any]:
    """Compare the predictions and the counts of a model with those of another one.

    Both models passed `check_other`; the weights are those of `resampling_weights`.
    """
    second = Predictions.of(other, data.sequences)
    second_counts = SequenceCounts.of(data, second)
    is_known = data.true != UNKNOWN
    test = mcnemar_test(data.true[is_known], predictions.codes[is_known], second.codes[is_known])
    gains = second_counts.right.sum(axis=1) - counts.right.sum(axis=1)
    order = np.argsort(-np.abs(gains), kind="stable")[:N_LISTED]
    return {
        "class": type(other).__name__,
        "differences": difference_with_interval(counts, second_counts, weights),
        "mcnemar": {"table": test.table.tolist(), "pvalue": float(test.pvalue)},
        "sequences": [[int(i), int(gains[i])] for i in order if gains[i]],
        "predicted": packed_codes(second.codes, len(other.classes_)),
    }
