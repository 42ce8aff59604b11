"""Fitted models: scores of labels in context, the lattices made of them, and predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import chain as chained
from typing import Any

import numpy as np

from treecrf.chains.constraints import (
    Constraints,
    as_allowed,
    as_transitions,
    check_possible,
)
from treecrf.chains.lattice import Lattice
from treecrf.chains.partial_labels import label_paths
from treecrf.inputs.data_warnings import (
    warn_of_keys,
    warn_of_names,
    warn_of_unknown,
    warn_of_unlabeled,
)
from treecrf.inputs.dataset import ColumnNames, RawData, as_sequences, read_weights
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import index_levels, segmentation_of, without_columns
from treecrf.inputs.labels import Labels, as_labels, check_kind
from treecrf.inputs.offsets import Segmentation, reversed_positions, runs, split_sequences
from treecrf.inputs.paths import are_batches
from treecrf.inputs.sequences import InputSchema, Sequences
from treecrf.inputs.values import column_names, stands_for_missing
from treecrf.learners.base.training_data import cost_table, with_init_score
from treecrf.utils.threads import Threads

# Lattices with larger scores are computed run by run, with scores of about the second size.
MAX_BYTES, RUN_BYTES = 1 << 26, 31 << 20
# Minimum number of positions of a run for a thread, and runs for each. Each run takes a millisecond
# longer than its positions.
MIN_RUN, RUNS_PER_THREAD = 1 << 11, 2
# Maximum number of positions for which reading takes longer than the work on their values.
MAX_SHORT = 64


@dataclass(kw_only=True)
class FittedChain(ABC):
    """What a fitted estimator knows of label sequences: scores of labels in contexts.

    Estimators choose the kind of chain by their fitted attributes and their parameters of
    prediction. Subclasses compute the scores, from which all predictions follow.
    """

    schema: InputSchema  # form and features of the training sequences
    classes: np.ndarray
    order: int  # number of previous labels in a context
    transitions: Any  # parameter of the estimator
    is_backward: bool = False  # whether the chain starts at the end of each sequence

    @abstractmethod
    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""

    def scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        return self.scores(sequences, threads)[:, position]

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the scores as sums of two parts; None if they are not, or of a higher order.

        The parts are scores of labels, (n_positions, n_labels), and of labels after labels,
        (n_labels + 1, n_labels), with a last row for first positions.
        """
        return None

    def normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        """Return scores under constraints in the form that chains sum; may change them in place."""
        return scores

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return 0, 0

    def read(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data."""
        return as_sequences(X, self.schema, segmentation)

    # Lattices

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice; 0 if lattices are never cut."""
        return len(self.classes) ** (self.order + 1)

    def constraints(self, offsets: np.ndarray, masks: np.ndarray | None = None) -> Constraints:
        """Make constraints from the parameter ``transitions`` and from masks, if any."""
        rules = as_transitions(self.transitions, self.classes, self.order)
        return Constraints.of(rules, self.classes, offsets, masks, self.is_backward)

    def constrained(
        self, scores: np.ndarray, offsets: np.ndarray, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of scores under constraints; the scores change in place."""
        constraints.forbid(scores, offsets)
        return Lattice(scores, offsets, self.order, threads)

    def lattice(self, sequences: Sequences, constraints: Constraints, threads: Threads) -> Lattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        scores = self.scores(sequences, threads)
        return self.constrained(scores, sequences.offsets, constraints, threads)

    def log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute log-probabilities of label sequences, with all data in the chain's direction."""
        constraints = self.constraints(sequences.offsets)
        return self.lattice(sequences, constraints, threads).log_likelihoods(codes)

    def summed_log_likelihoods(
        self, sequences: Sequences, candidates: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute logarithms of the probability that all labels are among the candidates."""
        offsets = sequences.offsets
        rules = as_transitions(self.transitions, self.classes, self.order)
        if rules is not None and self.is_backward:
            rules = rules.reversed()
        codes, found = label_paths(candidates, rules, offsets)
        # Without a path, nothing is excluded, so that there is a lattice.
        masks = candidates | ~np.repeat(found, np.diff(offsets))[:, None]
        every, some = (
            self.lattice(sequences, self.constraints(offsets, allowed), threads).log_likelihoods(
                codes
            )
            for allowed in (None, masks)
        )
        return np.subtract(every, some, where=found, out=np.full(len(found), -np.inf))

    @property
    def searches(self) -> bool:
        """Whether predictions follow those before them, by a method ``search``."""
        return False

    # Short sequences

    def short_model(self, ignored: set[str]) -> Any:
        """Return the model in the form for short sequences; None if it has none.

        Data frames may have columns with names in ``ignored``, though not in the training data.
        """
        return None

    def quick_lattice(self, X: list, short_model: Any) -> Lattice | None:
        """Make a lattice of a few short sequences; None if they have to be read like all others."""
        scores_and_offsets = short_model.scores(X)
        if scores_and_offsets is None:
            return None
        scores, offsets = scores_and_offsets
        return self.constrained(scores, offsets, self.constraints(offsets), Threads(1))


def of_each(sequences: Sequences, compute: Callable[[Sequences], Any], empty: Any) -> Any:
    """Return the results of ``compute``, one for each sequence, and ``empty`` for empty sequences.

    Chains and encoders have no empty sequences.
    """
    present = sequences.offsets[1:] > sequences.offsets[:-1]
    if np.count_nonzero(present) == len(present) > 0:  # faster than `all`
        return compute(sequences)
    found = iter(compute(sequences.without_empty()) if present.any() else ())
    return [next(found) if here else empty for here in present.tolist()]


def accuracy_of(counts: Iterable[tuple[float, float, int, int]]) -> float:
    """Return the fraction of correct labels, given results of `Predictor.count_correct`."""
    n_correct, n_known, n_unlabeled, n_positions = map(sum, zip(*counts, strict=True))
    if n_unlabeled == n_positions:
        raise ValueError("y holds no known labels")
    if not n_known:
        raise ValueError("sample_weight is 0 at all known labels")
    warn_of_unlabeled(n_unlabeled, n_positions, "the score counts")
    return float(n_correct / n_known)


def _is_one_group(X: Any, name: Any) -> bool:
    """Return whether X is a short data frame with one group in the column of this name."""
    if not isinstance(name, str) or len(X) > MAX_SHORT or name not in column_names(X):
        return False
    if not hasattr(X[name], "to_list"):
        return False
    groups = X[name].to_list()
    return all(map(_is_plain_group, set(map(type, groups)))) and len(set(groups)) == 1


def _is_plain_group(kind: type) -> bool:
    """Return whether values of a type are present, and equal only if they are one group."""
    return kind in (str, int) or (issubclass(kind, date) and not stands_for_missing(kind))


def runs_for_threads(offsets: np.ndarray, n_bytes: int, threads: Threads) -> list[tuple[int, int]]:
    """Group sequences into runs, the first one and the one after the last of each.

    ``n_bytes`` is the memory of a position; if it is 0, all sequences are one run.
    """
    size = int(offsets[-1])
    if size * n_bytes > MAX_BYTES:
        size = RUN_BYTES // n_bytes
    if threads.n_threads > 1 and n_bytes:
        size = min(size, max(MIN_RUN, int(offsets[-1]) // (RUNS_PER_THREAD * threads.n_threads)))
    return list(runs(offsets, max(1, size)))


@dataclass
class Predictor:
    """A fitted chain with the parameters of prediction, and the names of columns in training."""

    chain: FittedChain
    name: str  # of the estimator
    decoding: str
    cost_matrix: Any
    n_jobs: int | None
    columns: ColumnNames
    init_score_error: str | None  # message if the model cannot be added to given scores

    # Short sequences

    @cached_property
    def short_model(self) -> Any:
        """The model in the form for short sequences; None if it has none."""
        return self.chain.short_model(self.columns.names)

    def quick_results(self, X: Any, results_of: Callable[[Lattice], list]) -> Any:
        """Return the results of a few short sequences, or of one in a data frame.

        None if they have to be read like all others.
        """
        if self.chain.searches:
            return None
        is_list = type(X) is list
        if not (len(X) <= MAX_SHORT if is_list else _is_one_group(X, self.group_column(X))):
            return None
        if self.short_model is None:
            return None
        lattice = self.chain.quick_lattice(X if is_list else [X], self.short_model)
        if lattice is None:
            return None
        results = results_of(lattice)
        return results if is_list else results[0]

    # Reading

    def segmentation(
        self, X: Any, lengths: Any, groups: Any, may_be_empty: bool = True
    ) -> Segmentation:
        """Return the sequences of X, by default from the column of groups in training."""
        if lengths is None and groups is None:
            groups = self.group_column(X)
        return segmentation_of(X, lengths, groups, may_be_empty)

    def group_column(self, X: Any) -> str | tuple[str, ...] | None:
        """Return the names of the groups in training, if X is one data frame with all of them."""
        groups = self.columns.group
        if groups is None or not is_frame(X):
            return None
        names = {groups} if isinstance(groups, str) else set(groups)
        return groups if names <= {*column_names(X), *index_levels(X)} else None

    def labels_of(self, X: Any, y: Any) -> Any:
        """Return y, by default the name of the column of labels in training; TypeError without."""
        if y is not None:
            return y
        name = self.columns.label
        frames = X if isinstance(X, list) else [X]
        if name is None or not frames or not all(map(is_frame, frames)):
            expected = "the labels of X" if name is None else f"labels, or frames with {name!r}"
            raise TypeError(f"y is not given; expected {expected}")
        if not all(name in column_names(frame) for frame in frames):
            raise ValueError(
                f"y is not given, and X has no column {name!r}, which held the labels in training"
            )
        return name

    def sequences(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data, and warn of what is probably not meant."""
        if isinstance(X, Iterator) and not are_batches(X):
            X = list(X)
        sequences = self.checked(X, segmentation)
        if not isinstance(X, Sequences) and sequences.n_positions:
            schema = self.chain.schema
            warn_of_names(sequences.names, schema.names, self.name)
            warn_of_keys(X, schema, self.columns.names, segmentation.is_long)
            warn_of_unknown(sequences, schema, X, segmentation.is_long)
        return sequences

    def checked(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data."""
        names = self.chain.schema.names
        # Tables often keep the columns of the labels and the groups.
        left_out = self.columns.names - segmentation.group_columns
        if left_out and names is not None:
            X = without_columns(X, left_out.difference(names))
        return self.chain.read(X, segmentation)

    def _scored_sequences(self, X: Any, segmentation: Segmentation, init_score: Any) -> Sequences:
        """Check sequences, with the given scores of labels if there are any."""
        sequences = self.sequences(X, segmentation)
        if init_score is None:
            return sequences
        classes = self.chain.classes
        error = self.init_score_error
        return with_init_score(sequences, init_score, segmentation, classes, error)

    def read_labeled(self, raw: RawData) -> tuple[Sequences, Labels]:
        """Check `resolved` sequences and labels, in the direction of the input."""
        sequences = self._scored_sequences(raw.X, raw.segmentation, raw.init_score)
        return sequences, as_labels(raw.y, sequences.offsets, raw.segmentation)

    def read(
        self,
        X: Any,
        segmentation: Segmentation | None = None,
        allowed: Any = None,
        known: Any = None,
        init_score: Any = None,
    ) -> tuple[Sequences, np.ndarray | None]:
        """Check sequences and masks of possible labels; return them in the chain's direction."""
        segmentation = segmentation or Segmentation()
        sequences = self._scored_sequences(X, segmentation, init_score)
        chain = self.chain
        offsets = sequences.offsets
        masks = as_allowed(allowed, known, chain.classes, offsets, segmentation)
        check_possible(chain.transitions, chain.order, chain.classes, offsets, masks)
        if self.chain.is_backward:
            sequences = sequences.reversed()
            masks = None if masks is None else masks[reversed_positions(sequences.offsets)]
        return sequences, masks

    def as_read(self, items: list[np.ndarray]) -> list[np.ndarray]:
        """Convert results per sequence from the chain's direction to the direction of the input."""
        return [item[::-1] for item in items] if self.chain.is_backward else items

    # Results of a lattice

    def labels_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the labels that ``decoding`` chooses."""
        codes = self.best_codes(lattice, masks)
        return self.as_read(split_sequences(self.chain.classes[codes], lattice.offsets))

    def codes(self, sequences: Sequences, masks: np.ndarray | None) -> np.ndarray:
        """Predict the codes of the labels, in the direction of the chain."""
        labels = self.as_read(self.labels(sequences, masks))
        return np.searchsorted(self.chain.classes, np.concatenate(labels))

    def best_codes(self, lattice: Lattice, masks: np.ndarray | None = None) -> np.ndarray:
        """Return the codes of the labels that ``decoding`` chooses; only those in the masks."""
        return best_codes(self.decoding, self.cost_matrix, self.chain.classes, lattice, masks)

    def proba_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the marginal probabilities of each sequence."""
        return self.as_read(split_sequences(lattice.marginals(), lattice.offsets))

    def pairwise_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the joint probabilities of neighboring labels in each sequence."""
        tables = split_sequences(lattice.pairwise(), lattice.offsets)
        # The first position of a chain has no label before it.
        pairs = self.as_read([table[1:] for table in tables])
        is_backward = self.chain.is_backward
        return [table.transpose(0, 2, 1) for table in pairs] if is_backward else pairs

    def best_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[tuple]:
        """Return the most probable label sequence of each sequence, and its log-probability."""
        codes, values = lattice.best()
        labels = split_sequences(self.chain.classes[codes], lattice.offsets)
        return list(zip(self.as_read(labels), values, strict=True))

    # Results of sequences

    def labels(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        """Predict the labels of checked sequences, as chosen by ``decoding``."""
        if self.chain.searches:
            return [labels for labels, _ in self.decoded(sequences, masks)]
        return self.in_runs(sequences, masks, self.labels_in)

    def decoded(self, sequences: Sequences, masks: np.ndarray | None) -> list[tuple]:
        """Find the most probable label sequences of checked sequences, and log-probabilities.

        With greedy or beam ``decoding`` the sequences found need not be the most probable. Their
        log-probabilities are as from `predict_log_likelihood`, which ``allowed`` and ``known`` do
        not change.
        """
        chain, offsets = self.chain, sequences.offsets
        if not chain.searches:
            return self.in_runs(sequences, masks, self.best_in)
        with Threads(self.n_jobs) as threads:
            codes, values = chain.search(sequences, chain.constraints(offsets, masks), threads)
        labels = split_sequences(chain.classes[codes], offsets)
        return list(zip(self.as_read(labels), values, strict=True))

    def n_best(self, sequences: Sequences, masks: np.ndarray | None, n: int) -> tuple[list, list]:
        """Find the n most probable label sequences of each sequence, and log-probabilities.

        With n = 1 they are not in lists.
        """
        classes = self.chain.classes
        empty = classes[:0]

        def best(some: Sequences) -> list[tuple]:
            if n == 1:
                return self.decoded(some, masks)
            found = self.in_runs(some, masks, lambda lattice, _: lattice.n_best(n))
            return [(self.as_read([classes[codes] for codes in paths]), p) for paths, p in found]

        # The only label sequence of an empty sequence has probability 1.
        found = of_each(sequences, best, (empty, 0.0) if n == 1 else ([empty], np.zeros(1)))
        return [labels for labels, _ in found], [p for _, p in found]

    def log_likelihoods(self, raw: RawData) -> np.ndarray:
        """Compute the log-probabilities of label sequences, which may be known in part."""
        (sequences, labels), chain = self.read_labeled(raw.resolved()), self.chain
        if not sequences.n_positions:
            return np.zeros(sequences.n_sequences)
        codes, candidates = labels.encoded(chain.classes)
        if chain.is_backward:
            positions = reversed_positions(sequences.offsets)
            sequences, codes = sequences.reversed(), codes[positions]
            candidates = None if candidates is None else candidates[positions]
        with Threads(self.n_jobs) as threads:

            def log_p(some: Sequences) -> np.ndarray:
                if candidates is not None:
                    return chain.summed_log_likelihoods(some, candidates, threads)
                return chain.log_likelihoods(some, codes, threads)

            return np.asarray(of_each(sequences, log_p, 0.0))

    def count_correct(self, raw: RawData) -> tuple[float, float, int, int]:
        """Return the weights of correct and known labels, and the numbers of unlabeled and all."""
        raw = raw.resolved()
        sequences, labels = self.read_labeled(raw)
        sizes = labels.n_unlabeled, sequences.n_positions
        known = slice(None) if labels.are_complete else labels.known
        true = labels.values[known]
        if not len(true):
            return 0.0, 0.0, *sizes
        check_kind(true, self.chain.classes)
        # Those of one part of the data may all be 0.
        weights = read_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        weights = np.ones(len(true)) if weights is None else weights[known]
        predicted = np.concatenate(self.labels(*self.read(sequences.without_empty())))
        correct = float((weights * (predicted[known] == true)).sum())
        return correct, float(weights.sum()), *sizes

    def in_runs(
        self,
        sequences: Sequences,
        masks: np.ndarray | None,
        results_of: Callable[[Lattice, np.ndarray | None], list],
    ) -> list:
        """Return the results of all sequences, from lattices of runs of them.

        Threads share the runs. The scores of a run take memory that the next run uses again: the
        system takes longer to find new memory than trees take to fill it.
        """
        offsets = sequences.offsets

        def results(some: Sequences, of_some: np.ndarray | None, threads: Threads) -> list:
            constraints = self.chain.constraints(some.offsets, of_some)
            return results_of(self.chain.lattice(some, constraints, threads), of_some)

        with Threads(self.n_jobs) as threads:
            parts = runs_for_threads(offsets, 8 * self.chain.n_scores, threads)
            if len(parts) == 1:
                return results(sequences, masks, threads)

            def results_of_run(run: tuple[int, int]) -> list:
                part = sequences.take(np.arange(*run))
                here = None if masks is None else masks[offsets[run[0]] : offsets[run[1]]]
                return results(part, here, Threads(1))

            return list(chained.from_iterable(threads.map(results_of_run, parts)))


def best_codes(
    decoding: str,
    cost_matrix: Any,
    classes: np.ndarray,
    lattice: Lattice,
    masks: np.ndarray | None = None,
) -> np.ndarray:
    """Return the codes of the labels that a ``decoding`` chooses; only those in the masks."""
    if decoding == "viterbi":
        return lattice.best_codes()
    marginals = lattice.marginals()
    if decoding != "minimum_risk":
        return marginals.argmax(axis=1)
    costs = cost_table(cost_matrix, classes)
    risks = np.concatenate([p @ costs for p in split_sequences(marginals, lattice.offsets)])
    if masks is not None:
        # A label that is not allowed may have the least expected cost.
        risks[~masks] = np.inf
    return risks.argmin(axis=1)
