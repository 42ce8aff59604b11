"""Beam search over all sequences in parallel, one position at a time.

It is for estimators that need the previous labels of each row: each step scores the positions of
all sequences at once. Models of trees are searched by `_decode`, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def beam_search(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    offsets: np.ndarray,
    n_labels: int,
    order: int,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the codes and log-probabilities of the most probable label sequences by a beam search.

    Label sequences with the same last ``order`` labels have the same future, so that only the best
    of them is kept. If the beam holds all contexts, this is the Viterbi algorithm.

    ``step(positions, previous)`` returns the log-probability (n, n_labels) of each label at some
    positions after the ``previous`` labels, uint8 (order, n) with ``n_labels`` for none.
    """
    # Longest first, so that the sequences that have not ended yet are the first n.
    by_length = np.argsort(-np.diff(offsets), kind="stable")
    starts, lengths = offsets[:-1][by_length], np.diff(offsets)[by_length]
    log_p = np.full((len(starts), width), -np.inf)
    log_p[:, 0] = 0.0
    recent = np.full((order, len(starts), width), n_labels, dtype=np.uint8)
    steps = []
    for t in range(int(lengths[0])):
        n = int(np.searchsorted(-lengths, -t))
        rows, columns = np.nonzero(log_p[:n] > -np.inf)
        values = np.full((n, width, n_labels), -np.inf)
        previous = np.ascontiguousarray(recent[:, rows, columns])
        values[rows, columns] = log_p[rows, columns, None] + step(starts[rows] + t, previous)
        parents, labels, log_p[:n] = _best(values, recent[:, :n], width)
        recent[:, :n] = np.take_along_axis(recent[:, :n], parents[None], axis=2)
        recent[1:, :n] = recent[:-1, :n].copy()
        recent[:1, :n] = labels
        steps.append((parents, labels))
    log_probabilities = np.zeros(len(starts))
    log_probabilities[by_length] = log_p[:, 0]
    return _trace(steps, starts, lengths), log_probabilities


def _best(
    values: np.ndarray, recent: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the best continuations, at most one per next context: parents, labels and values."""
    n, n_parents, n_labels = values.shape
    contexts = np.zeros((n, n_parents), dtype=int)
    if len(recent) > 1:
        columns = recent[:-1].reshape(len(recent) - 1, -1)
        contexts = np.unique(columns, axis=1, return_inverse=True)[1].reshape(n, n_parents)
    n_contexts = int(contexts.max()) + 1
    labels = np.arange(n_labels) if len(recent) else np.zeros(n_labels, dtype=np.int64)
    keys = (np.arange(n)[:, None, None] * n_contexts + contexts[:, :, None]) * n_labels + labels
    flat = values.reshape(n, -1)
    order = np.lexsort((-flat.ravel(), keys.ravel()))
    again = np.append(False, np.diff(keys.ravel()[order]) == 0)
    flat.ravel()[order[again]] = -np.inf
    best = np.argsort(-flat, axis=1, kind="stable")[:, :width]
    parents, chosen = np.divmod(best, n_labels)
    return parents, chosen, np.take_along_axis(flat, best, axis=1)


def _trace(steps: list, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Trace the best label sequences back from their ends."""
    codes = np.zeros(int(lengths.sum()), dtype=np.int32)
    current = np.zeros(len(starts), dtype=np.int64)
    for t in range(len(steps) - 1, -1, -1):
        parents, labels = steps[t]
        rows = np.arange(len(parents))
        codes[starts[rows] + t] = labels[rows, current[rows]]
        current[rows] = parents[rows, current[rows]]
    return codes
