"""Training data in partitions: read alike, labeled, split, joined in one place, and encoded.

Every step computes statistics of each part and merges them in an order that does not matter, so
that the sequences, their keys and the choices among them are the same as for all data at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.chains.constraints import as_allowed
from treecrf.encoding.sequence_keys import keys_in
from treecrf.inputs.data_warnings import warn_of_columns, warn_of_padding
from treecrf.inputs.dataset import ONLY_ZEROS, RawData, named, read_weights
from treecrf.inputs.labels import as_labels
from treecrf.inputs.large.local_partitions import PartitionsView
from treecrf.inputs.large.parts import (
    PartDescription,
    describe_part,
    find_shared_group,
    group_of_hash,
    has_attributes,
    merged,
    merged_labels,
    merged_padding,
    read_part,
)
from treecrf.inputs.offsets import joined_arrays, offsets_of
from treecrf.inputs.sequences import (
    NUMBER,
    Description,
    InputSchema,
    LongSequences,
    Sequences,
    as_category,
)
from treecrf.learners.base.training_data import (
    NO_KNOWN_LABELS,
    NO_SYMBOLS,
    LabeledSequences,
    Labeling,
    TrainingInput,
    Unknown,
    count_held_out,
    examine_unknown,
    note_unlabeled,
    seed_of,
    select_useful,
)
from treecrf.utils.hashing import mix, smallest
from treecrf.utils.partitions import InMemory, Partitions, PerPartition

# Descriptions


def describe_parts(
    partitions: Partitions, categorical: Any, schema: InputSchema | None = None
) -> tuple[Partitions, list[PartDescription]]:
    """Read each part on its own; return the parts that have sequences, and their descriptions.

    Errors name the part that is not valid, or that has a sequence of another part.
    """
    parts = partitions.map(describe_part, categorical, schema)
    partitions = partitions.only([part is not None for part in parts])
    parts = [part for part in parts if part is not None]
    if not parts:
        raise ValueError("X holds no sequences in any partition")
    if len(parts) > 1:
        if schema is None and has_attributes(parts):
            parts = partitions.map(describe_part, categorical, None, True)
        _check_groups(partitions, parts)
    if not any(part.has_weight for part in parts):
        raise ValueError(ONLY_ZEROS)
    if len({part.has_init_score for part in parts}) > 1:
        raise ValueError("init_score is given in some partitions only; expected all or none")
    return partitions, parts


def _check_groups(partitions: Partitions, parts: list[PartDescription]) -> None:
    found = find_shared_group(parts)
    if found is None:
        return
    hashed, (first, second, *_) = found
    group = next(name for name in partitions.map(group_of_hash, hashed) if name is not None)
    raise ValueError(
        f"group {group} is in {first} and in {second}; expected all positions of a sequence in one "
        "partition: sort or partition the data by group"
    )


# Labeled parts


def label(
    raw: RawData,
    labeling: Labeling,
    described: Description,
    is_weighted: bool,  # whether any part has sample weights other than 1
) -> LabeledSequences:
    """Read a part with the schema of all parts, and check its labels."""
    with named(raw.place):
        sequences, raw = read_part(raw, described)
        offsets, segmentation = sequences.offsets, raw.segmentation
        weights = None
        if is_weighted:
            weights = read_weights(raw.sample_weight, offsets, segmentation)
            weights = np.ones(offsets[-1]) if weights is None else weights
        labels = as_labels(raw.y, offsets, segmentation)
        masks = as_allowed(raw.allowed, None, labeling.classes, offsets, segmentation)
        return labeling.checked(raw, sequences, labels, masks, weights)


def recode(data: LabeledSequences, categories: dict[int, np.ndarray]) -> LabeledSequences:
    """Return the same sequences with the codes of other categories, a dict of values by column."""
    if data.sequences.form == "symbols":
        return data
    return replace(data, sequences=data.sequences.with_categories(categories))


@dataclass(frozen=True)
class LabeledParts:
    """Labeled sequences in parts."""

    partitions: Partitions  # of `LabeledSequences`, none of them empty
    described: Description
    lengths: list[np.ndarray]  # of the sequences in each part

    @classmethod
    def of(cls, data: LabeledSequences) -> LabeledParts:
        """Return sequences in memory as one part."""
        described = Description.of(data.sequences)
        return cls(InMemory(data), described, [np.diff(data.sequences.offsets)])

    @classmethod
    def chosen(
        cls, partitions: PartitionsView, described: Description, lengths: list[np.ndarray]
    ) -> LabeledParts:
        """Return some of the sequences that are described; parts without any are left out."""
        partitions = partitions.only([len(of_part) > 0 for of_part in lengths])
        lengths = [of_part for of_part in lengths if len(of_part)]
        described = replace(
            described,
            n_sequences=sum(map(len, lengths)),
            n_positions=int(sum(of_part.sum() for of_part in lengths)),
            longest=int(max(of_part.max() for of_part in lengths)),
        )
        return cls(partitions, described, lengths)

    @classmethod
    def read(
        cls,
        raws: Partitions,
        parts: list[PartDescription],
        labeling: Labeling,
        described: Description,
    ) -> LabeledParts:
        """Read described parts, and select the sequences that training uses."""
        is_weighted = any(part.is_weighted for part in parts)
        labeled = raws.derive(label, labeling, described, is_weighted).persisted()
        examined, lengths = zip(*labeled.map(examine_unknown), strict=True)
        unknown = Unknown(*np.sum(examined, axis=0))
        if not unknown.n_kept:
            raise ValueError(NO_KNOWN_LABELS)
        useful = PartitionsView(labeled, select_useful, labeling, unknown)
        if unknown.n_partial:
            # Not all examples of these sequences may be used.
            lengths = useful.map(_lengths)
        if not any(map(len, lengths)):
            raise ValueError(labeling.no_known_examples)
        selected = cls.chosen(useful, described, lengths)
        if selected.described.n_sequences == described.n_sequences:
            return selected
        return selected.with_used_categories()

    def take(self, chosen: list[np.ndarray]) -> LabeledParts:
        """Return the marked sequences of each part."""
        lengths = [n[marks] for n, marks in zip(self.lengths, chosen, strict=True)]
        marked = PartitionsView(self.partitions, LabeledSequences.take_marked, PerPartition(chosen))
        return LabeledParts.chosen(marked, self.described, lengths)

    def with_used_categories(self) -> LabeledParts:
        """Drop categories that do not occur, and describe the symbols that do."""
        schema = self.described.schema
        if not schema.categories:
            return self
        parts = self.partitions.map(_used_categories)
        categories = {j: np.unique(np.concatenate([part[j] for part in parts])) for j in parts[0]}
        if schema.form == "symbols" and not len(categories[0]):
            raise ValueError(NO_SYMBOLS)
        described = replace(self.described, schema=replace(schema, categories=categories))
        recoded = PartitionsView(self.partitions, recode, categories)
        return replace(self, partitions=recoded, described=described)

    def keys(self) -> list[np.ndarray]:
        """Return the keys of the sequences in each part, see `sequence_keys`."""
        return keys_in(self.partitions.view(LabeledSequences.content))

    def smallest(self, seed: int, n: int) -> list[np.ndarray]:
        """Mark the n sequences with the smallest random numbers, from their content."""
        keys = self.keys()
        marks = smallest(mix(seed, np.concatenate(keys)), n)
        return np.split(marks, np.cumsum([len(of_part) for of_part in keys])[:-1])

    def at_random(self, n_positions: int, seed: int, min_sequences: int = 1) -> LabeledParts:
        """Choose sequences with about ``n_positions`` positions, but at least ``min_sequences``.

        The choice depends on the content of the sequences, not on their order.
        """
        n = self.described.n_sequences
        n_chosen = int(n_positions / self.described.n_positions * n)
        if n_chosen >= n:
            return self
        n_chosen = max(min_sequences, n_chosen)
        return self if n_chosen >= n else self.take(self.smallest(seed, n_chosen))


def _lengths(data: LabeledSequences | None) -> np.ndarray:
    return np.zeros(0, dtype=np.int64) if data is None else np.diff(data.sequences.offsets)


def _used_categories(data: LabeledSequences) -> dict[int, np.ndarray]:
    """Return the categories that occur, or the symbols."""
    if data.sequences.form == "symbols":
        return {0: data.sequences.symbols()}
    return data.sequences.with_used_categories().categories


# Training data


def in_one_part(data: TrainingInput) -> TrainingInput:
    """Return data in memory with their sequences as parts, one each."""
    training, held_out = (part and LabeledParts.of(part) for part in (data.training, data.held_out))
    evaluated = tuple(None if part is data.held_out else part for part in data.evaluated)
    return replace(data, training=training, held_out=held_out, evaluated=evaluated, in_memory=True)


def read_partitions(
    estimator: Any,  # BoostedSequenceClassifier, which does not change
    raws: Partitions,  # of `RawData`; each sequence lies in one partition, and these may be empty
    validation: Partitions | None = None,  # of `RawData`, in the same place
) -> TrainingInput:
    """Read and check all partitions; errors name the partition."""
    earlier = estimator._earlier_fit() if estimator.warm_start else {}
    schema = estimator._required_schema(earlier)
    present, parts = describe_parts(raws, estimator.categorical_features, schema)
    described, seed = merged(parts, schema), seed_of(estimator.random_state, earlier)
    if schema is None:
        warn_of_columns(described, estimator.categorical_features)
    n_unlabeled = sum(part.n_unlabeled for part in parts)
    note_unlabeled(estimator, n_unlabeled, described.n_positions)
    classes = earlier["classes_"] if earlier else merged_labels(parts)
    warn_of_padding(merged_padding(parts))
    labeling = estimator._labeling(classes)
    training, held_out = LabeledParts.read(present, parts, labeling, described), None
    if validation is not None:
        of_training = schema or training.described.schema
        with named("validation data"):
            present, parts = describe_parts(validation, None, of_training)
            held_out = LabeledParts.read(present, parts, labeling, merged(parts, of_training))
    elif estimator.early_stopping not in (False, "auto"):
        n_sequences = training.described.n_sequences
        marks = training.smallest(seed, count_held_out(n_sequences, estimator.validation_fraction))
        held_out = training.take(marks)
        # Categories that only occur in held-out sequences are unseen in training.
        training = training.take([~of_part for of_part in marks]).with_used_categories()
    return TrainingInput(classes, training, held_out, seed, earlier, n_unlabeled=n_unlabeled)


# Joining


def joined(parts: list[LabeledSequences], described: Description) -> LabeledSequences:
    """Join parts, in their order, into sequences in one table; ``described`` describes them."""
    if len(parts) == 1:
        return parts[0]
    names = "codes", "allowed", "candidates", "weights", "previous"
    sequences = _joined_sequences([part.sequences for part in parts], described)
    return LabeledSequences(sequences, *(joined_arrays(parts, name) for name in names))


def joined_in_memory(
    training: LabeledSequences, other: LabeledSequences, n_labels: int
) -> LabeledSequences:
    """Append validation sequences to training sequences, with the categories of the latter.

    Without masks, all labels are allowed, and known; without weights, these are 1.
    """
    described = Description.of(training.sequences)
    if described.schema.form == "symbols":
        # If some symbols are missing, they are a table.
        form = min(training.sequences.form, other.sequences.form)
        described = replace(described, form=form)
    parts = [training, replace(other, sequences=other.sequences.for_model(described.schema))]
    for name, default in (
        ("allowed", lambda codes: np.ones((len(codes), n_labels), dtype=bool)),
        ("candidates", lambda codes: np.eye(n_labels, dtype=bool)[codes]),
        ("weights", lambda codes: np.ones(len(codes))),
    ):
        present = [getattr(part, name) is not None for part in parts]
        if any(present) and not all(present):
            i = present.index(False)
            parts[i] = replace(parts[i], **{name: default(parts[i].codes)})
    return joined(parts, described)


def _joined_sequences(parts: list[Sequences], described: Description) -> Sequences:
    schema, is_sparse = described.schema, described.form == "sparse"
    tables = [part.rows(0, part.n_sequences) for part in parts]
    if described.form == "dense":
        tables = [_dense(table, schema) for table in tables]
    table = sparse.vstack(tables, format="csr") if is_sparse else np.concatenate(tables)
    is_plain = described.is_boolean or not (schema.kinds != NUMBER).any()
    is_symbols = described.form == "symbols"
    return LongSequences.of(
        table,
        offsets_of(np.concatenate([np.diff(part.offsets) for part in parts])),
        form=described.form,
        n_features=schema.n_features,
        dtype=table.dtype,
        names=schema.names,
        kinds=None if is_plain or is_symbols else schema.kinds,
        categories={} if is_symbols else schema.categories,
        are_symbols=schema.form == "symbols" and not is_symbols,
        init_scores=joined_arrays(parts, "init_scores"),
    )


def _dense(table: Any, schema: InputSchema) -> np.ndarray:
    """Return a table as an array; symbols become a table of one category."""
    if table.ndim == 1:
        return as_category(table, schema.categories[0])
    return table.toarray() if sparse.issparse(table) else table
