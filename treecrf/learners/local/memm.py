"""Local models of boosted trees, which are normalized at each position."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.local.chains import LocalChain, LocalForestChain
from treecrf.learners.local.kind import LocalKind
from treecrf.learners.local.saved import ALTERNATIVE, search_width
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
from treecrf.utils.validation import Interval, Needs, StrOptions, documented_as


class LocalClassifier(BoostedSequenceClassifier):
    """Base of the models of P(label | input, previous labels), normalized at each position.

    Training uses the true previous labels and needs no inference. Positions whose label or previous
    labels are not known have weight 0 in it. Prediction either sums over the previous labels or
    follows its own predictions.
    """

    _alternative: ClassVar[str] = ALTERNATIVE
    _parameter_constraints: ClassVar[dict] = {
        **BoostedSequenceClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk", "greedy", "beam"})],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    _needed: ClassVar[dict[str, Needs]] = BoostedSequenceClassifier._needed | {
        "beam_width": Needs("decoding", ("beam",))
    }

    def _kind(self) -> LocalKind:
        return LocalKind(
            name=type(self).__name__,
            order=self.order,
            transitions=self.transitions,
            has_curvature=bool(self.second_order),
            is_backward=self.direction == "right-to-left",
        )

    def _chain(self) -> LocalChain:
        return LocalForestChain(**self._forest_settings(), width=self._search_width())

    def _search_width(self) -> int | None:
        """Return the number of label sequences that prediction follows; None if it sums."""
        return search_width(vars(self))

    def _label_rules(self) -> LabelRules:
        return replace(super()._label_rules(), uses_known_examples=True)


@documented_as(
    TreeCRF, without=["init_", "constant_transitions_", "multi_strategy_", "temperature_"]
)
@dataclass(kw_only=True, eq=False, repr=False)
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
    second_order : bool, default=True
        Whether to use Newton boosting: leaf values are divided by the curvature of the likelihood
        instead of the number of examples.
    min_samples_leaf : int, default=1
        Minimum number of positions in each child.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. When trees are fitted, each position has the weight of its true
        label; the reported likelihoods are not weighted.
    verbose : int, default=0
        Whether to show progress (1) or not (0).

    Decoding

    decoding : {"marginal", "viterbi", "minimum_risk", "greedy", "beam"}, default="marginal"
        How `predict` chooses labels:

        - ``"marginal"``: the most probable label of each position;
        - ``"viterbi"``: the most probable label sequence;
        - ``"minimum_risk"``: the label with the lowest expected cost at each position;
        - ``"greedy"``: the best label at one position after another;
        - ``"beam"``: the best label sequence among ``beam_width`` that are kept.

        The last two do not score all contexts, so they suit many labels and high orders.
    beam_width : int, default=10
        Number of label sequences that ``decoding="beam"`` keeps.

    Stopping

    scoring : str or callable, default="loss"
        Score of the validation sequences (``validation_score_``), by which early stopping chooses
        the number of iterations, and cross-validation also the model: the objective of training
        (``"loss"``) or any other ``scoring`` of `TreeCRF` but ``"auto"``. Higher is better.

    Attributes
    ----------
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each iteration.
    validation_score_ : float array
        The ``scoring`` of the validation sequences; empty without them.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Fraction of the total gain of all splits that is due to each feature, over all offsets.

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

    order: int = 1
    window: Literal["auto"] | Window = 0
    max_iter: Literal["auto"] | int = "auto"
    max_leaf_nodes: Literal["auto"] | int = 64
    max_depth: int | None = None
    l2_regularization: float = 20.0
    learning_rate: float = 0.3
    second_order: bool = True
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    sampling: Literal["auto"] | float | None = "auto"
    max_examples: Literal["auto"] | int | None = "auto"
    max_bins: Literal["auto"] | int = "auto"
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    monotonic_cst: MonotonicCst = None
    interaction_cst: InteractionCst = None
    decoding: LocalDecoding = "marginal"
    beam_width: int = 10
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    early_stopping: EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    scoring: Scoring = "loss"
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0
