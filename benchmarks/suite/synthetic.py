"""Sequences of a hidden Markov model, as in section 3.3 of Hao's dissertation (2009).

Each label has 8 symbols of its own. It emits one of them with probability 0.6, otherwise any other
symbol, and is followed by itself with probability 0.6, otherwise by any other label.
"""

from __future__ import annotations

import numpy as np

SYMBOLS_PER_LABEL = 8
KEEP = 0.6


def sequences(
    n_sequences: int = 100, length: int = 100, n_labels: int = 3
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw symbols and labels of ``n_sequences`` sequences as integer arrays."""
    random = np.random.default_rng(0)
    shape = (n_sequences, length)
    moves = _keep_or_change(random, shape, n_labels)
    labels = (random.integers(n_labels, size=(n_sequences, 1)) + moves.cumsum(axis=1)) % n_labels
    groups = (labels + _keep_or_change(random, shape, n_labels)) % n_labels
    symbols = groups * SYMBOLS_PER_LABEL + random.integers(SYMBOLS_PER_LABEL, size=shape)
    return list(symbols), list(labels)


def _keep_or_change(random: np.random.Generator, shape: tuple, n_labels: int) -> np.ndarray:
    """Draw 0 with probability ``KEEP``, otherwise a step to another label."""
    changes = random.random(shape) >= KEEP
    return changes * random.integers(1, n_labels, size=shape)
