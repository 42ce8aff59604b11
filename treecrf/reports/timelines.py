"""The sequences of a report: labels, probabilities and texts of all positions, in little room."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from treecrf.reports.evaluation import UNKNOWN, Data, Predictions

# Probabilities that are stored for each position, the largest ones.
N_STORED = 3


def packed_positions(data: Data, predictions: Predictions) -> dict[str, Any]:
    """Store codes as integers of 16 bits, and the largest probabilities in steps of 1/255."""
    n_stored = min(N_STORED, predictions.proba.shape[1])
    order = np.argsort(-predictions.proba, axis=1, kind="stable")[:, :n_stored]
    largest = np.take_along_axis(predictions.proba, order, axis=1)
    packed = {
        "offsets": data.offsets.tolist(),
        "names": data.names,
        "predicted": _base64(predictions.codes, np.int16),
        "labels": _base64(order, np.int16),
        "shares": _base64(np.rint(255 * largest), np.uint8),
        "n_stored": n_stored,
    }
    if data.true is not None:
        packed["true"] = _base64(data.true, np.int16)
    if data.texts is not None:
        packed["texts"] = data.texts
    return packed


def packed_codes(codes: np.ndarray) -> str:
    """Store the codes of the labels that another model predicts."""
    return _base64(codes, np.int16)


def _base64(values: np.ndarray, dtype: type) -> str:
    """Encode an array in base64, with the least significant byte of each number first."""
    little = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(values, dtype=little).tobytes()).decode("ascii")


def sequence_summaries(data: Data, predictions: Predictions) -> list[dict[str, Any]]:
    """Return what the list of sequences shows, the worst first.

    With labels, these are the sequences with the largest mean log loss, and otherwise those whose
    most probable labels have the smallest mean probability.
    """
    if data.true is None:
        badness = 1 - predictions.proba.max(axis=1)
        is_known = np.ones(len(badness), dtype=bool)
        wrong = np.zeros(len(badness), dtype=bool)
    else:
        badness = predictions.log_losses(data.true)
        is_known = data.true != UNKNOWN
        wrong = is_known & (data.true != predictions.codes)
    summaries = []
    for i, (first, last) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        n_known = int(is_known[first:last].sum())
        summaries.append(
            {
                "index": i,
                "n": int(last - first),
                "wrong": int(wrong[first:last].sum()),
                "badness": float(badness[first:last].sum() / max(n_known, 1)),
            }
        )
    return sorted(summaries, key=lambda summary: -summary["badness"])
