"""Parameters of sweeps, of which only a part runs in the fast tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def sweep(values: Iterable, n_fast: int) -> list:
    """Return parameters, of which all but the first ``n_fast`` are marked exhaustive."""
    values = list(values)
    rest = (pytest.param(value, marks=pytest.mark.exhaustive) for value in values[n_fast:])
    return [*values[:n_fast], *rest]


def pairs(values: Iterable[tuple], is_fast: Callable[..., bool]) -> list:
    """Return parameters of several arguments; those that are not fast are marked exhaustive."""
    return [
        pytest.param(*value, marks=() if is_fast(*value) else pytest.mark.exhaustive)
        for value in values
    ]
