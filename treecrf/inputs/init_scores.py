"""Scores of labels to which the scores of a model are added: checked against the sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.offsets import position_name
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import as_list
from treecrf.utils.exact import rounded_leaves

# Larger scores would leave too little room for those of the model.
MAX_INIT_SCORE = 1000.0


def as_init_scores(
    init_score: Any, n_labels: int, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray:
    """Return the scores of all positions, multiples of ``LEAF_UNIT``.

    Parameters
    ----------
    init_score : list of array-likes of shape (n_positions, n_labels)
        For a long table, one array of all positions.
    n_labels : int
    offsets : int64 array (n_sequences + 1,)
    segmentation : Segmentation

    Returns
    -------
    float64 array (n_positions, n_labels)

    Raises
    ------
    ValueError, TypeError
        If the number of sequences, a shape or a score is not valid. The message names the sequence.
    """
    if segmentation.is_long:
        scores = _table(init_score, "init_score", int(offsets[-1]), n_labels)
    else:
        expected = "arrays of shape (n_positions, n_classes), one per sequence"
        items, lengths = as_list(init_score, "init_score", expected), np.diff(offsets)
        if len(items) != len(lengths):
            raise ValueError(f"X has {len(lengths)} sequences, init_score has {len(items)}")
        tables = [
            _table(item, f"init_score: sequence {i}", int(length), n_labels)
            for i, (item, length) in enumerate(zip(items, lengths, strict=True))
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
