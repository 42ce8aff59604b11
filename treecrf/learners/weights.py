"""Weights of the labels, by which positions count in the trees."""

from __future__ import annotations

from numbers import Real

import numpy as np

# Weights are rounded to multiples of 2**-32, and sums of residuals must stay exact.
MAX_WEIGHT = 1e6


def label_weights(
    class_weight: dict | str | None, classes: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Weight of each label; float array (n_labels,).

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Labels that a dict does not name weigh 1. Names of labels that do not occur are ignored if
        it names all that do, as in scikit-learn, and taken for mistakes otherwise.
    classes : array (n_labels,)
    codes : int array (n_positions,)
        Labels of all positions, as places in ``classes``.

    Raises
    ------
    ValueError
        If a weight is not a number in range, or a name is taken for a mistake.
    """
    labels = classes.tolist()
    if class_weight is None:
        return np.ones(len(labels))
    if isinstance(class_weight, dict):
        weights = class_weight
        unknown = weights.keys() - set(labels)
        if unknown and not weights.keys() >= set(labels):
            raise ValueError(
                f"class_weight has {sorted(unknown, key=repr)}, but y holds only {labels}"
            )
    else:
        counts = np.bincount(codes, minlength=len(labels))
        balanced = len(codes) / (np.count_nonzero(counts) * np.maximum(counts, 1))
        weights = dict(zip(labels, balanced.tolist(), strict=True))
    for label, weight in weights.items():
        if not isinstance(weight, Real) or not 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT:
            raise ValueError(
                f"class_weight gives {label!r} the weight {weight!r}; expected a number from "
                f"{1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
            )
    return np.array([weights.get(label, 1.0) for label in labels], dtype=np.float64)
