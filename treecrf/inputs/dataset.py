"""Data as passed by the user: their conversion, training data, and long tables as lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from treecrf.inputs._dicts import positions_of
from treecrf.inputs.arrays import read_arrays, read_plain, read_rows
from treecrf.inputs.column_names import ColumnNames
from treecrf.inputs.data_warnings import (
    warn_of_columns,
    warn_of_columns_in_use,
    warn_of_index,
    warn_of_keys,
    warn_of_places,
)
from treecrf.inputs.dicts import read_attributes, read_dicts
from treecrf.inputs.forms import (
    FORMS,
    are_dicts,
    describe,
    is_empty,
    is_frame,
)
from treecrf.inputs.frames import (
    as_groups,
    column_of,
    label_column,
    read_frames,
    rows_of,
    segmentation_of,
    split_column,
    values_of,
)
from treecrf.inputs.labels import Labels, as_labels, refuse_other_labels
from treecrf.inputs.offsets import position_name
from treecrf.inputs.paths import refuse_files
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import ListedSequences, Sequences
from treecrf.inputs.values import (
    as_list,
    find_missing,
    is_number,
    refuse_masked,
    require_different_names,
    short_repr,
    stands_for_missing,
)
from treecrf.utils.exact import rounded_leaves
from treecrf.utils.scipy_sparse import sparse

# How to use the tools of scikit-learn that take the items of X as samples.
SEARCHES = (
    "searches of scikit-learn do not pass groups on: give them treecrf.split(X, y, groups=...)"
)
# Weights are rounded to multiples of 2**-32, and sums of residuals must stay exact.
MAX_WEIGHT = 1e6
RANGE = f"0, or a number from {1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
# Larger initial scores would leave too little room for the scores of the model.
MAX_INIT_SCORE = 1000.0
ONLY_ZEROS = "sample_weight holds only zeros; expected at least one positive weight"
EXPECTED_WEIGHTS = "weights, one per sequence, or one array per sequence with a weight per position"


def as_sequences(
    X: Any,
    schema: InputSchema | None = None,
    segmentation: Segmentation | None = None,
    categorical_features: Any = "from_dtype",
) -> Sequences:
    """Check the sequences passed by the user, or one long table of all, and convert them.

    The schema of the training data defines the categories; without one, ``categorical_features``.
    """
    if isinstance(X, Sequences):
        if schema is None:
            return X
        return X.for_model(schema)
    segmentation = segmentation or Segmentation()
    X = as_groups(X, "X")
    if segmentation.is_long:
        refuse_files(X, are_characters=segmentation.column is None)
        items = [X]
    else:
        refuse_files(X)
        items = _listed(X, schema)
        plain = read_plain(items, schema, categorical_features)
        if plain is not None:
            return plain
    if segmentation.may_be_empty:
        present = np.array([not is_empty(item) for item in items], dtype=bool)
        if not present.any():
            return _without_positions(items, segmentation)
        if not present.all():
            items = [items[i] for i in np.flatnonzero(present)]
            segmentation = replace(segmentation, present=present)
    return _read_items(items, segmentation, schema, categorical_features)


def _read_items(
    items: list,
    segmentation: Segmentation,
    schema: InputSchema | None,
    categorical_features: Any,
) -> Sequences:
    """Read sequences, or one long table, in the form that they have."""
    arguments = (items, segmentation, schema, categorical_features)
    are_frames = [is_frame(item) for item in items]
    if any(are_frames):
        _refuse_other_forms(items, are_frames, "a data frame", segmentation)
        return read_frames(*arguments)
    have_dicts = [are_dicts(item) for item in items]
    if any(have_dicts):
        have_positions = [
            has_dict or positions_of([item]) is not None
            for item, has_dict in zip(items, have_dicts, strict=True)
        ]
        _refuse_other_forms(items, have_positions, "a list of dicts", segmentation)
        return read_dicts(*arguments)
    positions = positions_of(items)
    if positions is not None and _are_attributes(positions, schema, categorical_features):
        if schema is None and positions == "strings":
            warn_of_places(items)
        if positions == "dicts":
            return read_dicts(*arguments)
        return read_attributes(*arguments)
    if positions == "strings":
        rows = read_rows(items, segmentation, schema, categorical_features)
        if rows is not None:
            return rows
    return read_arrays(*arguments)


def _are_attributes(positions: str, schema: InputSchema | None, categorical: Any) -> bool:
    """Return whether positions that are lists are attributes, and not the rows of a table.

    They are attributes, as in CRFsuite, if the model was trained on some. In training, they are the
    rows of a table only if the user says which of its columns are categories.
    """
    if schema is not None:
        return schema.takes_attributes
    return positions != "strings" or isinstance(categorical, str)


def _refuse_other_forms(
    items: list, have_form: list[bool], form: str, segmentation: Segmentation
) -> None:
    """Raise ValueError if some sequences do not have the form of others; empty lists have none."""
    wheres = segmentation.item_names(len(items))
    for item, where, has_form in zip(items, wheres, have_form, strict=True):
        if not has_form and (not hasattr(item, "__len__") or len(item)):
            raise ValueError(
                f"{where} is {describe(item)}, {wheres[have_form.index(True)]} is {form}; "
                "expected sequences of the same form"
            )


def _without_positions(items: list, segmentation: Segmentation) -> ListedSequences:
    """Return empty sequences, which have no form that a model could refuse."""
    offsets = np.zeros(len(items) + 1, dtype=np.int64)
    if segmentation.is_long:
        groups = [] if segmentation.column and is_frame(items[0]) else None
        offsets = segmentation.offsets(0, groups)
    return ListedSequences(
        items=[""] * (len(offsets) - 1),
        form="symbols",
        offsets=offsets,
        n_features=1,
        dtype=np.dtype("U1"),
    )


def _listed_strings(X: np.ndarray, schema: InputSchema | None) -> list[str]:
    """Return strings that are sequences; TypeError if they may be the symbols of a single one."""
    strings = X.tolist()
    known = ()
    if schema is not None and schema.form == "symbols":
        known = schema.known_symbols
    has_words = any(isinstance(symbol, str) and len(symbol) > 1 for symbol in known)
    if not has_words and any(len(string) > 1 for string in strings):
        return strings
    raise TypeError(
        f"X is {describe(X)}, whose strings are symbols or sequences of characters; pass [X] and "
        "[y] for one sequence of symbols, X.tolist() for a list of strings, or lengths= or groups= "
        "for a long table of symbols"
    )


def _listed(X: Any, schema: InputSchema | None) -> list:
    """Return the items of a list of sequences; TypeError for other objects."""
    is_array = isinstance(X, np.ndarray)
    if is_array and X.ndim == 1 and X.dtype.kind in "UT":
        return _listed_strings(X, schema)
    if is_frame(X):
        raise TypeError(
            f"X is one {type(X).__name__}; for one sequence, pass [X] and [y]; for several, name "
            f"the column that separates them: groups='column'; {SEARCHES}"
        )
    is_flat = is_array and X.ndim < 3 and not (X.ndim == 1 and X.dtype == object)
    is_single = isinstance(X, (str, bytes, dict, set, frozenset)) or sparse.issparse(X)
    if is_flat or is_single:
        raise TypeError(
            f"X is {describe(X)}; expected a list of sequences: pass [X] and [y] for one sequence, "
            f"or lengths= or groups= for a long table; {SEARCHES}"
        )
    try:
        return list(X)
    except TypeError:
        raise TypeError(f"X is {describe(X)}; expected a list of sequences; {FORMS}") from None


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
    allowed: Any = None  # masks of the labels that are possible at the positions
    place: str = ""
    fold_groups: Any = None  # of the sequences; those of a group are held out together

    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> tuple[Sequences, Labels]:
        """Check and convert `resolved` data; see `as_sequences` and `as_labels`."""
        sequences = as_sequences(self.X, schema, self.segmentation, categorical_features)
        if sequences.are_symbols and not len(sequences.symbols()):
            raise ValueError("all symbols of X are missing")
        if schema is None and not isinstance(self.X, Sequences):
            warn_of_columns(sequences, categorical_features)
            warn_of_columns_in_use(self.X, {"y": self.y, "groups": self.segmentation.groups})
        if schema is not None:
            warn_of_keys(self.X, schema, self.columns.names, self.segmentation.is_long)
        return sequences, as_labels(self.y, sequences.offsets, self.segmentation)

    def resolved(self) -> RawData:
        """Return the same data with grouped data frames as lists, and values instead of names.

        Strings as ``y``, ``sample_weight`` and ``fold_groups`` name the columns of data frames that
        hold them. ValueError if there is no such column, or two arguments name the same.
        """
        arguments = {"y": self.y, "sample_weight": self.sample_weight}
        folds = self.fold_groups
        is_group = isinstance(folds, str) and folds in self.segmentation.names
        if not is_group:
            arguments["fold_groups"] = folds
        names = {argument: name for argument, name in arguments.items() if isinstance(name, str)}
        for group in (self.segmentation.group_columns or {None}) if names else ():
            require_different_names(names | {"groups": group})
        X = as_groups(self.X, "X")
        y = as_groups(self.y, "y")
        weight = self.sample_weight
        warn_of_index(X, {"y": y, "groups": self.segmentation.groups})
        if isinstance(y, str):
            X, y = label_column(X, y, self.segmentation.is_long)
        if isinstance(weight, str):
            X, weight = split_column(X, weight, "sample_weight")
        if is_group:  # one of several columns that define the sequences
            folds = values_of(X, folds)
        elif isinstance(folds, str):
            X, folds = split_column(X, folds, "fold_groups")
        return replace(self, X=X, y=y, sample_weight=weight, fold_groups=folds)

    @property
    def columns(self) -> ColumnNames:
        """The names of the columns that are not features, if they have names."""
        if isinstance(self.y, str):
            label = self.y
        else:
            label = getattr(self.y, "name", None)
        names = self.segmentation.names
        group = self.segmentation.column or (names[0] if len(names) == 1 else names or None)
        weight = None
        if isinstance(self.sample_weight, str):
            weight = self.sample_weight
        fold = None
        if isinstance(self.fold_groups, str):
            fold = self.fold_groups
        return ColumnNames(label if isinstance(label, str) else None, group, weight, fold)


@contextmanager
def named(place: str) -> Iterator[None]:
    """Put the place of a part before the messages of errors in its values."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not place:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}: {error}") from error


def split(
    X: Any, y: Any = None, *, lengths: Any = None, groups: Any = None
) -> tuple[list, list | None]:
    """Split a long table into a list of sequences.

    All estimators accept a long table itself. You need a list for tools that treat the items of X
    as samples, such as the splitters of scikit-learn that do not know about groups.

    Parameters
    ----------
    X : data frame, array, sparse matrix, list or str
        One long table of all sequences, one after another, in any form that estimators accept.
    y : array-like of shape (n_positions,) or str, default=None
        Labels of all positions, or the name of the data frame column that holds them.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence. Pass either ``lengths`` or ``groups``.
    groups : array-like of shape (n_positions,), str or list of str, default=None
        Sequence that each position belongs to, or the name of the data frame column that holds it,
        or a list of names of several such columns. The positions of a sequence must be consecutive.

    Returns
    -------
    X : list
        The sequences, in the order of the table. Those of a data frame are data frames, without the
        columns of groups and of labels.
    y : list or None
        The labels of each sequence. None without y.

    Raises
    ------
    ValueError, TypeError
        If neither or both of ``lengths`` and ``groups`` are given, they do not match X, or the
        number of labels in y differs from that of positions.

    See Also
    --------
    PerSequence : Apply a transformer of scikit-learn to such a list.

    Examples
    --------
    >>> import pandas as pd
    >>> import treecrf
    >>> table = pd.DataFrame({"day": [1, 1, 2, 2, 2], "light": [0, 9, 0, 8, 9]})
    >>> X, y = treecrf.split(table, ["n", "y", "n", "y", "y"], groups="day")
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
    values = None
    if name is not None:
        values = column_of(X, name)
    table = _sliceable(X)
    offsets = segmentation.offsets(
        table.shape[0] if hasattr(table, "shape") else len(table), values
    )
    bounds = list(pairwise(offsets.tolist()))
    if is_frame(X):
        sequences = rows_of(X, bounds, segmentation.group_columns)
    else:
        sequences = [table[i:j] for i, j in bounds]
    return sequences, None if y is None else segmentation.split(_sliceable(y), offsets, "y")


def _sliceable(items: Any) -> Any:
    """Return a long table, or its labels, in a form whose slices are sequences."""
    if sparse.issparse(items):
        return sparse.csr_array(items)
    if isinstance(items, (list, tuple, str, np.ndarray)) or is_frame(items):
        return items
    if isinstance(items, (Mapping, set, frozenset, bytes)) or not hasattr(items, "__len__"):
        raise TypeError(f"X is {describe(items)}; expected one long table of all sequences")
    return read_column(items).array()


# Numbers for each position: sample weights and initial scores


def as_weights(
    sample_weight: Any, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray | None:
    """Return the weight of each position, or None if all are 1; ValueError if all are 0."""
    if sample_weight is None:
        return None
    weights = read_weights(sample_weight, offsets, segmentation)
    if not weights.any():
        raise ValueError(ONLY_ZEROS)
    if (weights == 1).all():
        return None
    return weights


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
        if per_sequence:
            where = f"sequence {i}"
        else:
            where = position_name(i, offsets)
        raise ValueError(f"sample_weight: {where} has weight {weights[i]}; expected {RANGE}")
    if per_sequence:
        return np.repeat(weights, np.diff(offsets))
    return weights


def _of_long_table(sample_weight: Any, offsets: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the weights, and whether there is one per sequence."""
    if not hasattr(sample_weight, "dtype"):
        sample_weight = as_list(sample_weight, "sample_weight", "weights")
    weights = _numbers(sample_weight, "sample_weight")
    n_sequences = len(offsets) - 1
    n_positions = int(offsets[-1])
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
    items = sample_weight
    if not is_flat:
        items = as_list(sample_weight, "sample_weight", EXPECTED_WEIGHTS)
    if len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, sample_weight has {len(items)}")
    is_array = []
    if not is_flat:
        is_array = [np.ndim(item) > 0 for item in items]
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
    refuse_masked(items, where)
    array = np.asarray(items, dtype=None if hasattr(items, "dtype") else object)
    if array.ndim != 1:
        raise TypeError(f"{where} has {array.ndim} dimensions; expected 1")
    for item in array.tolist() if array.dtype.kind not in "biuf" else ():
        if not is_number(type(item)) and not stands_for_missing(type(item)):
            raise TypeError(f"{where} holds {short_repr(item)}; expected numbers")
    missing = None
    if array.dtype.kind == "O":
        missing = find_missing(array.tolist())
    if missing is not None:
        array = np.where(missing, np.nan, array)
    return array.astype(np.float64) + 0.0  # no negative zeros


def as_init_scores(
    init_score: Any, classes: np.ndarray, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray:
    """Return the initial scores, float64 (n_positions, n_labels), multiples of ``LEAF_UNIT``."""
    if segmentation.is_long:
        scores = _table(init_score, "init_score", int(offsets[-1]), classes)
    else:
        expected = "arrays of shape (n_positions, n_classes), one per sequence"
        items = segmentation.items(init_score, offsets, "init_score", expected)
        tables = [
            _table(item, f"init_score: sequence {i}", int(length), classes)
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


def _table(item: Any, where: str, n_positions: int, classes: np.ndarray) -> np.ndarray:
    """Convert the scores of a sequence to floats."""
    n_labels = len(classes)
    refuse_masked(item, where)
    refuse_other_labels(item, classes, where)
    try:
        table = np.asarray(item, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} is not numeric; expected an array of numbers") from None
    if n_positions == 0 and table.shape == (0,):
        table = table.reshape(0, n_labels)
    if table.shape != (n_positions, n_labels):
        raise ValueError(f"{where} has shape {table.shape}; expected ({n_positions}, {n_labels})")
    return table
