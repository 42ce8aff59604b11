"""Labeled sequences of the benchmark `real.py`, and divisions of them by person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

TRAIN_ONLY = -1


@dataclass(frozen=True)
class LabeledSequences:
    """Sequences with a label per position.

    Attributes
    ----------
    X : list of float32 arrays (n_positions, n_columns)
        NaN where a value is missing.
    y : list of str arrays (n_positions,)
    names : list of str
        Name of each sequence, ``person/sequence``.
    folds : list of int
        Number of the fold in which each sequence is tested, or ``TRAIN_ONLY``.
    columns : list of str
    """

    X: list[np.ndarray]
    y: list[np.ndarray]
    names: list[str]
    folds: list[int]
    columns: list[str]

    @property
    def persons(self) -> list[str]:
        """The person of each sequence: its name up to the slash."""
        return [name.split("/")[0] for name in self.names]


class Examples(NamedTuple):
    """Sequences to learn from.

    Attributes
    ----------
    X : list of float32 arrays (n_positions, n_columns)
    y : list of int arrays (n_positions,)
        Codes 0 to K - 1 of the labels.
    persons : list of str
    """

    X: list[np.ndarray]
    y: list[np.ndarray]
    persons: list[str]

    def take(self, chosen: Iterable[int]) -> Examples:
        """Select sequences."""
        return Examples(*([part[i] for i in chosen] for part in self))


class Predicted(NamedTuple):
    """Codes of the labels of each sequence, and float arrays (n_positions, K) of probabilities."""

    labels: list[np.ndarray]
    probabilities: list[np.ndarray]


def folds_by_person(names: Sequence[str], n_folds: int) -> list[int]:
    """Deal the persons, in order of their names, to the folds."""
    persons = sorted({name.split("/")[0] for name in names})
    return [persons.index(name.split("/")[0]) % n_folds for name in names]


def divided(data: LabeledSequences, held_out: bool) -> list[tuple[list[int], list[int]]]:
    """Return the sequences to learn from and to test on, for each fold.

    With ``held_out``, three folds of the persons that are not tested in the first fold.
    """
    folds = dict(enumerate(data.folds))
    if held_out:
        rest = [i for i, fold in folds.items() if fold != 0]
        folds = dict(zip(rest, folds_by_person([data.names[i] for i in rest], 3), strict=True))
    return [([i for i in folds if folds[i] != fold], [i for i in folds if folds[i] == fold])
            for fold in sorted(set(folds.values()) - {TRAIN_ONLY})]  # fmt: skip


def held_out(data: Examples) -> tuple[Examples, Examples]:
    """Return the sequences of two thirds of the persons, drawn at random, and of the others."""
    persons = sorted(set(data.persons))
    order = np.random.RandomState(0).permutation(len(persons))
    others = {persons[i] for i in order[: max(1, round(len(persons) / 3))]}
    is_out = np.array([person in others for person in data.persons])
    return data.take(np.flatnonzero(~is_out)), data.take(np.flatnonzero(is_out))


def n_correct(labels: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> int:
    """Return the number of positions with the correct label."""
    return sum(int((a == b).sum()) for a, b in zip(labels, y, strict=True))
