"""Files of fitted models: the contents that all estimators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from treecrf.inputs.dataset import ColumnNames
from treecrf.utils import model_file

if TYPE_CHECKING:
    from treecrf.learners.classifier import SequenceClassifier


def save(model: SequenceClassifier, path: str | PathLike[str]) -> None:
    """Save a fitted model; see `SequenceClassifier.save` for the errors."""
    kind = type(model)
    if not kind.__module__.startswith("treecrf."):
        raise TypeError(
            f"the model is a {kind.__module__}.{kind.__name__}; expected a class of treecrf, "
            "because load supports no other; pickle does"
        )
    values, arrays = model._state()
    parameters = model_file.plain_parameters(model.get_params(deep=False))
    columns = asdict(model._columns)
    values = {"class": kind.__name__, "parameters": parameters, "columns": columns} | values
    if model._n_unlabeled:
        values["n_unlabeled"] = model._n_unlabeled
    arrays = {"classes": model.classes_} | arrays
    model_file.write(path, values, arrays, lambda *contents: restored(kind, *contents))


def restored(
    kind: type[SequenceClassifier], values: dict, arrays: Mapping[str, np.ndarray]
) -> SequenceClassifier:
    """Return the model with the contents of a file; raises errors as `_restore`."""
    parameters = model_file.restored_parameters(values["parameters"])
    model = kind(**parameters)._restore(values, arrays)
    model._columns = ColumnNames.of_values(values.get("columns", {}))
    model._n_unlabeled = values.get("n_unlabeled", 0)
    model_file.check_counts(model._n_unlabeled)
    return model
