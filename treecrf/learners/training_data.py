"""Sequences with codes of their labels: to train on, and held out to watch the training by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treecrf.inputs.labels import RawData
from treecrf.inputs.sequences import Sequences, Trained, joined, reversed_places, split


@dataclass(frozen=True)
class Labeled:
    """Sequences, the codes of their labels one after another, and masks of possible labels."""

    sequences: Sequences
    codes: np.ndarray
    allowed: np.ndarray | None = None

    def take(self, chosen: np.ndarray) -> Labeled:
        """Some of the sequences."""
        pieces = split(np.arange(len(self.codes)), self.sequences.offsets)
        places = np.concatenate([pieces[i] for i in chosen])
        allowed = None if self.allowed is None else self.allowed[places]
        return Labeled(self.sequences.take(chosen), self.codes[places], allowed)

    def joined(self, other: Labeled) -> Labeled:
        """These sequences and others, which are free where nothing is said of them."""
        allowed, more = self.allowed, other.allowed
        if allowed is not None:
            more = np.ones((len(other.codes), allowed.shape[1]), bool) if more is None else more
            allowed = np.concatenate([allowed, more])
        codes = np.concatenate([self.codes, other.codes])
        return Labeled(joined(self.sequences, other.sequences), codes, allowed)

    def reversed(self) -> Labeled:
        """The same, each sequence from its end to its start."""
        places = reversed_places(self.sequences.offsets)
        allowed = None if self.allowed is None else self.allowed[places]
        return Labeled(self.sequences.reversed(), self.codes[places], allowed)


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
    sequences = training.sequences.with_used_categories()
    return replace(training, sequences=sequences), data.take(held_out)


def read_validation(
    given: RawData, like: Trained, label: Callable[[Sequences, list[np.ndarray]], Labeled]
) -> Labeled | None:
    """The validation data that a user gives, if any; errors say that they are about these."""
    if (given.X is None) != (given.y is None):
        there, missing = ("y_val", "X_val") if given.X is None else ("X_val", "y_val")
        raise ValueError(f"{there} is given without {missing}")
    if given.X is None:
        return None
    try:
        return label(*given.read(like))
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"validation data: {error}") from error
