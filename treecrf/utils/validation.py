"""Validation of parameters, shared parts of docstrings, and the link of estimators to their page.

scikit-learn keeps the names of both private, so a version that moves them requires a change here
alone.
"""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from string import Template
from typing import Any, TypeVar

from sklearn.utils import _param_validation
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

__all__ = ["HasMethods", "Interval", "StrOptions", "validate_params"]

Function = TypeVar("Function", bound=Callable)
Class = TypeVar("Class", bound=type)


def documented(parts: dict[str, str]) -> Callable[[Function], Function]:
    """Put what the docstrings of several functions say in place of ``$name``."""

    def decorated(function: Function) -> Function:
        if function.__doc__ is not None:  # as it is in python -OO
            function.__doc__ = Template(function.__doc__).substitute(parts)
        return function

    return decorated


def documented_as(source: type, without: Sequence[str] = ()) -> Callable[[Class], Class]:
    """Complete the docstring of a class with the parameters and attributes of another one.

    The class itself states only those that differ or are new. It lacks the attributes ``without``.
    """

    def decorated(kind: Class) -> Class:
        if sys.flags.optimize > 1:  # without docstrings; those of dataclasses are their signatures
            kind.__doc__ = None
            return kind
        (head, own), (_, others) = map(_sections, (kind.__doc__, source.__doc__))
        for title in ("Parameters", "Attributes"):
            entries = _entries(others[title]) | _entries(own.pop(title, ""))
            names = [name for name in entries if name not in without]
            if title == "Parameters":
                names = list(inspect.signature(kind).parameters)
            head += f"\n\n{title}\n{'-' * len(title)}\n" + "\n".join(entries[n] for n in names)
        rest = [f"\n\n{title}\n{'-' * len(title)}\n{text}" for title, text in own.items()]
        kind.__doc__ = "".join([head, *rest]) + "\n"
        return kind

    return decorated


def _sections(docstring: str) -> tuple[str, dict[str, str]]:
    """Return what precedes the sections of a docstring, and the sections by their titles."""
    head, *parts = re.split(r"\n\n([A-Z][\w ]+)\n---+\n", inspect.cleandoc(docstring))
    return head, dict(zip(parts[::2], parts[1::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name."""
    return {entry.partition(" : ")[0]: entry for entry in re.split(r"\n(?=\S)", section) if entry}


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
