"""The sequences of a report: labels, probabilities and texts of all positions, in little room."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from treecrf.reports.evaluation import UNKNOWN, Data, Predictions

# Probabilities that are stored for each position, the largest ones.
N_STORED = 3


def packed_positions(data: Data, predictions: Predictions) -> dict[str, Any]:
    """Store codes in one or two bytes each, and the largest probabilities in steps of 1/255."""
    n_labels = predictions.proba.shape[1]
    n_stored = min(N_STORED, n_labels)
    order = np.argsort(-predictions.proba, axis=1, kind="stable")[:, :n_stored]
    largest = np.take_along_axis(predictions.proba, order, axis=1)
    numbers = [str(i) for i in range(len(data.names))]
    packed = {
        "offsets": data.offsets.tolist(),
        "names": None if data.names == numbers else data.names,
        "code_bytes": _code_type(n_labels).itemsize,
        "predicted": packed_codes(predictions.codes, n_labels),
        "labels": packed_codes(order, n_labels),
        "shares": _base64(np.rint(255 * largest), np.uint8),
        "n_stored": n_stored,
    }
    if data.true is not None:
        packed["true"] = packed_codes(data.true, n_labels)
    if data.texts is not None:
        packed["texts"] = data.texts
    return packed


def packed_codes(codes: np.ndarray, n_labels: int) -> str:
    """Store codes of labels, or `UNKNOWN`."""
    return _base64(codes, _code_type(n_labels))


def _code_type(n_labels: int) -> np.dtype:
    """Return the smallest type of integers that has room for all codes."""
    return np.dtype(np.int8 if n_labels <= np.iinfo(np.int8).max else np.int16)


def _base64(values: np.ndarray, dtype: np.dtype | type) -> str:
    """Encode an array in base64, with the least significant byte of each number first."""
    little = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(values, dtype=little).tobytes()).decode("ascii")


def sequence_summaries(data: Data, predictions: Predictions) -> list[list[int]]:
    """Return the index, the labeled and the wrong positions of each sequence, the worst first.

    With labels, these are the sequences with the largest mean log loss, and otherwise those whose
    most probable labels have the smallest mean probability.
    """
    if data.true is None:
        badness = 1 - predictions.proba.max(axis=1)
        counted = np.ones(len(badness), dtype=bool)
        is_known = np.zeros(len(badness), dtype=bool)
        is_wrong = is_known
    else:
        badness = predictions.log_losses(data.true)
        counted = is_known = data.true != UNKNOWN
        is_wrong = is_known & (data.true != predictions.codes)
    n_counted, n_known, n_wrong, total = (
        np.add.reduceat(values.astype(float), data.offsets[:-1])
        for values in (counted, is_known, is_wrong, badness)
    )
    order = np.argsort(-total / np.maximum(n_counted, 1), kind="stable")
    return np.column_stack([order, n_known[order], n_wrong[order]]).astype(int).tolist()
