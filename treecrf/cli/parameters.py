"""Learners and their parameters as words of the command line."""

from __future__ import annotations

import argparse
import ast
import difflib
from collections.abc import Iterable
from typing import Any

from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.registry import LEARNERS

# These have options of their own, or no meaning here.
OTHERS = ("estimator", "attributes", "n_jobs", "verbose", "warm_start")
CONSTANTS = {"true": True, "false": False, "none": None}


def make_learner(name: str, settings: Iterable[tuple[str, Any]]) -> SequenceClassifier:
    """Make an estimator.

    Parameters
    ----------
    name : str
        One of `LEARNERS`.
    settings : iterable of (str, object)
        Parameters and their values.

    Raises
    ------
    ValueError
        If the learner has no such parameter; the message names those that it has.
    """
    learner = LEARNERS[name]()
    known = parameters_of(name)
    for parameter, value in settings:
        if parameter not in known:
            near = difflib.get_close_matches(parameter, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
            raise ValueError(f"{type(learner).__name__} has no parameter {parameter!r}{hint}")
        learner.set_params(**{parameter: value})
    return learner


def parameters_of(name: str) -> list[str]:
    """The parameters of a learner that can be set."""
    return [key for key in LEARNERS[name]().get_params(deep=False) if key not in OTHERS]


def parse_setting(text: str) -> tuple[str, Any]:
    """A parameter and its value from ``name=value``.

    Raises
    ------
    ArgumentTypeError
        If there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=VALUE")
    return name.strip().replace("-", "_"), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """A value as Python writes it, else a constant such as ``true``, else the text itself."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
