"""Window classifiers around any estimator of rows: one row of numbers for each position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import previous_labels
from treecrf.encoding.columns import one_hot
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.symbols import as_category
from treecrf.learners.base.training_data import LabeledSequences
from treecrf.learners.boosted.chains import require_table
from treecrf.learners.local.chains import LocalChain, Scorer
from treecrf.utils.scipy_sparse import sparse
from treecrf.utils.threads import Threads

# A probability of 0 from an estimator is replaced by this one.
MIN_PROBABILITY = 1e-12
# Number of rows that an estimator predicts in about the time that a call takes in addition.
ROWS_OF_CALL = 500
# Larger tables of windows stay sparse.
MAX_DENSE_BYTES = 1 << 30


@dataclass(kw_only=True)
class RowChain(LocalChain):
    """Probabilities of a fitted estimator of rows, see `WindowTable`."""

    encoder: Encoder
    estimator: Any
    alternative: str  # advice for the case of too many contexts

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_table(self, sequences)
        n_labels = len(self.classes)
        order = self.order
        scorer = self.scorer(sequences, threads)
        every = np.arange(sequences.n_positions)
        positions = positions_in_sequences(sequences.offsets)
        lags = np.arange(order)[:, None]
        scores = np.zeros((n_labels, sequences.n_positions, n_labels**order))
        for context in range(n_labels**order):
            labels = context // n_labels**lags % n_labels
            previous = np.where(lags < positions, labels, n_labels).astype(np.uint8)
            scores[:, :, context] = scorer(every, previous)[:, :, 0]
        return scores

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return self.encoder.reach

    def scorer(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return the scores of the labels as a function of positions and their previous labels."""
        table = WindowTable(self.encoder, len(self.classes))
        windows = table.windows(sequences)

        def scores(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            rows = table.rows(windows[positions], previous)
            if hasattr(self.estimator, "predict_proba"):
                p = self.estimator.predict_proba(rows).astype(np.float64)
            else:
                p = np.eye(len(self.classes))[self.estimator.predict(rows)]
            log_p = np.log(np.maximum(p, MIN_PROBABILITY))
            return np.ascontiguousarray(log_p.T)[:, :, None]

        return scores

    def scores_table(self, offsets: np.ndarray, n_contexts: int, width: int) -> bool:
        """Return whether a search takes less time with the scores of all contexts in a table.

        A table takes a call of the estimator for each context, and otherwise each step takes one.
        """
        n_positions = int(offsets[-1])
        longest = int(np.diff(offsets).max())
        by_table = n_contexts * (n_positions + ROWS_OF_CALL)
        by_steps = longest * ROWS_OF_CALL + n_positions * width
        return by_table <= by_steps

    def search_contexts(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences with the scores of only those contexts that occur."""
        conditionals = self.conditionals(sequences, threads)

        def step(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            log_p = conditionals(positions, previous)
            constraints.forbid_given(log_p[:, :, None], previous, positions)
            return log_p.T

        return beam_search(step, sequences.offsets, len(self.classes), self.order, width)


def fit_rows(
    estimator: Any,
    training: LabeledSequences,
    classes: np.ndarray,
    encoder: Encoder,
    order: int,
    is_weighted: bool,
) -> Any:
    """Fit a clone of an estimator to the rows of all positions whose labels are known."""
    sequences = training.sequences
    codes = training.codes
    weights = training.weights
    table = WindowTable(encoder, len(classes))
    before = codes if training.previous is None else training.previous
    previous = previous_labels(before, sequences.offsets, len(classes), order)
    rows = table.rows(table.windows(sequences), previous)
    if weights is not None:  # 0 at positions whose labels are unknown
        known = np.flatnonzero(weights)
        rows = rows[known]
        codes = codes[known]
        weights = weights[known]
    options = {}
    if is_weighted:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight is given, but {type(estimator).__name__}.fit does not "
                "support it; expected an estimator that does, or no weights"
            )
        options = {"sample_weight": weights}
    # An estimator that has not seen a label has no column for its probability.
    absent = np.setdiff1d(np.arange(len(classes)), codes)
    if len(absent):
        raise ValueError(
            f"the label {classes[absent[0]].item()!r} occurs at no position whose label and "
            "previous labels are known and whose weight is above 0; an estimator needs an "
            "example of each label"
        )
    return clone(estimator).fit(rows, codes, **options)


class WindowTable:
    """A table with one row per position: the values of its window and its previous labels.

    Categories and previous labels are one-hot encoded; numbers and booleans are unchanged. At
    offsets outside the sequence all values are 0, and an indicator column for each offset marks
    this. Missing numbers and booleans remain NaN, for estimators that support it. The columns of a
    category that is missing or was unseen in training are all 0.
    """

    def __init__(self, encoder: Encoder, n_labels: int):
        self.encoder = encoder  # defines the columns and the window
        self.n_labels = n_labels

    def windows(self, sequences: Sequences) -> sparse.csr_array:
        """Make the windows of all positions, without previous labels."""
        sequences = self.encoder.prepared(sequences)
        values = sparse.vstack(
            [self._values(piece) for _, _, piece in sequences.pieces()], format="csr"
        )
        nothing = sparse.csr_array((1, values.shape[1]), dtype=values.dtype)
        values = sparse.vstack([values, nothing], format="csr")
        within = positions_in_sequences(sequences.offsets)
        lengths = np.diff(sequences.offsets)
        ends = np.repeat(lengths, lengths)
        positions = np.arange(sequences.n_positions)
        left, right = self.encoder.window
        blocks = []
        for offset in range(-left, right + 1):
            inside = (within + offset >= 0) & (within + offset < ends)
            blocks.append(values[np.where(inside, positions + offset, len(positions))])
            if offset:
                blocks.append(sparse.csr_array((~inside)[:, None].astype(np.float32)))
        return sparse.hstack(blocks, format="csr")

    def _values(self, piece: Any) -> sparse.csr_array:
        columns = self.encoder.columns
        if piece.ndim == 1:
            piece = as_category(piece, columns[0].values)
        if not columns.is_category.any():
            # float32, unless the values need more precision.
            return sparse.csr_array(piece, dtype=np.result_type(piece.dtype, np.float32))
        return one_hot(piece, np.where(columns.is_category, columns.sizes, -1))

    def rows(self, windows: sparse.csr_array, previous: np.ndarray) -> Any:
        """Append previous labels to windows; returns a dense array unless it would be too large.

        ``previous`` is a uint8 array (order, n_rows) of the label at each lag, ``n_labels`` before
        the start of the sequence.
        """
        order = len(previous)
        n, n_values = windows.shape
        n_symbols = self.n_labels + 1
        columns = previous.T + n_symbols * np.arange(order)
        n_columns = n_values + n_symbols * order
        if n * n_columns * windows.dtype.itemsize <= MAX_DENSE_BYTES:
            table = np.zeros((n, n_columns), dtype=windows.dtype)
            table[:, :n_values] = windows.toarray()
            table[np.arange(n)[:, np.newaxis], n_values + columns] = 1
            return table
        ones = np.ones(columns.size, dtype=windows.dtype)
        starts = order * np.arange(n + 1)
        labels = sparse.csr_array((ones, columns.ravel(), starts), (n, n_symbols * order))
        return sparse.hstack([windows, labels], format="csr")


# Beam search, as in `treecrf.chains.local._search`; each step scores a position of all sequences


def beam_search(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    offsets: np.ndarray,
    n_labels: int,
    order: int,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the codes and log-probabilities of the most probable label sequences by a beam search.

    Label sequences with the same last ``order`` labels have the same future, so that only the best
    of them is kept. If the beam holds all contexts, this is the Viterbi algorithm.

    ``step(positions, previous)`` returns the log-probability (n, n_labels) of each label at some
    positions after the ``previous`` labels, uint8 (order, n) with ``n_labels`` for none.
    """
    # Longest first, so that the sequences that have not ended yet are the first n.
    by_length = np.argsort(-np.diff(offsets), kind="stable")
    starts = offsets[:-1][by_length]
    lengths = np.diff(offsets)[by_length]
    log_p = np.full((len(starts), width), -np.inf)
    log_p[:, 0] = 0.0
    recent = np.full((order, len(starts), width), n_labels, dtype=np.uint8)
    steps = []
    for t in range(int(lengths[0])):
        n = int(np.searchsorted(-lengths, -t))
        rows, columns = np.nonzero(log_p[:n] > -np.inf)
        values = np.full((n, width, n_labels), -np.inf)
        previous = np.ascontiguousarray(recent[:, rows, columns])
        values[rows, columns] = log_p[rows, columns, None] + step(starts[rows] + t, previous)
        parents, labels, log_p[:n] = _best(values, recent[:, :n], width)
        recent[:, :n] = np.take_along_axis(recent[:, :n], parents[None], axis=2)
        recent[1:, :n] = recent[:-1, :n].copy()
        recent[:1, :n] = labels
        steps.append((parents, labels))
    log_probabilities = np.zeros(len(starts))
    log_probabilities[by_length] = log_p[:, 0]
    return _trace(steps, starts, lengths), log_probabilities


def _best(
    values: np.ndarray, recent: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the best continuations, at most one per next context: parents, labels and values."""
    n, n_parents, n_labels = values.shape
    contexts = np.zeros((n, n_parents), dtype=int)
    if len(recent) > 1:
        columns = recent[:-1].reshape(len(recent) - 1, -1)
        contexts = np.unique(columns, axis=1, return_inverse=True)[1].reshape(n, n_parents)
    n_contexts = int(contexts.max()) + 1
    labels = np.arange(n_labels) if len(recent) else np.zeros(n_labels, dtype=np.int64)
    keys = (np.arange(n)[:, None, None] * n_contexts + contexts[:, :, None]) * n_labels + labels
    flat = values.reshape(n, -1)
    order = np.lexsort((-flat.ravel(), keys.ravel()))
    again = np.append(False, np.diff(keys.ravel()[order]) == 0)
    flat.ravel()[order[again]] = -np.inf
    best = np.argsort(-flat, axis=1, kind="stable")[:, :width]
    parents, chosen = np.divmod(best, n_labels)
    return parents, chosen, np.take_along_axis(flat, best, axis=1)


def _trace(steps: list, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Trace the best label sequences back from their ends."""
    codes = np.zeros(int(lengths.sum()), dtype=np.int32)
    current = np.zeros(len(starts), dtype=np.int64)
    for t in range(len(steps) - 1, -1, -1):
        parents, labels = steps[t]
        rows = np.arange(len(parents))
        codes[starts[rows] + t] = labels[rows, current[rows]]
        current[rows] = parents[rows, current[rows]]
    return codes
