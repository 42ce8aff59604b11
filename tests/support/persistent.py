"""Sequences whose labels persist, where steps of boosting can be too long."""

from __future__ import annotations

import numpy as np

# By the diagonal of the curvature, steps are too long.
LONG_STEPS = {
    "curvature": "diagonal",
    "learning_rate": 1.0,
    "l2_regularization": 1.0,
    "max_leaf_nodes": 8,
    "max_iter": 8,
    "window": 1,
    "init": "transitions",
    "early_stopping": False,
    "constant_transitions": False,
    "random_state": 0,
}


def persistent(n=8, length=60, stay=0.98, seed=6):
    """Segments of labels, in each of which the numbers are shifted at random."""
    rng = np.random.default_rng(seed)
    X = []
    y = []
    for _ in range(n):
        is_new = rng.random(length) > stay
        segment = np.cumsum(is_new)
        labels = rng.integers(3, size=length)[segment]
        shifts = rng.normal(size=(length, 2))[segment]
        X.append(rng.normal(size=(length, 2)) + labels[:, None] * [1, 0] + 2 * shifts)
        y.append(labels)
    return X, y
