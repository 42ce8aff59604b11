"""Training data in partitions: read alike, labeled, split, and joined in one place.

Every step computes statistics of each partition and merges them in an order that does not matter,
so that the sequences, their keys and the choices among them are the same as for all data at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from treecrf.chains.masks import as_allowed
from treecrf.inputs.data_warnings import warn_of_columns
from treecrf.inputs.dataset import ONLY_ZEROS, RawData, named, read_weights
from treecrf.inputs.labels import as_labels
from treecrf.inputs.large.local_partitions import LocalPartitions, PartitionsView
from treecrf.inputs.large.parts import (
    PartDescription,
    describe_part,
    find_shared_group,
    group_of_hash,
    merged,
    merged_labels,
    merged_padding,
    read_part,
)
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Description
from treecrf.learners.base.joined_sequences import joined
from treecrf.learners.base.label_rules import (
    NO_KNOWN_LABELS,
    NO_SYMBOLS,
    LabelCoverage,
    LabelRules,
    label_coverage,
    select_useful,
)
from treecrf.learners.base.reading import ReadData, UnreadData
from treecrf.learners.base.training_data import (
    LabeledData,
    LabeledSequences,
    count_labels,
    fold_groups_of,
)
from treecrf.utils.exact import ExactSum
from treecrf.utils.partitions import LargePartitions, PerPartition, StoredPartitions, identity

# Partitions as passed by the user


@dataclass(frozen=True)
class UnreadPartitions(UnreadData):
    """Partitions of `RawData`, which may be empty; a sequence lies in one of them."""

    raws: LargePartitions
    place: str = ""  # in messages of errors, before the name of the partition

    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> ReadPartitions:
        """Read each partition on its own, and merge what they hold."""
        with named(self.place):
            raws, parts = describe_parts(self.raws, categorical_features, schema)
            described = merged(parts, schema)
            if schema is None:
                warn_of_columns(described, categorical_features)
            return ReadPartitions(raws, parts, described, self.place)


def describe_parts(
    partitions: LargePartitions, categorical_features: Any, schema: InputSchema | None = None
) -> tuple[LargePartitions, list[PartDescription]]:
    """Return the partitions that have sequences, and their descriptions.

    Errors name the partition that is not valid, or that has a sequence of another partition.
    """
    parts = partitions.map(describe_part, categorical_features, schema)
    partitions = partitions.only([part is not None for part in parts])
    parts = [part for part in parts if part is not None]
    if not parts:
        raise ValueError("X holds no sequences in any partition")
    if len(parts) > 1:
        _check_groups(partitions, parts)
    if not any(part.has_weight for part in parts):
        raise ValueError(ONLY_ZEROS)
    if len({part.has_init_score for part in parts}) > 1:
        raise ValueError("init_score is given in some partitions only; expected all or none")
    return partitions, parts


def _check_groups(partitions: LargePartitions, parts: list[PartDescription]) -> None:
    """Raise ValueError if a group has positions in several partitions."""
    shared = find_shared_group(parts)
    if shared is None:
        return
    hashed, (first, second, *_) = shared
    group = next(name for name in partitions.map(group_of_hash, hashed) if name is not None)
    raise ValueError(
        f"group {group} is in {first} and in {second}; expected all positions of a sequence in one "
        "partition: sort or partition the data by group"
    )


# Partitions whose content is known


@dataclass(frozen=True)
class ReadPartitions(ReadData):
    """Partitions that are read again with the schema of all of them."""

    raws: LargePartitions  # of `RawData`, none of them empty
    parts: list[PartDescription]  # of each partition
    described: Description  # of all data
    place: str  # in messages of errors

    @property
    def n_positions(self) -> int:
        """Number of positions in all partitions together."""
        return self.described.n_positions

    @property
    def n_unlabeled(self) -> int:
        """Number of positions without a label."""
        return sum(part.n_unlabeled for part in self.parts)

    def find_classes(self) -> np.ndarray:
        """Return the distinct labels, sorted; ValueError unless there are two."""
        return merged_labels(self.parts)

    def padding(self, classes: np.ndarray) -> list:
        """Return the labels that are probably padding in every partition that has them."""
        return merged_padding(self.parts)

    def labeled(self, rules: LabelRules) -> LabeledPartitions:
        """Read the partitions again, and select the sequences that training uses."""
        with named(self.place):
            return self._labeled(rules)

    def _labeled(self, rules: LabelRules) -> LabeledPartitions:
        is_weighted = any(part.is_weighted for part in self.parts)
        partitions = self.raws.derive(label, rules, self.described, is_weighted).persisted()
        counts, lengths = zip(*partitions.map(_coverage_and_lengths), strict=True)
        coverage = LabelCoverage(*np.sum(counts, axis=0))
        if not coverage.n_useful:
            raise ValueError(NO_KNOWN_LABELS)
        useful = PartitionsView(partitions, select_useful, rules, coverage)
        if coverage.n_partial:
            # Not all examples of these sequences may be used.
            lengths = useful.map(_lengths)
        if not any(map(len, lengths)):
            raise ValueError(rules.no_known_examples)
        selected = LabeledPartitions.chosen(useful, self.described, lengths)
        if selected.n_sequences == self.described.n_sequences:
            return selected
        return selected.with_used_categories()


def label(
    raw: RawData,
    rules: LabelRules,
    described: Description,
    is_weighted: bool,  # whether any partition has sample weights other than 1
) -> LabeledSequences:
    """Read a partition with the schema of all of them, and check its labels."""
    with named(raw.place):
        sequences, raw = read_part(raw, described)
        offsets = sequences.offsets
        segmentation = raw.segmentation
        weights = None
        if is_weighted:
            weights = read_weights(raw.sample_weight, offsets, segmentation)
            weights = np.ones(offsets[-1]) if weights is None else weights
        labels = as_labels(raw.y, offsets, segmentation)
        masks = as_allowed(raw.allowed, None, rules.classes, offsets, segmentation)
        return rules.checked(raw, sequences, labels, masks, weights)


def _coverage_and_lengths(data: LabeledSequences) -> tuple[LabelCoverage, np.ndarray]:
    """Return the counts of labels, and the lengths of the sequences with weight."""
    return label_coverage(data), np.diff(data.sequences.offsets)[data.have_weight()]


def _lengths(data: LabeledSequences | None) -> np.ndarray:
    return np.zeros(0, dtype=np.int64) if data is None else np.diff(data.sequences.offsets)


# Labeled partitions


@dataclass(frozen=True)
class LabeledPartitions(LabeledData):
    """Labeled sequences in partitions."""

    in_memory = False

    partitions: LargePartitions  # of `LabeledSequences`, none of them empty
    described: Description
    lengths: list[np.ndarray]  # of the sequences in each partition

    @classmethod
    def chosen(
        cls, partitions: LargePartitions, described: Description, lengths: list[np.ndarray]
    ) -> LabeledPartitions:
        """Return some of the sequences that are described, without partitions that have none."""
        partitions = partitions.only([len(part) > 0 for part in lengths])
        lengths = [part for part in lengths if len(part)]
        described = replace(
            described,
            n_sequences=sum(map(len, lengths)),
            n_positions=int(sum(part.sum() for part in lengths)),
            longest=int(max(part.max() for part in lengths)),
        )
        return cls(partitions, described, lengths)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return self.described.n_sequences

    @property
    def n_positions(self) -> int:
        """Number of positions in all sequences together."""
        return self.described.n_positions

    @property
    def largest(self) -> int:
        """Number of positions in the largest partition."""
        return max(int(part.sum()) for part in self.lengths)

    def unlabeled(self) -> LargePartitions:
        """Return the sequences without labels."""
        return self.partitions.view(attrgetter("sequences"))

    def contents(self) -> LargePartitions:
        """Return what keys of the sequences are computed from."""
        return self.partitions.view(LabeledSequences.content)

    def fold_groups_of_sequences(self) -> list[np.ndarray | None]:
        """Return the hash of the fold group of each sequence; None without such groups."""
        return self.partitions.map(fold_groups_of)

    def count_labels(self, n_labels: int) -> list[ExactSum]:
        """Sum the sample weights of the positions of each label."""
        counts = self.partitions.map(count_labels, n_labels)
        return [sum(parts, ExactSum()) for parts in zip(*counts, strict=True)]

    def marked(self, marks: list[np.ndarray]) -> LabeledPartitions:
        """Return the sequences that are marked in each partition."""
        lengths = [part[is_marked] for part, is_marked in zip(self.lengths, marks, strict=True)]
        sequences = PartitionsView(
            self.partitions, LabeledSequences.take_marked, PerPartition(marks)
        )
        return LabeledPartitions.chosen(sequences, self.described, lengths)

    def with_used_categories(self) -> LabeledPartitions:
        """Drop categories that do not occur, and describe the symbols that do."""
        schema = self.described.schema
        if not schema.categories:
            return self
        used = self.partitions.map(_used_categories)
        categories = {j: np.unique(np.concatenate([part[j] for part in used])) for j in used[0]}
        if schema.form == "symbols" and not len(categories[0]):
            raise ValueError(NO_SYMBOLS)
        described = replace(self.described, schema=replace(schema, categories=categories))
        recoded = PartitionsView(self.partitions, recode, categories)
        return replace(self, partitions=recoded, described=described)

    def derive(self, function: Callable[..., Any], *args: Any) -> StoredPartitions:
        """Return the partitions ``function(part, *args)``, not to be computed at each use."""
        return self.partitions.derive(function, *args).kept()

    def gathered(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(data, *args)``, with all sequences in one place."""
        return self.partitions.reduce(_call_joined, self.described, function, *args)

    def gathered_with(
        self, held_out: LabeledData | None, in_process: bool, function: Callable, *args: Any
    ) -> Any:
        """Return ``function(data, held_out, *args)``, with all sequences in one place."""
        partitions = self.partitions.derive(identity)
        sets = [self.described]
        if held_out is not None:
            partitions = partitions.chain(held_out.partitions.derive(identity))
            sets.append(held_out.described)
        if in_process:
            partitions = LocalPartitions(partitions.map(identity))
        n_training = self.partitions.n_parts
        return partitions.reduce(_call_both_joined, n_training, sets, function, *args)

    def release(self) -> None:
        """Forget the sequences; partitions on a cluster can be computed again."""
        self.partitions.release()


def recode(data: LabeledSequences, categories: dict[int, np.ndarray]) -> LabeledSequences:
    """Return the same sequences with the codes of other categories, a dict of values by column."""
    if data.sequences.form == "symbols":
        return data
    return replace(data, sequences=data.sequences.with_categories(categories))


def _used_categories(data: LabeledSequences) -> dict[int, np.ndarray]:
    """Return the categories that occur, or the symbols."""
    if data.sequences.form == "symbols":
        return {0: data.sequences.symbols()}
    return data.sequences.with_used_categories().categories


def _call_joined(
    parts: list[LabeledSequences], described: Description, function: Callable[..., Any], *args: Any
) -> Any:
    """Call a function of joined partitions."""
    return function(joined(parts, described), *args)


def _call_both_joined(
    parts: list[LabeledSequences],
    n_training: int,  # partitions from this one on are held out
    sets: list[Description],  # of the training data, and of the data that are held out, if any
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    """Call a function of joined training data and held-out data, which may be None."""
    training = joined(parts[:n_training], sets[0])
    held_out = None
    if len(sets) > 1:
        held_out = joined(parts[n_training:], sets[1])
    return function(training, held_out, *args)
