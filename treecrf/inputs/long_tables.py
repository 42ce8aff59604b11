"""Conversion between one long table and a list of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.arrays import describe
from treecrf.inputs.frames import column_of, rows_of
from treecrf.inputs.grouped import label_column
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import is_frame


def split(
    X: Any, y: Any = None, *, lengths: Any = None, groups: Any = None
) -> tuple[list, list | None]:
    """Split a long table into a list of sequences, and its labels into a list of label sequences.

    All estimators accept a long table itself. A list is what tools need that treat the items of X
    as samples, such as the splitters of scikit-learn without groups.

    Parameters
    ----------
    X : data frame, array, sparse matrix, list or str
        One long table of all sequences, one after another, in any form that estimators accept.
    y : array-like of shape (n_positions,) or str, optional
        Labels of all positions, or the name of the data frame column with the labels.
    lengths : array-like of shape (n_sequences,), optional
        Number of positions of each sequence.
    groups : array-like of shape (n_positions,) or str, optional
        Sequence that each position belongs to, or the name of the data frame column with this
        information. The positions of a sequence must be consecutive.

    Returns
    -------
    X : list
        The sequences, in the order of the table. Data frames remain data frames, without the
        columns of groups and of labels.
    y : list or None
        Their labels; None without y.

    Raises
    ------
    ValueError, TypeError
        If neither or both of ``lengths`` and ``groups`` are given, they do not match X, or y has
        another number of positions.

    Examples
    --------
    >>> import pandas as pd
    >>> import treecrf
    >>> table = pd.DataFrame({"day": [1, 1, 2, 2, 2], "light": [0, 9, 0, 8, 9]})
    >>> X, y = treecrf.split(table, list("nynyy"), groups="day")
    >>> X[1]
       light
    2      0
    3      8
    4      9
    >>> y
    [['n', 'y'], ['n', 'y', 'y']]
    """
    segmentation = Segmentation(lengths, groups)
    if not segmentation.is_long:
        raise TypeError("neither lengths nor groups is given; expected one of them")
    if isinstance(y, str):
        X, y = label_column(X, y, is_long=True)
    name = segmentation.column
    values = None if name is None else column_of(X, name)
    table = _sliceable(X)
    offsets = segmentation.offsets(
        table.shape[0] if hasattr(table, "shape") else len(table), values
    )
    bounds = list(pairwise(offsets.tolist()))
    sequences = rows_of(X, bounds, name) if is_frame(X) else [table[i:j] for i, j in bounds]
    return sequences, None if y is None else segmentation.split(_sliceable(y), offsets, "y")


def _sliceable(items: Any) -> Any:
    """Return a long table, or its labels, in a form of which slices are sequences."""
    if sparse.issparse(items):
        return sparse.csr_array(items)
    if isinstance(items, (list, tuple, str, np.ndarray)) or is_frame(items):
        return items
    if isinstance(items, (Mapping, set, frozenset, bytes)) or not hasattr(items, "__len__"):
        raise TypeError(f"X is {describe(items)}; expected one long table of all sequences")
    return np.asarray(items, dtype=None if hasattr(items, "dtype") else object)
