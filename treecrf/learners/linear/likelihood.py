"""Likelihood of label sequences, or another objective, as a function of linear weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.chains.objectives import LogLikelihood, Objective
from treecrf.chains.partial_labels import unknown_labels
from treecrf.encoding.layout import rows_of_positions
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.solvers import dot
from treecrf.learners.linear.weights import Weights


class Likelihood(ABC):
    """Objective to maximize, before regularization: a sum over sequences.

    Parameters
    ----------
    data : TrainingData
    """

    def __init__(self, data: TrainingData):
        self.data = data

    @abstractmethod
    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """

    @abstractmethod
    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""


class StateLikelihood(Likelihood):
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        super().__init__(data)
        self._rows = data.scores.new_rows()
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        table = data.scores.table
        first_rows = table.first_rows + table.window[1]
        self._row_of_position = rows_of_positions(data.offsets, first_rows)
        self._chains = StateChains(data.offsets, first_rows, data.codes)
        n_labels = data.layout.n_labels
        self._transitions = np.zeros((len(table.parts), n_labels + 1, n_labels))
        self._known: dict[int, KnownLabels] = {}
        if data.candidates is not None:
            self._known = {
                k: KnownLabels(data, self._row_of_position, *part)
                for k, part in enumerate(table.parts)
            }

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(k: int) -> None:
            part = data.scores.table.parts[k]
            self._fill_rows(weights, *part)
            given = self._known[k].residuals(self._rows, transitions) if self._known else None
            self._chains.residuals(
                self._rows, transitions, data.weights, *part, self._transitions[k],
                self._log_likelihoods,
            )  # fmt: skip
            if given is not None:
                results = self._rows, self._transitions[k], self._log_likelihoods
                self._known[k].subtract(given, results)

        data.scores.threads.map(fill, range(len(data.scores.table.parts)))
        gradient = data.scores.gradient_of_rows(self._rows, self._transitions)
        mean = data.mean(self._log_likelihoods)
        return dot(self._log_likelihoods, data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(k: int) -> None:
            part = data.scores.table.parts[k]
            self._fill_rows(weights, *part)
            given = self._known[k].log_likelihoods(self._rows, transitions) if self._known else None
            self._chains.log_likelihoods(self._rows, transitions, *part, self._log_likelihoods)
            if given is not None:
                self._log_likelihoods[self._known[k].numbers] -= given

        data.scores.threads.map(fill, range(len(data.scores.table.parts)))
        return self._log_likelihoods

    def _fill_rows(self, weights: Weights, first: int, last: int) -> None:
        """Compute the scores of some sequences, minus infinity for labels that are not allowed."""
        self.data.scores.fill_rows(weights, first, last, self._rows)
        allowed = self.data.constraints.allowed
        if allowed is not None:
            positions = slice(self.data.offsets[first], self.data.offsets[last])
            rows = self._row_of_position[positions]
            self._rows[rows] = np.where(allowed[positions], self._rows[rows], -np.inf)


class KnownLabels:
    """Those of some sequences whose labels are not all known, given the known labels.

    Their likelihoods and residuals are subtracted from those of the codes, see
    `treecrf.chains.partial_labels`.

    Parameters
    ----------
    data : TrainingData
    row_of_position : int64 array (n_positions,)
    first, last : int
        The sequences from ``first`` to ``last - 1``.

    Attributes
    ----------
    numbers : int64 array (n,)
        Indices of the sequences.
    """

    def __init__(self, data: TrainingData, row_of_position: np.ndarray, first: int, last: int):
        offsets = data.offsets[first : last + 1]
        unknown = unknown_labels(data.candidates[offsets[0] : offsets[-1]])
        some = np.logical_or.reduceat(unknown, offsets[:-1] - offsets[0])
        self.numbers = first + np.flatnonzero(some)
        positions = offsets[0] + np.flatnonzero(np.repeat(some, np.diff(offsets)))
        self._rows = row_of_position[positions]
        self._candidates = data.candidates[positions]
        self._weights = data.weights[self.numbers]
        starts = offsets_of(np.diff(data.offsets)[self.numbers])
        self._chains = StateChains(starts, starts[:-1], data.codes[positions])

    def log_likelihoods(self, rows: np.ndarray, transitions: np.ndarray) -> np.ndarray:
        """Compute log P of the codes of each sequence."""
        found = np.zeros(len(self.numbers))
        scores = self._scores(rows)
        self._chains.log_likelihoods(scores, transitions, 0, len(found), found)
        return found

    def residuals(self, rows: np.ndarray, transitions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return residuals of the rows and of the transitions, and log-likelihoods of the codes."""
        found, residuals = np.zeros(len(self.numbers)), self._scores(rows)
        of_transitions = np.zeros(transitions.shape)
        self._chains.residuals(
            residuals, transitions, self._weights, 0, len(found), of_transitions, found
        )
        return residuals, of_transitions, found

    def subtract(self, given: tuple[np.ndarray, ...], results: tuple[np.ndarray, ...]) -> None:
        """Subtract the results of `residuals` from those of all sequences, in place."""
        for result, part, where in zip(
            results, given, (self._rows, ..., self.numbers), strict=True
        ):
            result[where] -= part

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores, minus infinity for labels that are not possible."""
        return np.where(self._candidates, rows[self._rows], -np.inf)


class ScoreLikelihood(Likelihood):
    """Any objective that is a function of the scores of labels after labels.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
        Its weights are those of the sequences in training.
    """

    def __init__(self, data: TrainingData, objective: Objective):
        super().__init__(data)
        self.objective = objective
        self._position_weights = data.repeated_weights()

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """
        residuals, _, value = self.objective.examples(self._scores(weights), 0)
        total = value * len(self.data.codes)
        if self._position_weights is not None:
            residuals *= self._position_weights[:, np.newaxis]
            total = value * float(self._position_weights.sum())
        return total, self._reported(value), self.data.scores.gradient(residuals)

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self._reported(self.objective.value(self._scores(weights)))

    def _reported(self, value: float) -> float:
        """Return the value without ``class_weight``, which only the log-likelihood supports."""
        is_log = type(self.objective) is LogLikelihood
        return self.data.mean(self.objective.likelihoods) if is_log else value

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores.scores(weights)
        self.objective.constrain(scores)
        return scores


class LabelScore(Likelihood):
    """A metric of predictions in place of the mean of the objective.

    Parameters
    ----------
    data : TrainingData
    metric : callable
        Score of the predictions for all positions.
    predict : callable
        Returns the predictions from a lattice.
    """

    def __init__(
        self,
        data: TrainingData,
        metric: Callable[[np.ndarray], float],
        predict: Callable[[Lattice], np.ndarray],
    ):
        super().__init__(data)
        self.metric = metric
        self.predict = predict

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Metrics have no gradient."""
        raise NotImplementedError

    def mean(self, weights: Weights) -> float:
        """Compute the metric."""
        scores = self.data.scores.scores(weights)
        self.data.constraints.forbid(scores, self.data.offsets)
        lattice = Lattice(scores, self.data.offsets, 1, self.data.scores.threads)
        return self.metric(self.predict(lattice))
