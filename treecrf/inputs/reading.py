"""Conversion of every form of input to `treecrf.inputs.sequences.Sequences`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs._dicts import widths_of_strings
from treecrf.inputs.arrays import FORMS, describe, read_arrays, read_plain, read_rows
from treecrf.inputs.dicts import are_attribute_lists, are_dicts, read_attribute_lists, read_dicts
from treecrf.inputs.frames import as_groups, read_frames
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import ListedSequences, Sequences
from treecrf.inputs.table_sources import refuse_files
from treecrf.inputs.values import is_frame

# How to use the tools of scikit-learn that take the items of X as samples.
SEARCHES = (
    "searches of scikit-learn do not pass groups on: give them treecrf.split(X, y, groups=...)"
)


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
        return X if schema is None else X.for_model(schema)
    segmentation = segmentation or Segmentation()
    X, is_long = as_groups(X, "X"), segmentation.is_long
    refuse_files(X, are_characters=is_long and segmentation.column is None)
    items = [X] if is_long else _listed(X, schema)
    if not is_long:
        plain = read_plain(items, schema, categorical_features)
        if plain is not None:
            return plain
    if segmentation.may_be_empty:
        present = np.array([not is_empty(item) for item in items], dtype=bool)
        if not present.any():
            # Empty sequences have no form that a model could refuse.
            offsets = np.zeros(len(items) + 1, dtype=np.int64)
            if is_long:
                groups = [] if segmentation.column and is_frame(X) else None
                offsets = segmentation.offsets(0, groups)
            return ListedSequences(
                items=[""] * (len(offsets) - 1),
                form="symbols",
                offsets=offsets,
                n_features=1,
                dtype=np.dtype("U1"),
            )
        if not present.all():
            items = [items[i] for i in np.flatnonzero(present)]
            segmentation = replace(segmentation, present=present)
    for name, matches, read in (
        ("a data frame", is_frame, read_frames),
        ("a list of dicts", are_dicts, read_dicts),
    ):
        mask = [matches(item) for item in items]
        if any(mask):
            wheres = segmentation.item_names(len(items))
            for item, where, has_form in zip(items, wheres, mask, strict=True):
                # An empty list has no form.
                if not has_form and (not hasattr(item, "__len__") or len(item)):
                    raise ValueError(
                        f"{where} is {describe(item)}, {wheres[mask.index(True)]} is {name}; "
                        "expected sequences of the same form"
                    )
            return read(items, segmentation, schema, categorical_features)
    widths = widths_of_strings(items)
    if widths and are_attribute_lists(items, widths, schema):
        return read_attribute_lists(items, segmentation, schema, categorical_features)
    if len(widths) == 1:
        rows = read_rows(items, *widths, segmentation, schema, categorical_features)
        if rows is not None:
            return rows
    return read_arrays(items, segmentation, schema, categorical_features)


def is_empty_list(X: Any) -> bool:
    """Return whether X is a list of sequences that has none."""
    if isinstance(X, np.ndarray):
        return X.shape[:1] == (0,) and (X.ndim == 3 or (X.ndim == 1 and X.dtype == object))
    return isinstance(X, (list, tuple)) and not X


def is_empty(item: Any) -> bool:
    """Return whether a sequence or a long table has no positions, whatever its form."""
    shape = getattr(item, "shape", None)
    if isinstance(shape, tuple) and shape:
        return type(shape[0]) is int and shape[0] == 0
    return isinstance(item, (str, list, tuple)) and not item


def _listed(X: Any, schema: InputSchema | None) -> list:
    """Return the items of a list of sequences; TypeError for other objects."""
    is_array = isinstance(X, np.ndarray)
    if is_array and X.ndim == 1 and X.dtype.kind in "UT":
        # Each string is a sequence, unless they may be the symbols of a single one.
        items = X.tolist()
        of_words = schema is not None and schema.form == "symbols" and schema.has_words
        if not of_words and any(len(item) > 1 for item in items):
            return items
        raise TypeError(
            f"X is {describe(X)}, whose strings are symbols or sequences of characters; pass [X] "
            "and [y] for one sequence of symbols, X.tolist() for a list of strings, or lengths= or "
            "groups= for a long table of symbols"
        )
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
