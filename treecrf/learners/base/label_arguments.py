"""Initial scores of labels and costs of errors, arguments that name the labels."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from treecrf.inputs.dataset import as_init_scores
from treecrf.inputs.labels import refuse_other_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import is_huge


def with_init_score(
    sequences: Sequences,
    init_score: Any,
    segmentation: Segmentation,
    classes: np.ndarray,
    error: str | None,
) -> Sequences:
    """Add initial scores to the sequences; ValueError if there is a message for it."""
    if error is not None:
        raise ValueError(error)
    scores = as_init_scores(init_score, classes, sequences.offsets, segmentation)
    return replace(sequences, init_scores=scores)


def cost_table(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    """Return the cost of each predicted label for each true one; float (n_labels, n_labels).

    A dict contains the costs of pairs (true, predicted). All other errors cost 1, and correct
    labels 0; these are also the costs for None.
    """
    n = len(classes)
    if cost_matrix is None:
        return 1.0 - np.eye(n)
    refuse_other_labels(cost_matrix, classes, "cost_matrix", are_pairs=True)
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
        if not isinstance(cost, Real) or is_huge(cost):
            raise ValueError(f"cost_matrix: {pair!r} has cost {cost!r}; expected a number")
        costs[indices[pair[0]], indices[pair[1]]] = cost
    return costs
