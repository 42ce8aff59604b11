"""Scores of fitted linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import require_memory
from treecrf.chains.lattice import Lattice
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.base.short_sequences import short_model
from treecrf.learners.linear.attributes import Attributes
from treecrf.learners.linear.lattices import RowsLattice, StateLattice
from treecrf.learners.linear.model import LinearModel, Weights
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Sequences
    from treecrf.learners.linear.scores import LinearFunction


@dataclass(kw_only=True)
class LinearChain(FittedChain):
    """Scores that are sums of attributes times weights."""

    # The source of attributes.
    attributes: Attributes
    # The weights of the attributes, and of labels after labels.
    weights: Weights

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice: 0, because these are computed in parts."""
        return 0

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return LinearModel(self.attributes, self.weights).reach()

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_memory(len(self.classes), self.order, sequences.n_positions)
        return self.function(sequences, threads).scores(self.weights)

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the scores of labels, and the weights of labels after labels, if they add up."""
        if self.weights.layout.transition_features:
            return None
        state = self.function(sequences, threads).state_scores(self.weights)
        return state, self.weights.transitions

    def function(self, sequences: Sequences, threads: Threads) -> LinearFunction:
        """Return the scores of sequences as a function of the weights."""
        from treecrf.learners.linear.matrix import AttributeMatrix
        from treecrf.learners.linear.scores import LinearFunction

        table = AttributeMatrix.of(self.attributes, sequences)
        return LinearFunction(table, self.weights.layout, threads)

    def lattice(self, sequences: Sequences, constraints: Constraints, threads: Threads) -> Lattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        if constraints.is_free and not self.weights.layout.transition_features:
            return StateLattice(self.function(sequences, threads), self.weights)
        return super().lattice(sequences, constraints, threads)

    def short_model(self, ignored: set[str]) -> Any:
        """Return the weights in the form for short sequences."""
        linear = LinearModel(self.attributes, self.weights)
        return short_model(self.schema, len(self.classes), self.order, None, linear, ignored)

    def quick_lattice(self, X: list, short_model: Any, max_positions: int) -> Lattice | None:
        """Make a lattice of a few positions; None if they have to be read like large batches."""
        if self.transitions is not None:
            return super().quick_lattice(X, short_model, max_positions)
        rows_and_offsets = short_model.rows(X, max_positions)
        if rows_and_offsets is None:
            return None
        rows, offsets = rows_and_offsets
        return RowsLattice(rows, offsets, self.weights.transitions)
