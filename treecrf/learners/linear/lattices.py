"""Lattices of linear models without transition features, whose inference is faster."""

from __future__ import annotations

from abc import abstractmethod
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


class LinearLattice(Lattice):
    """A lattice of a model without transition features.

    Most predictions need the scores of labels only, and not those of all pairs of labels at all
    positions, which everything else computes.
    """

    order = 1

    @abstractmethod
    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        paths = Lattice(self.scores, self.offsets, self.order, self.threads).n_best(n)
        # The same numbers as from `log_likelihoods`: large scores round differently there.
        best = self.log_likelihoods(np.concatenate([codes[0] for codes, _ in paths]))
        return [
            (codes, values + (value - values[0]))
            for (codes, values), value in zip(paths, best, strict=True)
        ]


class StateLattice(LinearLattice):
    """The lattice of checked sequences, whose scores threads compute range by range."""

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

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        table = self.function.table
        out = np.empty(table.n_positions, dtype=np.int32)
        blocks = self.function.blocks(self.weights)

        def fill(sequences: tuple[int, int]) -> None:
            first, last = sequences
            rows = self.function.range_scores(blocks, first, last)
            chains = StateChains(*table.layout_within(first, last))
            own_codes = out[self.offsets[first] : self.offsets[last]]
            chains.best_codes(rows, self.weights.transitions, 0, last - first, own_codes)

        self.threads.map(fill, table.ranges)
        return out


class RowsLattice(LinearLattice):
    """The lattice of a few positions, whose scores without transitions have been computed."""

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, transitions: np.ndarray):
        """Take rows (n_positions, n_labels), and the weights of labels after labels."""
        vars(self).update(rows=rows, offsets=offsets, transitions=transitions, threads=Threads(1))

    @cached_property
    def scores(self) -> np.ndarray:
        """The scores of all pairs of labels."""
        return pair_scores(self.rows, self.transitions, self.offsets)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        rows = self.rows.copy()
        starts = self.offsets[:-1]
        StateChains(self.offsets, starts).marginals(rows, self.transitions, 0, len(starts))
        return rows

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        rows = self.rows.copy()
        starts = self.offsets[:-1]
        out = np.empty(len(starts))
        chains = StateChains(self.offsets, starts, codes)
        chains.log_likelihoods(rows, self.transitions, 0, len(starts), out)
        return out

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        starts = self.offsets[:-1]
        out = np.empty(len(self.rows), dtype=np.int32)
        chains = StateChains(self.offsets, starts)
        chains.best_codes(self.rows, self.transitions, 0, len(starts), out)
        return out


def pair_scores(rows: np.ndarray, transitions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the scores of pairs of labels, given a row for each position and the transitions."""
    n_labels = transitions.shape[1]
    starts = offsets[:-1]
    out = np.empty((n_labels, len(rows), n_labels))
    _linear.chain_scores(rows, transitions, offsets, starts, (0, len(starts)), out)
    return out
