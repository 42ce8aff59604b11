"""Scores at which examples are drawn: in a table of all contexts, or factored.

Factored scores are scores of labels at positions, and of labels after labels. They take less memory
than a table. They suffice to draw samples for the log-likelihood, whose residuals are computed in
passes over the sequences; other objectives have tables of residuals.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from treecrf.chains.factored.constant_likelihood import ConstantLikelihood
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.factored.lattice import FactoredLattice
from treecrf.chains.likelihood import ExampleTable, MeanSums
from treecrf.chains.sampled._samples import Sample
from treecrf.chains.sampled.likelihood import SampledLikelihood
from treecrf.chains.sampled.sampling import LikelihoodSampler, TableSampler
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.constant.scores import starting_factors
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind, ExactKind
from treecrf.learners.boosted.sampled.exchange import SampleRequest
from treecrf.learners.boosted.training_scores import TableScores, TrainingScores, starting_table
from treecrf.trees.forest import Forest
from treecrf.trees.updates.score_updater import ScoreUpdater
from treecrf.utils.allocation import Allocate, moved
from treecrf.utils.threads import Threads


class SampledScores(TrainingScores):
    """Scores that trees are added to, and at which examples are drawn."""

    # Names of the attributes that trees change.
    CHANGING: ClassVar[tuple[str, ...]]

    objective: Any
    n_iter: int | None  # number of iterations that were added; None before the first are

    @abstractmethod
    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""

    @abstractmethod
    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""

    def take_back(self, latest: Forest) -> None:
        """Subtract the latest iteration of the forest."""
        n_iter = self.n_iter
        self.n_iter = 0
        self.add_trees(latest.divided(-1.0))
        self.n_iter = n_iter - 1

    @abstractmethod
    def make_sampler(self, kind: Any, data: EncodedPart, threads: Threads) -> Any:
        """Return what draws examples of training sequences at these scores."""

    @abstractmethod
    def sample(
        self,
        sampler: Any,  # from `make_sampler`
        iteration: int,
        seed: int,
        request: SampleRequest,
        weights: np.ndarray | None,
    ) -> tuple[list[Sample], MeanSums | float]:
        """Draw examples, and compute the objective."""

    def state(self) -> dict[str, Any]:
        """Return the attributes that the trees have changed."""
        return {name: value for name, value in vars(self).items() if name in self.CHANGING}


class TableSampledScores(SampledScores):
    """Scores at which examples are drawn from tables of residuals, which the objective computes."""

    def make_sampler(self, kind: ChainKind, data: EncodedPart, threads: Threads) -> TableSampler:
        """Return what draws examples from tables of residuals."""
        return TableSampler(data.encoded.offsets, kind.order, threads, data.keys, data.label_ranks)

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
        residuals, curvature, value = objective.examples(self.source, iteration, weights)
        examples = ExampleTable(residuals, curvature, objective.counts).weighted(weights)
        samples = sampler.sample(examples, iteration, seed, request.mu, request.floor)
        return samples, objective.sums(value)


class SampledTableScores(TableScores, TableSampledScores):
    """Scores in a table of all contexts, or of the given one at each position."""

    CHANGING = ("scores", "n_iter")

    _allocate: Allocate | None = None

    def keep_in(self, allocate: Allocate) -> None:
        """Move the table, once it has scores, to an array from `allocate`."""
        self._allocate = allocate

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        is_first = self.n_iter is None
        super().add_trees(forest)
        if is_first and self._allocate is not None:
            self.scores = moved(self.scores, self._allocate)


class FactoredTrainingScores(SampledScores):
    """Factored scores, without a table of all contexts; for the log-likelihood."""

    CHANGING = ("factored", "n_iter")

    def __init__(
        self,
        factored: FactoredScores,  # starting scores, which are changed
        objective: SampledLikelihood,
        updater: ScoreUpdater,
        threads: Threads,
    ):
        self.factored = factored
        self.objective = objective
        self.updater = updater
        self.threads = threads
        self.n_iter = 0

    @property
    def source(self) -> FactoredScores:
        """The factored scores."""
        return self.factored

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""
        self.factored.keep_in(allocate)
        self.updater.keep_in(allocate)

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        self.updater.add(forest, self.factored, self.threads, self.n_iter)
        self.n_iter = forest.n_iter

    def make_sampler(
        self, kind: ExactKind, data: EncodedPart, threads: Threads
    ) -> LikelihoodSampler:
        """Return what draws examples while it passes over the sequences."""
        return LikelihoodSampler(
            data.encoded.offsets,
            data.labels.codes,
            kind.order,
            threads,
            data.keys,
            kind.bound_share,
            candidates=data.labels.candidates,
            label_ranks=data.label_ranks,
        )

    def sample(
        self,
        sampler: LikelihoodSampler,
        iteration: int,
        seed: int,
        request: SampleRequest,
        weights: np.ndarray | None,
    ) -> tuple[list[Sample], MeanSums]:
        """Draw examples, and compute the objective."""
        samples = sampler.sample(self.factored, iteration, seed, request.mu, weights, request.floor)
        return samples, self.objective.mean.sums(sampler.likelihoods)

    def lattice(self, order: int, temperature: float = 1.0) -> FactoredLattice:
        """Return a lattice of the present scores, divided by the temperature."""
        factored = self.factored.divided(temperature)
        return FactoredLattice(factored, factored.offsets, order, self.threads)


class ConstantTrainingScores(TableSampledScores, FactoredTrainingScores):
    """Factored scores with constant transitions: examples are labels at positions."""

    objective: ConstantLikelihood


def sampled_scores(
    kind: ChainKind,
    encoder: Encoder,
    data: EncodedPart,
    threads: Threads,
    is_validation: bool = False,
) -> SampledScores:
    """Return the scores that trees are added to: factored ones, if they serve for samples."""
    if not kind.is_factored:
        objective = kind.objective(data, threads, is_validation)
        start = starting_table(data, kind.order)
        return SampledTableScores(encoder, data.encoded, objective, threads, start)
    factored = starting_factors(data)
    updater = ScoreUpdater(encoder, data.encoded, kind.order)
    if kind.constant_transitions:
        objective = kind.objective(data, threads, is_validation)
        return ConstantTrainingScores(factored, objective, updater, threads)
    objective = SampledLikelihood(data.labels, threads, kind.bound_share)
    return FactoredTrainingScores(factored, objective, updater, threads)
