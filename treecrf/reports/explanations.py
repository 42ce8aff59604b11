"""Exact contributions to the scores at the positions where a model is most wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inspection.explanation import Explanation, explained_rows
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.reports.evaluation import UNKNOWN, Data, Predictions

# Contributions that are listed; the others are added up.
N_LISTED = 10
# Explained positions of one sequence, so that one bad sequence does not take all of them.
MAX_PER_SEQUENCE = 10


def chosen_rows(data: Data, predictions: Predictions, n: int) -> np.ndarray:
    """Return the rows to explain: the greatest losses, or the least certain rows without labels."""
    if data.true is None:
        badness = 1 - predictions.proba.max(axis=1)
    else:
        is_wrong = (data.true != predictions.codes) & (data.true != UNKNOWN)
        badness = np.where(is_wrong, 1.0, 0.0) + predictions.log_losses(data.true)
    n_sequences = len(data.offsets) - 1
    sequences = np.repeat(np.arange(n_sequences), np.diff(data.offsets))
    chosen: list[int] = []
    counts = np.zeros(n_sequences, dtype=int)
    for row in np.argsort(-badness, kind="stable").tolist():
        if len(chosen) == n:
            break
        if counts[sequences[row]] < MAX_PER_SEQUENCE:
            counts[sequences[row]] += 1
            chosen.append(row)
    return np.array(chosen, dtype=int)


def explanations(
    model: SequenceClassifier, data: Data, predictions: Predictions, n: int
) -> dict[str, Any] | None:
    """Explain the predicted label against the true one, or against the second most probable one.

    Returns None for a single label, and for models whose scores are not sums over features.
    """
    if predictions.proba.shape[1] < 2:
        return None
    rows = chosen_rows(data, predictions, n)
    try:
        found = explained_rows(model, data.sequences, predictions.codes, rows)
    except TypeError:
        return None
    return {
        str(row): _difference(explanation, *_compared(row, data, predictions))
        for row, explanation in zip(rows.tolist(), found, strict=True)
    }


def _compared(row: int, data: Data, predictions: Predictions) -> tuple[int, int]:
    """Return the codes of the predicted label and of the one that it is compared with."""
    predicted = int(predictions.codes[row])
    if data.true is not None and data.true[row] not in (UNKNOWN, predicted):
        return predicted, int(data.true[row])
    others = predictions.proba[row].copy()
    others[predicted] = -1
    return predicted, int(others.argmax())


def _difference(explanation: Explanation, first: int, second: int) -> dict[str, Any]:
    """Return the contributions to the score of one label minus those to the score of another."""
    values = explanation.values[first] - explanation.values[second]
    base = explanation.base_values[first] - explanation.base_values[second]
    order = np.argsort(-np.abs(values), kind="stable")
    listed = [k for k in order[:N_LISTED].tolist() if values[k]]
    return {
        "labels": [first, second],
        "base": round(float(base), 4),
        "items": [[str(explanation.descriptions[k]), round(float(values[k]), 4)] for k in listed],
        "others": round(float(values.sum() - values[listed].sum()), 4),
    }
