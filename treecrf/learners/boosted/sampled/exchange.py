"""Messages between a booster and its shards in an iteration; all of them can be pickled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from treecrf.chains.factored.constant_likelihood import TransitionSums
from treecrf.chains.likelihood import MeanSums
from treecrf.learners.boosted.sampled.examples import ResidentExamples, SampledExamples
from treecrf.trees.forest import Forest


@dataclass(frozen=True)
class SampleRequest:
    """Which examples are drawn in an iteration."""

    # Residuals of this size are all kept, smaller ones with a probability proportional to them.
    mu: float
    floor: float  # probability that an example of weight 1 without a residual is kept
    # Sequences with a larger hash in this iteration are not in its subsample.
    last_chosen: int | None


@dataclass(frozen=True)
class IterationRequest:
    """A step of training; every shard carries out the same one."""

    # A shard has at least the iterations before ``first``. Its results are for the first
    # ``n_iter``.
    first: int
    n_iter: int
    trees: Forest  # iterations ``first`` to ``n_iter - 1``
    halvings: tuple[int, ...]  # how many times each of the first ``n_iter`` was halved
    request: SampleRequest | None  # examples to grow on; None if no trees grow
    learning_rate: float  # factor of the leaf values of the trees that grow
    wants_value: bool = False  # compute the objective, as a request does anyway
    wants_validation: bool = False  # compute the validation value, and what ``scoring`` needs
    query: Callable[[Any], Any] | None = None  # function of a `Shard`, at the top level of a module


@dataclass(frozen=True)
class Stale:
    """Answer of a shard that lacks trees: it has this number of iterations."""

    n_iter: int


@dataclass(frozen=True)
class ShardAnswer:
    """Answer of a shard to a step: arrays that are cheap to pickle."""

    # None if there was no request, or no partition has training sequences.
    examples: SampledExamples | ResidentExamples | None
    value: MeanSums | None  # objective on the training sequences, if wanted
    validation: MeanSums | None  # objective on the validation sequences, if wanted
    transition_sums: TransitionSums | None  # with constant transitions, if there was a request
    predictions: dict[int, np.ndarray]  # by partition number, if ``scoring`` needs all of them
    score: MeanSums | None = None  # value of ``scoring`` if it is a mean over the positions
    answer: Any = None  # to the query, if there is one


@dataclass(frozen=True)
class IterationResult:
    """Result of a step, from the answers of all shards."""

    # Trees of iteration ``n_iter`` of the step; None if there was no request, or the step must be
    # repeated with this smaller ``mu``.
    trees: Forest | None
    mu: float  # threshold that keeps no more examples than wanted
    size: int  # sum of the absolute residuals of all examples, in units of 2**-30
    value: float  # objective on the training data; NaN if not computed
    validation: float  # objective on the validation data; NaN if not computed
    predictions: dict[int, np.ndarray]  # by partition number, if ``scoring`` needs all of them
    score: float  # metric that is a mean over the validation positions
    answers: list  # of all shards to the query, in any order


def total(values: Iterable[Any]) -> Any:
    """Add values, except None; None if there are no others."""
    present = [value for value in values if value is not None]
    return reduce(add, present) if present else None
