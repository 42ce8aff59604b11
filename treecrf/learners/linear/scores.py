"""Scores as a linear function of the weights, and the gradient of a function of the scores."""

from __future__ import annotations

import numpy as np

from treecrf.learners.linear import _linear
from treecrf.learners.linear.table import Table
from treecrf.learners.linear.weights import Layout, Weights
from treecrf.utils.threads import Threads


class LinearScores:
    """Scores of some sequences as a linear function of the weights, and its transpose.

    Results do not depend on the number of threads.

    Parameters
    ----------
    table : Table
    n_labels : int
    transition_features : bool
    threads : Threads
    """

    def __init__(self, table: Table, n_labels: int, transition_features: bool, threads: Threads):
        self.table = table
        self.threads = threads
        self.layout = Layout(table.n_attributes, table.n_offsets, n_labels, transition_features)

    # Scores of labels after labels

    def scores(self, weights: Weights) -> np.ndarray:
        """Compute the scores of pairs of labels, float64 array (n_labels, n_positions, n_labels).

        ``[v, t, u]`` is for label v at position t after label u; at first positions only
        ``[v, t, 0]`` is used.
        """
        n_labels = self.layout.n_labels
        out = np.empty((n_labels, self.table.n_positions, n_labels))
        self.threads.map(lambda part: self._fill_scores(weights, *part, out), self.table.parts)
        return out

    def gradient(self, residuals: np.ndarray) -> Weights:
        """Convert derivatives with respect to the scores to those with respect to the weights."""
        rows = self.new_rows()
        _, right = self.table.window
        first_rows = self.table.first_rows + right
        transitions = np.empty((len(self.table.parts), *self.layout.weights().transitions.shape))

        def collect(k: int) -> None:
            _linear.chain_residuals(
                residuals, self.table.offsets, first_rows, self.table.parts[k], rows,
                transitions[k],
            )  # fmt: skip

        self.threads.map(collect, range(len(self.table.parts)))
        return self.gradient_of_rows(rows, transitions)

    # Scores of labels in rows, without the transitions

    def new_rows(self) -> np.ndarray:
        """Return zeros for all rows; row r of the table is at index ``right + r``."""
        left, right = self.table.window
        return np.zeros((right + self.table.n_rows + left, self.layout.width))

    def fill_rows(self, weights: Weights, first: int, last: int, out: np.ndarray) -> None:
        """Write the scores of some sequences to an array from `new_rows`."""
        start, stop = self.table.rows_of(first, last)
        _, right = self.table.window
        self._score(weights, start, stop, out[right + start : right + stop])

    def part_rows(self, weights: Weights, first: int, last: int) -> np.ndarray:
        """Compute the scores of some sequences, in an array that starts with their first row."""
        start, stop = self.table.rows_of(first, last)
        rows = np.empty((stop - start, self.layout.width))
        self._score(weights, start, stop, rows)
        return rows

    def gradient_of_rows(self, rows: np.ndarray, transitions: np.ndarray) -> Weights:
        """Compute the derivatives with respect to the weights.

        Parameters
        ----------
        rows : float64 array, from `new_rows`
            Derivatives with respect to the scores in rows; 0 for boundary rows.
        transitions : float64 array (n_parts, n_labels + 1, n_labels)
            Derivatives with respect to the transitions, which are summed over the parts.
        """
        out = self.layout.weights(np.empty(self.layout.size))
        out.transitions[:] = transitions.sum(axis=0)
        attributes, by_attribute = out.attributes, self.table.by_attribute
        self.threads.map(
            lambda part: _linear.sum_rows(by_attribute, rows, *part, attributes),
            self.table.attribute_parts,
        )
        return out

    def _fill_scores(self, weights: Weights, first: int, last: int, out: np.ndarray) -> None:
        table, rows = self.table, self.part_rows(weights, first, last)
        _linear.chain_scores(
            rows, weights.transitions, table.offsets, table.first_rows, (first, last), out
        )

    def _score(self, weights: Weights, start: int, stop: int, out: np.ndarray) -> None:
        table = self.table
        _linear.score_rows(table.by_row, table.window, weights.attributes, start, stop, out)
