"""Predictions of a model for the partitions of a Dask collection, not computed yet."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace
from typing import Any

import numpy as np
from dask import delayed
from distributed.protocol import pickle

from treecrf.dask.cluster import PREFIX
from treecrf.dask.sources import files_of, form_of, read_parquet, require_column
from treecrf.inputs.columns import order_of
from treecrf.inputs.dataset import RawData, named
from treecrf.inputs.values import closest_name, column_names


def predicted(model: Any, method: str, X: Any, options: dict) -> Any:
    """Return the predictions of a method of a fitted local model, as `DaskMixin` does.

    The model is a task, so that it is sent once to each worker.
    """
    names = inspect.signature(getattr(model, method)).parameters.keys() - {"X"}
    for name in options:
        if name not in names:
            raise TypeError(f"{method} has no argument {name!r}{closest_name(name, sorted(names))}")
    pickled = pickle.dumps(model)
    token = hashlib.blake2b(pickled, digest_size=8).hexdigest()
    task = delayed(pickle.loads)(pickled, dask_key_name=f"{PREFIX}model-{token}")
    form = form_of(X)
    if form == "parts":
        return [_of_part(part, task, method, options) for part in X]
    if form == "bag":
        return X.map_partitions(of_items, task, method, options)
    if form != "frame":
        from dask import dataframe

        X = dataframe.from_map(read_frame, files_of(X))
    # Columns are checked before anything is computed.
    expected, own = getattr(model, "feature_names_in_", None), column_names(X._meta)
    if expected is not None and all(isinstance(name, str) for name in own):
        expected = tuple(expected)
        own = tuple(name for name in own if name in expected)
        order_of(own, expected, "X", "the training data")
    _check_groups(model, X, options)
    if options.get("n_best", 1) != 1:
        raise ValueError(f"n_best={options['n_best']!r}; expected 1 for a dask data frame")
    meta = _as_frame(model, method, None, _empty(model, method), None)
    return X.map_partitions(of_frame, task, method, options, meta=meta, enforce_metadata=False)


def _check_groups(model: Any, X: Any, options: dict) -> None:
    """Raise an error unless the sequences of a data frame are defined by a column."""
    for name in ("allowed", "known", "init_score", "lengths"):
        if options.get(name) is not None:
            raise TypeError(
                f"{name} has values for positions or sequences, which is not supported for a dask "
                "data frame; pass a bag or delayed objects, or call the method of to_local() on "
                "each partition"
            )
    groups = options.get("groups")
    if groups is None:
        groups = model._columns.group
    if not isinstance(groups, str):
        given = "not given" if groups is None else f"of type {type(groups).__name__}"
        raise TypeError(f"groups is {given}; expected the name of the column of groups")
    require_column(X._meta, groups, "groups")


def read_frame(file: Any) -> Any:
    """Read a Parquet file as a data frame of pandas without an index.

    `fit` reads tables of pyarrow, in which an index with a name is a column.
    """
    return read_parquet(file).to_pandas(ignore_metadata=True)


@delayed
def _of_part(part: Any, model: Any, method: str, options: dict) -> Any:
    return getattr(model, method)(part, **options)


def of_items(items: Any, model: Any, method: str, options: dict) -> list:
    """Return a prediction for each sequence of a partition of a bag."""
    items = list(items)
    if not items:
        return []
    result = getattr(model, method)(items, **options)
    return list(zip(*result, strict=True)) if method == "decode" else list(result)


def of_frame(frame: Any, model: Any, method: str, options: dict) -> Any:
    """Return predictions for a partition of a data frame, with its index."""
    if not len(frame):
        return _as_frame(model, method, frame.index, _empty(model, method), None)
    result = getattr(model, method)(frame, **options)
    lengths = None
    if method == "decode":
        predictor, cuts = model._predictor(), (options.get("lengths"), options.get("groups"))
        segmentation = predictor.segmentation(frame, *cuts, may_be_empty=False)
        lengths = np.diff(predictor.checked(frame, segmentation).offsets)
    return _as_frame(model, method, frame.index, result, lengths)


def _empty(model: Any, method: str) -> Any:
    """Return the predictions for a table without rows."""
    labels = model.classes_[:0]
    if method == "predict_proba":
        return np.zeros((0, len(model.classes_)))
    return (labels, np.zeros(0)) if method == "decode" else labels


def _as_frame(model: Any, method: str, index: Any, result: Any, lengths: Any) -> Any:
    """Return predictions for a long table as a series or a data frame."""
    import pandas as pd

    # The type does not depend on the labels that are in the result.
    dtype = pd.Series(model.classes_).dtype
    if method == "predict":
        return pd.Series(result, index=index, dtype=dtype, name=model._columns.label or "label")
    if method == "predict_proba":
        # Parquet has strings as names only.
        return pd.DataFrame(
            result, index=index, columns=[str(label) for label in model.classes_.tolist()]
        )
    labels, values = result
    values = values if lengths is None else np.repeat(values, lengths)
    columns = {"label": pd.Series(labels, index=index, dtype=dtype), "log_probability": values}
    return pd.DataFrame(columns, index=index)


def count_correct(raw: RawData, model: Any) -> tuple[float, float, int, int]:
    """Count the labels of a partition; see `Predictor.count_correct`."""
    if not len(raw.X):
        return 0.0, 0.0, 0, 0
    predictor, segmentation = model._predictor(), raw.segmentation
    if not segmentation.is_long:
        segmentation = predictor.segmentation(raw.X, None, None)
    raw = replace(raw, segmentation=replace(segmentation, may_be_empty=True))
    with named(raw.place):
        return predictor.count_correct(raw)
