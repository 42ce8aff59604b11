"""Scores of the sequences of training, from which the examples of an iteration are drawn."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.objectives import Objective
from treecrf.chains.sampling import ExampleTable, LikelihoodSampler, TableSampler
from treecrf.chains.score_parts import ScoreParts
from treecrf.chains.weighted_mean import MeanSums, WholeValue
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.loop import IterationWeights
from treecrf.learners.boosted.transitions import ContextWeights
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.router import Router
from treecrf.utils.scratch import Allocate, moved
from treecrf.utils.threads import Threads


class TrainingScores(Protocol):
    """Scores of the sequences of a part of the data, from which examples are drawn.

    The examples of all parts are weighted together, and the values of the objective are added.
    """

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""

    def sample(
        self, iteration: int, seed: int, mu: float, floor: float, last_chosen: int | None
    ) -> tuple[list[Sample], MeanSums | WholeValue]:
        """Draw examples that are not weighted yet, and compute the value of the objective.

        ``last_chosen`` is that of `IterationWeights.at`.
        """

    def of_contexts(self, iteration: int, last_chosen: int | None = None) -> np.ndarray | None:
        """Return the sums of `ContextWeights`; None if they are not needed."""

    def sums(self) -> MeanSums | WholeValue:
        """Compute the value of the objective."""


class PartsScores:
    """Scores in parts, from which examples of the log-likelihood of chains are drawn.

    Parameters
    ----------
    parts : ScoreParts
        Scores without those of the trees.
    objective : Objective
        The log-likelihood.
    sampler : LikelihoodSampler
    weights : IterationWeights
    router : Router
    threads : Threads
    contexts : ContextWeights, optional
    """

    def __init__(
        self,
        parts: ScoreParts,
        objective: Objective,
        sampler: LikelihoodSampler,
        weights: IterationWeights,
        router: Router,
        threads: Threads,
        contexts: ContextWeights | None = None,
    ):
        self.parts = parts
        self.objective = objective
        self.sampler = sampler
        self.weights = weights
        self.router = router
        self.threads = threads
        self.contexts = contexts
        self.n_iter = 0

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""
        self.parts.keep_in(allocate)
        self.router.keep_in(allocate)

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        forest.add_to_parts(self.parts, self.router, self.threads, self.n_iter)
        self.n_iter = forest.n_iter

    def sample(
        self, iteration: int, seed: int, mu: float, floor: float, last_chosen: int | None
    ) -> tuple[list[Sample], MeanSums]:
        """Draw examples that are not weighted yet, and compute the value of the objective."""
        weights = self.weights.at(iteration, last_chosen)
        samples = self.sampler.sample(self.parts, iteration, seed, mu, weights, floor)
        return samples, self.objective.mean.sums(self.sampler.likelihoods)

    def of_contexts(self, iteration: int, last_chosen: int | None = None) -> np.ndarray | None:
        """Return the sums of `ContextWeights`; None if they are not needed."""
        if self.contexts is None:
            return None
        return self.contexts.sums(self.weights.at(iteration, last_chosen))

    def sums(self) -> MeanSums | WholeValue:
        """Compute the value of the objective."""
        return self.objective.sums(self.objective.value(self.parts))


class TableScores:
    """A table of scores, for objectives that compute tables of residuals.

    Parameters
    ----------
    encoder, encoded : Encoder, EncodedSequences
    objective : Objective
    sampler : TableSampler
    weights : IterationWeights
    threads : Threads
    start : float64 array (n_labels, n_positions, n_contexts), optional
        Scores that the trees are added to; they are changed. Scores of 0 by default.
    """

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        objective: Objective,
        sampler: TableSampler,
        weights: IterationWeights,
        threads: Threads,
        start: np.ndarray | None = None,
    ):
        self.encoder = encoder
        self.encoded = encoded
        self.objective = objective
        self.sampler = sampler
        self.weights = weights
        self.threads = threads
        self.scores = start
        self.n_iter: int | None = None
        self._allocate: Allocate | None = None

    def keep_in(self, allocate: Allocate) -> None:
        """Move the table, once it has scores, to an array from `allocate`."""
        self._allocate = allocate

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        is_first, iterations = self.n_iter is None, (self.n_iter or 0, forest.n_iter)
        self.scores = forest.scores(
            self.encoder, self.encoded, self.threads, iterations, self.scores, self.objective.given
        )
        if is_first:
            self.objective.constrain(self.scores)
            if self._allocate is not None:
                self.scores = moved(self.scores, self._allocate)
        self.n_iter = forest.n_iter

    def sample(
        self, iteration: int, seed: int, mu: float, floor: float, last_chosen: int | None
    ) -> tuple[list[Sample], MeanSums | WholeValue]:
        """Draw examples that are not weighted yet, and compute the value of the objective."""
        residuals, curvature, value = self.objective.examples(self.scores, iteration)
        examples = ExampleTable(residuals, curvature, self.objective.counts)
        examples = examples.weighted(self.weights.at(iteration, last_chosen))
        samples = self.sampler.sample(examples, iteration, seed, mu, floor)
        return samples, self.objective.sums(value)

    def of_contexts(self, iteration: int, last_chosen: int | None = None) -> None:
        """Return None: no transitions are constant."""
        return

    def sums(self) -> MeanSums | WholeValue:
        """Compute the value of the objective."""
        return self.objective.sums(self.objective.value(self.scores))
