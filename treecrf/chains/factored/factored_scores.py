"""Scores of all contexts as sums of exact integer terms, most of which need little memory."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.factored._factored import FactoredSource
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.allocation import Allocate, moved
from treecrf.utils.exact import LEAF_UNIT

# Terms are multiples of the unit of leaf values, which is SCORE_UNIT in chains/factored/factored.h.
SCORE_UNIT = LEAF_UNIT
# Absolute values of scores are smaller than this. At 2048 they would overflow, and the rounded
# fractions of a leaf's value may add up to slightly more than the value.
MAX_SCORE = 2047.0


class FactoredScores:
    """Scores of the labels at the positions of some sequences, as sums of three terms.

    The score of label v at position t in context c is ``2**-20 * (state[v, t] +
    transitions[d, v, c] + rest[v, t, c])``, where d is the number of labels before t, at most
    ``order``. Forbidden labels have the score minus infinity. A position at depth d has
    ``n_labels**d`` contexts, the first ones of ``n_labels**order``.
    """

    def __init__(
        self, n_labels: int, order: int, offsets: np.ndarray, constraints: Constraints | None = None
    ):
        self.n_labels = n_labels
        self.order = order
        self.offsets = offsets
        self._constrain(constraints or Constraints(np.arange(n_labels)))
        # Of labels at positions.
        self.state = np.zeros((n_labels, offsets[-1]), dtype=np.int32)
        # Of labels after contexts, at each number of labels before the position.
        self.transitions = np.zeros((order + 1, n_labels, n_labels**order), dtype=np.int32)
        # Of labels at positions in contexts, int32 (n_labels, n_positions, n_contexts); None stands
        # for zeros, see `ensure_rest`.
        self.rest: np.ndarray | None = None
        self._bounds = np.zeros(n_labels)  # on the absolute scores of each label
        self._allocate: Allocate = np.zeros

    def _constrain(self, constraints: Constraints) -> None:
        self.constraints = constraints
        # As the kernels read them: bytes, and the labels before each label in one row.
        self.followers = None
        if constraints.follows is not None:
            self.followers = np.ascontiguousarray(constraints.follows.T, np.uint8)
        self.allowed = None
        if constraints.allowed is not None:
            self.allowed = np.ascontiguousarray(constraints.allowed).view(np.uint8)

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.state.shape[1]

    @property
    def n_contexts(self) -> int:
        """Number of contexts of a position after ``order`` labels."""
        return self.transitions.shape[2]

    def source(self) -> FactoredSource:
        """Return what kernels read; the arrays must not move meanwhile."""
        return FactoredSource(self.state, self.transitions, self.rest, self.followers, self.allowed)

    def start_from(self, state: np.ndarray | None, transitions: np.ndarray | None) -> None:
        """Set the scores from scores of labels at positions, and of labels after labels.

        ``transitions[u, v]`` is for label v after label u; the last row is for first positions.
        Both arrays are float64 multiples of the unit; None stands for scores of 0.
        """
        if state is None:
            return
        n_labels = self.n_labels
        if transitions is None:
            transitions = np.zeros((n_labels + 1, n_labels))
        self.make_room(np.abs(state).max(axis=1) + np.abs(transitions).max(axis=0))
        self.state[:] = np.rint(state / SCORE_UNIT)
        units = np.rint(transitions / SCORE_UNIT).astype(np.int32)
        self.transitions[0, :, 0] = units[-1]
        for depth in range(1, self.order + 1):
            # The nearest previous label is the lowest digit of a context.
            self.transitions[depth, :, : n_labels**depth] = np.tile(
                units[:-1].T, n_labels ** (depth - 1)
            )

    def keep_in(self, allocate: Allocate) -> None:
        """Move the arrays that grow with the positions to arrays from another function."""
        self._allocate = allocate
        self.state = moved(self.state, allocate)
        if self.rest is not None:
            self.rest = moved(self.rest, allocate)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_allocate": np.zeros}  # copies are in memory

    def take(self, first: int, last: int) -> FactoredScores:
        """Return a copy of the scores of the sequences from ``first`` to ``last - 1``."""
        positions = slice(self.offsets[first], self.offsets[last])
        return self.at(positions, self.offsets[first : last + 1] - self.offsets[first])

    def at(self, positions: slice | np.ndarray, offsets: np.ndarray) -> FactoredScores:
        """Return a copy of the scores at some positions, which are those of whole sequences."""
        taken = copy.copy(self)
        taken.offsets = offsets
        taken._constrain(self.constraints.at(positions))
        taken.state = self.state[:, positions].copy()
        taken.transitions = self.transitions.copy()
        if self.rest is not None:
            taken.rest = self.rest[:, positions].copy()
        return taken

    def restricted(self, candidates: np.ndarray) -> FactoredScores:
        """Return the same scores, not copied, where only these labels are allowed.

        ``candidates`` is a bool array (n_positions, n_labels). Other constraints stay in force.
        """
        allowed = candidates
        if self.constraints.allowed is not None:
            allowed = candidates & self.constraints.allowed
        restricted = copy.copy(self)
        restricted._constrain(replace(self.constraints, allowed=allowed))
        return restricted

    def divided(self, divisor: float) -> FactoredScores:
        """Return the same scores divided by a number, which are a copy unless it is 1.

        Terms are rounded one by one.
        """
        if divisor == 1:
            return self
        divided = copy.copy(self)
        divided.state = _divided(self.state, divisor)
        divided.transitions = _divided(self.transitions, divisor)
        if self.rest is not None:
            divided.rest = _divided(self.rest, divisor)
        return divided

    def add(self, transitions: np.ndarray, state: np.ndarray | None = None) -> None:
        """Add transitions, in units of 2**-20, and float64 multiples of the unit to the scores."""
        added = SCORE_UNIT * np.abs(transitions.astype(np.float64)).max(axis=(0, 2))
        if state is not None:
            added += np.abs(state).max(axis=1, initial=0.0)
        self.make_room(added)
        self.transitions += transitions
        if state is not None:
            self.state += np.rint(state / SCORE_UNIT).astype(np.int32)

    def set_state(self, state: np.ndarray, added: np.ndarray) -> None:
        """Replace the scores of labels at positions, by float64 multiples of the unit.

        ``added`` are bounds of what this adds for each label.
        """
        self.make_room(added)
        # Terms may overflow, unlike their sums modulo 2**32.
        self.state[:] = np.rint(state / SCORE_UNIT).astype(np.int64).astype(np.int32)

    def ensure_rest(self) -> np.ndarray:
        """Return ``rest``, after allocating it with zeros if there is none."""
        if self.rest is None:
            shape = self.n_labels, self.n_positions, self.n_contexts
            self.rest = self._allocate(shape, np.int32)
        return self.rest

    def make_room(self, added: np.ndarray) -> None:
        """Check that scores stay in range, given bounds of what is added for each label."""
        if not (self._bounds + added < MAX_SCORE).all():
            # Sums of bounds may be much larger than the scores.
            self._bounds = np.array([self._largest(label) for label in range(self.n_labels)])
        bounds = self._bounds + added
        if not (bounds < MAX_SCORE).all():
            raise ValueError(
                f"scores may reach {bounds.max():.4g}; expected less than {MAX_SCORE:g}: lower "
                "learning_rate or use fewer iterations"
            )
        self._bounds = bounds

    def _largest(self, label: int) -> float:
        """Return the largest absolute score of a label."""
        depth = self._depth()
        exists = np.arange(self.n_contexts) < self.n_labels ** depth[:, np.newaxis]
        scores = SCORE_UNIT * self._sums(label, depth)
        return float(np.abs(scores, where=exists, out=np.zeros(exists.shape)).max())

    def _sums(self, label: int, depth: np.ndarray) -> np.ndarray:
        """Return the scores of a label in units, regardless of constraints."""
        # Terms may overflow, unlike their sums modulo 2**32.
        sums = self.transitions[:, label][depth]
        sums += self.state[label][:, np.newaxis]
        if self.rest is not None:
            sums += self.rest[label]
        return sums

    def _depth(self) -> np.ndarray:
        return np.minimum(positions_in_sequences(self.offsets), self.order)

    def table(self) -> np.ndarray:
        """Return the scores of all contexts, with minus infinity for forbidden labels."""
        depth = self._depth()
        scores = np.empty((self.n_labels, self.n_positions, self.n_contexts))
        for label in range(self.n_labels):
            np.multiply(self._sums(label, depth), SCORE_UNIT, out=scores[label])
        self.constraints.forbid(scores, self.offsets)
        return scores


def _divided(terms: np.ndarray, divisor: float) -> np.ndarray:
    return np.rint(terms / divisor).astype(np.int64).astype(np.int32)
