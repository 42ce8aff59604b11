"""The maximum-entropy Markov model of boosted trees."""

from __future__ import annotations

from typing import Literal

from treecrf.learners.boosted.local import LocalClassifier
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


class TreeMEMM(LocalClassifier):
    """Maximum-entropy Markov model trained by gradient tree boosting.

    The probability of a label, given the input and the previous labels, is a softmax of boosted
    trees. They are trained with the true previous labels, which needs no inference and is therefore
    faster than training a `TreeCRF`. However, evidence at a position cannot change the
    probabilities of earlier labels (the label bias problem), which often costs accuracy.

    Parameters
    ----------
    order : int, default=1
        Number of previous labels that a label depends on.
    window : int or (int, int), default=0
        Number of positions to the left and to the right whose features the trees can use.
        Offsets outside of all training sequences are left out.
    max_iter : int, default=100
        Number of boosting iterations, each with one tree per label.
    max_leaf_nodes : int, default=64
        Maximum number of leaves per tree. Trees grow best-first.
    max_depth : int or None, default=None
        Maximum number of tests from the root of a tree to a leaf, including tests of previous
        labels. None is no limit.
    l2_regularization : float, default=20.0
        Shrinkage of the leaf values, as a number of imaginary examples with target 0 in each leaf.
        With ``second_order``, it is added to the sum of their curvature.
    learning_rate : float, default=0.3
        Factor by which the leaf values of each tree are multiplied.
    second_order : bool, default=True
        Whether to use Newton boosting: leaf values are divided by the curvature of the likelihood
        instead of the number of examples.
    min_gain : float, default=0.0
        Minimum reduction of the squared error by a split.
    min_samples_leaf : int, default=1
        Minimum number of positions in each child.
    max_features : float, default=1.0
        Fraction of the windowed features considered at each node, chosen at random. Previous labels
        are always considered.
    max_features_per_tree : float, default=1.0
        Fraction of the windowed features that each tree may test, chosen at random. With many
        features, a small fraction saves time.
    subsample : float, default=1.0
        Fraction of the training sequences used in each iteration, chosen at random.
    sampling : "auto", float or None, default="auto"
        Which examples each tree is fitted to. With a float, examples with an absolute residual of
        at least this value are always used. The others are used with a probability proportional to
        their residual, and weighted by the inverse, so that all sums are unbiased. None uses all
        examples. ``"auto"`` is 0.1 for at least a million examples, or at least 80 per position,
        and otherwise None.
    max_examples : int or None, default=300_000
        Maximum number of examples per iteration, on average, if they are sampled. The threshold of
        ``sampling`` is raised accordingly. None is no limit.
    max_bins : int, default=255
        Maximum number of quantile bins per numeric feature. There are fewer bins, but at least 16,
        if they would hold fewer than 16 training positions on average.
    missing : {"weighting", "surrogate", "impute", "indicator"}, default="weighting"
        How missing values are handled. ``"weighting"`` sends the position to both children of a
        test, with part of its weight to each. ``"surrogate"`` uses the test that agrees best with
        it. ``"impute"`` fills in the mean of numeric features and the most common value of all
        others. ``"indicator"`` sets the value to 0 and adds a boolean feature that marks it as
        missing.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns of tables are categorical: those with strings or a categorical dtype
        (``"from_dtype"``); a list of column names or indices; a boolean mask; or none of them
        (None).
    monotonic_cst : array-like of int of shape (n_features,), dict or None, default=None
        Monotonic constraints: 1 for features whose higher values may only raise the score of the
        second of two labels in ``classes_``, -1 for features whose higher values may only lower it,
        and 0 for all others. They hold at each offset of the window. A dict has the signs of some
        features, by name or index; with more than two labels, each is a dict of signs by label.
        Only for numbers and booleans. Positions that lack the value are not ordered.
    interaction_cst : {"pairwise", "no_interactions"}, list of lists or None, default=None
        Sets of features, by name or index, that may interact: a branch of a tree tests features of
        one set only, at any offsets. Features in no set form another set. ``"pairwise"`` stands for
        all pairs, ``"no_interactions"`` for single features. Previous labels may always be tested.
    decoding : {"marginal", "viterbi", "minimum_risk", "greedy", "beam"}, default="marginal"
        How `predict` chooses labels: the most probable label of each position (``"marginal"``), the
        most probable label sequence (``"viterbi"``), or the label with the lowest expected cost at
        each position (``"minimum_risk"``); ``"greedy"`` takes the best label at one position after
        another, and ``"beam"`` keeps the ``beam_width`` best label sequences. The last two need not
        score all contexts, so they suit many labels and high orders.
    beam_width : int, default=10
        Number of label sequences that ``decoding="beam"`` keeps.
    cost_matrix : array-like of shape (n_classes, n_classes), dict or None, default=None
        Cost of predicting a label (column) when another is true (row), for
        ``decoding="minimum_risk"``; or a dict of the costs of pairs (true, predicted), where all
        other errors cost 1.
    transitions : str, bool array-like or None, default=None
        Which labels may follow each other, in training and in decoding: the rules of a tagging
        scheme for tags like ``B-X``, ``I-X`` and ``O`` (``"bio"`` or ``"iob2"``, ``"iob1"``,
        ``"ioe2"``, ``"bioes"`` or ``"iobes"``, ``"bilou"``), or a matrix of shape (n_classes,
        n_classes) with a row for each previous label, in the order of ``classes_``. An optional
        extra row marks the labels that may come first.
    early_stopping : "auto" or bool, default="auto"
        Whether to stop when the score of the validation sequences has not improved by ``tol`` for
        ``n_iter_no_change`` iterations. The model keeps the iterations up to the best. With
        ``"auto"`` and without validation data, cross-validation chooses the number of iterations,
        and then all sequences are used for training. A fold holds out a fifth of the positions, but
        at most 3,000, or a twentieth if that is more. There are two folds if one holds out fewer
        than 600 positions or 10 sequences. Above 100,000 positions, this is done on a sample of the
        sequences. Sequences that are too long for a fold are cut into blocks for it. All iterations
        are run with fewer than 200 training positions, and in a warm start.
    validation_fraction : float, default=0.1
        Fraction of the training sequences held out for early stopping.
    n_iter_no_change : int, default=10
        Number of iterations without improvement before training stops; half as many in
        cross-validation.
    tol : float, default=1e-4
        Minimum increase of the score that counts as an improvement, in the units of
        ``validation_score_``.
    scoring : str or callable, default="loss"
        Score of the validation sequences in ``validation_score_``, for early stopping: the
        objective of training (``"loss"``), the mean log-likelihood per position
        (``"log_likelihood"``), the mean logarithm of the marginal probability of the true label
        (``"neg_log_loss"``), ``"accuracy"``, another name in `treecrf.metrics.SCORERS`, a scorer of
        that module, or a function of the lists of true and predicted label sequences. Higher is
        better. Labels are predicted as by `predict`.
    warm_start : bool, default=False
        Whether `fit` adds iterations to the previously fitted model, up to ``max_iter`` in total.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. In tree fitting, each position has the weight of its true label; the
        reported likelihoods are unweighted.
    n_jobs : int, default=None
        Number of threads; -1 uses all processors. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices: validation sequences, subsamples, features.
    verbose : int, default=0
        Whether to show progress (1) or not (0).

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    n_iter_ : int
        Number of boosting iterations of the model.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each iteration.
    validation_score_ : float array
        The same for the validation sequences, or their ``scoring``; empty without them.
    evals_result_ : dict
        Scores of the sets in ``eval_set``: for each set, ``"valid_0"`` and so on, a dict of float
        arrays of shape ``(n_iter_ + 1,)``, the ``"objective"`` and the metric of ``scoring``.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Fraction of the total gain of all splits that is due to each feature, over all offsets.
    n_features_in_ : int
        Number of features; 1 for symbols.
    feature_names_in_ : array of shape ``(n_features_in_,)``
        Names of the features, if the sequences are data frames or dicts.

    See Also
    --------
    TreeCRF : Probabilities normalized over whole label sequences.
    RecurrentSlidingWindowClassifier : The same model in either direction, or with any estimator.

    References
    ----------
    .. [1] A. McCallum, D. Freitag, F. Pereira, "Maximum entropy Markov models for information
       extraction and segmentation", ICML 2000.
    .. [2] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import TreeMEMM
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> memm = TreeMEMM(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(memm.predict(["bacan"])[0])
    'cvcvc'
    """

    def __init__(
        self,
        *,
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
        decoding: LocalDecoding = "marginal",
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
