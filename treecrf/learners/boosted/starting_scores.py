"""Scores that trees are added to: those of a linear model, and of the user."""

from __future__ import annotations

import numpy as np

from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import LinearModel
from treecrf.learners.linear.scores import LinearFunction
from treecrf.utils.exact import rounded_leaves
from treecrf.utils.threads import Threads


def linear_scores(
    model: LinearModel, sequences: Sequences, threads: Threads
) -> tuple[np.ndarray, np.ndarray]:
    """Compute scores of labels, (n_labels, n_positions), and of labels after labels.

    The latter have shape (n_labels + 1, n_labels), with a last row for first positions. Scores
    of labels are rounded to multiples of ``LEAF_UNIT``.
    """
    weights = model.weights
    table = AttributeMatrix.of(model.attributes, sequences)
    state = LinearFunction(table, weights.layout, threads).state_scores(weights)
    return np.ascontiguousarray(rounded_leaves(state).T), weights.transitions.copy()


def starting_scores(
    start: LinearModel | None, sequences: Sequences, threads: Threads
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the scores that the trees are added to: of the linear model and of the user.

    They are scores of labels and of labels after labels, as from `linear_scores`; None stands
    for scores of 0.
    """
    state = transitions = None
    if start is not None:
        state, transitions = linear_scores(start, sequences, threads)
    init_scores = sequences.init_scores
    if init_scores is None:
        return state, transitions
    if state is None:
        return np.ascontiguousarray(init_scores.T), transitions
    return state + init_scores.T, transitions


def table_of_starts(
    state: np.ndarray | None, transitions: np.ndarray | None, offsets: np.ndarray, order: int
) -> np.ndarray | None:
    """Return the scores of `starting_scores` in all contexts.

    Only the nearest previous label matters. First positions have one context, the first.
    """
    if state is None:
        return None
    n_labels, n_positions = state.shape
    scores = np.empty((n_labels, n_positions, n_labels**order))
    if transitions is None:
        scores[:] = state[:, :, None]
        return scores
    # The nearest previous label is the lowest digit of a context.
    by_context = np.tile(transitions[:-1].T, n_labels ** (order - 1))
    np.add(state[:, :, None], by_context[:, None], out=scores)
    first = offsets[:-1]
    scores[:, first] = 0.0
    scores[:, first, 0] = state[:, first] + transitions[-1][:, None]
    return scores
