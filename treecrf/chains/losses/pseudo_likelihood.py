"""First iterations that follow the gradient of the pseudo-likelihood.

The pseudo-likelihood is the sum of log P(label | all other labels) over the positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.chains.likelihood import ChainObjective
from treecrf.chains.losses import _pseudo_likelihood


class PseudoLikelihoodStart:
    """An objective whose first residuals are replaced by those of the pseudo-likelihood."""

    def __init__(self, objective: ChainObjective, n_iter: int):
        self.objective = objective
        self.n_iter = n_iter  # number of iterations that follow the pseudo-likelihood

    def __getattr__(self, name: str) -> Any:
        # All else is that of the objective.
        if name == "objective":  # not set yet
            raise AttributeError(name)
        return getattr(self.objective, name)

    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the residuals, the curvature (or None), and the value of the objective."""
        objective = self.objective
        if iteration >= self.n_iter:
            return objective.examples(scores, iteration, weights)
        residuals, curvature = objective.tables()

        def compute(first: int, last: int) -> None:
            _pseudo_likelihood.pseudo_residuals(
                scores, objective.chains, objective.codes, first, last, residuals, curvature
            )

        objective.run_in_threads(compute)
        return residuals, curvature, objective.value(scores)
