"""The kind of chains that are normalized at each position."""

from __future__ import annotations

from dataclasses import dataclass

from treecrf.chains.contexts import check_label_codes, check_lags
from treecrf.chains.local.objective import LocalObjective
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.utils.threads import Threads


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

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise ValueError if labels or lags do not fit in the kernels' integers."""
        check_label_codes(n_labels, self.name)
        check_lags(self.order)
