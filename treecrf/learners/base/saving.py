"""Saved estimators: what `save` writes to a model file, and estimators made of such contents."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.inputs.column_names import ColumnNames
from treecrf.utils.model_file import check_counts, write

if TYPE_CHECKING:
    from treecrf.learners.base.classifier import SequenceClassifier

# What a model file holds: values that JSON supports, and arrays.
Contents = tuple[dict[str, Any], dict[str, np.ndarray]]


def save(model: SequenceClassifier, path: str | PathLike[str]) -> None:
    """Save a fitted estimator; see `treecrf.learners.base.classifier.SequenceClassifier.save`."""
    kind = type(model)
    if not kind.__module__.startswith("treecrf."):
        raise TypeError(
            f"the model is a {kind.__module__}.{kind.__name__}; expected a class of treecrf, "
            "because load supports no other; pickle does"
        )
    parameters, (values, arrays) = estimator_state(model)
    values = {
        "class": kind.__name__,
        "parameters": parameters,
        "columns": model._columns.state(),
    } | values
    n_unlabeled = model._n_unlabeled
    if n_unlabeled:
        values["n_unlabeled"] = n_unlabeled
    arrays = {"classes": model.classes_} | arrays

    def check(values: dict, arrays: Mapping[str, np.ndarray]) -> None:
        restored(kind, values, arrays)

    write(path, values, arrays, check)


def restored(kind: type, values: dict, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the estimator with the contents of a file; raises errors as its `_restore`."""
    model = restored_estimator(kind, values["parameters"], values, arrays)
    columns = ColumnNames.from_state(values.get("columns", {}))
    n_unlabeled = values.get("n_unlabeled", 0)
    check_counts(n_unlabeled)
    vars(model).update(_columns=columns, _n_unlabeled=n_unlabeled)
    return model


# Estimators, which may be part of another one


def estimator_state(model: SequenceClassifier) -> tuple[dict, Contents]:
    """Return the constructor parameters of a fitted estimator for JSON, and what it has learned."""
    return plain_parameters(model.get_params(deep=False)), model._state()


def restored_estimator(
    kind: type, parameters: dict, values: dict, arrays: Mapping[str, np.ndarray]
) -> Any:
    """Undo `estimator_state`; raises errors as the `_restore` of the class."""
    return kind(**restored_parameters(parameters))._restore(values, arrays)


def plain_parameters(parameters: dict) -> dict:
    """Return the constructor parameters as values that JSON supports.

    Random generators become None: their state is not part of a model.
    """
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None  # a random generator


def restored_parameters(parameters: dict) -> dict:
    """Undo `plain_parameters`, except that lists and arrays become tuples."""
    return {name: _restored_value(value) for name, value in parameters.items()}


def _restored_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {_restored_value(k): _restored_value(v) for k, v in value["pairs"]}
    if isinstance(value, list):
        return tuple(map(_restored_value, value))
    return value
