"""Scores of sequences under the trees so far, and the examples that are sampled at them.

Training and validation data have the same scores. They are one table of all contexts, or factored:
the scores of labels at positions, and the scores of labels after labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.lattice import Lattice, PartsLattice
from treecrf.chains.objectives import MeanSums, Objective, WholeValue
from treecrf.chains.sampling import ExampleTable, LikelihoodSampler, TableSampler
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.loop import IterationWeights
from treecrf.learners.boosted.transitions import ContextWeights
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.scorer import Router
from treecrf.utils.scratch import Allocate, moved
from treecrf.utils.threads import Threads


class Scores(Protocol):
    """Scores of sequences, to which trees are added, and their objective."""

    objective: Objective

    def value(self, forest: Forest) -> float:
        """Compute the objective under the forest; only trees that are new are evaluated."""

    def lattice(self, order: int) -> Lattice | PartsLattice | None:
        """Return a lattice of the present scores; None if some contexts have no scores."""

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""


class TableScores:
    """Scores in a table of all contexts, or of the given one at each position."""

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        objective: Objective,
        threads: Threads,
        start: np.ndarray | None = None,  # starting scores, which are changed
    ):
        self.encoder = encoder
        self.encoded = encoded
        self.objective = objective
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

    def value(self, forest: Forest) -> float:
        """Compute the objective under the forest; only trees that are new are evaluated."""
        self.add_trees(forest)
        return self.objective.value(self.scores)

    def lattice(self, order: int) -> Lattice | None:
        """Return a lattice of the present scores; None if some contexts have no scores."""
        if order and self.objective.given is not None:
            return None
        return Lattice(self.scores, self.encoded.offsets, order, self.threads)


class PartsScores:
    """Factored scores, without a table of all contexts; for the log-likelihood."""

    def __init__(
        self,
        parts: ScoreParts,  # starting scores, which are changed
        objective: Objective,
        router: Router,
        threads: Threads,
    ):
        self.parts = parts
        self.objective = objective
        self.router = router
        self.threads = threads
        self.n_iter = 0

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""
        self.parts.keep_in(allocate)
        self.router.keep_in(allocate)

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        forest.add_to_parts(self.parts, self.router, self.threads, self.n_iter)
        self.n_iter = forest.n_iter

    def value(self, forest: Forest) -> float:
        """Compute the objective under the forest; only trees that are new are evaluated."""
        self.add_trees(forest)
        return self.objective.value(self.parts)

    def lattice(self, order: int) -> PartsLattice:
        """Return a lattice of the present scores."""
        return PartsLattice(self.parts, self.parts.offsets, order, self.threads)


@dataclass(frozen=True)
class ExampleSampler:
    """Samples of the examples of training sequences, from tables at their present scores.

    Examples are not weighted yet, because all parts of the data are weighted together.
    """

    scores: TableScores
    sampler: TableSampler
    weights: IterationWeights

    def sample(
        self, iteration: int, seed: int, mu: float, floor: float, last_chosen: int | None
    ) -> tuple[list[Sample], MeanSums | WholeValue]:
        """Draw examples, and compute the objective; see `IterationWeights.at`."""
        objective, weights = self.scores.objective, self.weights.at(iteration, last_chosen)
        residuals, curvature, value = objective.examples(self.scores.scores, iteration, weights)
        examples = ExampleTable(residuals, curvature, objective.counts).weighted(weights)
        samples = self.sampler.sample(examples, iteration, seed, mu, floor)
        return samples, objective.sums(value)

    def of_contexts(self, iteration: int, last_chosen: int | None) -> np.ndarray | None:
        """Return the sums of `ContextWeights`; None if transitions do not need them."""
        return None


@dataclass(frozen=True)
class FactoredSampler(ExampleSampler):
    """Samples of the examples of training sequences, from factored scores without tables."""

    scores: PartsScores
    sampler: LikelihoodSampler
    contexts: ContextWeights | None = None  # if transitions need them

    def sample(
        self, iteration: int, seed: int, mu: float, floor: float, last_chosen: int | None
    ) -> tuple[list[Sample], MeanSums]:
        """Draw examples, and compute the objective; see `IterationWeights.at`."""
        weights = self.weights.at(iteration, last_chosen)
        samples = self.sampler.sample(self.scores.parts, iteration, seed, mu, weights, floor)
        return samples, self.scores.objective.mean.sums(self.sampler.likelihoods)

    def of_contexts(self, iteration: int, last_chosen: int | None) -> np.ndarray | None:
        """Return the sums of `ContextWeights`; None if transitions do not need them."""
        if self.contexts is None:
            return None
        return self.contexts.sums(self.weights.at(iteration, last_chosen))
