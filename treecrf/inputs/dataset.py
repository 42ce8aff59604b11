"""Training data as passed by the user, and long tables as lists of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.arrays import describe
from treecrf.inputs.data_warnings import warn_of_columns, warn_of_columns_in_use, warn_of_index
from treecrf.inputs.frames import as_groups, column_of, label_column, rows_of, segmentation_of
from treecrf.inputs.labels import Labels, as_labels
from treecrf.inputs.reading import as_sequences
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import is_frame, require_different_names
from treecrf.inputs.weights import as_weights
from treecrf.utils.checks import require


@dataclass(frozen=True)
class ColumnNames:
    """Names of the columns of a table that hold the labels and the groups, if they have names.

    The groups may also be several columns, or levels of the index.
    """

    label: str | None = None
    group: str | tuple[str, ...] | None = None

    @property
    def names(self) -> set[str]:
        """All names."""
        groups = [self.group] if isinstance(self.group, str) else self.group or ()
        return {*groups, *([] if self.label is None else [self.label])}

    @classmethod
    def of_values(cls, values: Any) -> ColumnNames:
        """Restore the names from a saved model; raises ValueError if they are not valid."""
        require(isinstance(values, dict) and values.keys() <= {"label", "group"}, "column names")
        group = values.get("group")
        names = cls(values.get("label"), tuple(group) if isinstance(group, list) else group)
        require(isinstance(names.group, (str, tuple, type(None))), "column names")
        require(all(isinstance(name, str) for name in names.names), "column names")
        return names


# Labels and groups that have no names.
NO_NAMES = ColumnNames()


@dataclass(frozen=True)
class RawData:
    """Sequences and labels as passed by the user, with the other arguments of `fit`.

    ``place`` names a part of the data in error messages, such as a file; "" stands for all data.
    """

    X: Any
    y: Any
    segmentation: Segmentation
    sample_weight: Any = None
    init_score: Any = None
    place: str = ""

    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> tuple[Sequences, Labels]:
        """Check and convert both; see `as_sequences` and `as_labels`."""
        raw = self.resolved()
        sequences = as_sequences(raw.X, schema, raw.segmentation, categorical_features)
        if sequences.of_symbols and not len(sequences.symbols()):
            raise ValueError("all symbols of X are missing")
        if schema is None and not isinstance(raw.X, Sequences):
            warn_of_columns(sequences, categorical_features)
            warn_of_columns_in_use(raw.X, {"y": raw.y, "groups": raw.segmentation.groups})
        return sequences, as_labels(raw.y, sequences.offsets, raw.segmentation)

    def resolved(self) -> RawData:
        """Return the same data with grouped data frames as lists, and labels instead of a name.

        A string as ``y`` names the column of data frames that holds the labels. ValueError if there
        is no such column, or it also holds the groups.
        """
        if isinstance(self.y, str):
            for name in self.segmentation.group_columns:
                require_different_names({"y": self.y, "groups": name})
        X, y = as_groups(self.X, "X"), as_groups(self.y, "y")
        warn_of_index(X, {"y": y, "groups": self.segmentation.groups})
        if isinstance(y, str):
            X, y = label_column(X, y, self.segmentation.is_long)
        return replace(self, X=X, y=y)

    @property
    def columns(self) -> ColumnNames:
        """The names of the labels and the groups, if they have names."""
        label = self.y if isinstance(self.y, str) else getattr(self.y, "name", None)
        return ColumnNames(label if isinstance(label, str) else None, self.segmentation.group_names)

    def weights(self, offsets: np.ndarray) -> np.ndarray | None:
        """Return the weight of each position; see `as_weights`."""
        if self.sample_weight is None:
            return None
        return as_weights(self.sample_weight, offsets, self.segmentation)


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
        information, or a list of names of columns. The positions of a sequence must be consecutive.

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
    segmentation = segmentation_of(X, lengths, groups)
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
    sequences = (
        rows_of(X, bounds, segmentation.group_columns)
        if is_frame(X)
        else [table[i:j] for i, j in bounds]
    )
    return sequences, None if y is None else segmentation.split(_sliceable(y), offsets, "y")


def _sliceable(items: Any) -> Any:
    """Return a long table, or its labels, in a form whose slices are sequences."""
    if sparse.issparse(items):
        return sparse.csr_array(items)
    if isinstance(items, (list, tuple, str, np.ndarray)) or is_frame(items):
        return items
    if isinstance(items, (Mapping, set, frozenset, bytes)) or not hasattr(items, "__len__"):
        raise TypeError(f"X is {describe(items)}; expected one long table of all sequences")
    return np.asarray(items, dtype=None if hasattr(items, "dtype") else object)
