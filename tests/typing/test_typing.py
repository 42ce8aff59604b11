"""Annotations: of a user's script, and of all constructors."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import treecrf
from treecrf.learners.registry import LEARNERS

SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_script_that_is_type_checked_runs(tmp_path, capsys):
    runpy.run_path(str(SCRIPT))["main"](tmp_path / "model.treecrf")
    assert capsys.readouterr().out


def test_the_package_says_that_it_is_typed():
    assert Path(treecrf.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_parameters_are_annotated_and_names_are_those_that_are_valid(kind):
    parameters = inspect.signature(kind.__init__).parameters
    hints = get_type_hints(kind.__init__)
    for name in parameters.keys() - {"self"}:
        options = set(map(str, _literals(hints[name])))
        valid = [c.options for c in kind._parameter_constraints[name] if hasattr(c, "options")]
        if options:
            assert options == set.union(*map(set, valid)), name
        default = parameters[name].default
        if isinstance(default, str) and options:
            assert default in options


def _literals(hint) -> list:
    """All strings of the Literals of a type."""
    if isinstance(hint, str):
        return [hint]
    return [literal for part in get_args(hint) for literal in _literals(part)]
