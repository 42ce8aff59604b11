"""Growth of the trees of an iteration, in one place, on the examples of all shards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.sampling import Draw, RawDraw, mu_for
from treecrf.encoding.gathered import chained
from treecrf.learners.boosted.parted.steps import (
    Drawn,
    DrawnExamples,
    Grown,
    ShardSetup,
    Step,
    total,
)
from treecrf.learners.boosted.sampled import ListedPositions, ListGrowth, grow_iteration
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.utils.threads import Threads


class ListGrowing:
    """Growth of the trees of an iteration on the examples of all shards.

    It can be pickled, and does the same in any process.

    Parameters
    ----------
    setup : ShardSetup
    """

    def __init__(self, setup: ShardSetup):
        self.setup = setup

    @cached_property
    def _table(self) -> TestTable:
        return number_tests(self.setup.encoder)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def grow(self, drawn: list[Drawn], step: Step, n_threads: int = 1) -> Grown:
        """Join the answers of all shards to a step, and grow trees.

        Parameters
        ----------
        drawn : list of Drawn
            Answers in any order.
        step : Step
            Its trees are not read.
        n_threads : int, default=1
        """
        sampling = self.setup.sampling
        examples = [answer.examples for answer in drawn if answer.examples is not None]
        size = sum(part.size for part in examples)
        mu = mu_for(sampling.threshold, size, sampling.max_examples)
        trees = None
        if step.request is not None and mu >= step.request.mu:
            of_contexts = total(answer.of_contexts for answer in drawn)
            trees = self._trees(examples, mu, size, of_contexts, step, n_threads)
        return Grown(
            trees,
            mu,
            size,
            _mean(answer.value for answer in drawn),
            _mean(answer.validation for answer in drawn),
            {number: p for answer in drawn for number, p in answer.predictions.items()},
            _mean(answer.score for answer in drawn),
            [answer.answer for answer in drawn],
        )

    def _trees(
        self,
        examples: list[DrawnExamples],
        mu: float,
        size: int,
        of_contexts: np.ndarray | None,
        step: Step,
        n_threads: int,
    ) -> dict[str, np.ndarray]:
        """Grow the trees of an iteration; return them as from `Forest.pack`."""
        setup, estimator, forest = self.setup, self.setup.estimator, self.setup.new_forest()
        growth = replace(setup.growth, learning_rate=step.learning_rate)
        with Threads(n_threads) as threads:
            lists = ListGrowth(
                forest,
                setup.encoder,
                _joined([part.positions for part in examples]),
                growth,
                estimator._is_newton(),
                threads,
                step.n_iter,
                self._table,
            )
            raw = RawDraw(_samples(examples, forest.order), step.request.mu, step.request.floor)
            weighted = raw.lists(mu, threads, counted=lists.with_counts, release=True)
            transitions = estimator._transition_growth(forest, growth)
            grow_iteration(Draw(weighted, mu, size), lists, transitions, of_contexts)
        return forest.pack()


def _mean(sums: Iterable) -> float:
    joined = total(sums)
    if joined is None or not joined.positions.units:
        return np.nan
    return float(joined)


def _joined(parts: list[ListedPositions]) -> ListedPositions:
    """Join the positions of all parts, those of the first ones first."""
    has_given = parts[0].given is not None
    return ListedPositions(
        chained([part.encoded for part in parts]),
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.given for part in parts], axis=1) if has_given else None,
    )


def _samples(examples: list[DrawnExamples], order: int) -> list[Sample]:
    """Unpack the samples of all parts; their positions are those of `_joined`."""
    samples, first = [], 0
    for part in examples:
        n_lags = 0 if part.positions.given is not None else order
        samples.append(Sample.unpack(part.examples, part.starts, n_lags, part.size, first))
        first += len(part.positions.depth)
    return samples
