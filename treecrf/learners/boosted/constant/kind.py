"""What training with constant transitions does with labeled sequences."""

from __future__ import annotations

from dataclasses import dataclass

from treecrf.chains.contexts import check_order, require_memory
from treecrf.learners.boosted.kinds import ExactKind


@dataclass(frozen=True, kw_only=True)
class ConstantKind(ExactKind):
    """Exact inference, with constant transitions."""

    constant_transitions = True

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise an error if the scores would not fit in memory."""
        check_order(n_labels, self.order, self.alternative)
        require_memory(n_labels, 0, n_positions)

    def why_no_samples(self, n_labels: int) -> None:
        """Return None: there is no example for each context."""
