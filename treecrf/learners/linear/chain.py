"""Scores of fitted linear models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice, require_memory
from treecrf.inputs.sequences import Sequences
from treecrf.learners.fitted_chain import FittedChain
from treecrf.learners.linear._compiled import CompiledModel
from treecrf.learners.linear.attributes import Attributes
from treecrf.learners.linear.compiled import compiled
from treecrf.learners.linear.scores import RowsLattice, StateLattice, linear_scores
from treecrf.learners.linear.weights import Weights
from treecrf.utils.threads import Threads


@dataclass(kw_only=True)
class LinearChain(FittedChain):
    """Scores that are sums of attributes times weights."""

    attributes: Attributes
    weights: Weights

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice: 0, because these are computed in parts."""
        return 0

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        if not hasattr(self.attributes, "reach"):
            raise TypeError(
                f"the window of {type(self.attributes).__name__} is unknown; expected the "
                "attributes of a window"
            )
        return self.attributes.reach()

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_memory(len(self.classes), self.order, sequences.n_positions)
        return linear_scores(self.attributes, self.weights, sequences, threads).scores(self.weights)

    def lattice(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> Lattice | StateLattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        if constraints.is_free and not self.weights.layout.transition_features:
            linear = linear_scores(self.attributes, self.weights, sequences, threads)
            return StateLattice(linear, self.weights)
        return super().lattice(sequences, constraints, threads)

    def compiled(self, ignored: set[str]) -> CompiledModel | None:
        """Return the weights in the form for short sequences."""
        model = self.attributes, self.weights
        return compiled(self.schema, len(self.classes), self.order, None, model, ignored)

    def quick_lattice(self, X: list, compiled: CompiledModel) -> Lattice | RowsLattice | None:
        """Make a lattice of a few short sequences; None if they have to be read like all others."""
        if self.transitions is not None:
            return super().quick_lattice(X, compiled)
        found = compiled.rows(X)
        return None if found is None else RowsLattice(*found, self.weights.transitions)
