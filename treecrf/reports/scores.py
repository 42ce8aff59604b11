"""Scores with intervals, and tables of where a model is right."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.offsets import positions_in_sequences
from treecrf.reports.evaluation import UNKNOWN, Data, Predictions

N_RESAMPLES = 1000
CONFIDENCE = 0.95
N_BINS = 10
# Upper ends of the lengths of segments, and of the distances to a change of label, both inclusive.
LENGTHS = (1, 2, 5, 10, 20, 50, 100)
DISTANCES = (1, 2, 5, 10, 20)


class SequenceCounts:
    """Counts of each sequence, from which scores of all sequences or of resamples follow.

    Parameters
    ----------
    true, predicted : int array (n_positions,)
    losses : float array (n_positions,)
        Minus the logarithm of the probability of the true label.
    offsets : int array (n_sequences + 1,)
    n_labels : int
    """

    def __init__(
        self,
        true: np.ndarray,
        predicted: np.ndarray,
        losses: np.ndarray,
        offsets: np.ndarray,
        n_labels: int,
    ):
        sequence, _ = _places(offsets)
        is_known = true != UNKNOWN
        shape = (len(offsets) - 1, n_labels)

        def count(labels: np.ndarray, chosen: np.ndarray) -> np.ndarray:
            cells = sequence[chosen] * n_labels + labels[chosen]
            return np.bincount(cells, minlength=shape[0] * n_labels).reshape(shape).astype(float)

        self.true = count(true, is_known)
        self.predicted = count(predicted, is_known)
        self.right = count(true, is_known & (true == predicted))
        self.loss = np.bincount(sequence, losses, minlength=shape[0])
        self.is_whole = np.where(
            self.true.sum(axis=1) > 0, self.right.sum(1) == self.true.sum(1), 0
        )
        self.is_labeled = (self.true.sum(axis=1) > 0).astype(float)

    @classmethod
    def of(cls, data: Data, predictions: Predictions) -> SequenceCounts:
        """Count the predictions for labeled sequences."""
        losses = predictions.log_losses(data.true)
        n_labels = predictions.proba.shape[1]
        return cls(data.true, predictions.codes, losses, data.offsets, n_labels)

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Return scores for rows of weights of the sequences, array (n_rows, n_sequences)."""
        right, true, predicted = (
            weights @ table for table in (self.right, self.true, self.predicted)
        )
        n = np.maximum(true.sum(axis=1), 1)
        f1 = 2 * right / np.maximum(true + predicted, 1)
        is_present = true + predicted > 0
        return {
            "accuracy": right.sum(axis=1) / n,
            "macro F1": (f1 * is_present).sum(axis=1) / np.maximum(is_present.sum(axis=1), 1),
            "log loss": weights @ self.loss / n,
            "whole sequences": weights @ self.is_whole / np.maximum(weights @ self.is_labeled, 1),
        }


def resampling_weights(n_sequences: int) -> np.ndarray:
    """Return how often each sequence is drawn; array (`N_RESAMPLES`, n_sequences)."""
    rng = np.random.default_rng(0)
    weights = np.empty((N_RESAMPLES, n_sequences))
    for row in weights:
        row[:] = np.bincount(rng.integers(n_sequences, size=n_sequences), minlength=n_sequences)
    return weights


def scores_with_intervals(counts: SequenceCounts, weights: np.ndarray) -> list[dict[str, Any]]:
    """Return the name, the value and the interval of each score; no interval for one sequence."""
    whole = counts.scores(np.ones((1, weights.shape[1])))
    resampled = counts.scores(weights)
    return [
        {"name": name, "value": float(value[0]), "interval": _interval(resampled[name], weights)}
        for name, value in whole.items()
    ]


def difference_with_interval(
    first: SequenceCounts, second: SequenceCounts, weights: np.ndarray
) -> list[dict[str, Any]]:
    """Return the scores of the second model minus those of the first, on the same resamples."""
    ones = np.ones((1, weights.shape[1]))
    before = first.scores(ones)
    after = second.scores(ones)
    resampled = [counts.scores(weights) for counts in (first, second)]
    return [
        {
            "name": name,
            "value": float(after[name][0] - before[name][0]),
            "interval": _interval(resampled[1][name] - resampled[0][name], weights),
        }
        for name in before
    ]


def _interval(values: np.ndarray, weights: np.ndarray) -> list[float] | None:
    """Return the quantiles of resampled values, or None if all resamples are the same."""
    if weights.shape[1] < 2:
        return None
    tail = (1 - CONFIDENCE) / 2
    return np.quantile(values, [tail, 1 - tail]).tolist()


def confusion_table(true: np.ndarray, predicted: np.ndarray, n_labels: int) -> np.ndarray:
    """Count positions by true label, in rows, and by predicted label."""
    is_known = true != UNKNOWN
    cells = true[is_known] * n_labels + predicted[is_known]
    return np.bincount(cells, minlength=n_labels**2).reshape(n_labels, n_labels)


def label_scores(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """Return precision, recall and F1 of each label; NaN where a label never occurs."""
    right = np.diag(confusion).astype(float)
    true = confusion.sum(axis=1)
    predicted = confusion.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "precision": right / predicted,
            "recall": right / true,
            "f1": 2 * right / (true + predicted),
        }


def calibration_table(true: np.ndarray, predictions: Predictions) -> list[dict[str, float]]:
    """Compare the probability of the most probable label with how often it is the true one."""
    is_known = true != UNKNOWN
    best = predictions.proba[is_known].argmax(axis=1)
    confidence = predictions.proba[is_known].max(axis=1)
    is_right = best == true[is_known]
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    return [
        {
            "predicted": float(confidence[bins == b].mean()),
            "observed": float(is_right[bins == b].mean()),
            "n": int(np.sum(bins == b)),
        }
        for b in np.unique(bins)
    ]


def accuracy_by_segment_length(
    true: np.ndarray, predicted: np.ndarray, offsets: np.ndarray
) -> list[dict[str, Any]]:
    """Return the accuracy at the positions of true segments, by their length."""
    starts = _segment_starts(true, offsets)
    lengths = np.diff(np.append(starts, len(true)))
    return _by_size(np.repeat(lengths, lengths), LENGTHS, true, predicted)


def accuracy_near_boundaries(
    true: np.ndarray, predicted: np.ndarray, offsets: np.ndarray
) -> list[dict[str, Any]]:
    """Return the accuracy by the distance from a change of the true label: 1 is next to it."""
    n = len(true)
    positions = np.arange(n)
    starts = _segment_starts(true, offsets)
    changes = starts[~np.isin(starts, offsets)]
    if not len(changes):
        return []
    sequence, _ = _places(offsets)
    distances = np.full(n, n + 1)
    after = np.searchsorted(changes, positions, side="right") - 1
    has_after = (after >= 0) & (sequence[changes[np.maximum(after, 0)]] == sequence)
    distances[has_after] = positions[has_after] - changes[after[has_after]] + 1
    before = np.searchsorted(changes, positions, side="right")
    next_change = changes[np.minimum(before, len(changes) - 1)]
    has_before = (before < len(changes)) & (sequence[next_change] == sequence)
    distances[has_before] = np.minimum(
        distances[has_before], next_change[has_before] - positions[has_before]
    )
    return _by_size(distances, DISTANCES, true, predicted)


def count_changes(codes: np.ndarray, offsets: np.ndarray) -> int:
    """Count the changes of label within sequences."""
    return len(_segment_starts(codes, offsets)) - int(np.sum(np.diff(offsets) > 0))


def _by_size(
    sizes: np.ndarray, ends: tuple[int, ...], true: np.ndarray, predicted: np.ndarray
) -> list[dict[str, Any]]:
    """Return the accuracy of known labels in ranges of sizes."""
    is_known = true != UNKNOWN
    ranges = np.searchsorted(ends, sizes)
    names = [_range_name(k, ends) for k in range(len(ends) + 1)]
    table = []
    for k in np.unique(ranges[is_known]):
        chosen = is_known & (ranges == k)
        accuracy = float(np.mean(true[chosen] == predicted[chosen]))
        table.append({"name": names[k], "n": int(chosen.sum()), "accuracy": accuracy})
    return table


def _range_name(k: int, ends: tuple[int, ...]) -> str:
    low = ends[k - 1] + 1 if k else 1
    if k == len(ends):
        return f"{low} or more"
    return str(low) if low == ends[k] else f"{low} to {ends[k]}"


def _segment_starts(codes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the first position of each run of one label in a sequence."""
    is_start = np.append(True, codes[1:] != codes[:-1])
    is_start[offsets[:-1][np.diff(offsets) > 0]] = True
    return np.flatnonzero(is_start)


def _places(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sequence of each position, and its place there."""
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return sequence, positions_in_sequences(offsets)
