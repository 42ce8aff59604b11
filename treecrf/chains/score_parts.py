"""Scores of all contexts as sums of exact integer parts, most of which need little memory."""

from __future__ import annotations

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.utils.exact import LEAF_UNIT

# Parts are multiples of this unit, that of leaf values; SCORE_UNIT in chains/parts.h is the same.
SCORE_UNIT = LEAF_UNIT
# Sums have smaller absolute values than this number of units: one integer marks forbidden labels.
MAX_UNITS = 2**31 - 1


class ScoreParts:
    """Scores of the labels at the positions of some sequences, in three parts.

    The score of label v at position t in context c is ``2**-20 * (state[v, t] +
    transitions[d, v, c] + rest[v, t, c])``, where d is the number of labels before t, at most
    ``order``. Forbidden labels have the score minus infinity. A position at depth d has
    ``n_labels**d`` contexts, the first ones of ``n_labels**order``.

    Parameters
    ----------
    n_labels, order : int
    offsets : int64 array (n_sequences + 1,)
        Starts of the sequences, and the end of the last.
    constraints : Constraints, optional
        Forbidden labels.

    Attributes
    ----------
    state : int32 array (n_labels, n_positions)
    transitions : int32 array (order + 1, n_labels, n_contexts)
    rest : int32 array (n_labels, n_positions, n_contexts) or None
        None stands for zeros, see `ensure_rest`.
    n_labels, order : int
    offsets : int64 array (n_sequences + 1,)
    """

    def __init__(
        self,
        n_labels: int,
        order: int,
        offsets: np.ndarray,
        constraints: Constraints | None = None,
    ):
        self.n_labels = n_labels
        self.order = order
        self.offsets = offsets
        self.constraints = constraints or Constraints(np.arange(n_labels))
        self.state = np.zeros((n_labels, offsets[-1]), dtype=np.int32)
        self.transitions = np.zeros((order + 1, n_labels, n_labels**order), dtype=np.int32)
        self.rest: np.ndarray | None = None
        follows, allowed = self.constraints.follows, self.constraints.allowed
        # As the kernels read them: bytes, and the labels before each label in one row.
        self.followers = None if follows is None else np.ascontiguousarray(follows.T, np.uint8)
        self.allowed = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.state.shape[1]

    @property
    def n_contexts(self) -> int:
        """Number of contexts of a position after ``order`` labels."""
        return self.transitions.shape[2]

    def start_from(self, state: np.ndarray, transitions: np.ndarray) -> None:
        """Set the scores to those of labels at positions, and of labels after labels.

        Parameters
        ----------
        state : float64 array (n_labels, n_positions)
        transitions : float64 array (n_labels + 1, n_labels)
            For label v after label u at ``[u, v]``; the last row is for first positions. Both
            arrays are multiples of the unit.
        """
        n_labels = self.n_labels
        self.state[:] = np.rint(state / SCORE_UNIT)
        units = np.rint(transitions / SCORE_UNIT).astype(np.int32)
        self.transitions[0, :, 0] = units[-1]
        for depth in range(1, self.order + 1):
            # The nearest previous label is the lowest digit of a context.
            self.transitions[depth, :, : n_labels**depth] = np.tile(
                units[:-1].T, n_labels ** (depth - 1)
            )

    def ensure_rest(self) -> np.ndarray:
        """Return ``rest``, after allocating it with zeros if there is none."""
        if self.rest is None:
            self.rest = np.zeros((self.n_labels, self.n_positions, self.n_contexts), np.int32)
        return self.rest

    def check_range(self, bound: int) -> None:
        """Check that sums of parts fit in 32 bits.

        Parameters
        ----------
        bound : int
            Upper bound of the absolute values of all sums, in units of 2**-20.

        Raises
        ------
        ValueError
            If a sum could leave the range.
        """
        if bound >= MAX_UNITS:
            raise ValueError(
                f"scores may reach {bound * SCORE_UNIT:.4g}; expected less than "
                f"{MAX_UNITS * SCORE_UNIT:g}: lower learning_rate or use fewer iterations"
            )

    def largest_sum(self) -> int:
        """Return a bound of the absolute values of all sums, in units of 2**-20."""
        parts = (self.state, self.transitions, self.rest)
        return sum(max(-int(p.min()), int(p.max())) for p in parts if p is not None)

    def table(self) -> np.ndarray:
        """Return the scores of all contexts, with minus infinity for forbidden labels.

        Returns
        -------
        float64 array (n_labels, n_positions, n_contexts)
        """
        total = np.repeat(self.state[:, :, None], self.n_contexts, axis=2)
        starts, ends = self.offsets[:-1], self.offsets[1:]
        for depth in range(self.order):
            total[:, (starts + depth)[starts + depth < ends]] += self.transitions[depth][:, None]
        deep = np.ones(self.n_positions, dtype=bool)
        for depth in range(self.order):
            deep[np.minimum(starts + depth, ends - 1)] = False
        total[:, deep] += self.transitions[self.order][:, None]
        if self.rest is not None:
            total += self.rest
        scores = total * SCORE_UNIT
        self.constraints.forbid(scores, self.offsets)
        return scores
