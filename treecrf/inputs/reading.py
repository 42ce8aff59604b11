"""Every form of input becomes one `treecrf.inputs.sequences.Sequences`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.arrays import FORMS, describe, read_arrays
from treecrf.inputs.dicts import are_dicts, read_dicts
from treecrf.inputs.frames import is_frame, read_frames
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import InputSchema, Sequences


def as_sequences(
    X: Any,
    schema: InputSchema | None = None,
    segmentation: Segmentation | None = None,
    categorical_features: Any = "from_dtype",
) -> Sequences:
    """Check and pack the sequences that a user gives.

    Parameters
    ----------
    X : iterable of sequences, one long table of all, or Sequences
        What has been packed before is only compared with what the model was trained on.
    schema : InputSchema, optional
        What the sequences must be like.
    segmentation : Segmentation, optional
        Where the sequences of a long table are.
    categorical_features : "from_dtype", None, or list of names or indices or booleans
        Which columns are categories; a model that has been trained knows.

    Returns
    -------
    Sequences

    Raises
    ------
    ImportError
        If X holds data frames, and narwhals is not installed.
    ValueError, TypeError
        If X does not hold sequences of one form, or a sequence is empty, has other columns than
        the others, or holds infinite or other values that cannot be.
    """
    if isinstance(X, Sequences):
        return X if schema is None else X.for_model(schema)
    segmentation = segmentation or Segmentation()
    items = [X] if segmentation.is_long else _listed(X)
    for name, found, read in (
        ("a data frame", is_frame, read_frames),
        ("a list of dicts", are_dicts, read_dicts),
    ):
        are = [found(item) for item in items]
        if any(are):
            _refuse_others(items, are, name)
            return read(items, segmentation, schema, categorical_features)
    return read_arrays(items, segmentation, schema, categorical_features)


def _refuse_others(items: list, are: list[bool], name: str) -> None:
    """Refuse sequences of other forms; one without positions is not told by its form."""
    for i, (item, is_one) in enumerate(zip(items, are, strict=True)):
        if not is_one and (not hasattr(item, "__len__") or len(item)):
            raise ValueError(
                f"sequence {i} is {describe(item)}, sequence {are.index(True)} is {name}: all "
                "sequences must have the same form"
            )


def _listed(X: Any) -> list:
    is_list = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object
    flat = isinstance(X, np.ndarray) and X.ndim < 3 and not is_list
    single = isinstance(X, (str, bytes, dict, set, frozenset)) or is_frame(X)
    if single or sparse.issparse(X) or flat:
        raise TypeError(
            f"X is {describe(X)}; expected a list of sequences: put a single sequence into a "
            "list, [X], or say by lengths or groups where the sequences of a long one are; "
            f"{FORMS}"
        )
    try:
        return list(X)
    except TypeError:
        raise TypeError(f"X is {describe(X)}; expected a list of sequences; {FORMS}") from None
