"""Checks that the parts of a saved model fit together.

A checksum reveals a damaged file; these checks reveal a forged one. The compiled kernels trust
their arguments, so no file may pass that could make them read outside the model's arrays.
"""

from __future__ import annotations

import numpy as np


def require(condition: bool, what: str) -> None:
    """Raise ValueError unless a condition on some part of a model holds."""
    if not condition:
        raise ValueError(f"invalid {what}")


def check_classes(classes: np.ndarray) -> None:
    """Raise ValueError unless these are sorted, distinct labels."""
    require(classes.dtype.kind in "biuU" and is_ascending(classes), "labels")
    require(len(classes) > 1, "labels")


def check_categories(values: np.ndarray) -> None:
    """Raise ValueError unless these are sorted, distinct integers or strings."""
    require(is_ascending(values) and values.dtype.kind in "iU", "categories")


def check_counts(*counts: int) -> None:
    """Raise ValueError unless these are integers from 0 that an int32 can hold."""
    integers = all(isinstance(n, int) and not isinstance(n, bool) for n in counts)
    require(integers and all(0 <= n < 1 << 31 for n in counts), "numbers")


def check_names(names: tuple[str, ...] | None, n: int) -> None:
    """Raise ValueError unless these are distinct names of n columns, or there are none."""
    if names is not None:
        require(all(isinstance(name, str) for name in names), "names")
        require(len(set(names)) == len(names) == n, "names")


def check_history(n_iter: int, training: np.ndarray, validation: np.ndarray) -> None:
    """Raise ValueError unless each iteration has its scores; validation scores may be absent."""
    require(training.dtype.kind == validation.dtype.kind == "f", "scores")
    require(training.shape == (n_iter + 1,), "scores")
    require(validation.shape in ((0,), training.shape), "scores")


def check_series(array: np.ndarray, n: int, kind: str = "f") -> None:
    """Raise ValueError unless this is an array of n numbers of a kind."""
    require(array.shape == (n,) and array.dtype.kind == kind, "results")


def check_result(value: object) -> None:
    """Raise ValueError unless this is a finite number, or a 1-D array of numbers, none infinite."""
    array = np.asarray(value)
    require(array.ndim <= 1 and array.dtype.kind in "if", "results")
    require(not np.isinf(array).any() and (array.ndim > 0 or not np.isnan(array)), "results")


def check_indices(indices: np.ndarray, n: int, what: str) -> None:
    """Raise ValueError unless this is a 1-D array of indices below n."""
    require(indices.ndim == 1 and indices.dtype.kind == "i", what)
    require(((indices >= 0) & (indices < n)).all(), what)


def is_ascending(values: np.ndarray) -> bool:
    """Return whether a 1-D array is sorted, without duplicates."""
    return values.ndim == 1 and bool((values[1:] > values[:-1]).all())
