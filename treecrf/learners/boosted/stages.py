"""Lattices of a model after some of its iterations, without tables of all contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order
from treecrf.chains.lattice import PartsLattice, require_memory
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.beam import Beam, BeamLattice
from treecrf.learners.boosted.start import LinearStart, started, starting_parts
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class BeamStages:
    """Lattices of the contexts in a beam."""

    forest: Forest
    encoder: Encoder
    beam: Beam

    def lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[BeamLattice]:
        """Yield a lattice for each number of iterations."""
        encoded = self.encoder.encode(sequences, threads)
        for n_iter in ends:
            forest = self.forest if n_iter == self.forest.n_iter else self.forest.copy(n_iter)
            yield BeamLattice(forest, self.encoder, encoded, self.beam, threads, constraints)


@dataclass(frozen=True)
class FactoredStages:
    """Lattices of factored scores, for models with constant transitions."""

    forest: Forest
    encoder: Encoder
    start: LinearStart | None
    alternative: str  # advice for the case of too many contexts

    def lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[PartsLattice]:
        """Yield a lattice for each number of iterations; MemoryError if they do not fit."""
        forest, order, offsets = self.forest, self.forest.order, sequences.offsets
        check_order(forest.n_labels, order, self.alternative)
        require_memory(forest.n_labels, 0, sequences.n_positions)
        parts = ScoreParts(forest.n_labels, order, offsets, constraints)
        started(parts, *starting_parts(self.start, sequences, threads))
        encoded = self.encoder.encode(sequences, threads)
        for iterations in pairwise([0, *ends]):
            if iterations[0]:
                parts = parts.take(0, len(offsets) - 1)
            state = forest.state_scores(self.encoder, encoded, threads, iterations)
            parts.add(forest.sum_of_transitions(iterations), state)
            yield PartsLattice(parts, offsets, order, threads)
