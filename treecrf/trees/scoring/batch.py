"""Positions that are scored together, with their scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.utils.threads import Threads

# Minimum number of positions that a thread takes at a time. Even few positions may take long: the
# first to be scored are those that the system finds memory for.
MIN_TAKEN = 1 << 9


@dataclass(frozen=True)
class Batch:
    """Positions to score, and the scores to which the values of trees are added."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8; number of labels before each position that define its context
    given: np.ndarray | None  # previous labels; with them, a position has one context
    scores: np.ndarray  # float64 (n_labels, n_positions or more, n_contexts)
    threads: Threads

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.encoded.n_positions

    def take(self, positions: np.ndarray, scores: np.ndarray) -> Batch:
        """Select some of the positions, with these scores."""
        rows = self.encoded.row_of_position[positions]
        encoded = replace(self.encoded, row_of_position=rows)
        given = None if self.given is None else np.ascontiguousarray(self.given[:, positions])
        return Batch(encoded, self.depth[positions], given, scores, self.threads)

    def run(self, evaluator: Any, *arguments: Any) -> None:
        """Let an evaluator add to the scores, range by range of the positions."""
        self.threads.map(
            lambda limits: evaluator.add_scores(self, *arguments, *limits),
            self.threads.even_parts(self.n_positions, MIN_TAKEN),
        )
