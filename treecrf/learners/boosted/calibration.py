"""Temperatures: numbers that all scores of a model are divided by.

A model is often too sure of the labels of new sequences: within a sequence, or among those of a
person, errors are alike, and training counts their positions as if they were independent. Held-out
sequences show it. Their log loss at several temperatures, as a function of the logarithm of the
temperature, is close to a parabola, whose lowest point is the best temperature. Models that compete
on folds are compared at their best temperatures, each the same in all folds. Otherwise those would
win that learn little and are therefore modest.

A temperature of few sequences is noisy. The log loss therefore has the penalty log(T)**2 / (2 n),
where n is the number of held-out sequences, or of groups of them: as if T had a log-normal prior,
and a sequence counted as one observation. Temperatures below 1, which would make a model surer,
are not chosen: on held-out data they were noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    fold_groups_of,
)
from treecrf.learners.boosted.engine import MarginalValidation
from treecrf.trees.forest import Forest
from treecrf.utils.exact import round_to

# Logarithms of the temperatures at which held-out sequences are scored, at equal distances.
STEP = np.log(2.0) / 2
LOGARITHMS = STEP * np.arange(4)
# Temperatures are multiples of this, so that they do not depend on how logarithms are rounded.
UNIT = 2.0**-10
# Weight of the penalty. Of 1, 3, 6, 10 and 20, this one was best on nested splits, by sequence or
# person, of six sets of real data.
PENALTY = 1.0


@dataclass
class TemperedValidation:
    """Held-out sequences that are scored at all temperatures."""

    validation: MarginalValidation

    @property
    def likelihoods(self) -> np.ndarray:
        """The latest log-probabilities of the labels, at temperature 1."""
        return self.validation.likelihoods

    def value(self, forest: Forest) -> list[float]:
        """Compute the scores under the forest, one for each temperature."""
        self.validation.scores.add_trees(forest)
        return self._present_values()

    def values(self, grown: Iterable[Forest]) -> Iterator[list[float]]:
        """Compute the scores after each new iteration of a forest that grows."""
        for _ in self.validation.scores.stages(grown):
            yield self._present_values()

    def _present_values(self) -> list[float]:
        return [self.validation.present_value(float(t)) for t in np.exp(LOGARITHMS)]


def best_temperatures(scores: np.ndarray, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best score of each row, less the penalty, and the temperature that it is for.

    A row has the scores at all temperatures, such as mean log-probabilities of labels. Between
    them, the parabola through the best one and its neighbors counts.
    """
    penalized = scores - PENALTY / (2 * n_units) * LOGARITHMS**2
    rows = np.arange(len(scores))
    best = np.clip(penalized.argmax(axis=1), 1, len(LOGARITHMS) - 2)
    before, middle, after = (penalized[rows, best + i] for i in (-1, 0, 1))
    slope = (after - before) / 2
    curvature = np.minimum(after - 2 * middle + before, -np.finfo(float).tiny)
    steps = np.clip(-slope / curvature, -1, 1)
    temperatures = np.exp(LOGARITHMS[best] + STEP * steps)
    round_to(temperatures, UNIT)
    values = middle + slope * steps + curvature * steps**2 / 2
    return np.where(temperatures == 1, scores[:, 0], values), temperatures


def count_units(folds: list[TrainingInput]) -> int:
    """Return the number of held-out sequences, or of groups of them, in all folds."""
    return sum(_count_in(fold.held_out) for fold in folds)


def _count_in(held_out: LabeledSequences) -> int:
    groups = fold_groups_of(held_out)
    if groups is None:
        return len(held_out.sequences.offsets) - 1
    return len(np.unique(groups))
