"""Parameters that learners share: costs of errors, and warnings of parameters without effect."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from treecrf.utils.messages import warn

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


# Costs of errors, for decoding with the minimum expected cost


def cost_table(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    """Return the cost of each predicted label for each true one; float (n_labels, n_labels).

    A dict contains the costs of pairs (true, predicted). All other errors cost 1, and correct
    labels 0; these are also the costs for None.
    """
    n = len(classes)
    if cost_matrix is None:
        return 1.0 - np.eye(n)
    costs = _named_costs(cost_matrix, classes) if isinstance(cost_matrix, dict) else cost_matrix
    try:
        costs = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("cost_matrix is not numeric; expected an array of numbers") from None
    if costs.shape != (n, n):
        raise ValueError(
            f"cost_matrix has shape {costs.shape}; expected ({n}, {n}), with a row for each true "
            f"label and a column for each predicted label of {classes.tolist()}"
        )
    if not np.isfinite(costs).all():
        raise ValueError("cost_matrix has NaN or infinite values; expected finite numbers")
    return costs


def _named_costs(pairs: dict, classes: np.ndarray) -> np.ndarray:
    indices = {label: i for i, label in enumerate(classes.tolist())}
    costs = 1.0 - np.eye(len(classes))
    for pair, cost in pairs.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not indices.keys() >= set(pair):
            raise ValueError(
                f"cost_matrix has the key {pair!r}; expected a pair (true label, predicted label) "
                f"of labels in {classes.tolist()}"
            )
        if not isinstance(cost, Real) or _is_huge(cost):
            raise ValueError(f"cost_matrix: {pair!r} has cost {cost!r}; expected a number")
        costs[indices[pair[0]], indices[pair[1]]] = cost
    return costs


def _is_huge(cost: Real) -> bool:
    try:
        float(cost)
    except OverflowError:
        return True
    return False
