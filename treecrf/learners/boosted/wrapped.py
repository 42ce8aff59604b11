"""Base class of the window classifiers, which can wrap any estimator in place of boosted trees."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import has_fit_parameter

from treecrf.chains.beam_search import beam_search
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import previous_labels
from treecrf.encoding.categories import Vocabulary, one_hot
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.imputation import FILLED
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.local import LocalClassifier, Scorer
from treecrf.learners.parameters import Needs
from treecrf.learners.training_data import FitArguments, LabeledSequences
from treecrf.utils.threads import Threads
from treecrf.utils.validation import HasMethods

# A probability of 0 from an estimator is replaced by this one.
MIN_PROBABILITY = 1e-12
# Parameters of boosted trees, without effect on other estimators.
OF_TREES = (
    "max_iter", "max_leaf_nodes", "max_depth", "l2_regularization", "learning_rate",
    "second_order", "min_gain", "min_samples_leaf", "max_features", "max_features_per_tree",
    "subsample", "sampling", "max_examples", "validation_fraction", "n_iter_no_change", "tol",
)  # fmt: skip
# Number of rows that an estimator predicts in about the time that a call takes in addition.
ROWS_OF_CALL = 500
# Larger tables of windows stay sparse.
MAX_DENSE_BYTES = 1 << 30


class WindowClassifier(LocalClassifier):
    """Base of the window classifiers: boosted trees, or any estimator of rows.

    With an ``estimator``, each position is one row of numbers (see `WindowTable`). Such a model has
    an attribute ``estimator_`` and no trees.
    """

    _parameter_constraints: ClassVar[dict] = {
        **LocalClassifier._parameter_constraints,
        "estimator": [HasMethods(["fit", "predict"]), None],
    }
    _fitted: ClassVar[tuple[str, ...]] = (*LocalClassifier._fitted, "_order")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and self.missing not in FILLED:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    @property
    def _needed(self) -> dict[str, Needs]:
        without_trees = dict.fromkeys(OF_TREES, Needs("estimator", (None,)))
        return super()._needed | ({} if self.estimator is None else without_trees)

    def _supports_parts(self) -> bool:
        return self.estimator is None

    def _train(self, arguments: FitArguments) -> dict:
        if self.estimator is None:
            return super()._train(arguments)
        self._check_unused(arguments)
        data = self._prepare(arguments)
        training, classes = data.training, data.classes
        self._kind().check_size(len(classes), len(training.codes))
        encoder = Encoder(self._window(), self.max_bins, self.missing)
        encoder.fit(training.sequences)
        is_weighted = arguments.raw.sample_weight is not None
        return self._feature_names(encoder.names) | {
            "classes_": classes,
            "n_features_in_": encoder.n_features,
            "estimator_": self._fit_estimator(training, classes, encoder, is_weighted),
            "_encoder": encoder,
            "_order": self.order,
        }

    def _fit_estimator(
        self, training: LabeledSequences, classes: np.ndarray, encoder: Encoder, is_weighted: bool
    ) -> Any:
        """Fit a clone of the estimator to the rows of all positions whose labels are known."""
        sequences, codes, weights = training.sequences, training.codes, training.weights
        table = WindowTable(encoder, len(classes))
        previous = previous_labels(codes, sequences.offsets, len(classes), self.order)
        rows = table.rows(table.windows(sequences), previous)
        if weights is not None:  # 0 at positions whose labels are unknown
            known = np.flatnonzero(weights)
            rows, codes, weights = rows[known], codes[known], weights[known]
        options = {}
        if is_weighted:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise ValueError(
                    f"sample_weight is given, but {type(self.estimator).__name__}.fit does not "
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
        return clone(self.estimator).fit(rows, codes, **options)

    def _check_unused(self, arguments: FitArguments) -> None:
        """Raise ValueError for arguments and settings that have no effect with ``estimator``."""
        given = {
            "X_val": arguments.validation.X,
            "y_val": arguments.validation.y,
            "allowed": arguments.allowed,
            "eval_set": arguments.eval_sets or None,
            "init_score": arguments.raw.init_score,
            "callbacks": arguments.callbacks or None,
            "monotonic_cst": self.monotonic_cst,
            "interaction_cst": self.interaction_cst,
            "scoring": None if self.scoring == "loss" else self.scoring,
        }
        unused = [name for name, value in given.items() if value is not None]
        names = ("early_stopping", "warm_start", "class_weight")
        unused += [name for name in names if getattr(self, name) not in (None, False, "auto")]
        if unused:
            raise ValueError(
                f"{', '.join(unused)} cannot be used with an estimator, which trains once on all "
                "rows; it applies to boosted trees only"
            )

    @property
    def _trained_order(self) -> int:
        return self._order if hasattr(self, "estimator_") else super()._trained_order

    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        if not hasattr(self, "estimator_"):
            return super()._scores_of(sequences, threads)
        self._require_memory(sequences)
        n_labels, order = len(self.classes_), self._order
        scorer = self._scorer(sequences, threads)
        every = np.arange(sequences.n_positions)
        positions = positions_in_sequences(sequences.offsets)
        lags = np.arange(order)[:, None]
        scores = np.zeros((n_labels, sequences.n_positions, n_labels**order))
        for context in range(n_labels**order):
            labels = context // n_labels**lags % n_labels
            previous = np.where(lags < positions, labels, n_labels).astype(np.uint8)
            scores[:, :, context] = scorer(every, previous)[:, :, 0]
        return scores

    def _scorer(self, sequences: Sequences, threads: Threads) -> Scorer:
        if not hasattr(self, "estimator_"):
            return super()._scorer(sequences, threads)
        table = WindowTable(self._encoder, len(self.classes_))
        windows = table.windows(sequences)

        def scores(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            rows = table.rows(windows[positions], previous)
            if hasattr(self.estimator_, "predict_proba"):
                p = self.estimator_.predict_proba(rows).astype(np.float64)
            else:
                p = np.eye(len(self.classes_))[self.estimator_.predict(rows)]
            log_p = np.log(np.maximum(p, MIN_PROBABILITY))
            return np.ascontiguousarray(log_p.T)[:, :, None]

        return scores

    def _scores_table(self, offsets: np.ndarray, n_contexts: int, width: int) -> bool:
        if not hasattr(self, "estimator_"):
            return super()._scores_table(offsets, n_contexts, width)
        # A table takes a call of the estimator for each context, and otherwise each step takes one.
        n = int(offsets[-1])
        longest = int(np.diff(offsets).max())
        return n_contexts * (n + ROWS_OF_CALL) <= longest * ROWS_OF_CALL + n * width

    def _search_contexts(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        if not hasattr(self, "estimator_"):
            return super()._search_contexts(sequences, constraints, width, threads)
        conditionals = self._conditionals(sequences, threads)

        def step(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            log_p = conditionals(positions, previous)
            constraints.forbid_given(log_p[:, :, None], previous, positions)
            return log_p.T

        order = self._trained_order
        return beam_search(step, sequences.offsets, len(self.classes_), order, width)

    def _require_iterations(self) -> None:
        if hasattr(self, "estimator_"):
            raise AttributeError(
                f"a {type(self).__name__} around {type(self.estimator_).__name__} has no boosting "
                "iterations"
            )

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        if hasattr(self, "estimator_"):
            raise TypeError(
                f"a {type(self).__name__} around {type(self.estimator_).__name__} cannot be saved "
                "in a file that loads without executing code; use joblib.dump, and load such "
                "files only from sources you trust"
            )
        return super()._state()


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
        within, lengths = positions_in_sequences(sequences.offsets), np.diff(sequences.offsets)
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
            piece = Vocabulary(columns[0].values).column(piece)
        if not columns.is_category.any():
            # float32, unless the values need more precision.
            return sparse.csr_array(piece, dtype=np.result_type(piece.dtype, np.float32))
        return one_hot(piece, np.where(columns.is_category, columns.sizes, -1))

    def rows(self, windows: sparse.csr_array, previous: np.ndarray) -> Any:
        """Append previous labels to windows; returns a dense array unless it would be too large.

        ``previous`` is a uint8 array (order, n_rows) of the label at each lag, ``n_labels`` before
        the start of the sequence.
        """
        order, (n, n_values) = len(previous), windows.shape
        n_symbols = self.n_labels + 1
        columns = previous.T + n_symbols * np.arange(order)
        n_columns = n_values + n_symbols * order
        if n * n_columns * windows.dtype.itemsize <= MAX_DENSE_BYTES:
            table = np.zeros((n, n_columns), dtype=windows.dtype)
            table[:, :n_values] = windows.toarray()
            table[np.arange(n)[:, np.newaxis], n_values + columns] = 1
            return table
        ones, starts = np.ones(columns.size, dtype=windows.dtype), order * np.arange(n + 1)
        labels = sparse.csr_array((ones, columns.ravel(), starts), (n, n_symbols * order))
        return sparse.hstack([windows, labels], format="csr")
