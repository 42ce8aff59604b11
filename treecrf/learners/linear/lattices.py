"""Lattices of linear models without transition features, whose inference is faster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.encoding.encoded import rows_of_positions
from treecrf.learners.linear import _linear
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.model import Weights
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.learners.linear.scores import LinearFunction


class StateLattice(Lattice):
    """A lattice of a model without transition features.

    Most predictions need the probabilities of labels only, and these do not need the scores of all
    pairs of labels at all positions, which everything else computes.
    """

    order = 1

    def __init__(self, function: LinearFunction, weights: Weights):
        # Lattices are frozen dataclasses: fields cannot be assigned.
        vars(self).update(
            function=function,
            weights=weights,
            offsets=function.table.offsets,
            threads=function.threads,
        )

    @cached_property
    def scores(self) -> np.ndarray:
        """The scores of all pairs of labels."""
        return self.function.scores(self.weights)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        table = self.function.table
        out = np.empty((table.n_positions, self.function.layout.n_labels))
        blocks = self.function.blocks(self.weights)

        def fill(sequences: tuple[int, int]) -> None:
            first, last = sequences
            rows = self.function.range_scores(blocks, first, last)
            offsets, first_rows = table.layout_within(first, last)
            chains = StateChains(offsets, first_rows)
            chains.marginals(rows, self.weights.transitions, 0, last - first)
            positions = slice(self.offsets[first], self.offsets[last])
            out[positions] = rows[rows_of_positions(offsets, first_rows)]

        self.threads.map(fill, table.ranges)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        table = self.function.table
        out = np.empty(len(self.offsets) - 1)
        blocks = self.function.blocks(self.weights)

        def fill(sequences: tuple[int, int]) -> None:
            first, last = sequences
            rows = self.function.range_scores(blocks, first, last)
            own_codes = codes[self.offsets[first] : self.offsets[last]]
            chains = StateChains(*table.layout_within(first, last), own_codes)
            chains.log_likelihoods(rows, self.weights.transitions, 0, last - first, out[first:last])

        self.threads.map(fill, table.ranges)
        return out

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        paths = Lattice(self.scores, self.offsets, self.order, self.threads).n_best(n)
        # The same numbers as from `log_likelihoods`: large scores round differently there.
        best = self.log_likelihoods(np.concatenate([codes[0] for codes, _ in paths]))
        return [
            (codes, values + (value - values[0]))
            for (codes, values), value in zip(paths, best, strict=True)
        ]


@dataclass(frozen=True)
class RowsLattice:
    """What a `StateLattice` does for labels of short sequences, whose scores have been computed."""

    # Scores without transitions; float64 (n_positions, n_labels).
    rows: np.ndarray
    # Offsets of the sequences.
    offsets: np.ndarray
    # Weights of labels after labels; float64 (n_labels + 1, n_labels).
    transitions: np.ndarray

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        rows = self.rows.copy()
        starts = self.offsets[:-1]
        StateChains(self.offsets, starts).marginals(rows, self.transitions, 0, len(starts))
        return rows

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        return self._of_pairs().best_codes()

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        return self._of_pairs().log_likelihoods(codes)

    def _of_pairs(self) -> Lattice:
        scores = pair_scores(self.rows, self.transitions, self.offsets)
        return Lattice(scores, self.offsets, order=1, threads=Threads(1))


def pair_scores(rows: np.ndarray, transitions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the scores of pairs of labels, given a row for each position and the transitions."""
    n_labels = transitions.shape[1]
    starts = offsets[:-1]
    out = np.empty((n_labels, len(rows), n_labels))
    _linear.chain_scores(rows, transitions, offsets, starts, (0, len(starts)), out)
    return out
