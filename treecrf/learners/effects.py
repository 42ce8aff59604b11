"""Warnings about parameters that have no effect, because of the values of others."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treecrf.utils.warn import warn

SCALARS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Needs:
    """Values of another parameter without which a parameter has no effect."""

    name: str  # the other parameter
    values: tuple = ()  # with an effect; if empty, all but ``unless``
    unless: tuple = ()  # without an effect
    or_validation: bool = False  # whether validation data are enough

    def are_met(self, value: Any) -> bool:
        """Return whether there is an effect if the other parameter has a value."""
        found = [other for other in self.values or self.unless if _is_equal(value, other)]
        return bool(found) == bool(self.values)

    @property
    def mend(self) -> str:
        """What to set for an effect."""
        if self.values:
            return "expected " + " or ".join(f"{self.name}={value!r}" for value in self.values)
        return f"set {self.name}"


# Parameters of all estimators, and of those with early stopping.
OF_ALL = {"cost_matrix": Needs("decoding", ("minimum_risk",))}
OF_STOPPING = {
    "validation_fraction": Needs("early_stopping", (True,)),
    "n_iter_no_change": Needs("early_stopping", (True, "auto")),
    "scoring": Needs("early_stopping", (True, "auto"), or_validation=True),
    "refit": Needs("early_stopping", (True,), or_validation=True),
}


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
