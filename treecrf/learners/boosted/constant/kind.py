"""What training with constant transitions does with labeled sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.contexts import check_order, require_memory
from treecrf.chains.factored.constant_likelihood import ConstantLikelihood
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.constant.booster import ConstantBooster
from treecrf.learners.boosted.constant.scores import ConstantScores
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ExactKind
from treecrf.utils.threads import Threads


@dataclass(frozen=True, kw_only=True)
class ConstantKind(ExactKind):
    """Exact inference, with constant transitions."""

    constant_transitions = True
    # With many labels nearly all residuals are tiny. Samples then take less time, and models are
    # better on held-out data: with 20 and 26 labels, though not with 3 and 5.
    many_at_a_position = 10
    booster_class = ConstantBooster

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> ConstantLikelihood:
        """Return the log-likelihood."""
        return ConstantLikelihood(data.labels, threads, self.bound_share)

    def start(self, data: EncodedPart) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the starting scores of labels at positions, and of labels after labels."""
        return data.start_state, data.start_transitions

    def scores(
        self, encoder: Encoder, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> ConstantScores:
        """Return the scores that trees are added to, with their objective."""
        return ConstantScores(encoder, data, self.objective(data, threads, is_validation), threads)

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if the scores, and tables of residuals, would not fit in memory."""
        check_order(n_labels, self.order, self.alternative)
        n_tables = 3 if self.has_curvature else 2
        require_memory(n_labels, 0, n_positions, n_tables)

    def n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training: one for each label."""
        return n_labels

    def why_no_samples(self, n_labels: int) -> None:
        """Return None: there is no example for each context."""
