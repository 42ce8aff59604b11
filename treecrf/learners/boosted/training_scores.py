"""Scores of sequences under the trees so far, and the examples that are sampled at them.

Training and validation data have the same scores. They are one table of all contexts, or factored:
the scores of labels at positions, and the scores of labels after labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import ExampleTable, MeanSums, Objective
from treecrf.chains.sampled._samples import Sample
from treecrf.chains.sampled.factored_scores import FactoredScores
from treecrf.chains.sampled.lattice import FactoredLattice
from treecrf.chains.sampled.sampling import LikelihoodSampler, TableSampler
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.beams.training import BeamScores
from treecrf.learners.boosted.booster import Scored
from treecrf.learners.linear.crf import LinearCRF, score_parts
from treecrf.trees.forest import Forest
from treecrf.trees.updates.score_updater import ScoreUpdater
from treecrf.utils.allocation import Allocate, moved
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class SampleRequest:
    """Which examples are drawn in an iteration."""

    # Residuals of this size are all kept, smaller ones with a probability proportional to them.
    mu: float
    floor: float  # probability that an example of weight 1 without a residual is kept
    # Sequences with a larger hash in this iteration are not in its subsample.
    last_chosen: int | None


class TableScores(Scored):
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

    def values(self, grown: Iterable[Forest]) -> list[float]:
        """Compute the objective after each new iteration; all trees are evaluated at once."""
        values = []
        if forests := list(grown):
            of_iterations = forests[-1].scores_of_trees(
                self.encoder, self.encoded, self.threads, self.n_iter, self.objective.given
            )
            for of_iteration in of_iterations:
                self.scores += of_iteration
                values.append(self.objective.value(self.scores))
            self.n_iter = forests[-1].n_iter
        return values

    def sample(
        self,
        sampler: TableSampler,
        iteration: int,
        seed: int,
        request: SampleRequest,
        weights: np.ndarray | None,
    ) -> tuple[list[Sample], MeanSums | float]:
        """Draw examples, and compute the objective."""
        objective = self.objective
        residuals, curvature, value = objective.examples(self.scores, iteration, weights)
        examples = ExampleTable(residuals, curvature, objective.counts).weighted(weights)
        samples = sampler.sample(examples, iteration, seed, request.mu, request.floor)
        return samples, objective.sums(value)

    def lattice(self, order: int) -> Lattice | None:
        """Return a lattice of the present scores; None if some contexts have no scores."""
        if order and self.objective.given is not None:
            return None
        return Lattice(self.scores, self.encoded.offsets, order, self.threads)


class PartsScores(Scored):
    """Factored scores, without a table of all contexts; for the log-likelihood."""

    def __init__(
        self,
        parts: FactoredScores,  # starting scores, which are changed
        objective: Objective,
        updater: ScoreUpdater,
        threads: Threads,
    ):
        self.parts = parts
        self.objective = objective
        self.updater = updater
        self.threads = threads
        self.n_iter = 0

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""
        self.parts.keep_in(allocate)
        self.updater.keep_in(allocate)

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        self.updater.add(forest, self.parts, self.threads, self.n_iter)
        self.n_iter = forest.n_iter

    def value(self, forest: Forest) -> float:
        """Compute the objective under the forest; only trees that are new are evaluated."""
        self.add_trees(forest)
        return self.objective.value(self.parts)

    def sample(
        self,
        sampler: LikelihoodSampler,
        iteration: int,
        seed: int,
        request: SampleRequest,
        weights: np.ndarray | None,
    ) -> tuple[list[Sample], MeanSums]:
        """Draw examples, and compute the objective."""
        mu, floor = request.mu, request.floor
        samples = sampler.sample(self.parts, iteration, seed, mu, weights, floor)
        return samples, self.objective.mean.sums(sampler.likelihoods)

    def lattice(self, order: int) -> FactoredLattice:
        """Return a lattice of the present scores."""
        return FactoredLattice(self.parts, self.parts.offsets, order, self.threads)


Scores = TableScores | PartsScores | BeamScores


# Scores to start from


def starting_parts(
    start: LinearCRF | None, sequences: Sequences, threads: Threads
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the scores that the trees are added to: of the linear model and of the user.

    They are arrays as from `score_parts`; None stands for scores of 0.
    """
    state, transitions = (None, None) if start is None else score_parts(start, sequences, threads)
    given = sequences.init_scores
    if given is not None:
        state = np.ascontiguousarray(given.T) if state is None else state + given.T
    return state, transitions


def table_of_parts(
    state: np.ndarray | None, transitions: np.ndarray | None, offsets: np.ndarray, order: int
) -> np.ndarray | None:
    """Return the scores of `starting_parts` in all contexts.

    Only the nearest previous label matters. First positions have one context, the first.
    """
    if state is None:
        return None
    n_labels = len(state)
    scores = np.empty((n_labels, state.shape[1], n_labels**order))
    if transitions is None:
        scores[:] = state[:, :, None]
        return scores
    # The nearest previous label is the lowest digit of a context.
    of_contexts = np.tile(transitions[:-1].T, n_labels ** (order - 1))
    np.add(state[:, :, None], of_contexts[:, None], out=scores)
    first = offsets[:-1]
    scores[:, first] = 0.0
    scores[:, first, 0] = state[:, first] + transitions[-1][:, None]
    return scores
