"""Training on parts of the data.

Parts are described and read (see `labeled`), an encoder learns from all of them, and they are
encoded where they are (see `encoding`). Then trees grow on examples that shards of the parts draw
(see `booster`). The model is equal to one that is trained on all data at once, array for array,
however they are cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.inputs.data_warnings import warn_of_columns
from treecrf.inputs.parts import PartDescription, merged, merged_labels
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Description, Sequences
from treecrf.learners.boosted.parted.booster import LocalShards, Shards, boost_on_shards
from treecrf.learners.boosted.parted.encoding import (
    EMPTY,
    Encoding,
    encode_part,
    encode_validation,
    with_keys,
)
from treecrf.learners.boosted.parted.labeled import (
    LabeledParts,
    Labeling,
    describe,
    joined,
)
from treecrf.learners.boosted.parted.steps import ShardSetup, Totals, total
from treecrf.learners.boosted.sampled import Sampling
from treecrf.learners.boosted.selection import (
    MAX_POSITIONS,
    N_FOLDS,
    SEED,
    Choice,
    choose_on_sample,
    default_choice,
    needs_choice,
)
from treecrf.learners.boosted.start import MAX_POSITIONS as MAX_START_POSITIONS
from treecrf.learners.boosted.start import LinearStart
from treecrf.learners.class_weights import count_labels, label_weights
from treecrf.learners.iterations import NO_CALLBACKS, Callbacks
from treecrf.learners.training_data import (
    LabeledSequences,
    TrainingInput,
    count_held_out,
    hold_out,
)
from treecrf.trees.forest import Forest
from treecrf.utils.fleet import Each, Fleet, LocalFleet, View, itself
from treecrf.utils.memory import check_memory
from treecrf.utils.scratch import Allocate
from treecrf.utils.threads import Threads


def fit_parts(
    estimator: Any,  # BoostedSequenceClassifier, which does not change
    raws: Fleet,  # of `RawData`; each sequence lies in one part, and parts may be empty
    validation: Fleet | None = None,  # of `RawData`, in the same place
    *,
    allowed: Any = None,  # the argument of `fit`, if there is one part
    callbacks: Callbacks = NO_CALLBACKS,  # called in this process
) -> dict:
    """Train an estimator on parts of the data, and return its fitted attributes.

    The data are read twice: to describe them, and to encode them. A fleet that does not keep
    derived parts reads them in each of up to ten steps. Some models need all data at once, joined
    in one place: models without sampling, such as ``sampling="auto"`` with few examples, and
    objectives other than the log-likelihood. Errors name the partition.
    """
    preparation = Preparation.of(estimator, raws, validation, allowed)
    if preparation.sampling is None:
        return preparation.train_in_one_place(callbacks)
    return preparation.train_on_shards(callbacks, getattr(raws, "allocate", None))


def shards_of(fleet: Fleet, setup: ShardSetup, allocate: Allocate | None = None) -> Shards:
    """Return shards of encoded parts, from the fleet or in this process; may release the fleet."""
    if hasattr(fleet, "make_shards"):
        return fleet.make_shards(setup)
    n_threads = Threads(setup.estimator.n_jobs).n_threads
    shards = LocalShards.of(fleet, setup, n_threads=n_threads, allocate=allocate)
    # They hold the parts, and have joined some of them.
    fleet.release()
    return shards


@dataclass(frozen=True)
class Preparation:
    """Training and validation data in parts, read and checked."""

    estimator: Any  # BoostedSequenceClassifier: parameters, not fitted
    classes: np.ndarray
    labeled: LabeledParts  # all sequences but the validation data of the user
    marks: list[np.ndarray] | None  # held-out sequences of each part, if any
    training: LabeledParts  # sequences that are not held out
    validation: LabeledParts | None  # validation data of the user
    seed: int
    earlier: dict  # fitted attributes that a warm start continues from; may be empty

    @classmethod
    def of(cls, estimator: Any, raws: Fleet, validation: Fleet | None, allowed: Any) -> Preparation:
        """Read and check all parts; see `fit_parts` for the parameters and errors."""
        estimator._check_training()
        earlier = estimator._earlier_fit()
        schema = estimator._required_schema(earlier)
        parts = describe(raws, estimator.categorical_features, schema)
        described, seed = merged(parts, schema), estimator._seed_of(earlier)
        if schema is None:
            warn_of_columns(described, estimator.categorical_features)
        n_unlabeled = sum(part.n_unlabeled for part in parts if part is not None)
        estimator._note_unlabeled(n_unlabeled, described.n_positions)
        classes = earlier["classes_"] if earlier else merged_labels(parts)
        blank = estimator._fitted_copy({})
        labeling = Labeling(blank, described, classes, _are_weighted(parts))
        masks = None if allowed is None else [allowed]
        labeled = training = LabeledParts.read(raws, parts, labeling, masks)
        held_out, marks = None, None
        if validation is not None:
            held_out = _read_validation(validation, labeling, schema or labeled.described.schema)
        elif estimator.early_stopping not in (False, "auto"):
            n_sequences = labeled.described.n_sequences
            marks = labeled.smallest(
                seed, count_held_out(n_sequences, estimator.validation_fraction)
            )
            training, _ = labeled.parted(marks)
        return cls(blank, classes, labeled, marks, training, held_out, seed, earlier)

    @property
    def data(self) -> TrainingInput:
        """All but the sequences."""
        return TrainingInput(self.classes, None, None, self.seed, self.earlier)

    @property
    def sampling(self) -> Sampling | None:
        """Sampling of the examples, if parts draw them; None if all data are needed."""
        sampling = self.estimator._sampling(len(self.classes), self.training.n_positions)
        return sampling if self.estimator._draws_in_parts() else None

    # In one place

    def train_in_one_place(self, callbacks: Callbacks) -> dict:
        """Join all parts, train on them, and return the fitted attributes."""
        fleet = self.labeled.fleet.derive_all(itself)
        n_parts, described = fleet.n_parts, [self.labeled.described]
        if self.validation is not None:
            fleet = fleet.chain(self.validation.fleet.derive_all(itself))
            described.append(self.validation.described)
        _require_memory(described)
        if callbacks:
            # They are called in this process.
            fleet = LocalFleet(fleet.map(itself))
        return fleet.reduce(_train_joined, self.estimator, self.data, n_parts, described, callbacks)

    # On shards

    def train_on_shards(self, callbacks: Callbacks, allocate: Allocate | None = None) -> dict:
        """Train on examples that parts draw, and return the fitted attributes.

        Shards in this process make their arrays by ``allocate``.
        """
        estimator, n_labels = self.estimator, len(self.classes)
        largest = max(int(of_part.sum()) for of_part in self.training.lengths)
        estimator._check_size_of_part(n_labels, largest)
        choice = self._choose()
        encoder, forest = self._encoder(), self._forest()
        start = self._fit_start(choice.init)
        encoded = self._encode(Encoding(estimator, encoder, start, self._weights_of_labels()))
        data = replace(self.data, start=start)
        setup = ShardSetup(
            estimator,
            self.classes,
            encoder,
            estimator._growth(data, encoder),
            self.sampling,
            total(encoded.map(Totals.of)),
        )
        self.release()
        shards = shards_of(encoded, setup, allocate)
        history = boost_on_shards(data, setup, shards, forest, choice, callbacks)
        return estimator._fitted_attributes(data, forest, encoder, history)

    def release(self) -> None:
        """Free the memory of parts that are not encoded."""
        self.labeled.fleet.release()
        if self.validation is not None:
            self.validation.fleet.release()

    def _choose(self) -> Choice:
        """Choose the start and the number of iterations as for data in one place."""
        estimator, training = self.estimator, self.training
        has_held_out = self.validation is not None or self.marks is not None
        if not needs_choice(estimator, has_held_out):
            return default_choice(estimator)
        sampled, n_positions = (
            training.at_random(MAX_POSITIONS, SEED, N_FOLDS),
            training.n_positions,
        )
        return sampled.fleet.reduce(
            _choose_joined, estimator, self.data, sampled.described, n_positions, has_held_out
        )

    def _encoder(self) -> Encoder:
        estimator, training = self.estimator, self.training
        if self.earlier:
            return self.earlier["_encoder"].widened(training.described.longest)
        encoder = Encoder(estimator._window(), estimator.max_bins, estimator.missing)
        sequences = View(training.fleet, _sequences_of)
        return encoder.fit_parts(sequences, training.described, self.seed)

    def _forest(self) -> Forest:
        if self.earlier:
            return self.earlier["_forest"].copy()
        return self.estimator._new_forest(len(self.classes))

    def _fit_start(self, init: Any) -> LinearStart | None:
        """Fit the model whose scores the trees start from."""
        estimator = self.estimator
        if self.earlier or init is None:
            return estimator._fitted_copy(self.earlier)._fit_start(self.data, init)
        if hasattr(init, "classes_"):
            return estimator._fit_start_to(self.data, init)
        sample = self.training.at_random(MAX_START_POSITIONS, self.seed)
        return sample.fleet.reduce(_fit_start_joined, estimator, self.data, sample.described, init)

    def _weights_of_labels(self) -> np.ndarray:
        class_weight, n_labels = self.estimator.class_weight, len(self.classes)
        if class_weight is None:
            return np.ones(n_labels)
        counts = self.training.fleet.map(count_labels, n_labels)
        sums = [total(of_label) for of_label in zip(*counts, strict=True)]
        return label_weights(class_weight, self.classes, sums)

    def _encode(self, encoding: Encoding) -> Fleet:
        """Return the fleet of `EncodedPart`."""
        marks = self.marks or [np.zeros(len(n), dtype=bool) for n in self.labeled.lengths]
        categories = self.training.described.schema.categories
        encoded = _kept(
            self.labeled.fleet.derive_all(
                encode_part, Each(marks), categories, encoding, otherwise=EMPTY
            )
        )
        if self.validation is not None:
            held_out = self.validation.fleet.derive_all(
                encode_validation, encoding, otherwise=EMPTY
            )
            encoded = encoded.chain(_kept(held_out))
        return with_keys(encoded)


def _kept(fleet: Fleet) -> Fleet:
    """Return the fleet with parts that are not computed again each time they are used."""
    return fleet.kept() if hasattr(fleet, "kept") else fleet


def _are_weighted(parts: list[PartDescription | None]) -> bool:
    return any(part is not None and part.is_weighted for part in parts)


def _read_validation(fleet: Fleet, training: Labeling, schema: InputSchema) -> LabeledParts:
    """Read the user's validation data; error messages name them as such."""
    try:
        parts = describe(fleet, None, schema)
        labeling = replace(
            training, described=merged(parts, schema), is_weighted=_are_weighted(parts)
        )
        return LabeledParts.read(fleet, parts, labeling)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"validation data: {error}") from error


# In one place


def _train_joined(
    parts: list[LabeledSequences | None],
    estimator: Any,
    data: TrainingInput,
    n_parts: int,
    described: list[Description],
    callbacks: Callbacks,
) -> dict:
    """Train on all parts; those from ``n_parts`` on are validation data."""
    sets = [
        joined([part for part in some if part is not None], of_set)
        for some, of_set in zip((parts[:n_parts], parts[n_parts:]), described, strict=False)
    ]
    training, held_out = sets[0], sets[1] if len(sets) > 1 else None
    if held_out is None and estimator.early_stopping not in (False, "auto"):
        training, held_out = hold_out(training, estimator.validation_fraction, data.seed)
    # A warm start needs the model to start from.
    estimator = estimator._fitted_copy(data.earlier)
    return estimator._trained_on(replace(data, training=training, held_out=held_out), callbacks)


def _choose_joined(
    parts: list[LabeledSequences],
    estimator: Any,
    data: TrainingInput,
    described: Description,
    n_positions: int,
    has_held_out: bool,
) -> Choice:
    data = replace(data, training=joined(parts, described))
    return choose_on_sample(estimator, data, n_positions, has_held_out)


def _fit_start_joined(
    parts: list[LabeledSequences],
    estimator: Any,
    data: TrainingInput,
    described: Description,
    init: Any,
) -> LinearStart:
    return estimator._fit_start_to(replace(data, training=joined(parts, described)), init)


def _require_memory(described: list[Description]) -> None:
    """Raise MemoryError if the joined data would not fit in memory."""
    n_bytes = sum(
        each.n_positions * each.schema.n_features * np.dtype(np.float64).itemsize
        for each in described
        if each.form == "dense"
    )
    check_memory(
        n_bytes,
        f"without samples of the examples, all data are needed in one place: "
        f"{described[0].n_positions} positions of {described[0].schema.n_features} features "
        f"take {n_bytes / 1e9:.0f} GB; expected objective='log' and sampling='auto' or a number",
    )


def _sequences_of(data: LabeledSequences) -> Sequences:
    return data.sequences
