"""Learners and their parameters in arguments of the command line."""

from __future__ import annotations

import argparse
import ast
import difflib
from collections.abc import Iterable
from typing import Any

from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.registry import LEARNERS

# Parameters that have their own options, or no meaning on the command line.
EXCLUDED = ("estimator", "attributes", "n_jobs", "verbose", "warm_start")
MAX_WHOLE = 2**63 - 1
CONSTANTS = {"true": True, "false": False, "none": None}


def make_learner(name: str, settings: Iterable[tuple[str, Any]]) -> SequenceClassifier:
    """Make an estimator.

    Parameters
    ----------
    name : str
        One of `LEARNERS`.
    settings : iterable of (str, object)
        Names and values of parameters.

    Raises
    ------
    ValueError
        If the learner has no such parameter, or a value is invalid.
    """
    learner = LEARNERS[name]()
    known = parameters_of(name)
    for parameter, value in settings:
        if parameter not in known:
            near = difflib.get_close_matches(parameter, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
            raise ValueError(f"{type(learner).__name__} has no parameter {parameter!r}; {hint}")
        learner.set_params(**{parameter: value})
    learner._validate_params()
    if "window" in known:
        learner._window()
    return learner


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters that ``--set`` accepts for a learner, with their defaults."""
    parameters = LEARNERS[name]().get_params(deep=False)
    return {key: value for key, value in parameters.items() if key not in EXCLUDED}


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse ``name=value`` into a parameter and its value.

    Raises
    ------
    ArgumentTypeError
        If there is no equals sign, or a whole number is out of range.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=VALUE")
    parsed = parse_value(value.strip())
    if isinstance(parsed, int) and abs(parsed) > MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"{name}: expected a whole number of at most 64 bits")
    return name.strip().replace("-", "_"), parsed


def parse_value(text: str) -> Any:
    """Parse a constant such as ``true``, else a Python literal, else return the text."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
