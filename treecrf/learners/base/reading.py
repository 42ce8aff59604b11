"""Reading of the data that training starts from: the same steps in memory and in partitions.

The data change their form twice: `UnreadData` are what the user passed, `ReadData` have been
converted, and `LabeledData` have been checked and are ready for training. The classes here are of
data in memory; those of data in partitions are in `treecrf.learners.large`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from treecrf.chains.masks import as_allowed
from treecrf.inputs.data_warnings import warn_of_padding, warn_of_unlabeled
from treecrf.inputs.dataset import RawData, named
from treecrf.inputs.labels import Labels, find_classes
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.base.training_data import LabeledData, LabeledSequences, TrainingInput


class UnreadData(ABC):
    """Sequences and labels as passed by the user."""

    @abstractmethod
    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> ReadData:
        """Check and convert the data.

        The schema of the training data, or of an earlier fit, defines the columns; without one,
        the data do, with the parameter ``categorical_features``, and doubtful columns cause
        warnings.
        """


class ReadData(ABC):
    """Sequences and labels that have been converted, but not been checked with each other."""

    n_positions: int
    n_unlabeled: int  # positions without a label

    @abstractmethod
    def find_classes(self) -> np.ndarray:
        """Return the distinct labels, sorted; ValueError unless there are two."""

    @abstractmethod
    def padding(self, classes: np.ndarray) -> list:
        """Return the labels that are probably padding."""

    @abstractmethod
    def labeled(self, rules: LabelRules) -> LabeledData:
        """Check the labels, and return the sequences that training uses; ValueError without any."""


@dataclass(frozen=True)
class ReadingRules:
    """Settings of an estimator that determine how its training data are read."""

    name: str  # of the estimator, for messages
    verbose: int
    labels: LabelRules  # without the classes
    earlier: dict  # fitted attributes that a warm start continues from; may be empty
    schema: InputSchema | None  # that training sequences must match, if it is fixed in advance
    categorical_features: Any  # parameter of the estimator
    random_state: Any  # parameter of the estimator
    # Fraction of the training sequences to hold out without validation data; None for none.
    validation_fraction: float | None


def read_training(
    rules: ReadingRules,
    training: UnreadData,
    validation: UnreadData | None = None,
    eval_sets: Sequence[UnreadData] = (),  # in memory
) -> TrainingInput:
    """Read and check everything that training starts from."""
    earlier = rules.earlier
    read = training.read(rules.schema, rules.categorical_features)
    note_unlabeled(rules.name, rules.verbose, read.n_unlabeled, read.n_positions)
    seed = earlier.get("_seed", draw_seed(rules.random_state))
    classes = earlier["classes_"] if earlier else read.find_classes()
    warn_of_padding(read.padding(classes))

    label_rules = replace(rules.labels, classes=classes)
    labeled = read.labeled(label_rules)
    check_fold_groups(labeled)
    schema = rules.schema
    if schema is None and (eval_sets or validation is not None):
        schema = labeled.described.schema
    evaluated = tuple(unread.read(schema).labeled(label_rules) for unread in eval_sets)
    held_out = None
    if validation is not None:
        held_out = validation.read(schema).labeled(label_rules)
    elif evaluated:
        held_out = evaluated[0]
    elif rules.validation_fraction is not None:
        labeled, held_out = labeled.hold_out(rules.validation_fraction, seed)
    return TrainingInput(classes, labeled, held_out, seed, earlier, evaluated, read.n_unlabeled)


def check_fold_groups(data: LabeledData) -> None:
    """Raise ValueError if all sequences are of one fold group."""
    groups = data.fold_groups_of_sequences()
    if groups[0] is not None and len(np.unique(np.concatenate(groups))) < 2:
        raise ValueError(
            f"all {data.n_sequences} sequences have the same value in fold_groups; expected at "
            "least two groups, of which some are held out"
        )


def note_unlabeled(name: str, verbose: int, n_unlabeled: int, n_positions: int) -> None:
    """Say how many training positions have no label, and warn if these are most of them."""
    if n_unlabeled and verbose:
        print(
            f"{name}: {n_unlabeled:,} of {n_positions:,} positions have no label", file=sys.stderr
        )
    warn_of_unlabeled(n_unlabeled, n_positions, "training uses")


def draw_seed(random_state: Any) -> int:
    """Return the seed of all random choices."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


# Data in memory


@dataclass(frozen=True)
class UnreadSequences(UnreadData):
    """Data in memory as passed by the user."""

    raw: RawData

    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> ReadSequences:
        """Check and convert the data."""
        with named(self.raw.place):
            raw = self.raw.resolved()
            sequences, labels = raw.read(schema, categorical_features)
        return ReadSequences(raw, sequences, labels)


@dataclass(frozen=True)
class ReadSequences(ReadData):
    """Data in memory that have been converted."""

    raw: RawData  # the other arguments of `fit`
    sequences: Sequences
    labels: Labels

    @property
    def n_positions(self) -> int:
        """Number of positions in all sequences together."""
        return self.sequences.n_positions

    @property
    def n_unlabeled(self) -> int:
        """Number of positions without a label."""
        return self.labels.n_unlabeled

    def find_classes(self) -> np.ndarray:
        """Return the distinct labels, sorted; ValueError unless there are two."""
        return find_classes(self.labels.present())

    def padding(self, classes: np.ndarray) -> list:
        """Return the labels that are probably padding."""
        return self.labels.padding(classes)

    def labeled(self, rules: LabelRules) -> LabeledSequences:
        """Check the labels, and return the sequences that training uses; ValueError without any."""
        raw = self.raw
        offsets = self.sequences.offsets
        with named(raw.place):
            masks = as_allowed(raw.allowed, None, rules.classes, offsets, raw.segmentation)
            return rules.label(raw, self.sequences, self.labels, masks)
