"""Labeled sequences for training, and validation sequences.

Training knows them by one interface, `LabeledData`. `LabeledSequences` are in memory; sequences in
partitions are a class of `treecrf.learners.large`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from treecrf.chains.partial_labels import unknown_labels
from treecrf.encoding.sequence_keys import (
    Content,
    column_order,
    keys_in,
    label_order,
    sequence_keys,
)
from treecrf.inputs.dataset import MAX_WEIGHT
from treecrf.inputs.offsets import reversed_positions, split_sequences
from treecrf.inputs.sequences import Description, Sequences, cut
from treecrf.utils.exact import ExactSum
from treecrf.utils.hashing import mix, smallest
from treecrf.utils.partitions import InMemory, Partitions

# Arrays of `LabeledSequences` with an item for each position, which may be None.
OPTIONAL_ARRAYS = ("allowed", "candidates", "weights", "previous", "fold_groups")


class LabeledData(ABC):
    """Labeled sequences that training reads, wherever they are.

    Arrays of their keys or of marks are in lists, with one for each partition of the data.
    """

    in_memory: ClassVar[bool]  # whether they are `LabeledSequences`
    described: Description  # of all sequences
    n_sequences: int
    n_positions: int
    largest: int  # number of positions in the largest partition

    @abstractmethod
    def unlabeled(self) -> Partitions:
        """Return the sequences without labels, which are of type `Sequences`."""

    @abstractmethod
    def contents(self) -> Partitions:
        """Return what keys of the sequences are computed from, of type `Content`."""

    @abstractmethod
    def fold_groups_of_sequences(self) -> list[np.ndarray | None]:
        """Return the hash of the fold group of each sequence; None without such groups."""

    @abstractmethod
    def count_labels(self, n_labels: int) -> list[ExactSum]:
        """Sum the sample weights of the positions of each label."""

    @abstractmethod
    def marked(self, marks: list[np.ndarray]) -> LabeledData:
        """Return the sequences that are marked; one at least."""

    @abstractmethod
    def with_used_categories(self) -> LabeledData:
        """Drop categories that do not occur."""

    @abstractmethod
    def derive(self, function: Callable[..., Any], *args: Any) -> Partitions:
        """Return the partitions ``function(part, *args)``, where they are."""

    @abstractmethod
    def gathered(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(data, *args)``, with all `LabeledSequences` in one place."""

    @abstractmethod
    def release(self) -> None:
        """Forget the sequences, which have been encoded."""

    def keys(self) -> list[np.ndarray]:
        """Return the keys of the sequences, see `sequence_keys`."""
        return keys_in(self.contents())

    def column_order(self) -> np.ndarray:
        """Order the columns by what they hold; int64 (n_features,)."""
        return column_order(self.contents(), self.described.schema)

    def label_order(self, n_labels: int) -> np.ndarray:
        """Order the labels by where they occur; int64 (n_labels,)."""
        return label_order(self.contents(), n_labels)

    # Random choices, which depend on the content of sequences and not on their order

    def smallest(self, seed: int, n: int) -> list[np.ndarray]:
        """Mark the n sequences with the smallest random numbers."""
        keys = self.keys()
        marks = smallest(mix(seed, np.concatenate(keys)), n)
        return np.split(marks, np.cumsum([len(part) for part in keys])[:-1])

    def at_random(self, n_positions: int, seed: int, min_sequences: int = 1) -> LabeledData:
        """Choose sequences with about ``n_positions`` positions, but at least ``min_sequences``."""
        n_chosen = int(n_positions / self.n_positions * self.n_sequences)
        n_chosen = max(min_sequences, n_chosen)
        if n_chosen >= self.n_sequences:
            return self
        return self.marked(self.smallest(seed, n_chosen))

    def hold_out(self, fraction: float, seed: int) -> tuple[LabeledData, LabeledData]:
        """Split sequences, or fold groups, into training and held-out ones; ValueError if too few.

        Categories that only occur in the latter are unseen in training.
        """
        parts = self.keys()
        keys, units = group_keys(np.concatenate(parts), self.fold_groups_of_sequences())
        what = "sequences" if len(keys) == len(units) else "fold groups"
        n_held_out = count_held_out(len(keys), fraction, what)
        is_held_out = smallest(mix(seed, keys), n_held_out)[units]
        marks = np.split(is_held_out, np.cumsum([len(part) for part in parts])[:-1])
        training = self.marked([~is_held_out for is_held_out in marks])
        return training.with_used_categories(), self.marked(marks)


def group_keys(
    keys: np.ndarray, fold_groups: list[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a key for each fold group, and the number of the group of each sequence.

    The key of a group depends on the keys of its sequences only: neither on the names nor on the
    order of groups. Without groups, each sequence is one.
    """
    if fold_groups[0] is None:
        return keys, np.arange(len(keys))
    names, numbers = np.unique(np.concatenate(fold_groups), return_inverse=True)
    sums = np.zeros(len(names), dtype=np.uint64)
    np.add.at(sums, numbers, keys)
    return mix(sums), numbers


def count_held_out(n_units: int, fraction: float, what: str = "sequences") -> int:
    """Return the number of sequences that are held out; ValueError if none would be left."""
    n_held_out = max(1, round(fraction * n_units))
    if n_held_out >= n_units:
        raise ValueError(
            f"early stopping holds out {n_held_out} of {n_units} {what}, which leaves none "
            f"for training; pass X_val and y_val, or more {what}"
        )
    return n_held_out


@dataclass(frozen=True)
class LabeledSequences(LabeledData):
    """Labeled sequences in memory."""

    in_memory = True

    sequences: Sequences
    # int32 (n_positions,): indices of the labels among the classes. Where labels are unknown, they
    # are one of the possible label sequences.
    codes: np.ndarray
    # bool (n_positions, n_labels): labels that may occur; None if all may.
    allowed: np.ndarray | None = None
    # bool (n_positions, n_labels): labels that are possible according to y; None if all are known.
    candidates: np.ndarray | None = None
    weights: np.ndarray | None = None  # float64 (n_positions,): sample weights; None if all are 1
    # int32 (n_positions,): codes of the labels that later ones depend on; None: ``codes``.
    previous: np.ndarray | None = None
    # uint64 (n_positions,): hash of what `fit` is passed as ``fold_groups``; None without it.
    fold_groups: np.ndarray | None = None

    @cached_property
    def described(self) -> Description:
        """Schema, form and size of the sequences."""
        return Description.of(self.sequences)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return self.sequences.n_sequences

    @property
    def n_positions(self) -> int:
        """Number of positions in all sequences together."""
        return len(self.codes)

    largest = n_positions

    def unlabeled(self) -> InMemory:
        """Return the sequences without labels."""
        return InMemory(self.sequences)

    def contents(self) -> InMemory:
        """Return what keys of the sequences are computed from."""
        return InMemory(self.content())

    def fold_groups_of_sequences(self) -> list[np.ndarray | None]:
        """Return the hash of the fold group of each sequence; None without such groups."""
        return [fold_groups_of(self)]

    def count_labels(self, n_labels: int) -> list[ExactSum]:
        """Sum the sample weights of the positions of each label."""
        return count_labels(self, n_labels)

    def marked(self, marks: list[np.ndarray]) -> LabeledSequences:
        """Return the sequences that the only array marks; one at least."""
        return self.take_marked(marks[0])

    def with_used_categories(self) -> LabeledSequences:
        """Drop categories that do not occur."""
        return replace(self, sequences=self.sequences.with_used_categories())

    def derive(self, function: Callable[..., Any], *args: Any) -> InMemory:
        """Return ``function(data, *args)``."""
        return InMemory(self).derive(function, *args)

    def gathered(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(data, *args)``."""
        return function(self, *args)

    def release(self) -> None:
        """Do nothing: their memory is free when nothing refers to them."""

    def content(self) -> Content:
        """Return what keys of the sequences are computed from."""
        return Content(
            self.sequences, self.codes, self.allowed, self.candidates, self.weights, self.previous
        )

    def take_marked(self, marks: np.ndarray) -> LabeledSequences | None:
        """Select the sequences that a bool array (n_sequences,) marks; None without any."""
        if marks.all():
            return self
        return self.take(np.flatnonzero(marks)) if marks.any() else None

    def take(self, chosen: np.ndarray) -> LabeledSequences:
        """Select some of the sequences."""
        pieces = split_sequences(np.arange(len(self.codes)), self.sequences.offsets)
        positions = np.concatenate([pieces[i] for i in chosen])
        return self._at(self.sequences.take(chosen), positions)

    def hashes(self, seed: int) -> np.ndarray:
        """Return a random number for each sequence, from its content; uint64 (n_sequences,)."""
        return mix(seed, sequence_keys(self.content()))

    def parted(self, held_out: np.ndarray) -> tuple[LabeledSequences, LabeledSequences]:
        """Return the sequences for training, and those marked as held out.

        Categories that only occur in the latter are unseen in training.
        """
        training = self.take(np.flatnonzero(~held_out)).with_used_categories()
        return training, self.take(np.flatnonzero(held_out))

    def relabeled(self, order: np.ndarray) -> LabeledSequences:
        """Return the same sequences with the labels in another order; int64 (n_labels,)."""
        numbers = np.argsort(order).astype(np.int32)
        return replace(
            self,
            codes=numbers[self.codes],
            allowed=None if self.allowed is None else self.allowed[:, order],
            candidates=None if self.candidates is None else self.candidates[:, order],
            previous=None if self.previous is None else numbers[self.previous],
        )

    def reversed(self) -> LabeledSequences:
        """Return the same sequences, each in reverse order."""
        positions = reversed_positions(self.sequences.offsets)
        return self._at(self.sequences.reversed(), positions)

    def cut(self, offsets: np.ndarray) -> LabeledSequences:
        """Return the same positions as shorter sequences, without pieces that teach nothing.

        If all pieces teach nothing, the sequences remain whole. The offsets of the pieces include
        the offsets of the sequences.
        """
        pieces = replace(self, sequences=cut(self.sequences, offsets))
        kept = pieces.have_weight() & pieces.are_informative()
        if kept.all():
            return pieces
        return pieces.take(np.flatnonzero(kept)) if kept.any() else self

    def have_weight(self) -> np.ndarray:
        """Mark the sequences with a position of positive weight; bool array (n_sequences,)."""
        if self.weights is None:
            return np.ones(self.sequences.n_sequences, dtype=bool)
        return np.logical_or.reduceat(self.weights > 0, self.sequences.offsets[:-1])

    def are_informative(self) -> np.ndarray:
        """Mark the sequences in which not all allowed labels are possible; (n_sequences,)."""
        if self.candidates is None:
            return np.ones(self.sequences.n_sequences, dtype=bool)
        possible = self.candidates if self.allowed is None else self.candidates | ~self.allowed
        return np.logical_or.reduceat(~possible.all(axis=1), self.sequences.offsets[:-1])

    def _at(self, sequences: Sequences, positions: np.ndarray) -> LabeledSequences:
        """Return other sequences with the labels of some positions."""
        others = (
            None if array is None else array[positions]
            for array in (getattr(self, name) for name in OPTIONAL_ARRAYS)
        )
        return LabeledSequences(sequences, self.codes[positions], *others)


def fold_groups_of(data: LabeledSequences) -> np.ndarray | None:
    """Return the hash of the fold group of each sequence; None without such groups."""
    if data.fold_groups is None:
        return None
    return data.fold_groups[data.sequences.offsets[:-1]]


# Weights of labels and of positions, from ``class_weight`` and sample weights


def multiplied_weights(weight_of_label: np.ndarray, data: LabeledSequences) -> np.ndarray:
    """Return the weight of each position in training; float64 array (n_positions,).

    It is the sample weight, multiplied by the weight of the label. The latter is 1 where the label
    is unknown. If all weights are 1, the array takes no memory and cannot be written to.
    """
    if (weight_of_label == 1).all():
        ones = np.broadcast_to(np.ones(1), data.codes.shape)
        return ones if data.weights is None else data.weights
    weights = weight_of_label[data.codes]
    if data.candidates is not None:
        weights = np.where(unknown_labels(data.candidates), 1.0, weights)
    return weights if data.weights is None else weights * data.weights


def label_weights(
    class_weight: dict | str, classes: np.ndarray, counts: list[ExactSum]
) -> np.ndarray:
    """Return the weight of each label; float64 array (n_labels,).

    Labels missing from a dict have weight 1. Labels that do not occur are ignored if the dict names
    all labels that do, as in scikit-learn; otherwise they raise ValueError as mistakes. ``counts``
    is from `count_labels`; the counts of several parts of the data can be added.
    """
    labels = classes.tolist()
    if isinstance(class_weight, dict):
        weights = class_weight
        unknown = weights.keys() - set(labels)
        if unknown and not weights.keys() >= set(labels):
            raise ValueError(
                f"class_weight has {sorted(unknown, key=repr)}, but y holds only {labels}"
            )
    else:
        sums = np.array([float(count) for count in counts])
        n_positive = max(1, np.count_nonzero(sums))
        balanced = sums.sum() / (n_positive * np.where(sums > 0, sums, 1))
        weights = dict(zip(labels, balanced.tolist(), strict=True))
    for label, weight in weights.items():
        if not isinstance(weight, Real) or not 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT:
            raise ValueError(
                f"class_weight: {label!r} has weight {weight!r}; expected a number from "
                f"{1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
            )
    return np.array([weights.get(label, 1.0) for label in labels], dtype=np.float64)


def count_labels(data: LabeledSequences, n_labels: int) -> list[ExactSum]:
    """Sum the sample weights of the positions of each label; the same in any order."""
    known = slice(None) if data.candidates is None else ~unknown_labels(data.candidates)
    codes = data.codes[known]
    if data.weights is None:
        return list(map(ExactSum.from_integer, np.bincount(codes, minlength=n_labels).tolist()))
    weights = data.weights[known]
    return [ExactSum.of(weights[codes == k]) for k in range(n_labels)]


# What a training run starts from


@dataclass
class TrainingInput:
    """Everything that a training run starts from, read and checked."""

    classes: np.ndarray
    training: LabeledData
    # Validation data of the user, or a fraction of the training data; None if there are none.
    held_out: LabeledData | None
    seed: int
    earlier: dict  # fitted attributes that a warm start continues from; may be empty
    # Further sequences that are scored; the first may be the validation data.
    evaluated: tuple[LabeledSequences, ...] = ()
    n_unlabeled: int = 0  # training positions without a label

    def without_data(self) -> TrainingInput:
        """Return everything else, to be sent where sequences are."""
        return TrainingInput(self.classes, None, None, self.seed, self.earlier)

    def release(self) -> None:
        """Forget the sequences, which have been encoded."""
        for labeled in (self.training, self.held_out):
            if labeled is not None:
                labeled.release()
        self.training = self.held_out = None
