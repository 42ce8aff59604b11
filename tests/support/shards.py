"""Fits on shards in this process, with the partitions of any cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.parts import fit_parts_of

# Which sequences are in each partition, given their number.
Cut = Callable[[int], list[np.ndarray]]


def dealt(n_parts: int) -> Cut:
    """Deal sequences out in turn."""
    return lambda n: [np.arange(n)[i::n_parts] for i in range(n_parts)]


def runs_of(n_parts: int) -> Cut:
    """Cut the list of sequences into runs."""
    return lambda n: np.array_split(np.arange(n), n_parts)


def fit_on_shards(model, X: list, y: list, cut: Cut, *shards: Any, **given: Any) -> Any:
    """Fit a model; see `fit_parts_of`."""
    return fit_parts_of(model, X, y, cut(len(X)), *shards, **given)
