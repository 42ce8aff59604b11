"""Lattices of factored scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.lattice import MAX_BYTES, Lattice, runs_of_tables


@dataclass(frozen=True)
class FactoredLattice(Lattice):
    """A lattice of factored scores, which take less memory than a table."""

    scores: FactoredScores

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.scores.n_labels

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.scores.n_positions

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and the log-probability of the best label sequence of each sequence."""
        codes, values = zip(*(lattice.best() for lattice in self._tables()), strict=True)
        return np.concatenate(codes), np.concatenate(values)

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        return np.concatenate([lattice.best_codes() for lattice in self._tables()])

    def entropies(self) -> np.ndarray:
        """Return the entropy of the label sequences of each sequence, in nats."""
        return np.concatenate([lattice.entropies() for lattice in self._tables()])

    def table(self) -> np.ndarray:
        """Return the scores of labels in all contexts, (n_labels, n_positions, n_contexts)."""
        return self.scores.table()

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        return [best for lattice in self._tables() for best in lattice.n_best(n)]

    def _tables(self) -> Iterator[Lattice]:
        """Yield lattices of runs of sequences, with scores in tables of limited size."""
        for first, last in runs_of_tables(self.offsets, self.n_labels, self.order, MAX_BYTES):
            scores = self.scores.take(first, last)
            yield Lattice(scores.table(), scores.offsets, self.order, self.threads)
