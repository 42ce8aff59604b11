"""The window classifier that also uses the labels it has already predicted."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from treecrf.learners.boosted.memm import TreeMEMM
from treecrf.learners.boosted.wrapped import WindowClassifier
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
from treecrf.utils.validation import StrOptions, documented_as

DIRECTIONS = ("left-to-right", "right-to-left")


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
