"""LightGBM as the tree learner of TREECRF, on the table of positions x previous labels.

This is how to fit functional gradients with a library for tabular data: one row for each position
and previous label, indicators of both as features, and residuals as targets. The trees are those of
a real TREECRF run, because a custom objective returns the residuals for LightGBM's scores; the time
of this objective is subtracted. `force_row_wise` is the faster of LightGBM's two modes on these
tables.
"""

from __future__ import annotations

from time import process_time

import lightgbm
import numpy as np
from papers_data import Task, indicators
from scipy import sparse

from treecrf import _inference

PARAMETERS = {
    "objective": "none", "num_leaves": 100, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0,
    "lambda_l2": 40.0, "learning_rate": 1.0, "boost_from_average": False,
    "feature_pre_filter": False, "force_row_wise": True, "num_threads": 1, "verbosity": -1,
}  # fmt: skip


class ExpandedTrees:
    """K regression trees per iteration for the residuals of a first-order CRF."""

    name = "LightGBM trees, expanded table"

    def __init__(self, task: Task) -> None:
        self.n_labels = len(task.classes)
        self.labels = task.codes(task.train).astype(np.int32)
        self.offsets = np.append(0, np.cumsum(task.train.lengths)).astype(np.int64)
        self.windows = task.train.windowed
        self.positions, self.contexts = self._examples()

    def build(self) -> None:
        """Build the table and pass it to LightGBM."""
        symbols = indicators(self.contexts[:, None], self.n_labels + 1)
        table = sparse.hstack([self.windows[self.positions], symbols]).tocsr()
        parameters = {**PARAMETERS, "num_class": self.n_labels}
        data = lightgbm.Dataset(table, np.zeros(table.shape[0]), params=parameters)
        self.booster = lightgbm.Booster(parameters, data)

    def iterate(self) -> float:
        """Grow K trees; return LightGBM's seconds."""
        in_objective = 0.0

        def objective(scores: np.ndarray, _: lightgbm.Dataset) -> tuple[np.ndarray, np.ndarray]:
            nonlocal in_objective
            start = process_time()
            answer = self._gradients(scores), np.ones(scores.shape, dtype=np.float32)
            in_objective = process_time() - start
            return answer

        start = process_time()
        self.booster.update(fobj=objective)
        return process_time() - start - in_objective

    def _examples(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and previous label of every row; first positions have only the start symbol."""
        start = self.n_labels
        first = np.zeros(self.labels.size, dtype=bool)
        first[self.offsets[:-1]] = True
        positions = np.repeat(np.arange(first.size), np.where(first, 1, start))
        nth = np.arange(positions.size) - np.searchsorted(positions, positions)
        return positions, np.where(first[positions], start, nth)

    def _gradients(self, scores: np.ndarray) -> np.ndarray:
        """Negative residuals for the scores of all examples, shape (n_examples, K)."""
        slots = self.contexts % self.n_labels
        dense = np.zeros((self.n_labels, self.labels.size, self.n_labels))
        dense[:, self.positions, slots] = scores.T
        residuals, last = np.empty_like(dense), self.offsets.size - 1
        _inference.residuals(
            dense, self.offsets, self.labels, 0, last, residuals, None, np.empty(last)
        )
        return -residuals[:, self.positions, slots].T.astype(np.float32)
