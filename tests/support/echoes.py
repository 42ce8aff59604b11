"""Sequences whose labels follow from a number some positions before."""

from __future__ import annotations

import numpy as np


def echoes(distance=3, n=30, length=20, seed=0):
    """Labels that are the sign of a number some positions before, and another number."""
    rng = np.random.RandomState(seed)
    tables = [rng.normal(size=(length + distance, 2)) for _ in range(n)]
    y = [(table[:length, 0] > 0).astype(int) for table in tables]
    return [table[distance:] for table in tables], y
