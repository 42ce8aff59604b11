"""Costs of errors, for decoding with the minimum expected cost."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np


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
