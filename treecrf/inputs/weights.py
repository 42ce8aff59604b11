"""Numbers for each position, checked against the sequences: sample weights and initial scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.offsets import Segmentation, position_name
from treecrf.inputs.values import as_list, find_missing, is_number, short_repr, stands_for_missing
from treecrf.utils.exact import rounded_leaves

# Weights are rounded to multiples of 2**-32, and sums of residuals must stay exact.
MAX_WEIGHT = 1e6
RANGE = f"0, or a number from {1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
# Larger initial scores would leave too little room for the scores of the model.
MAX_INIT_SCORE = 1000.0
ONLY_ZEROS = "sample_weight holds only zeros; expected at least one positive weight"
EXPECTED_WEIGHTS = "weights, one per sequence, or one array per sequence with a weight per position"


def as_weights(
    sample_weight: Any, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray | None:
    """Return the weight of each position, or None if all are 1; ValueError if all are 0."""
    weights = read_weights(sample_weight, offsets, segmentation)
    if weights is None:
        return None
    if not weights.any():
        raise ValueError(ONLY_ZEROS)
    return None if (weights == 1).all() else weights


def read_weights(
    sample_weight: Any, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray | None:
    """Return the weight of each position, even if all are 0 or 1; see `as_weights`."""
    if sample_weight is None:
        return None
    if segmentation.is_long:
        weights, per_sequence = _of_long_table(sample_weight, offsets)
    else:
        weights, per_sequence = _of_list(sample_weight, offsets)
    valid = (weights == 0) | ((weights >= 1 / MAX_WEIGHT) & (weights <= MAX_WEIGHT))
    if not valid.all():
        i = int(np.argmin(valid))
        where = f"sequence {i}" if per_sequence else position_name(i, offsets)
        raise ValueError(f"sample_weight: {where} has weight {weights[i]}; expected {RANGE}")
    return np.repeat(weights, np.diff(offsets)) if per_sequence else weights


def _of_long_table(sample_weight: Any, offsets: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the weights, and whether there is one per sequence."""
    if not hasattr(sample_weight, "dtype"):
        sample_weight = as_list(sample_weight, "sample_weight", "weights")
    weights = _numbers(sample_weight, "sample_weight")
    n_sequences, n_positions = len(offsets) - 1, int(offsets[-1])
    if len(weights) not in (n_sequences, n_positions):
        raise ValueError(
            f"X has {n_sequences} sequences with {n_positions} positions, sample_weight has "
            f"{len(weights)} weights; expected one per sequence or one per position"
        )
    return weights, len(weights) == n_sequences


def _of_list(sample_weight: Any, offsets: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the weights, and whether there is one per sequence."""
    lengths = np.diff(offsets)
    is_flat = hasattr(sample_weight, "dtype") and np.ndim(sample_weight) == 1
    is_flat = is_flat and sample_weight.dtype.kind in "biuf"
    items = sample_weight if is_flat else as_list(sample_weight, "sample_weight", EXPECTED_WEIGHTS)
    if len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, sample_weight has {len(items)}")
    is_array = [] if is_flat else [np.ndim(item) > 0 for item in items]
    if not any(is_array):
        return _numbers(items, "sample_weight"), True
    if not all(is_array):
        i = is_array.index(False)
        raise TypeError(
            f"sample_weight: sequence {i} has one weight, and sequence {is_array.index(True)} a "
            f"list of weights; expected {EXPECTED_WEIGHTS}"
        )
    arrays = [_numbers(item, f"sample_weight: sequence {i}") for i, item in enumerate(items)]
    for i, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if len(array) != length:
            raise ValueError(
                f"sample_weight: sequence {i} has {len(array)} weights for {length} positions"
            )
    return np.concatenate(arrays), False


def _numbers(items: Any, where: str) -> np.ndarray:
    """Convert weights to a 1-D array of floats; missing ones become NaN."""
    array = np.asarray(items, dtype=None if hasattr(items, "dtype") else object)
    if array.ndim != 1:
        raise TypeError(f"{where} has {array.ndim} dimensions; expected 1")
    for item in array.tolist() if array.dtype.kind not in "biuf" else ():
        if not is_number(type(item)) and not stands_for_missing(type(item)):
            raise TypeError(f"{where} holds {short_repr(item)}; expected numbers")
    missing = find_missing(array.tolist()) if array.dtype.kind == "O" else None
    if missing is not None:
        array = np.where(missing, np.nan, array)
    return array.astype(np.float64) + 0.0  # no negative zeros


def as_init_scores(
    init_score: Any, n_labels: int, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray:
    """Return the initial scores, float64 (n_positions, n_labels), multiples of ``LEAF_UNIT``."""
    if segmentation.is_long:
        scores = _table(init_score, "init_score", int(offsets[-1]), n_labels)
    else:
        expected = "arrays of shape (n_positions, n_classes), one per sequence"
        items = segmentation.items(init_score, offsets, "init_score", expected)
        tables = [
            _table(item, f"init_score: sequence {i}", int(length), n_labels)
            for i, (item, length) in enumerate(zip(items, np.diff(offsets), strict=True))
        ]
        scores = np.concatenate(tables)
    invalid = ~(np.abs(scores) <= MAX_INIT_SCORE)
    if invalid.any():
        t, k = np.argwhere(invalid)[0]
        raise ValueError(
            f"init_score: {position_name(int(t), offsets)} has the score {scores[t, k]}; expected "
            f"numbers from {-MAX_INIT_SCORE:g} to {MAX_INIT_SCORE:g}"
        )
    return rounded_leaves(scores)


def _table(item: Any, where: str, n_positions: int, n_labels: int) -> np.ndarray:
    """Convert the scores of a sequence to floats."""
    try:
        table = np.asarray(item, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} is not numeric; expected an array of numbers") from None
    if n_positions == 0 and table.shape == (0,):
        table = table.reshape(0, n_labels)
    if table.shape != (n_positions, n_labels):
        raise ValueError(f"{where} has shape {table.shape}; expected ({n_positions}, {n_labels})")
    return table
