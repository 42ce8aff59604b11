"""Settings of boosting as values, which training reads in place of an estimator.

A kind of chains defines the objectives, scores, samples and limits of training: chains are
normalized over whole sequences, at each position, or within a beam. It is chosen once, from the
parameters of an estimator, and can be sent to other processes, like all settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from treecrf.chains.constraints import Constraints, as_transitions
from treecrf.chains.contexts import (
    MAX_LABELS,
    check_label_codes,
    check_lags,
    check_order,
    previous_labels,
    require_memory,
)
from treecrf.chains.likelihood import ChainLabels, ChainObjective, Objective
from treecrf.chains.local.objective import LocalObjective
from treecrf.chains.losses.objectives import make_objective
from treecrf.chains.losses.pseudo_likelihood import PseudoLikelihoodStart
from treecrf.chains.sampled.factored_scores import FactoredScores
from treecrf.chains.sampled.likelihood import FactoredLikelihood
from treecrf.chains.sampled.sampling import LikelihoodSampler, TableSampler
from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.iterations import History, Stopping
from treecrf.learners.base.training_data import LabeledSequences
from treecrf.learners.boosted.beams.training import Beam, BeamBooster, BeamObjective, BeamScores
from treecrf.learners.boosted.booster import Booster
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.sampled.listed_positions import ListedPositions
from treecrf.learners.boosted.training_scores import (
    PartsScores,
    Scores,
    TableScores,
    table_of_parts,
)
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.trees.updates.score_updater import ScoreUpdater
from treecrf.utils.threads import Threads

# Number of examples, triples of a position, its previous labels and a label, from which on
# ``sampling="auto"`` draws samples: in all, and at each position.
MANY_EXAMPLES = 1 << 20
MANY_AT_A_POSITION = 80
# Threshold of ``sampling="auto"``.
THRESHOLD = 0.1


@dataclass(frozen=True, kw_only=True)
class ChainKind(ABC):
    """What training does with labeled sequences: with all contexts of a position in a table."""

    order: int
    transitions: Any  # parameter of the estimator
    has_curvature: bool  # whether steps are Newton steps
    is_backward: bool = False  # whether training begins at the end of the sequences

    samples_partitions = True  # whether partitions can be sampled without the others
    constant_transitions = False
    booster_class: ClassVar[type[Booster]] = Booster

    # Objectives and scores

    @abstractmethod
    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> Objective:
        """Return the objective that training maximizes, or that is reported for validation data."""

    def labels(self, data: LabeledSequences, classes: np.ndarray) -> ChainLabels:
        """Return the labels of sequences, in the chain's direction, and the constraints on them."""
        offsets = data.sequences.offsets
        rules = as_transitions(self.transitions, classes, self.order)
        constraints = Constraints.of(rules, classes, offsets, data.allowed, self.is_backward)
        return ChainLabels(
            offsets,
            data.codes,
            len(classes),
            self.order,
            constraints,
            data.candidates,
            data.weights,
            data.previous,
        )

    def scores(
        self,
        setup: BoostingSetup,
        data: EncodedPart,
        threads: Threads,
        is_validation: bool = False,
    ) -> Scores:
        """Return the scores that trees are added to, with their objective."""
        objective = self.objective(data, threads, is_validation)
        parts = data.start_state, data.start_transitions
        start = table_of_parts(*parts, data.encoded.offsets, self.order)
        return TableScores(setup.encoder, data.encoded, objective, threads, start)

    # Samples of the examples

    def threshold(self, parameter: Any, n_labels: int, n_positions: int) -> float | None:
        """Return the residual from which on examples are always sampled; None for all examples.

        Most examples, triples of a position, its previous labels and a label, have small residuals
        once a few trees have been grown. Trees grow on a sample in which the probability of an
        example is proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and
        Gusev, NeurIPS 2019). Its values are divided by that probability, so that all sums are
        unbiased. The complete trees are then added to the scores of all positions.

        There are two ways to grow trees. `TreeGrower` uses all examples, as products of sets of
        positions and sets of contexts. It is faster if labels are few and residuals large.
        `ListGrower` uses a list of examples. It is faster if nearly all examples have small
        residuals and are not in the sample, as with many labels, and its cost does not grow with
        the number of positions. ``sampling="auto"`` selects it for many examples.
        """
        n_scores = self.n_scores(n_labels)
        is_few = n_positions * n_scores < MANY_EXAMPLES and n_scores < MANY_AT_A_POSITION
        if parameter == "auto":
            return None if is_few else THRESHOLD
        return parameter

    def n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training."""
        return n_labels ** (self.order + 1)

    def sampler(self, data: EncodedPart, threads: Threads) -> TableSampler | LikelihoodSampler:
        """Return what draws examples of training sequences at their scores."""
        return TableSampler(data.encoded.offsets, self.order, threads, data.keys)

    def listed_positions(self, data: EncodedPart) -> ListedPositions:
        """Return what trees test at the positions of examples."""
        return ListedPositions(data.encoded, data.encoded.depth_of(self.order), None)

    @abstractmethod
    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if training would not fit in memory or in the kernels' integers.

        If the data stay in partitions, this is the number of positions in the largest.
        """


@dataclass(frozen=True, kw_only=True)
class ExactKind(ChainKind):
    """Exact inference in whole sequences."""

    objective_name: str | Callable  # a function computes a loss
    validation_name: str | Callable  # objective that is reported for validation data
    n_pseudo: int  # number of first iterations that maximize the pseudo-likelihood
    bound_share: float | None  # minimum fraction of the bound in the curvature
    constant_transitions: bool
    alternative: str  # advice for the case of too many contexts

    @property
    def is_factored(self) -> bool:
        """Whether samples are drawn from factored scores, without tables of residuals."""
        return self.objective_name == "log" and not self.n_pseudo

    @property
    def samples_partitions(self) -> bool:
        """Whether partitions can be sampled without the others."""
        return self.is_factored

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> ChainObjective | PseudoLikelihoodStart:
        """Return the objective that training maximizes, or that is reported for validation data."""
        name = self.validation_name if is_validation else self.objective_name
        objective = make_objective(name, data.labels, threads, self.bound_share)
        return PseudoLikelihoodStart(objective, self.n_pseudo) if self.n_pseudo else objective

    def scores(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> TableScores | PartsScores:
        """Return the scores that trees are added to: factored ones, if they serve for samples."""
        if setup.threshold is None or not self.is_factored:
            return super().scores(setup, data, threads, is_validation)
        objective = FactoredLikelihood(data.labels, threads, self.bound_share)
        shape = setup.n_labels, self.order, data.encoded.offsets
        parts = FactoredScores(*shape, objective.constraints)
        parts.start_from(data.start_state, data.start_transitions)
        updater = ScoreUpdater(setup.encoder, data.encoded, self.order)
        return PartsScores(parts, objective, updater, threads)

    def threshold(self, parameter: Any, n_labels: int, n_positions: int) -> float | None:
        """Return the threshold of samples; ValueError if there are too many labels for them."""
        if self.constant_transitions:
            return THRESHOLD if parameter == "auto" else parameter
        if not self.order or n_labels <= MAX_LABELS:
            return super().threshold(parameter, n_labels, n_positions)
        return _without_samples(
            parameter,
            f"supports at most {MAX_LABELS} labels, and y has {n_labels}; expected None, or "
            "constant_transitions=True",
        )

    def sampler(self, data: EncodedPart, threads: Threads) -> TableSampler | LikelihoodSampler:
        """Return what draws examples of training sequences at their scores."""
        if not self.is_factored:
            return super().sampler(data, threads)
        return LikelihoodSampler(
            data.encoded.offsets,
            data.labels.codes,
            self.order,
            threads,
            data.keys,
            self.bound_share,
            candidates=data.labels.candidates,
        )

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if the scores, and tables of residuals, would not fit in memory."""
        check_order(n_labels, self.order, self.alternative)
        if self.constant_transitions or (in_partitions and self.is_factored):
            require_memory(n_labels, 0, n_positions)
        else:
            require_memory(n_labels, self.order, n_positions, 2 + self.has_curvature)


@dataclass(frozen=True, kw_only=True)
class LocalKind(ChainKind):
    """Probabilities given the true previous labels, normalized at each position."""

    name: str  # of the estimator, for error messages

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> LocalObjective:
        """Return the objective that training maximizes, and that is reported."""
        return LocalObjective(data.labels, threads, self.has_curvature)

    def n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training."""
        return n_labels

    def listed_positions(self, data: EncodedPart) -> ListedPositions:
        """Return what trees test at the positions of examples: also the previous labels."""
        depth = data.encoded.depth_of(self.order)
        labels = data.labels
        codes = labels.codes if labels.previous is None else labels.previous
        given = previous_labels(codes, data.encoded.offsets, labels.n_labels, self.order)
        return ListedPositions(data.encoded, depth, given)

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise ValueError if labels or lags do not fit in the kernels' integers."""
        check_label_codes(n_labels, self.name)
        check_lags(self.order)


@dataclass(frozen=True, kw_only=True)
class BeamKind(ChainKind):
    """Inference with only the best contexts at each position."""

    beam: Beam
    bound_share: float | None  # minimum fraction of the bound in the curvature

    booster_class = BeamBooster

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> BeamObjective:
        """Return the objective that training maximizes, and that is reported."""
        return BeamObjective(data.labels, self.beam, threads, self.bound_share)

    def scores(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> BeamScores:
        """Return the scores that trees are added to, with their objective."""
        objective = self.objective(data, threads)
        return BeamScores(setup.encoder, data.encoded, objective)

    def threshold(self, parameter: Any, n_labels: int, n_positions: int) -> None:
        """Return None; ValueError if samples are wanted."""
        return _without_samples(parameter, "needs all contexts; a beam requires None")

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise ValueError if labels, lags or contexts do not fit in the kernels' integers."""
        check_label_codes(n_labels, "a beam")
        check_lags(self.order)
        self.beam.width_for(n_labels, self.order)


def _without_samples(parameter: Any, reason: str) -> None:
    """Return None for all examples; ValueError if ``sampling`` requires samples."""
    if parameter not in (None, "auto"):
        raise ValueError(f"sampling={parameter!r} {reason}")


@dataclass(frozen=True)
class Trained:
    """Result of training, or of the iterations so far."""

    classes: np.ndarray
    seed: int
    encoder: Encoder
    forest: Forest
    start: LinearCRF | None  # model whose scores the trees are added to
    history: History

    def __str__(self) -> str:
        n_iter = self.forest.n_iter
        trees = f"{n_iter} iteration{'s' * (n_iter != 1)} of trees"
        return trees if self.start is None else f"{trees}, added to {self.start}"

    def until(self, n_iter: int) -> Trained:
        """Return the first iterations."""
        if self.forest.n_iter <= n_iter:
            return self
        return replace(self, forest=self.forest.copy(n_iter), history=self.history.until(n_iter))


@dataclass(frozen=True)
class BoostingSpec:
    """Settings of boosting; they never change, and can be sent to other processes.

    Where the names are the same, they are parameters of the estimator.
    """

    name: str  # of the estimator
    value_name: str  # name of the objective in the progress display
    kind: ChainKind
    window: tuple[int, int]
    starts: list  # to choose from: a share of an own linear model, a LinearCRF, or None
    linear: dict[str, Any]  # parameters of a linear model to start from
    scoring: Any  # a result of `scoring_of`
    # Predicts validation sequences as `base.predicted_by`; None if ``scoring`` does not need it.
    predict: Callable[..., np.ndarray] | None
    max_iter: int
    tree_settings: TreeSettings  # without seed and constraints, which depend on the data
    sampling: Any
    max_examples: int | None
    max_bins: int
    missing: str
    monotonic_cst: Any
    interaction_cst: Any
    early_stopping: bool | str
    stopping: Stopping | None  # rule of early stopping, if it is enabled
    warm_start: bool
    class_weight: dict | str | None
    n_jobs: int | None
    verbose: int


@dataclass(frozen=True)
class BoostingSetup:
    """Everything but the data that scores and the growth of trees depend on; it never changes."""

    spec: BoostingSpec
    classes: np.ndarray
    encoder: Encoder
    tree_settings: TreeSettings
    # Absolute residuals of at least this size are always sampled; None if trees are fitted to all
    # examples. It rises if there would be more than ``spec.max_examples``.
    threshold: float | None
    # For samples only: a forest without trees, the number and the weight of all training sequences,
    # and the largest sample weight of the training and of the validation data; None if all are 1.
    empty: Forest | None = None
    n_sequences: int = 0
    weight: float = 0.0
    largest_weights: tuple[float | None, float | None] = (None, None)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.classes)
