"""Objectives of conditional random fields by their names.

The first one is the log-likelihood. The others, and the pseudo-likelihood, are in
`treecrf.chains.losses`, which is only imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treecrf.chains.likelihood import ChainLabels, ChainObjective, LogLikelihood
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.chains.losses.pseudo_likelihood import PseudoLikelihoodStart

OBJECTIVES = ("log", "exponential", "hamming_log", "hamming_exponential")
# Name of an objective that is a function.
CUSTOM = "custom"


def make_objective(
    objective: str | Callable, data: ChainLabels, threads: Threads, bound_share: float | None = None
) -> ChainObjective:
    """Make an objective by its name, or from a loss; only the log-likelihood has a curvature."""
    if objective == "log":
        return LogLikelihood(data, threads, bound_share)
    from treecrf.chains.losses.objectives import make_loss

    return make_loss(objective, data, threads)


def start_with_pseudo_likelihood(objective: ChainObjective, n_iter: int) -> PseudoLikelihoodStart:
    """Return an objective whose first iterations follow the pseudo-likelihood."""
    from treecrf.chains.losses.pseudo_likelihood import PseudoLikelihoodStart

    return PseudoLikelihoodStart(objective, n_iter)
