"""Scores of fitted models with constant transitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order, require_memory
from treecrf.learners.boosted.chains import UntabledChain
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.chains.factored.lattice import FactoredLattice
    from treecrf.inputs.sequences import Sequences


@dataclass(kw_only=True)
class FactoredChain(UntabledChain):
    """Scores of labels at positions, and constant scores of labels after labels."""

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the scores of labels at positions, and of labels after labels, of order 1."""
        if self.order != 1:
            return None
        from treecrf.chains.factored.factored_scores import SCORE_UNIT

        factored = self.lattice(sequences, Constraints(self.classes), threads).scores
        first = factored.transitions[0, :, :1]
        later = factored.transitions[1]
        return SCORE_UNIT * factored.state.T, SCORE_UNIT * np.hstack([later, first]).T

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[FactoredLattice]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        from treecrf.chains.factored.factored_scores import FactoredScores
        from treecrf.chains.factored.lattice import FactoredLattice
        from treecrf.learners.boosted.starting_scores import starting_scores

        n_labels = self.forest.n_labels
        check_order(n_labels, self.order, self.alternative)
        require_memory(n_labels, 0, sequences.n_positions)
        offsets = sequences.offsets
        encoded = self.encoder.encode(sequences, threads)
        factored = FactoredScores(n_labels, self.order, offsets, constraints)
        factored.start_from(*starting_scores(self.start, sequences, threads))
        for number, (first, last) in enumerate(pairwise([0, *ends])):
            if number > 0:  # the lattice before keeps its scores
                factored = factored.take(0, len(offsets) - 1)
            state = self.forest.state_scores(self.encoder, encoded, threads, (first, last))
            factored.add(self.forest.sum_of_transitions((first, last)), state)
            yield FactoredLattice(factored, offsets, self.order, threads)
