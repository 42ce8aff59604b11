"""Training with other objectives than the log-likelihood, or with the pseudo-likelihood first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treecrf.chains.likelihood import Objective
from treecrf.chains.objectives import make_objective, start_with_pseudo_likelihood
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ExactKind
from treecrf.utils.threads import Threads


@dataclass(frozen=True, kw_only=True)
class LossKind(ExactKind):
    """Exact inference in whole sequences, for any objective."""

    loss: str | Callable  # name of the objective, or a function that computes a loss
    reports_likelihood: bool  # whether validation data are scored by the log-likelihood
    n_pseudo: int  # number of first iterations that maximize the pseudo-likelihood

    is_factored = False
    halves_steps = False

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> Objective:
        """Return the objective that training maximizes, or that is reported for validation data."""
        loss = "log" if is_validation and self.reports_likelihood else self.loss
        objective = make_objective(loss, data.labels, threads, self.bound_share)
        if self.n_pseudo:
            return start_with_pseudo_likelihood(objective, self.n_pseudo)
        return objective
