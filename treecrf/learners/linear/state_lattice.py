"""A lattice whose transitions have the same scores at all positions, with faster inference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.encoding.layout import rows_of_positions
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.scores import LinearScores
from treecrf.learners.linear.weights import Weights


@dataclass(frozen=True)
class StateLattice:
    """A `Lattice` of a model without transition features.

    Most predictions need the probabilities of labels only, and these do not need the scores of all
    pairs of labels at all positions. For everything else a `Lattice` is built.

    Attributes
    ----------
    linear : LinearScores
    weights : Weights
    """

    linear: LinearScores
    weights: Weights

    @property
    def offsets(self) -> np.ndarray:
        """Start of each sequence, and the end of the last."""
        return self.linear.table.offsets

    @cached_property
    def whole(self) -> Lattice:
        """The scores of all pairs of labels."""
        scores = self.linear.scores(self.weights)
        return Lattice(scores, self.offsets, order=1, threads=self.linear.threads)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        table = self.linear.table
        out = np.empty((table.n_positions, self.linear.layout.n_labels))

        def fill(part: tuple[int, int]) -> None:
            first, last = part
            rows, offsets, first_rows = self._rows(first, last)
            chains = StateChains(offsets, first_rows)
            chains.marginals(rows, self.weights.transitions, 0, last - first)
            positions = slice(self.offsets[first], self.offsets[last])
            out[positions] = rows[rows_of_positions(offsets, first_rows)]

        self.linear.threads.map(fill, table.parts)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        out = np.empty(len(self.offsets) - 1)

        def fill(part: tuple[int, int]) -> None:
            first, last = part
            rows, offsets, first_rows = self._rows(first, last)
            some = codes[self.offsets[first] : self.offsets[last]]
            chains = StateChains(offsets, first_rows, some)
            chains.log_likelihoods(rows, self.weights.transitions, 0, last - first, out[first:last])

        self.linear.threads.map(fill, self.linear.table.parts)
        return out

    def _rows(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the rows of scores of some sequences, with their offsets and first rows."""
        table = self.linear.table
        start, _ = table.rows_of(first, last)
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        rows = self.linear.part_rows(self.weights, first, last)
        return rows, offsets, table.first_rows[first:last] - start

    def pairwise(self) -> np.ndarray:
        """Return P(previous label, label), (n_positions, n_labels, n_labels); 0 at the start."""
        return self.whole.pairwise()

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and the log-probability of the best label sequence of each sequence."""
        codes = self.whole.best_codes()
        return codes, self.log_likelihoods(codes)

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        found = self.whole.n_best(n)
        # The same numbers as from `log_likelihoods`: large scores round differently there.
        best = self.log_likelihoods(np.concatenate([codes[0] for codes, _ in found]))
        return [
            (codes, values + (value - values[0]))
            for (codes, values), value in zip(found, best, strict=True)
        ]
