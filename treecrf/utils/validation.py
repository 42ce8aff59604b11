"""Validation of parameters, shared parts of docstrings, and the link of estimators to their page.

scikit-learn keeps the names of both private, so a version that moves them requires a change here
alone.
"""

from collections.abc import Callable
from numbers import Integral
from string import Template
from typing import Any, TypeVar

from sklearn.utils import _param_validation
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

__all__ = ["HasMethods", "Interval", "StrOptions", "validate_params"]

Function = TypeVar("Function", bound=Callable)


def documented(parts: dict[str, str]) -> Callable[[Function], Function]:
    """Put what the docstrings of several functions say in place of ``$name``."""

    def decorated(function: Function) -> Function:
        if function.__doc__ is not None:  # as it is in python -OO
            function.__doc__ = Template(function.__doc__).substitute(parts)
        return function

    return decorated


class Interval(_param_validation.Interval):
    """Interval of the numbers that NumPy can convert to float64, or to int64."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether a value is in the interval."""
        if not isinstance(val, self.type):
            return False
        if self.type is Integral:
            return -(2**63) <= val < 2**63 and val in self
        try:
            float(val)
        except OverflowError:
            return False
        return val in self


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless an argument is a positive integer."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r}; expected a positive integer")


class DocumentationLink:
    """Mixin of estimators; it precedes scikit-learn's ``BaseEstimator``."""

    _doc_link_module = "treecrf"
    _doc_link_template: Any = (
        "https://treecrf.readthedocs.io/en/latest/api/generated/treecrf.{estimator_name}.html"
    )
