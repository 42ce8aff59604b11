"""Scores of fitted models of boosted trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order, require_memory
from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.base.short_sequences import short_model
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Sequences
    from treecrf.learners.linear.model import LinearModel


@dataclass(kw_only=True)
class ForestChain(FittedChain):
    """Scores that are sums of trees, in a table of all contexts."""

    forest: Forest
    encoder: Encoder
    start: LinearModel | None  # model whose scores the trees are added to
    alternative: str  # advice for the case of too many contexts

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        reach = self.encoder.reach
        if reach is None:
            raise ValueError("the model has features of unlimited bags; expected bags of a size")
        if self.start is None:
            return reach
        return tuple(map(max, reach, self.start.reach()))

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_table(self, sequences)
        encoded = self.encoder.encode(sequences, threads)
        start = self.start_table(sequences, threads)
        return self.forest.scores(self.encoder, encoded, threads, start=start)

    def scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        only = slice(position, position + 1)
        encoded = self.encoder.encode(sequences, threads)
        depth = encoded.depth_of(self.order)[only]
        encoded = replace(encoded, row_of_position=encoded.row_of_position[only])
        start = self.start_table(sequences, threads)
        if start is not None:
            start = np.ascontiguousarray(start[:, only])
        scores = self.forest.scores(self.encoder, encoded, threads, start=start, depth=depth)
        return scores[:, 0]

    def start_table(self, sequences: Sequences, threads: Threads) -> np.ndarray | None:
        """Return the scores that the trees are added to; None stands for scores of 0."""
        from treecrf.learners.boosted.starting_scores import starting_scores, table_of_starts

        state, transitions = starting_scores(self.start, sequences, threads)
        return table_of_starts(state, transitions, sequences.offsets, self.order)

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[Any]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        require_table(self, sequences)
        encoded = self.encoder.encode(sequences, threads)
        scores = self.start_table(sequences, threads)
        for iterations in pairwise([0, *ends]):
            scores = self.forest.scores(self.encoder, encoded, threads, iterations, scores)
            yield self.constrained(scores.copy(), sequences.offsets, constraints, threads)

    def short_model(self, ignored: set[str]) -> Any:
        """Return the trees and the linear start in the form for short sequences."""
        if self.is_backward:
            return None
        trees = (self.forest, self.encoder)
        return short_model(self.schema, len(self.classes), self.order, trees, self.start, ignored)


@dataclass(kw_only=True)
class UntabledChain(ForestChain):
    """Scores that are sums of trees, but not in a table of all contexts."""

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice: 0, because lattices are never cut."""
        return 0

    def lattice(self, sequences: Sequences, constraints: Constraints, threads: Threads) -> Any:
        """Make a lattice of the scores of checked sequences under constraints."""
        return next(self.staged_lattices(sequences, constraints, threads, [self.forest.n_iter]))


def require_table(chain: FittedChain, sequences: Sequences) -> None:
    """Raise MemoryError if the scores of sequences in all contexts would not fit in memory."""
    n_labels = len(chain.classes)
    check_order(n_labels, chain.order, chain.alternative)
    require_memory(n_labels, chain.order, sequences.n_positions)
