"""Held-out sequences, by which training is watched: given, or a share of the training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from treecrf.base import Labeled
from treecrf.labels import Given


def hold_out(data: Labeled, fraction: float, seed: int) -> tuple[Labeled, Labeled]:
    """Part sequences at random in those to train on and those to hold out.

    Raises
    ------
    ValueError
        If none would be left to train on.
    """
    n = data.sequences.n_sequences
    n_held_out = max(1, round(fraction * n))
    if n_held_out >= n:
        raise ValueError(
            f"early stopping holds out {n_held_out} of {n} sequences and leaves none to train on; "
            "give X_val and y_val or more sequences"
        )
    shuffled = np.random.default_rng([seed, 0]).permutation(n)
    held_out, kept = np.sort(shuffled[:n_held_out]), np.sort(shuffled[n_held_out:])
    training = data.take(kept)
    # What only the others hold has not been seen in training.
    return replace(training, sequences=training.sequences.with_used_categories()), data.take(
        held_out
    )


def read_validation(given: Given, read: Callable[[Given], Labeled]) -> Labeled | None:
    """The validation data that a user gives, if any; errors say that they are about these."""
    if (given.X is None) != (given.y is None):
        there, missing = ("y_val", "X_val") if given.X is None else ("X_val", "y_val")
        raise ValueError(f"{there} is given without {missing}")
    if given.X is None:
        return None
    try:
        return read(given)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"validation data: {error}") from error
