"""The penalty of squared weights, chosen on folds of whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from treecrf.chains.transitions import Transitions
from treecrf.learners.base.folds import (
    MAX_POSITIONS,
    N_FOLDS,
    SEED,
    make_folds,
    sample_for_folds,
)
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.utils.model_file import require

# Value of the parameter ``l2_regularization`` that stands for a choice.
AUTO = "auto"
# Powers of 10 are tried, from these to those. Scores change little within a factor of 10: a smaller
# one takes more time.
EXPONENTS = range(-4, 4)
# The penalty that is tried first, and used without folds.
FIRST = 1.0
# Folds need not converge: ten iterations that lower their loss by less than this fraction are the
# last ones.
TOLERANCE = 0.01


@dataclass
class PenaltyFold:
    """A fold, whose weights go on from one penalty to the next."""

    data: TrainingData
    weights: Weights  # of the latest penalty
    fit: Callable[[TrainingData, Weights, float], Weights]  # from weights, with a penalty
    score: Callable[[Weights], float]  # of the held-out sequences
    n_held_out: int  # number of positions

    def scored(self, penalty: float) -> float:
        """Fit the weights with a penalty, and return the score of the held-out sequences."""
        self.weights = self.fit(self.data, self.weights, penalty)
        return self.score(self.weights)


def folds_of_sample(data: TrainingInput, rules: Transitions | None) -> list[TrainingInput]:
    """Return folds of all training sequences, or of a sample; empty if there are too few."""
    training = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    if training.n_positions > MAX_POSITIONS:
        training = sample_for_folds(training, MAX_POSITIONS, SEED, rules)
    folds = make_folds(replace(data, training=training, held_out=None, seed=SEED), rules)
    return [replace(fold, training=in_content_order(fold.training)) for fold in folds]


def in_content_order(training: LabeledSequences) -> LabeledSequences:
    """Return the sequences in an order that does not depend on the one in which they are given.

    L-BFGS sums over the sequences in their order.
    """
    return training.take(np.argsort(training.hashes(SEED)))


def best_penalty(folds: list[PenaltyFold]) -> float:
    """Return the penalty with the best mean score of the held-out sequences.

    Ever smaller penalties are tried as long as the score rises; if the first of them does not raise
    it, ever larger ones.
    """
    if not folds:
        return FIRST
    sizes = [fold.n_held_out for fold in folds]

    def score(penalty: float) -> float:
        return float(np.average([fold.scored(penalty) for fold in folds], weights=sizes))

    best = 0
    best_score = score(FIRST)
    for step in (-1, 1):
        while best + step in EXPONENTS:
            tried = score(10.0 ** (best + step))
            if not tried > best_score:
                break
            best += step
            best_score = tried
        if best != 0:
            break
    return 10.0**best


def check_penalty(value: Any) -> None:
    """Raise ValueError unless this is a penalty, in a saved model."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    require(is_number and 0 <= value < np.inf, "penalty")
