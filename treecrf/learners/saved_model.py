"""Fitted models in files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.dataset import NO_NAMES, ColumnNames
from treecrf.utils import model_file


class SavedModel(BaseEstimator):
    """Base of the models that are saved in files, as values and arrays."""

    # Names of the columns of the labels and the groups in training, set by `fit`.
    _columns = NO_NAMES

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model to a file, to be loaded with `treecrf.load`.

        The file contains only numbers and text, with a format version and a checksum. Loading it
        does not execute any code. For the command line, it also contains the names of the columns
        with the labels and the groups, if they had names in `fit`.

        Parameters
        ----------
        path : path-like
            File to write, conventionally with the extension ``.treecrf``. An existing file is
            replaced only once the new one is complete, and keeps its permissions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If `treecrf.load` would refuse the file, for example because a parameter was set to an
            invalid value after `fit`.
        TypeError
            If the class of the model is not one of this package.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, "classes_")
        kind = type(self)
        if not kind.__module__.startswith("treecrf."):
            raise TypeError(
                f"the model is a {kind.__module__}.{kind.__name__}; expected a class of treecrf, "
                "because load supports no other; pickle does"
            )
        values, arrays = self._state()
        parameters = model_file.plain_parameters(self.get_params(deep=False))
        columns = asdict(self._columns)
        values = {"class": kind.__name__, "parameters": parameters, "columns": columns} | values
        arrays = {"classes": self.classes_} | arrays
        model_file.write(path, values, arrays, kind._restored)

    @classmethod
    def _restored(cls, values: dict, arrays: Mapping[str, np.ndarray]) -> SavedModel:
        """Return the model with the contents of a file; raises errors as `_restore`."""
        parameters = model_file.restored_parameters(values["parameters"])
        model = cls(**parameters)._restore(values, arrays)
        model._columns = ColumnNames.of_values(values.get("columns", {}))
        return model

    @abstractmethod
    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""

    @abstractmethod
    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> SavedModel:
        """Set the fitted attributes from a saved model and return self.

        Raises ValueError, or another error of `model_file.as_model_file_error`, if the parts of the
        model do not fit together.
        """
