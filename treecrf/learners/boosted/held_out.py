"""Scores of held-out sequences, whose differences may be errors of chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HeldOutScore:
    """A score of the held-out sequences of all folds."""

    score: float  # mean of the folds
    # Log-likelihood of each sequence, and its number of positions, times its weight; None if the
    # score is not a mean of them.
    likelihoods: np.ndarray | None
    sizes: np.ndarray

    def is_as_good_as(self, best: HeldOutScore, n_errors: float = 1.0) -> bool:
        """Return whether the best score is higher by at most so many standard errors.

        They are errors of the difference. Without likelihoods, no difference is an error.
        """
        if self.score >= best.score:
            return True
        if not n_errors or self.likelihoods is None or self.score == -np.inf:
            return False
        error = standard_error(best.likelihoods - self.likelihoods, self.sizes)
        return best.score - self.score <= n_errors * error


def joined_likelihoods(fold_likelihoods: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the log-likelihoods of the sequences of all folds; None if folds have none."""
    if fold_likelihoods[0] is None:
        return None
    return np.concatenate(fold_likelihoods)


def standard_error(sums: np.ndarray, sizes: np.ndarray) -> float:
    """Return the standard error of the mean of sums over items of different sizes.

    It does not depend on the order of the items.
    """
    n = len(sums)
    if n < 2:
        return 0.0
    total = math.fsum(sizes)
    deviations = sums - math.fsum(sums) / total * sizes
    return math.sqrt(math.fsum(deviations**2) * n / (n - 1)) / total
