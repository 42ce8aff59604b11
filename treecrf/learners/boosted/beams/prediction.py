"""Predictions with a beam: from only the best contexts at each position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from treecrf.chains.beam import _beam
from treecrf.chains.beam._beam import BeamChains
from treecrf.chains.constraints import Constraints
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.beams.beam import Beam
from treecrf.learners.boosted.chains import UntabledChain
from treecrf.trees.contexts._tree_scores import TreeScores
from treecrf.trees.contexts.context_scores import tree_scores
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class BeamLattice:
    """Predictions from the contexts in the beam, with the methods of `Lattice`."""

    forest: Forest
    encoder: Encoder
    encoded: EncodedSequences
    beam: Beam
    threads: Threads
    constraints: Constraints

    @property
    def offsets(self) -> np.ndarray:
        """Starts of the sequences."""
        return self.encoded.offsets

    @cached_property
    def scores(self) -> TreeScores:
        """Scores of contexts, summed on demand."""
        scores = tree_scores(self.forest, self.encoder, self.encoded)
        scores.constrain(self.constraints.allowed, self.constraints.follows)
        return scores

    @property
    def width(self) -> int:
        """Number of contexts kept at each position."""
        return self.beam.width_for(self.forest.n_labels, self.forest.order)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        return self._table(_beam.marginals, self.forest.n_labels)

    def pairwise(self) -> np.ndarray:
        """Return P(previous label, label), (n_positions, n_labels, n_labels); 0 at the start."""
        return self._table(_beam.pair_marginals, self.forest.n_labels, self.forest.n_labels)

    def _table(self, probabilities: Callable[..., None], *shape: int) -> np.ndarray:
        """Compute probabilities at every position."""
        out = np.zeros((self.encoded.n_positions, *shape))
        log_z = np.zeros(len(self.offsets) - 1)
        self._map(lambda *part: probabilities(*part, out, log_z))
        self._check(log_z)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Compute log P of one label sequence per sequence, whose contexts stay in the beam."""
        values = np.zeros(len(self.offsets) - 1)
        self._map(
            lambda chains, first, last: _beam.log_likelihood(chains, codes, first, last, values)
        )
        return values

    def best_codes(self) -> np.ndarray:
        """Find the codes of the best label sequences in the beam."""
        return self.best()[0]

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Find the codes and log-probabilities of the best label sequences in the beam."""
        codes, values = self._best_paths(1)
        return codes[0], values[:, 0]

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Find the n best label sequences in the beam, and their log-probabilities."""
        codes, values = self._best_paths(n)
        found = []
        for i, (start, stop) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            m = int(np.isfinite(values[i]).sum())
            found.append((list(codes[:m, start:stop]), values[i, :m]))
        return found

    def _best_paths(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.zeros((n, self.encoded.n_positions), dtype=np.int32)
        best = np.zeros((len(self.offsets) - 1, n))
        log_z = np.zeros(len(self.offsets) - 1)
        self._map(lambda *part: _beam.best_paths(*part, codes, best, log_z))
        self._check(log_z)
        return codes, best - log_z[:, None]

    def _map(self, function: Callable[[BeamChains, int, int], None]) -> None:
        chains = BeamChains(self.scores, self.offsets, self.width)
        self.threads.map(lambda part: function(chains, *part), self.threads.parts(self.offsets))

    def _check(self, log_z: np.ndarray) -> None:
        dead = np.flatnonzero(log_z == -np.inf)
        if len(dead):
            raise ValueError(
                f"sequence {dead[0]}: no label sequence in the beam is allowed; a beam wider than "
                f"{self.width} contexts may contain some"
            )


@dataclass(kw_only=True)
class BeamChain(UntabledChain):
    """Scores of only the best contexts at each position."""

    beam: Beam

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[BeamLattice]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        forest = self.forest
        if forest.transitions is not None:
            self._refuse("constant transitions")
        if self.start is not None:
            self._refuse("a linear start")
        encoded = self.encoder.encode(sequences, threads)
        for n_iter in ends:
            trees = forest if n_iter == forest.n_iter else forest.copy(n_iter)
            yield BeamLattice(trees, self.encoder, encoded, self.beam, threads, constraints)

    def _refuse(self, needs: str) -> NoReturn:
        raise ValueError(f"a model with {needs} needs all contexts; expected no beam")

    def summed_log_likelihoods(
        self, sequences: Sequences, candidates: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Raise ValueError: sums over labels need all contexts."""
        raise ValueError(
            f"beam_width={self.beam.width}: labels in y are unknown, and sums over them need "
            "all contexts; expected no beam"
        )

    def reach(self) -> tuple[int, int]:
        """Raise ValueError: a stream needs all contexts."""
        raise ValueError(
            f"beam_width={self.beam.width}: a stream needs all contexts; expected None"
        )

    def short_model(self, ignored: set[str]) -> None:
        """Return None: the form for short sequences has all contexts."""
