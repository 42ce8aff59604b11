"""Validation of parameters: the only module that imports it from scikit-learn.

scikit-learn keeps these names private, so a version that moves them requires a change here alone.
"""

from numbers import Integral, Real
from typing import Any

from sklearn.utils import _param_validation
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

__all__ = ["HasMethods", "Interval", "StrOptions", "validate_params"]


class Interval(_param_validation.Interval):
    """Interval of the numbers that NumPy can convert to float64, or to int64."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether a value is in the interval."""
        return isinstance(val, self.type) and self._can_be_converted(val) and val in self

    def _can_be_converted(self, value: Real) -> bool:
        if self.type is Integral:
            return -(2**63) <= value < 2**63
        try:
            float(value)
        except OverflowError:
            return False
        return True


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless an argument is a positive integer."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r}; expected a positive integer")
