"""Parameters that several functions have: their checks, and what docstrings say of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from numbers import Integral

from treecrf.utils.validation import Interval, documented, validate_params

SIZE = [Interval(Integral, 1, None, closed="left")]
# What the docstrings of all functions that fetch data say, and of all that generate them.
FETCHED = {
    "home": """Defaults to the environment variable ``TREECRF_DATA``. Without either, each file
        is downloaded once and cached, which needs ``pip install "treecrf[datasets]"``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.""",
    "returns": """Returns
    -------
    Bunch, or (list, list)
        With these attributes:
""",
    "raises": """Raises
    ------
    OSError
        If a file is not in the folder or cannot be downloaded; the message explains what to do.
    ValueError
        If a file does not have the expected format; the message says where.
    ImportError
        If a library is required but not installed; the message names it.""",
}
GENERATED = {
    "raises": """Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or has the wrong type (scikit-learn's
        ``InvalidParameterError``, which is both).""",
}


def fetching(**constraints: list) -> Callable:
    """Check the parameters of a function that fetches data, the shared ones and its own."""
    shared = {"data_home": [str, os.PathLike, None], "return_X_y": ["boolean"]}
    return _checked(shared | constraints, FETCHED)


def generating(**constraints: list) -> Callable:
    """Check the parameters of a function that generates data, the shared ones and its own."""
    shared = {"n_sequences": SIZE, "length": SIZE, "random_state": ["random_state"]}
    return _checked(shared | constraints, GENERATED)


def _checked(constraints: dict[str, list], parts: dict[str, str]) -> Callable:
    check = validate_params(constraints, prefer_skip_nested_validation=True)
    return lambda function: check(documented(parts)(function))
