"""Validation of parameters, shared parts of docstrings, and the link of estimators to their page.

scikit-learn keeps the names of what is used here private, so a version that moves them requires a
change here alone.
"""

from __future__ import annotations

import inspect
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from string import Template
from typing import Any, TypeVar

from sklearn.utils import _param_validation
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

from treecrf.utils.messages import PACKAGE, warn

__all__ = ["CaselessOptions", "HasMethods", "Interval", "StrOptions", "validate_params"]

Function = TypeVar("Function", bound=Callable)
Class = TypeVar("Class", bound=type)

SCALARS = (bool, int, float, str, type(None))


def documented(parts: dict[str, str]) -> Callable[[Function], Function]:
    """Put texts that several docstrings share in place of ``$name``."""

    def decorated(function: Function) -> Function:
        if function.__doc__ is not None:  # as it is in python -OO
            function.__doc__ = Template(function.__doc__).substitute(parts)
        return function

    return decorated


def documented_as(source: type, without: Sequence[str] = ()) -> Callable[[Class], Class]:
    """Complete the docstring of a class with the parameters and attributes of another one.

    The class itself states only those that differ in more than their defaults, or are new. It lacks
    the attributes ``without``.

    Parameters may stand below headings. There, the name of a parameter alone says where its shared
    text belongs. Parameters that the class states above its first heading stay below the headings
    of the other class; new ones come first.
    """

    def decorated(kind: Class) -> Class:
        if sys.flags.optimize > 1:  # without docstrings; those of dataclasses are their signatures
            kind.__doc__ = None
            return kind
        head, own = _sections(kind.__doc__)
        _, shared = _sections(source.__doc__)
        parameters = _merged(kind, own.pop("Parameters", ""), shared["Parameters"])
        entries = _entries(shared["Attributes"]) | _entries(own.pop("Attributes", ""))
        attributes = "\n".join(text for name, text in entries.items() if name not in without)
        sections = {"Parameters": parameters, "Attributes": attributes} | own
        texts = [f"\n\n{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items()]
        kind.__doc__ = "".join([head, *texts]) + "\n"
        return kind

    return decorated


def _sections(docstring: str) -> tuple[str, dict[str, str]]:
    """Return what precedes the sections of a docstring, and the sections by their titles."""
    head, *parts = re.split(r"\n\n([A-Z][\w ]+)\n---+\n", inspect.cleandoc(docstring))
    return head, dict(zip(parts[::2], parts[1::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name. A heading is its own name."""
    entries = re.split(r"\n+(?=\S)", section.strip())
    return {entry.partition(" : ")[0]: entry for entry in entries if entry}


def _headings(section: str) -> dict[str, str]:
    """Return the heading above each parameter of a section; empty above the first heading."""
    heading = ""
    headings = {}
    for name, text in _entries(section).items():
        if name == text and name[0].isupper():
            heading = name
        else:
            headings[name] = heading
    return headings


def _merged(kind: type, own: str, shared: str) -> str:
    """Return the section of parameters of a class, from its own section and a shared one."""
    parameters = inspect.signature(kind).parameters
    texts = {
        name: _with_default(text, parameters[name].default)
        for name, text in _entries(shared).items()
        if name in parameters
    }
    texts |= {name: text for name, text in _entries(own).items() if name != text}

    own_headings = _headings(own)
    shared_headings = _headings(shared)
    headings = {n: title for n, title in own_headings.items() if title or n not in shared_headings}
    for name, title in shared_headings.items():
        headings.setdefault(name, title)
    shared_titles = list(shared_headings.values())
    new_titles = [title for title in headings.values() if title not in shared_titles]

    lines = []
    for title in dict.fromkeys(["", *new_titles, *shared_titles]):
        order = headings if title else parameters
        names = [name for name in order if name in parameters and headings[name] == title]
        if names and title:
            lines += ["", title, ""]
        lines += [texts[name] for name in names]
    return "\n".join(lines).strip()


def _with_default(entry: str, value: Any) -> str:
    """Return the entry of a parameter with another default."""
    head, equals, rest = entry.partition(", default=")
    old, *text = rest.split("\n", 1)
    if equals and literal_eval(old) != value:
        old = f'"{value}"' if isinstance(value, str) else repr(value)
    return "\n".join([head + equals + old, *text])


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


class CaselessOptions(StrOptions):
    """Strings in upper or lower case."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether a value is one of the strings."""
        return isinstance(val, str) and super().is_satisfied_by(val.lower())


def check_parameters(estimator: Any, names: Sequence[str]) -> None:
    """Raise an error if one of some parameters, which may have been set after `fit`, is invalid."""
    values = {name: vars(estimator)[name] for name in names if name in vars(estimator)}
    _param_validation.validate_parameter_constraints(
        estimator._parameter_constraints, values, type(estimator).__name__
    )


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless an argument is a positive integer."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r}; expected a positive integer")


# Parameters without effect


@dataclass(frozen=True)
class Needs:
    """Values of another parameter without which a parameter has no effect."""

    # The other parameter.
    name: str
    # Its values with an effect; if empty, all but ``unless``.
    values: tuple = ()
    # Its values without an effect.
    unless: tuple = ()
    # Whether validation data are enough.
    or_validation: bool = False

    def are_met(self, value: Any) -> bool:
        """Return whether there is an effect if the other parameter has a value."""
        if self.values:
            return any(_is_equal(value, other) for other in self.values)
        return not any(_is_equal(value, other) for other in self.unless)

    @property
    def mend(self) -> str:
        """What to set for an effect."""
        if self.values:
            return "expected " + " or ".join(f"{self.name}={value!r}" for value in self.values)
        return f"set {self.name}"


def warn_without_effect(
    estimator: Any, needed: Mapping[str, Needs], has_validation: bool = False
) -> None:
    """Warn of each parameter that is not at its default, and has no effect.

    Needs of parameters that the estimator lacks are ignored.
    """
    values = estimator.get_params(deep=False)
    defaults = inspect.signature(type(estimator).__init__).parameters
    for name, needs in needed.items():
        if name not in values or needs.name not in values:
            continue
        if _is_equal(values[name], defaults[name].default):
            continue
        other = values[needs.name]
        if needs.are_met(other) or (needs.or_validation and has_validation):
            continue
        warn(
            f"{_shown(name, values[name])} has no effect with {_shown(needs.name, other)}; "
            f"{needs.mend}"
        )


def _is_equal(value: Any, other: Any) -> bool:
    """Compare two values; the second one is not an array."""
    if value is other:
        return True
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return isinstance(value, SCALARS) and isinstance(other, SCALARS) and value == other


def _shown(name: str, value: Any) -> str:
    """Return a parameter with its value, unless that takes much room."""
    return f"{name}={value!r}" if isinstance(value, SCALARS) else name


# Scorers of scikit-learn


def calling_metric() -> str | None:
    """Return the name of a metric of scikit-learn, if one of its scorers or searches is calling.

    An estimator does not know what its predictions are used for. The variables of its callers do:
    the scorer of a search or a cross-validation, while that fits a model, or the scorer itself.
    """
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "sklearn.model_selection._validation":
            metric = _metric_of(frame.f_locals.get("scorer"))
        elif module == "sklearn.metrics._scorer":
            metric = _metric_of(frame.f_locals.get("self"))
        elif module.startswith(("sklearn.", PACKAGE)):
            metric = None
        else:
            return None
        if metric is not None:
            return metric
        frame = frame.f_back
    return None


def _metric_of(scorer: Any) -> str | None:
    """Return the name of a metric of scikit-learn that a scorer, or one of several, computes."""
    scorers_by_name = scorer if isinstance(scorer, dict) else getattr(scorer, "_scorers", None)
    scorers = [scorer] if scorers_by_name is None else scorers_by_name.values()
    for each in scorers:
        metric = getattr(each, "_score_func", None)
        if getattr(metric, "__module__", "").startswith("sklearn."):
            return metric.__name__
    return None


class DocumentationLink:
    """Mixin of estimators; it precedes scikit-learn's ``BaseEstimator``."""

    _doc_link_module = "treecrf"
    _doc_link_template: Any = (
        "https://treecrf.readthedocs.io/en/latest/api/generated/treecrf.{estimator_name}.html"
    )
