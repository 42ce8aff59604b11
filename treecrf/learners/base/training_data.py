"""Labeled sequences for training, and validation sequences."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from treecrf.chains.constraints import as_transitions, check_labels
from treecrf.chains.partial_labels import completed, known_examples, unknown_labels
from treecrf.encoding.sequence_keys import Content, sequence_keys
from treecrf.inputs.data_warnings import warn_of_unlabeled
from treecrf.inputs.dataset import MAX_WEIGHT, RawData, as_init_scores, as_weights
from treecrf.inputs.labels import Labels, refuse_other_labels
from treecrf.inputs.offsets import Segmentation, reversed_positions, split_sequences
from treecrf.inputs.sequences import Sequences, cut
from treecrf.utils.exact import ExactSum
from treecrf.utils.hashing import mix, smallest
from treecrf.utils.validation import is_huge

NO_KNOWN_LABELS = "y holds no known labels"
NO_SYMBOLS = "all symbols of X are missing, except in sequences that are left out"


@dataclass(frozen=True)
class LabeledSequences:
    """Sequences, the codes of their labels, and masks of allowed and of possible labels.

    Where labels are unknown, ``codes`` are one of the possible label sequences.
    """

    sequences: Sequences
    codes: np.ndarray
    allowed: np.ndarray | None = None
    candidates: np.ndarray | None = None
    weights: np.ndarray | None = None
    # Codes of the labels that later ones depend on; None: ``codes``.
    previous: np.ndarray | None = None

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
        training = self.take(np.flatnonzero(~held_out))
        sequences = training.sequences.with_used_categories()
        return replace(training, sequences=sequences), self.take(np.flatnonzero(held_out))

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
            for array in (self.allowed, self.candidates, self.weights, self.previous)
        )
        return LabeledSequences(sequences, self.codes[positions], *others)


# Labels, checked against the parameters of an estimator


def with_init_score(
    sequences: Sequences,
    init_score: Any,
    segmentation: Segmentation,
    classes: np.ndarray,
    error: str | None,
) -> Sequences:
    """Add initial scores to the sequences; ValueError if there is a message for it."""
    if error is not None:
        raise ValueError(error)
    scores = as_init_scores(init_score, classes, sequences.offsets, segmentation)
    return replace(sequences, init_scores=scores)


def cost_table(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    """Return the cost of each predicted label for each true one; float (n_labels, n_labels).

    A dict contains the costs of pairs (true, predicted). All other errors cost 1, and correct
    labels 0; these are also the costs for None.
    """
    n = len(classes)
    if cost_matrix is None:
        return 1.0 - np.eye(n)
    refuse_other_labels(cost_matrix, classes, "cost_matrix", of_pairs=True)
    costs = _named_costs(cost_matrix, classes) if isinstance(cost_matrix, dict) else cost_matrix
    try:
        costs = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("cost_matrix is not numeric; expected an array of numbers") from None
    if costs.shape != (n, n):
        raise ValueError(
            f"cost_matrix has shape {costs.shape}; expected ({n}, {n}), with a row for each true "
            f"label and a column for each predicted label of {classes.tolist()}"
        )
    if not np.isfinite(costs).all():
        raise ValueError("cost_matrix has NaN or infinite values; expected finite numbers")
    return costs


def _named_costs(pairs: dict, classes: np.ndarray) -> np.ndarray:
    indices = {label: i for i, label in enumerate(classes.tolist())}
    costs = 1.0 - np.eye(len(classes))
    for pair, cost in pairs.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not indices.keys() >= set(pair):
            raise ValueError(
                f"cost_matrix has the key {pair!r}; expected a pair (true label, predicted label) "
                f"of labels in {classes.tolist()}"
            )
        if not isinstance(cost, Real) or is_huge(cost):
            raise ValueError(f"cost_matrix: {pair!r} has cost {cost!r}; expected a number")
        costs[indices[pair[0]], indices[pair[1]]] = cost
    return costs


class Unknown(NamedTuple):
    """Effects of unknown labels, as numbers that can be added over parts of the data."""

    n_partial: int  # parts in which some labels are unknown
    n_kept: int  # sequences with weight and information
    n_uninformative: int  # sequences that are left out for lack of information
    n_left: int  # unknown labels in the sequences that are kept


@dataclass(frozen=True, kw_only=True)
class Labeling:
    """What an estimator expects of labeled sequences, and how it uses them.

    The messages are those of a ValueError, or None if the estimator supports it.
    """

    classes: np.ndarray
    order: int
    transitions: Any  # parameter of the estimator, as the next one
    cost_matrix: Any
    unknown_error: str | None = None  # message for unknown labels
    init_score_error: str | None = None  # message for initial scores
    is_backward: bool = False  # whether training begins at the end of the sequences
    # Whether positions have weight 0 if their label, or a previous one that matters, is unknown.
    uses_known_examples: bool = False

    def checked(
        self,
        raw: RawData,
        sequences: Sequences,
        labels: Labels,
        masks: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> LabeledSequences:
        """Check what has been read, and return it in the direction of the input.

        Unknown labels are completed to a possible sequence.
        """
        classes = self.classes
        if raw.init_score is not None:
            scores, cuts = raw.init_score, raw.segmentation
            sequences = with_init_score(sequences, scores, cuts, classes, self.init_score_error)
        codes, candidates = labels.encoded(classes)
        if self.cost_matrix is not None:
            cost_table(self.cost_matrix, classes)
        if candidates is None:
            check_labels(self.transitions, self.order, classes, codes, sequences.offsets, masks)
        elif self.unknown_error is not None:
            labels.refuse_unknown(self.unknown_error)
        else:
            rules = as_transitions(self.transitions, classes, self.order)
            codes, candidates = completed(candidates, masks, rules, classes, sequences.offsets)
        return LabeledSequences(sequences, codes, masks, candidates, weights)

    def label(
        self,
        raw: RawData,
        sequences: Sequences,
        labels: Labels,
        masks: np.ndarray | None = None,
    ) -> LabeledSequences:
        """Check what has been read, and return what training uses; ValueError if nothing is."""
        weights = as_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        labeled = self.checked(raw, sequences, labels, masks, weights)
        if weights is None and labeled.candidates is None:
            return labeled.reversed() if self.is_backward else labeled
        unknown, _ = examine_unknown(labeled)
        if not unknown.n_kept:
            raise ValueError(NO_KNOWN_LABELS)
        useful = select_useful(labeled, self, unknown)
        if useful is None:
            raise ValueError(self.no_known_examples)
        if useful.sequences.n_sequences == sequences.n_sequences:
            return useful
        used = useful.sequences.with_used_categories()
        if used.are_symbols and not len(used.symbols()):
            raise ValueError(NO_SYMBOLS)
        return replace(useful, sequences=used)

    @property
    def no_known_examples(self) -> str:
        """Error message for data without an example of known labels."""
        return (
            f"y holds no position with a known label after {self.order} known labels; expected at "
            "least one"
        )


def examine_unknown(data: LabeledSequences) -> tuple[Unknown, np.ndarray]:
    """Examine the unknown labels of a part, and return the lengths of its sequences with weight."""
    has_weight, is_informative = data.have_weight(), data.are_informative()
    kept, lengths, n_left = has_weight & is_informative, np.diff(data.sequences.offsets), 0
    if data.candidates is not None:
        n_left = int(unknown_labels(data.candidates[np.repeat(kept, lengths)]).sum())
    counts = int(kept.sum()), int((has_weight & ~is_informative).sum()), n_left
    return Unknown(data.candidates is not None, *counts), lengths[has_weight]


def select_useful(
    data: LabeledSequences, labeling: Labeling, unknown: Unknown
) -> LabeledSequences | None:
    """Return the sequences that training uses, in the chain's direction; None without any.

    Sequences of weight 0 are left out, and those without information, whose likelihood is 1 under
    all models. ``unknown`` describes all parts of the data, so that all are treated alike.
    """
    if unknown.n_partial and data.candidates is None:
        data = replace(data, candidates=np.eye(len(labeling.classes), dtype=bool)[data.codes])
    data = data.take_marked(data.have_weight() & data.are_informative())
    if data is None:
        return None
    if unknown.n_uninformative and not unknown.n_left:
        data = replace(data, candidates=None)
    if labeling.is_backward:
        data = data.reversed()
    if labeling.uses_known_examples and data.candidates is not None:
        known = known_examples(data.candidates, data.sequences.offsets, labeling.order)
        data = replace(data, weights=known * (1.0 if data.weights is None else data.weights))
    return data.take_marked(data.have_weight())


def note_unlabeled(estimator: Any, n_unlabeled: int, n_positions: int) -> None:
    """Say how many training positions have no label, and warn if these are most of them."""
    if n_unlabeled and getattr(estimator, "verbose", 0):
        name = type(estimator).__name__
        print(
            f"{name}: {n_unlabeled:,} of {n_positions:,} positions have no label", file=sys.stderr
        )
    warn_of_unlabeled(n_unlabeled, n_positions, "training uses")


# Weights of labels and of positions, from ``class_weight`` and sample weights


def multiplied_weights(of_labels: np.ndarray, data: LabeledSequences) -> np.ndarray:
    """Return the weight of each position in training; float64 array (n_positions,).

    It is the sample weight, multiplied by the weight of the label. The latter is 1 where the label
    is unknown. If all weights are 1, the array takes no memory and cannot be written to.
    """
    if (of_labels == 1).all():
        ones = np.broadcast_to(np.ones(1), data.codes.shape)
        return ones if data.weights is None else data.weights
    weights = of_labels[data.codes]
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
        return list(map(ExactSum.of_integer, np.bincount(codes, minlength=n_labels).tolist()))
    weights = data.weights[known]
    return [ExactSum.of(weights[codes == k]) for k in range(n_labels)]


# What a training run starts from


@dataclass(frozen=True)
class TrainingInput:
    """Everything that a training run starts from, read and checked.

    Boosted trees have sequences in parts, in `LabeledParts` instead of `LabeledSequences`.
    """

    classes: np.ndarray
    training: Any
    held_out: Any  # validation data of the user, or a part of the training data; may be None
    seed: int
    earlier: dict  # fitted attributes that a warm start continues from; may be empty
    # Further sequences that are scored; beside parts, None stands for the validation data.
    evaluated: tuple[LabeledSequences | None, ...] = ()
    n_unlabeled: int = 0  # training positions without a label
    in_memory: bool = False  # whether all parts are in this process, in one partition

    def without_data(self) -> TrainingInput:
        """Return everything else, to be sent where sequences are."""
        return TrainingInput(self.classes, None, None, self.seed, self.earlier)


def seed_of(random_state: Any, earlier: dict) -> int:
    """Return the seed of all random choices; a warm start keeps the earlier seed."""
    rng = check_random_state(random_state)
    return earlier.get("_seed", int(rng.randint(np.iinfo(np.int32).max)))


def hold_out(
    data: LabeledSequences, fraction: float, seed: int
) -> tuple[LabeledSequences, LabeledSequences]:
    """Split sequences at random into training and held-out ones; ValueError if too few.

    The choice depends on the content of the sequences, not on their order.
    """
    n_held_out = count_held_out(data.sequences.n_sequences, fraction)
    return data.parted(smallest(data.hashes(seed), n_held_out))


def count_held_out(n_sequences: int, fraction: float) -> int:
    """Return the number of sequences that `hold_out` holds out; its error is raised here."""
    n_held_out = max(1, round(fraction * n_sequences))
    if n_held_out >= n_sequences:
        raise ValueError(
            f"early stopping holds out {n_held_out} of {n_sequences} sequences, which leaves none "
            "for training; pass X_val and y_val, or more sequences"
        )
    return n_held_out
