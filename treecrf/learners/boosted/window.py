"""Window classifiers: boosted trees, or any estimator of rows, without or with previous labels."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import has_fit_parameter

from treecrf.chains.beam_search import beam_search
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import previous_labels
from treecrf.encoding.columns import Vocabulary, one_hot
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.imputation import FILLED
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.memm import LocalClassifier, Scorer, TreeMEMM
from treecrf.learners.parameters import Needs
from treecrf.learners.training_data import FitArguments, LabeledSequences
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    EarlyStopping,
    InteractionCst,
    LocalDecoding,
    Missing,
    MonotonicCst,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import HasMethods, StrOptions, documented_as

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

DIRECTIONS = ("left-to-right", "right-to-left")


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
        fitted = self._feature_names(encoder.names) | self._trained_settings()
        return fitted | {
            "classes_": classes,
            "n_features_in_": encoder.n_features,
            "estimator_": self._fit_estimator(training, classes, encoder, is_weighted),
            "_encoder": encoder,
            "_order": self.order,
            "_n_unlabeled": data.n_unlabeled,
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


@documented_as(TreeMEMM)
class SlidingWindowClassifier(WindowClassifier):
    """Sliding window classifier: labels each position independently from a window of the input.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values: one-hot encoded categories, raw
        numbers, and indicators of offsets outside the sequence. If None, trees are boosted as in
        the other estimators.
    max_features : float, default=1.0
        Fraction of the windowed features considered at each node, chosen at random.
    decoding : {"marginal", "minimum_risk"}, default="marginal"
        How `predict` chooses labels: the most probable label (``"marginal"``) or the label with the
        lowest expected cost (``"minimum_risk"``).

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy of ``estimator``, if one is given; the only other fitted attributes are then
        ``classes_`` and ``n_features_in_``.

    See Also
    --------
    TreeCRF : Models the dependence of neighboring labels.
    RecurrentSlidingWindowClassifier : Also uses the labels predicted before.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from treecrf import SlidingWindowClassifier
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> model = SlidingWindowClassifier(LogisticRegression(), window=1).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'
    """

    _parameter_constraints: ClassVar[dict] = {
        **WindowClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "minimum_risk"})],
    }

    # Labels do not depend on each other.
    order = 0

    def __init__(
        self,
        estimator: Any = None,
        *,
        window: Window = 0,
        max_iter: int = 100,
        max_leaf_nodes: int = 64,
        max_depth: int | None = None,
        l2_regularization: float = 20.0,
        learning_rate: float = 0.3,
        second_order: bool = True,
        min_gain: float = 0.0,
        min_samples_leaf: int = 1,
        max_features: float = 1.0,
        max_features_per_tree: float = 1.0,
        subsample: float = 1.0,
        sampling: Literal["auto"] | float | None = "auto",
        max_examples: int | None = 300_000,
        max_bins: int = 255,
        missing: Missing = "weighting",
        categorical_features: CategoricalFeatures = "from_dtype",
        monotonic_cst: MonotonicCst = None,
        interaction_cst: InteractionCst = None,
        decoding: Literal["marginal", "minimum_risk"] = "marginal",
        cost_matrix: CostMatrix = None,
        early_stopping: EarlyStopping = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        scoring: Scoring = "loss",
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.window = window
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate
        self.second_order = second_order
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.subsample = subsample
        self.sampling = sampling
        self.max_examples = max_examples
        self.max_bins = max_bins
        self.missing = missing
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.decoding = decoding
        self.cost_matrix = cost_matrix
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_as(TreeMEMM)
class RecurrentSlidingWindowClassifier(WindowClassifier):
    """Recurrent sliding window classifier: its features include the previously predicted labels.

    Each position is labeled from a window of the input and the previous labels; with
    ``direction="right-to-left"``, these are the labels that follow in reading order. Training uses
    the true labels. Prediction uses the predicted labels, or sums over all possible labels,
    depending on ``decoding``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values and one-hot encoded previous
        labels; see `SlidingWindowClassifier`. If None, trees are boosted.
    direction : {"left-to-right", "right-to-left"}, default="left-to-right"
        Direction in which the sequence is labeled. ``window`` always counts positions in reading
        order, from left to right.
    decoding : {"marginal", "viterbi", "minimum_risk", "greedy", "beam"}, default="greedy"
        How `predict` chooses labels: the most probable label of each position (``"marginal"``), the
        most probable label sequence (``"viterbi"``), or the label with the lowest expected cost at
        each position (``"minimum_risk"``); ``"greedy"`` takes the best label at one position after
        another, and ``"beam"`` keeps the ``beam_width`` best label sequences. The last two need not
        score all contexts, so they suit many labels and high orders.
    transitions : str, bool array-like or None, default=None
        Which labels may follow each other, in training and in decoding: the rules of a tagging
        scheme for tags like ``B-X``, ``I-X`` and ``O`` (``"bio"`` or ``"iob2"``, ``"iob1"``,
        ``"ioe2"``, ``"bioes"`` or ``"iobes"``, ``"bilou"``), or a matrix of shape (n_classes,
        n_classes) with a row for each previous label, in the order of ``classes_``. An optional
        extra row marks the labels that may come first. Rows and columns follow the reading order
        from left to right, whatever the ``direction``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy of ``estimator``, if one is given; the only other fitted attributes are then
        ``classes_`` and ``n_features_in_``.

    See Also
    --------
    TreeMEMM : The same model from left to right, with exact decoding by default.

    References
    ----------
    .. [1] G. Bakiri, T. G. Dietterich, "Achieving high-accuracy text-to-speech with machine
       learning", in R. Damper (ed.), Data Mining Techniques in Speech Synthesis, 2001.

    Examples
    --------
    >>> from treecrf import RecurrentSlidingWindowClassifier
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> model = RecurrentSlidingWindowClassifier(max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'
    """

    _parameter_constraints: ClassVar[dict] = {
        **WindowClassifier._parameter_constraints,
        "direction": [StrOptions(set(DIRECTIONS))],
    }
    _fitted: ClassVar[tuple[str, ...]] = (*WindowClassifier._fitted, "_direction")

    def __init__(
        self,
        estimator: Any = None,
        *,
        direction: Literal["left-to-right", "right-to-left"] = "left-to-right",
        order: int = 1,
        window: Window = 0,
        max_iter: int = 100,
        max_leaf_nodes: int = 64,
        max_depth: int | None = None,
        l2_regularization: float = 20.0,
        learning_rate: float = 0.3,
        second_order: bool = True,
        min_gain: float = 0.0,
        min_samples_leaf: int = 1,
        max_features: float = 1.0,
        max_features_per_tree: float = 1.0,
        subsample: float = 1.0,
        sampling: Literal["auto"] | float | None = "auto",
        max_examples: int | None = 300_000,
        max_bins: int = 255,
        missing: Missing = "weighting",
        categorical_features: CategoricalFeatures = "from_dtype",
        monotonic_cst: MonotonicCst = None,
        interaction_cst: InteractionCst = None,
        decoding: LocalDecoding = "greedy",
        beam_width: int = 10,
        cost_matrix: CostMatrix = None,
        transitions: Transitions = None,
        early_stopping: EarlyStopping = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        scoring: Scoring = "loss",
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.direction = direction
        self.order = order
        self.window = window
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate
        self.second_order = second_order
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.subsample = subsample
        self.sampling = sampling
        self.max_examples = max_examples
        self.max_bins = max_bins
        self.missing = missing
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.decoding = decoding
        self.beam_width = beam_width
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _window(self) -> tuple[int, int]:
        left, right = super()._window()
        return (right, left) if self._is_backward() else (left, right)

    def _is_backward(self) -> bool:
        return self.direction == "right-to-left"

    @property
    def _trained_backward(self) -> bool:
        return self._direction == "right-to-left"

    def _trained_settings(self) -> dict[str, Any]:
        return {"_direction": self.direction}

    def _fixed_settings(self) -> dict[str, Any]:
        # A change of direction also mirrors the window, so it comes first.
        return {"direction": self._direction} | super()._fixed_settings()

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        return values | {"direction": self._direction}, arrays

    def _restore(
        self, values: dict, arrays: dict[str, np.ndarray]
    ) -> RecurrentSlidingWindowClassifier:
        self._direction = values["direction"]
        if self._direction not in DIRECTIONS:
            raise ValueError(f"unknown direction {self._direction!r}")
        return super()._restore(values, arrays)
