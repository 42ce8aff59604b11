"""Kinds of chains: what training does with labeled sequences.

A kind defines the objective, the scores, the limits, and whether trees can be fitted to samples.
The exact kind, which is here, normalizes whole sequences. Beams, constant transitions, other
objectives and local models bring kinds of their own. A kind is chosen once, from the parameters of
an estimator, and can be sent to other processes, like all settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import MAX_LABELS, check_order, require_memory
from treecrf.chains.likelihood import ChainLabels, LogLikelihood, Objective
from treecrf.chains.transitions import as_transitions
from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.training_data import LabeledSequences
from treecrf.learners.boosted.booster import Booster
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.training_scores import TableScores, TrainingScores, starting_table
from treecrf.utils.threads import Threads


@dataclass(frozen=True, kw_only=True)
class ChainKind(ABC):
    """What training does with labeled sequences; by default, scores are a table of all contexts."""

    order: int  # number of previous labels that a label depends on
    transitions: Any  # which labels may follow each other, as passed to the estimator
    has_curvature: bool  # whether steps are Newton steps
    is_backward: bool = False  # whether training begins at the end of the sequences

    # Number of examples at a position from which on ``sampling="auto"`` draws samples of them.
    many_at_a_position: ClassVar[int] = 80
    # Whether the scores of labels after labels are the same at all positions.
    constant_transitions: ClassVar[bool] = False
    # Whether validation scores have a lattice, from which marginal probabilities follow.
    has_lattices: ClassVar[bool] = False
    # Whether steps that lower the objective are halved, see `halve_while_worse`.
    halves_steps: ClassVar[bool] = False
    # Adds the trees that are fitted to all examples.
    booster_class: ClassVar[type[Booster]] = Booster

    # Objective and scores

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

    def start(self, data: EncodedPart) -> Any:
        """Return the scores that a booster adds trees to; None stands for scores of 0."""
        return starting_table(data, self.order)

    def scores(
        self, encoder: Encoder, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> TrainingScores:
        """Return the scores that trees are added to, with their objective."""
        objective = self.objective(data, threads, is_validation)
        return TableScores(encoder, data.encoded, objective, threads, self.start(data))

    @abstractmethod
    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if training would not fit in memory or in the kernels' integers.

        If the data stay in partitions, this is the number of positions in the largest.
        """

    @property
    def has_one_context(self) -> bool:
        """Whether all scores of a label at a position are one, as trees for all labels need it."""
        return self.constant_transitions or self.order == 0

    # What samples of the examples need to know

    def n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training."""
        return n_labels ** (self.order + 1)

    def why_no_samples(self, n_labels: int) -> str | None:
        """Return why ``sampling`` must be None, for an error message; None if it need not be."""
        return None

    @property
    def is_factored(self) -> bool:
        """Whether factored scores suffice to draw samples, without tables of residuals."""
        return False

    @property
    def needs_all_sequences(self) -> bool:
        """Whether residuals depend on all sequences, so that partitions have to be joined."""
        return False


@dataclass(frozen=True, kw_only=True)
class ExactKind(ChainKind):
    """Exact inference in whole sequences, for the log-likelihood."""

    bound_share: float | None  # minimum fraction of the bound in the curvature
    alternative: str  # advice for the case of too many contexts

    has_lattices = True
    halves_steps = True

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> LogLikelihood:
        """Return the log-likelihood."""
        return LogLikelihood(data.labels, threads, self.bound_share)

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if the scores, and tables of residuals, would not fit in memory."""
        check_order(n_labels, self.order, self.alternative)
        if in_partitions and self.is_factored:
            require_memory(n_labels, 0, n_positions)
        else:
            n_tables = 3 if self.has_curvature else 2  # scores, residuals and curvature
            require_memory(n_labels, self.order, n_positions, n_tables)

    def why_no_samples(self, n_labels: int) -> str | None:
        """Return why ``sampling`` must be None: examples have contexts, which have numbers."""
        if self.order == 0 or n_labels <= MAX_LABELS:
            return None
        return (
            f"supports at most {MAX_LABELS} labels, and y has {n_labels}; expected None, or "
            "constant_transitions=True"
        )

    @property
    def is_factored(self) -> bool:
        """Whether factored scores suffice: the gradient of the log-likelihood needs no tables."""
        return True

    @property
    def needs_all_sequences(self) -> bool:
        """Whether partitions have to be joined."""
        return not self.is_factored
