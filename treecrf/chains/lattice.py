"""Lattices: scores of all paths through label contexts, for probabilities and best labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treecrf import _inference
from treecrf.chains import _decode, _entropy
from treecrf.chains.contexts import chains_of
from treecrf.inputs.offsets import runs
from treecrf.utils.threads import Threads

# Memory of the scores of all contexts at a time, where they are computed for a few sequences.
MAX_BYTES = 1 << 24
# Fewer label sequences than 2 to this power are counted: the count fits in an integer of a kernel.
MAX_LABEL_SEQUENCES_LOG2 = 62


def runs_of_tables(
    offsets: np.ndarray, n_labels: int, order: int, max_bytes: int
) -> Iterator[tuple[int, int]]:
    """Group sequences into runs whose scores in all contexts have a limited size, if possible."""
    return runs(offsets, max(1, max_bytes // (8 * n_labels ** (order + 1))))


@dataclass(frozen=True)
class Lattice:
    """Scores of all label sequences, as scores of labels after contexts of previous labels."""

    # Scores of labels at positions in contexts, minus infinity for forbidden labels.
    scores: np.ndarray
    # First position of each sequence, and the number of positions.
    offsets: np.ndarray
    # Number of previous labels in a context.
    order: int
    # Threads that share the sequences.
    threads: Threads

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.scores)

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.scores.shape[1]

    @property
    def chains(self) -> np.ndarray:
        """Offsets of the chains that are independent of each other."""
        return chains_of(self.offsets, self.order)

    def table(self) -> np.ndarray:
        """Return the scores of labels in all contexts, (n_labels, n_positions, n_contexts)."""
        return self.scores

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        return self._sums()[0]

    def log_partitions(self) -> np.ndarray:
        """Return log Z, the logarithm of the sum over all label sequences, of each sequence."""
        return self._by_sequence(self._sums()[1])

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the marginal probabilities, and log Z of each chain."""
        chains = self.chains
        out = np.zeros((self.n_positions, self.n_labels))
        log_z = np.zeros(len(chains) - 1)
        self._run(_inference.marginals, chains, out, log_z)
        return out, log_z

    def entropies(self) -> np.ndarray:
        """Return the entropy of the label sequences of each sequence, in nats."""
        out = np.zeros(len(self.offsets) - 1)
        self._run(_entropy.entropies, self.offsets, out)
        return out

    def pairwise(self) -> np.ndarray:
        """Return P(previous label, label), (n_positions, n_labels, n_labels); 0 at the start."""
        n = self.n_positions
        if self.order == 0:
            marginals = self.marginals()
            pairs = marginals[np.maximum(np.arange(n) - 1, 0), :, None] * marginals[:, None]
            pairs[self.offsets[:-1]] = 0.0
            return pairs
        out = np.zeros((n, self.n_labels, self.n_labels))
        self._run(_inference.pairwise, self.offsets, out)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        chains = self.chains
        values = np.zeros(len(chains) - 1)
        self.threads.map(
            lambda run: _inference.log_likelihood(self.scores, chains, codes, *run, values),
            self.threads.parts(chains),
        )
        return self._by_sequence(values)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and the log-probability of the best label sequence of each sequence."""
        codes = self.best_codes()
        return codes, self.log_likelihoods(codes)

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        chains = self.chains
        codes = np.zeros(self.n_positions, dtype=np.int32)
        best = np.zeros(len(chains) - 1)
        self._run(_decode.viterbi, chains, codes, best)
        return codes

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        longest = int(np.diff(self.offsets).max())
        if longest * math.log2(self.n_labels) < MAX_LABEL_SEQUENCES_LOG2:
            n = min(n, self.n_labels**longest)  # there are no more
        try:
            codes = np.zeros((n, self.n_positions), dtype=np.int32)
            values = np.zeros((len(self.offsets) - 1, n))
        except (MemoryError, ValueError):
            raise MemoryError(
                f"no memory for the {n} best label sequences of {self.n_positions} positions"
            ) from None
        self._run(_decode.n_best, self.offsets, codes, values)
        best = self.log_likelihoods(codes[0])
        # Scores differ from log-probabilities by a constant for each sequence.
        values += (best - values[:, 0])[:, None]
        results = []
        for i, (start, stop) in enumerate(pairwise(self.offsets.tolist())):
            exist = values[i] > -np.inf
            results.append((list(codes[exist, start:stop]), values[i][exist]))
        return results

    def _run(self, kernel: Callable[..., None], chains: np.ndarray, *arguments: Any) -> None:
        """Run a kernel on all chains, some of them in each thread."""
        self.threads.map(
            lambda run: kernel(self.scores, chains, *run, *arguments), self.threads.parts(chains)
        )

    def _by_sequence(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the chains of each sequence."""
        if self.order:
            return values
        return np.add.reduceat(values, self.offsets[:-1])
