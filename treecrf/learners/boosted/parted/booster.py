"""Boosting on shards: one exchange an iteration, and growth of the trees in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treecrf.learners.boosted.parted.shard import Drawn, ShardSetup, Step


@dataclass(frozen=True)
class Grown:
    """Result of a step, from the answers of all shards.

    Attributes
    ----------
    trees : dict of arrays or None
        The trees of iteration ``n_iter`` of the step, as from `Forest.pack`; None if there was no
        request, or the step must be repeated with a smaller ``mu``.
    mu : float
        The threshold that keeps no more examples than wanted.
    size : int
        Sum of the absolute residuals of all examples, in units of 2**-30.
    value : float
        Value of the objective on the training data; NaN if it was not computed.
    validation : float
        The same for the validation data.
    predictions : list of arrays or None
        Predictions for the validation sequences of each part, for metrics.
    """

    trees: dict[str, np.ndarray] | None
    mu: float
    size: int
    value: float
    validation: float
    predictions: list[np.ndarray] | None = None


class ListGrowing:
    """Growth of the trees of an iteration on the examples of all shards.

    It has no state, can be pickled, and is the same in any process.

    Parameters
    ----------
    setup : ShardSetup
    n_threads : int, default=1
    """

    def __init__(self, setup: ShardSetup, n_threads: int = 1):
        self.setup = setup
        self.n_threads = n_threads

    def grow(self, drawn: list[Drawn], step: Step) -> Grown:
        """Join the answers of all shards to a step, in any order, and grow trees."""
        raise NotImplementedError


class Shards(Protocol):
    """All shards of the data, wherever they are."""

    def iterate(self, step: Step, again: Callable[[int], Step]) -> Grown:
        """Carry out a step on all shards, and grow trees on their examples in one place.

        Parameters
        ----------
        step : Step
        again : callable
            Returns the same step with the trees from an iteration on, for shards that answer
            `Behind`: ``again(behind.n_iter)``.
        """


class LocalShards:
    """Shards in this process.

    Parameters
    ----------
    shards : list of Shard
    growing : ListGrowing
    """

    def __init__(self, shards: list, growing: ListGrowing):
        self.shards = shards
        self.growing = growing

    def iterate(self, step: Step, again: Callable[[int], Step]) -> Grown:
        """Carry out a step on all shards, one after another."""
        raise NotImplementedError
