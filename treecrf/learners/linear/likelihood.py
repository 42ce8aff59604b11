"""Likelihood of label sequences, or another objective, as a function of linear weights."""

from __future__ import annotations

import numpy as np

from treecrf.chains.objectives import LogLikelihood, Objective
from treecrf.chains.partial_labels import unknown_labels
from treecrf.encoding.encoded import rows_of_positions
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.linear._linear import dot
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import WeightLayout, Weights


class StateLikelihood:
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        self.data = data
        self._rows = data.scores.new_rows()
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        self._parts = data.table.parts
        first_rows = data.table.first_rows + data.table.window[1]
        self._row_of_position = rows_of_positions(data.offsets, first_rows)
        self._chains = StateChains(data.offsets, first_rows, data.codes)
        n_labels = data.layout.n_labels
        self._transitions = np.zeros((len(self._parts), n_labels + 1, n_labels))
        self._partly_labeled: dict[int, PartlyLabeled] = {}
        if data.candidates is not None:
            self._partly_labeled = {
                k: PartlyLabeled(data, self._row_of_position, *part)
                for k, part in enumerate(self._parts)
            }

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(k: int) -> None:
            results = self._rows, self._transitions[k], self._log_likelihoods
            self._fill_rows(weights, *self._parts[k])
            # The scores in the rows become residuals.
            partly = self._partly_labeled.get(k)
            of_known = partly and partly.residuals(self._rows, transitions)
            self._chains.residuals(
                self._rows, transitions, data.weights, *self._parts[k], *results[1:]
            )
            if partly is not None:
                partly.subtract(of_known, results)

        data.threads.map(fill, range(len(self._parts)))
        gradient = data.scores.gradient_of_rows(self._rows, self._transitions)
        mean = data.mean(self._log_likelihoods)
        return dot(self._log_likelihoods, data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        transitions = self.data.constraints.limited(weights.transitions)

        def fill(k: int) -> None:
            self._fill_rows(weights, *self._parts[k])
            partly = self._partly_labeled.get(k)
            of_known = partly and partly.log_likelihoods(self._rows, transitions)
            self._chains.log_likelihoods(
                self._rows, transitions, *self._parts[k], self._log_likelihoods
            )
            if partly is not None:
                self._log_likelihoods[partly.numbers] -= of_known

        self.data.threads.map(fill, range(len(self._parts)))
        return self._log_likelihoods

    def _fill_rows(self, weights: Weights, first: int, last: int) -> None:
        """Compute the scores of some sequences, minus infinity for labels that are not allowed."""
        self.data.scores.fill_rows(weights, first, last, self._rows)
        allowed = self.data.constraints.allowed
        if allowed is not None:
            positions = slice(self.data.offsets[first], self.data.offsets[last])
            rows = self._row_of_position[positions]
            self._rows[rows] = np.where(allowed[positions], self._rows[rows], -np.inf)


class PartlyLabeled:
    """The sequences from ``first`` to ``last - 1`` whose labels are not all known.

    Their likelihoods and residuals given the known labels are subtracted from the results for the
    codes, see `treecrf.chains.partial_labels`.
    """

    def __init__(self, data: TrainingData, row_of_position: np.ndarray, first: int, last: int):
        offsets = data.offsets[first : last + 1]
        unknown = unknown_labels(data.candidates[offsets[0] : offsets[-1]])
        has_unknown = np.logical_or.reduceat(unknown, offsets[:-1] - offsets[0])
        self.numbers = first + np.flatnonzero(has_unknown)  # indices of the sequences
        positions = offsets[0] + np.flatnonzero(np.repeat(has_unknown, np.diff(offsets)))
        self._rows = row_of_position[positions]
        self._candidates = data.candidates[positions]
        self._weights = data.weights[self.numbers]
        starts = offsets_of(np.diff(data.offsets)[self.numbers])
        self._chains = StateChains(starts, starts[:-1], data.codes[positions])

    def log_likelihoods(self, rows: np.ndarray, transitions: np.ndarray) -> np.ndarray:
        """Compute log P of the codes of each sequence, given the known labels."""
        out = np.zeros(len(self.numbers))
        self._chains.log_likelihoods(self._scores(rows), transitions, 0, len(out), out)
        return out

    def residuals(self, rows: np.ndarray, transitions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return residuals of the rows and of the transitions, and log-likelihoods of the codes."""
        out, residuals = np.zeros(len(self.numbers)), self._scores(rows)
        of_transitions = np.zeros(transitions.shape)
        self._chains.residuals(
            residuals, transitions, self._weights, 0, len(out), of_transitions, out
        )
        return residuals, of_transitions, out

    def subtract(self, of_known: tuple[np.ndarray, ...], results: tuple[np.ndarray, ...]) -> None:
        """Subtract the results of `residuals` from the results of all sequences, in place."""
        places = (self._rows, ..., self.numbers)
        for result, part, where in zip(results, of_known, places, strict=True):
            result[where] -= part

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores, minus infinity for labels that are not possible."""
        return np.where(self._candidates, rows[self._rows], -np.inf)


class ScoreLikelihood:
    """Any objective that is a function of the scores of labels after labels."""

    def __init__(self, data: TrainingData, objective: Objective):
        self.data = data
        self.objective = objective  # with the weights in training
        self._position_weights = data.repeated_weights()

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
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


# Objective to maximize, before regularization: a sum over sequences.
Likelihood = StateLikelihood | ScoreLikelihood


class Loss:
    """The loss to minimize, without the L1 penalty.

    Its variables are the ``free`` weights divided by their scales; all other weights are 0.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        l2: float,
        free: np.ndarray | slice = slice(None),
        scale: np.ndarray | float = 1.0,
    ):
        self.likelihood = likelihood
        self.l2 = l2
        self.free = free  # where they are in the vector of all weights
        self.scale = scale
        self.mean = np.nan  # mean log-likelihood of a position in the latest evaluation
        self._weights = self._layout.weights()

    def __call__(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        values = variables * self.scale
        self._weights.vector[self.free] = values
        total, self.mean, gradient = self.likelihood.gradient(self._weights)
        value = self.l2 * dot(values, values) - total
        values *= 2.0 * self.l2
        values -= gradient.vector[self.free]
        values *= self.scale
        return value, values

    def variables(self, weights: Weights) -> np.ndarray:
        """Return the variables, given all weights."""
        return weights.vector[self.free] / self.scale

    def weights(self, variables: np.ndarray) -> Weights:
        """Return all weights, given the variables."""
        weights = self._layout.weights()
        weights.vector[self.free] = variables * self.scale
        return weights

    @property
    def _layout(self) -> WeightLayout:
        return self.likelihood.data.layout
