"""Predictions of a fitted chain: reading sequences, and results of lattices of their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from itertools import chain as chained
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.inputs.column_names import ColumnNames
from treecrf.inputs.offsets import reversed_positions, runs, split_sequences
from treecrf.learners.base.chain import FittedChain
from treecrf.utils.threads import Threads

# Labels of a few short sequences need none of the modules that read other input. They are imported
# where they are used, because this takes longer than labeling.
if TYPE_CHECKING:
    from treecrf.inputs.dataset import RawData
    from treecrf.inputs.labels import Labels
    from treecrf.inputs.segmentation import Segmentation
    from treecrf.inputs.sequences import Sequences

# Lattices whose scores take more bytes are computed run by run.
MAX_BYTES = 1 << 26
# Bytes of the scores of such a run: few enough that runs follow each other in the same memory.
RUN_BYTES = 31 << 20
# Minimum number of positions of a run for a thread: each run takes a millisecond longer than its
# positions.
MIN_RUN = 1 << 11
# Number of positions from which the fixed time of a large batch, a millisecond, matters little.
MAX_QUICK = 1 << 13
# Runs for each thread, so that a thread that is done early takes another one.
RUNS_PER_THREAD = 2


def results_per_sequence(
    sequences: Sequences, compute: Callable[[Sequences], Any], empty: Any
) -> Any:
    """Return the results of ``compute``, one for each sequence, and ``empty`` for empty sequences.

    Chains and encoders have no empty sequences.
    """
    has_positions = sequences.offsets[1:] > sequences.offsets[:-1]
    n_with_positions = np.count_nonzero(has_positions)
    if n_with_positions == len(has_positions) > 0:
        return compute(sequences)
    results = [empty] * len(has_positions)
    if n_with_positions:
        computed = compute(sequences.without_empty())
        for i, result in zip(np.flatnonzero(has_positions), computed, strict=True):
            results[i] = result
    return results


def accuracy_of(counts: Iterable[tuple[float, float, int, int]]) -> float:
    """Return the fraction of correct labels, given results of `Predictor.count_correct`."""
    from treecrf.inputs.data_warnings import warn_of_unlabeled

    n_correct, n_known, n_unlabeled, n_positions = map(sum, zip(*counts, strict=True))
    if n_unlabeled == n_positions:
        raise ValueError("y holds no known labels")
    if not n_known:
        raise ValueError("sample_weight is 0 at all known labels")
    warn_of_unlabeled(n_unlabeled, n_positions, "the score counts")
    return float(n_correct / n_known)


def _is_one_group(X: Any, name: Any, max_positions: int) -> bool:
    """Return whether X is a short data frame with one group in the column of this name."""
    from treecrf.inputs.values import column_names

    if not isinstance(name, str) or len(X) > max_positions or name not in column_names(X):
        return False
    if not hasattr(X[name], "to_list"):
        return False
    groups = X[name].to_list()
    types = set(map(type, groups))
    return all(map(_is_plain_group, types)) and len(set(groups)) == 1


def _is_plain_group(kind: type) -> bool:
    """Return whether values of a type are present, and equal only if they are one group."""
    from treecrf.inputs.values import stands_for_missing

    return kind in (str, int) or (issubclass(kind, date) and not stands_for_missing(kind))


def runs_for_threads(offsets: np.ndarray, n_bytes: int, threads: Threads) -> list[tuple[int, int]]:
    """Group sequences into runs, the first one and the one after the last of each.

    ``n_bytes`` is the memory of a position; if it is 0, all sequences are one run.
    """
    n_positions = int(offsets[-1])
    size = n_positions
    if n_positions * n_bytes > MAX_BYTES:
        size = RUN_BYTES // n_bytes
    if n_bytes and n_positions > MIN_RUN and threads.n_threads > 1:
        share = n_positions // (RUNS_PER_THREAD * threads.n_threads)
        size = min(size, max(MIN_RUN, share))
    return list(runs(offsets, max(1, size)))


@dataclass
class Predictor:
    """A fitted chain with the parameters of prediction, and the names of columns in training."""

    chain: FittedChain
    # Name of the class of the estimator, for warnings.
    name: str
    # Parameters of the estimator.
    decoding: str
    cost_matrix: Any
    n_jobs: int | None
    # Names of the columns of labels, groups and weights in training.
    columns: ColumnNames
    # Message of the error if the model cannot be added to given scores.
    init_score_error: str | None

    # Predictions

    def predict(
        self,
        X: Any,
        allowed: Any = None,
        known: Any = None,
        init_score: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> Any:
        """Predict labels; see `treecrf.learners.base.classifier.SequenceClassifier.predict`."""
        if allowed is known is init_score is lengths is groups is None:
            labels = self.quick_results(X, self.labels_in)
            if labels is not None:
                return labels
        segmentation = self.segmentation(X, lengths, groups)
        sequences, masks = self.read(X, segmentation, allowed, known, init_score)
        empty = self.chain.classes[:0]
        labels = results_per_sequence(sequences, lambda batch: self.labels(batch, masks), empty)
        return segmentation.join(labels, empty)

    def predict_proba(
        self,
        X: Any,
        allowed: Any = None,
        known: Any = None,
        init_score: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> Any:
        """Predict probabilities of labels, as the method of estimators."""
        if allowed is known is init_score is lengths is groups is None:
            proba = self.quick_results(X, self.proba_in)
            if proba is not None:
                return proba
        segmentation = self.segmentation(X, lengths, groups)
        sequences, masks = self.read(X, segmentation, allowed, known, init_score)
        empty = np.zeros((0, len(self.chain.classes)))
        proba = self.results(sequences, masks, self.proba_in, empty)
        return segmentation.join(proba, empty)

    def decode(
        self,
        X: Any,
        n_best: int = 1,
        allowed: Any = None,
        known: Any = None,
        init_score: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> tuple[Any, Any]:
        """Find the most probable label sequences, as the method of estimators."""
        if not isinstance(n_best, Integral) or n_best < 1:
            raise ValueError(f"n_best={n_best!r}; expected a positive integer")
        if allowed is known is init_score is lengths is groups is None:
            best = self.quick_n_best(X, int(n_best))
            if best is not None:
                return best
        segmentation = self.segmentation(X, lengths, groups)
        sequences, masks = self.read(X, segmentation, allowed, known, init_score)
        labels, log_p = self.n_best(sequences, masks, int(n_best))
        if n_best > 1:
            return labels, log_p
        return segmentation.join(labels, self.chain.classes[:0]), np.array(log_p)

    # Short sequences

    @cached_property
    def short_model(self) -> Any:
        """The model in the form for short sequences; None if it has none."""
        return self.chain.short_model(self.columns.names)

    @cached_property
    def max_positions(self) -> int:
        """Number of positions that are read without the arrays of large batches."""
        n_scores = self.chain.n_scores or len(self.chain.classes)
        most = min(MAX_QUICK, MAX_BYTES // (np.dtype(np.float64).itemsize * n_scores))
        if Threads(self.n_jobs).n_threads > 1:
            most = min(most, MIN_RUN)
        return most

    def quick_results(self, X: Any, results_of: Callable[[Lattice], list]) -> Any:
        """Return the results of a few positions, or of one sequence in a data frame.

        None if they have to be read like large batches.
        """
        is_list = type(X) is list
        lattice = self._quick_lattice(X, is_list)
        if lattice is None:
            return None
        results = results_of(lattice)
        return results if is_list else results[0]

    def _quick_lattice(self, X: Any, is_list: bool) -> Lattice | None:
        max_positions = self.max_positions
        if is_list:
            is_short = len(X) <= max_positions
        else:
            is_short = _is_one_group(X, self.group_column(X), max_positions)
        if not is_short or self.chain.searches or self.short_model is None:
            return None
        return self.chain.quick_lattice(X if is_list else [X], self.short_model, max_positions)

    # Reading

    def segmentation(
        self, X: Any, lengths: Any, groups: Any, may_be_empty: bool = True
    ) -> Segmentation:
        """Return the sequences of X, by default from the column of groups in training."""
        from treecrf.inputs.frames import segmentation_of

        if lengths is None and groups is None:
            groups = self.group_column(X)
        return segmentation_of(X, lengths, groups, may_be_empty)

    def group_column(self, X: Any) -> str | tuple[str, ...] | None:
        """Return the names of the groups in training, if X is one data frame with all of them."""
        from treecrf.inputs.frames import group_column

        return group_column(X, self.columns.group)

    def labels_of(self, X: Any, y: Any) -> Any:
        """Return y, by default the name of the column of labels in training; TypeError without."""
        from treecrf.inputs.forms import is_frame
        from treecrf.inputs.values import column_names

        if y is not None:
            return y
        name = self.columns.label
        if name is None:
            raise TypeError("y is not given; expected the labels of X")
        frames = X if isinstance(X, list) else [X]
        if not frames or not all(map(is_frame, frames)):
            raise TypeError(f"y is not given; expected labels, or frames with {name!r}")
        if not all(name in column_names(frame) for frame in frames):
            raise ValueError(
                f"y is not given, and X has no column {name!r}, which held the labels in training"
            )
        return name

    def sequences(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data, and warn of what is probably not meant."""
        from treecrf.inputs.data_warnings import warn_of_keys, warn_of_names, warn_of_unknown
        from treecrf.inputs.paths import are_batches
        from treecrf.inputs.sequences import Sequences

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
        from treecrf.inputs.frames import without_columns

        features = self.chain.schema.names
        # Tables often keep the columns of the labels and the groups.
        other_columns = self.columns.names - segmentation.group_columns
        if other_columns and features is not None:
            X = without_columns(X, other_columns.difference(features))
        return self.chain.read(X, segmentation)

    def _scored_sequences(self, X: Any, segmentation: Segmentation, init_score: Any) -> Sequences:
        """Check sequences, with the given scores of labels if there are any."""
        sequences = self.sequences(X, segmentation)
        if init_score is None:
            return sequences
        from treecrf.learners.base.label_arguments import with_init_score

        return with_init_score(
            sequences, init_score, segmentation, self.chain.classes, self.init_score_error
        )

    def read_labeled(self, raw: RawData) -> tuple[Sequences, Labels]:
        """Check `resolved` sequences and labels, in the direction of the input."""
        from treecrf.inputs.labels import as_labels

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
        from treecrf.chains.masks import as_allowed
        from treecrf.chains.transitions import check_possible
        from treecrf.inputs.segmentation import Segmentation

        segmentation = segmentation or Segmentation()
        sequences = self._scored_sequences(X, segmentation, init_score)
        chain = self.chain
        offsets = sequences.offsets
        masks = as_allowed(allowed, known, chain.classes, offsets, segmentation)
        check_possible(chain.transitions, chain.order, chain.classes, offsets, masks)
        if chain.is_backward:
            sequences = sequences.reversed()
            if masks is not None:
                masks = masks[reversed_positions(sequences.offsets)]
        return sequences, masks

    def as_read(self, items: list[np.ndarray]) -> list[np.ndarray]:
        """Convert results per sequence from the chain's direction to the direction of the input."""
        if self.chain.is_backward:
            return [item[::-1] for item in items]
        return items

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
        if self.chain.is_backward:
            return [table.transpose(0, 2, 1) for table in pairs]
        return pairs

    def best_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[tuple]:
        """Return the most probable label sequence of each sequence, and its log-probability."""
        codes, values = lattice.best()
        labels = split_sequences(self.chain.classes[codes], lattice.offsets)
        return list(zip(self.as_read(labels), values, strict=True))

    def n_best_in(self, lattice: Lattice, n: int) -> list[tuple]:
        """Return the n most probable label sequences of each sequence, and log-probabilities.

        With n = 1 they are not in lists.
        """
        if n == 1:
            return self.best_in(lattice)
        classes = self.chain.classes
        return [
            (self.as_read([classes[codes] for codes in paths]), log_p)
            for paths, log_p in lattice.n_best(n)
        ]

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
        chain = self.chain
        if not chain.searches:
            return self.in_runs(sequences, masks, self.best_in)
        offsets = sequences.offsets
        with Threads(self.n_jobs) as threads:
            codes, values = chain.search(sequences, chain.constraints(offsets, masks), threads)
        labels = split_sequences(chain.classes[codes], offsets)
        return list(zip(self.as_read(labels), values, strict=True))

    def n_best(self, sequences: Sequences, masks: np.ndarray | None, n: int) -> tuple[list, list]:
        """Find the n most probable label sequences of each sequence, and log-probabilities.

        With n = 1 they are not in lists.
        """
        no_labels = self.chain.classes[:0]
        # The only label sequence of an empty sequence has probability 1.
        if n == 1:
            best = results_per_sequence(
                sequences, lambda batch: self.decoded(batch, masks), (no_labels, 0.0)
            )
        else:
            empty = [no_labels], np.zeros(1)
            best = self.results(
                sequences, masks, lambda lattice, _: self.n_best_in(lattice, n), empty
            )
        return [labels for labels, _ in best], [log_p for _, log_p in best]

    def quick_n_best(self, X: Any, n: int) -> tuple[Any, Any] | None:
        """Return the results of `decode` for a few positions, as `quick_results`."""
        best = self.quick_results(X, partial(self.n_best_in, n=n))
        if best is None:
            return None
        if type(X) is not list:
            labels, log_p = best
            return (labels, np.array([log_p])) if n == 1 else ([labels], [log_p])
        log_p = [value for _, value in best]
        return [labels for labels, _ in best], np.array(log_p) if n == 1 else log_p

    def log_likelihoods(self, raw: RawData) -> np.ndarray:
        """Compute the log-probabilities of label sequences, which may be known in part."""
        chain = self.chain
        sequences, labels = self.read_labeled(raw.resolved())
        if not sequences.n_positions:
            return np.zeros(sequences.n_sequences)
        codes, candidates = labels.encoded(chain.classes)
        if chain.is_backward:
            positions = reversed_positions(sequences.offsets)
            sequences = sequences.reversed()
            codes = codes[positions]
            if candidates is not None:
                candidates = candidates[positions]
        with Threads(self.n_jobs) as threads:

            def log_p(batch: Sequences) -> np.ndarray:
                if candidates is not None:
                    return chain.summed_log_likelihoods(batch, candidates, threads)
                return chain.log_likelihoods(batch, codes, threads)

            return np.asarray(results_per_sequence(sequences, log_p, 0.0))

    def count_correct(self, raw: RawData) -> tuple[float, float, int, int]:
        """Return the weights of correct and known labels, and the numbers of unlabeled and all."""
        from treecrf.inputs.dataset import read_weights
        from treecrf.inputs.labels import check_kind

        raw = raw.resolved()
        sequences, labels = self.read_labeled(raw)
        known = slice(None) if labels.are_complete else labels.known
        true_labels = labels.values[known]
        if not len(true_labels):
            return 0.0, 0.0, labels.n_unlabeled, sequences.n_positions
        check_kind(true_labels, self.chain.classes)
        # The weights of one partition of the data may all be 0.
        weights = read_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        if weights is None:
            weights = np.ones(len(true_labels))
        else:
            weights = weights[known]
        predicted = np.concatenate(self.labels(*self.read(sequences.without_empty())))
        is_correct = predicted[known] == true_labels
        n_correct = float((weights * is_correct).sum())
        return n_correct, float(weights.sum()), labels.n_unlabeled, sequences.n_positions

    def results(
        self,
        sequences: Sequences,
        masks: np.ndarray | None,
        results_of: Callable[[Lattice, np.ndarray | None], list],
        empty: Any,
    ) -> list:
        """Return the results of all sequences; ``empty`` for sequences without positions."""
        return results_per_sequence(
            sequences, lambda batch: self.in_runs(batch, masks, results_of), empty
        )

    def in_runs(
        self,
        sequences: Sequences,
        masks: np.ndarray | None,
        results_of: Callable[[Lattice, np.ndarray | None], list],
    ) -> list:
        """Return the results of sequences with positions, from lattices of runs of them.

        Threads share the runs. The scores of a run take memory that the next run uses again: the
        system takes longer to find new memory than trees take to fill it.
        """
        offsets = sequences.offsets
        n_bytes = np.dtype(np.float64).itemsize * self.chain.n_scores

        def results(run: Sequences, run_masks: np.ndarray | None, threads: Threads) -> list:
            constraints = self.chain.constraints(run.offsets, run_masks)
            return results_of(self.chain.lattice(run, constraints, threads), run_masks)

        with Threads(self.n_jobs) as threads:
            ends_of_runs = runs_for_threads(offsets, n_bytes, threads)
            if len(ends_of_runs) == 1:
                return results(sequences, masks, threads)

            def results_between(ends: tuple[int, int]) -> list:
                first, last = ends
                run = sequences.take(np.arange(first, last))
                run_masks = None if masks is None else masks[offsets[first] : offsets[last]]
                return results(run, run_masks, Threads(1))

            results_of_runs = threads.map(results_between, ends_of_runs)
            return list(chained.from_iterable(results_of_runs))


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
    from treecrf.learners.base.label_arguments import cost_table

    costs = cost_table(cost_matrix, classes)
    risks = np.concatenate([p @ costs for p in split_sequences(marginals, lattice.offsets)])
    if masks is not None:
        # A label that is not allowed may have the least expected cost.
        risks[~masks] = np.inf
    return risks.argmin(axis=1)
