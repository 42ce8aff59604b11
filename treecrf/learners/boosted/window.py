"""The classifier that labels each position by its window alone."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from treecrf.learners.boosted.memm import TreeMEMM
from treecrf.learners.boosted.wrapped import WindowClassifier
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    EarlyStopping,
    InteractionCst,
    Missing,
    MonotonicCst,
    RandomState,
    Scoring,
    Window,
)
from treecrf.utils.validation import StrOptions, documented_as


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
