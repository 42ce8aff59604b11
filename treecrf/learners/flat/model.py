"""Flat models: boosted models as weighted conjunctions of tests."""

from __future__ import annotations

import copy
import numbers
import sys
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.classifier import PREDICTION_PARAMETERS, SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.learner import SequenceLearner, names_in
from treecrf.learners.base.saving import estimator_state, restored_estimator
from treecrf.learners.boosted.base import ONE_OUTPUT, BoostedSequenceClassifier
from treecrf.learners.boosted.chains import ForestChain
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.flat.export import NOTHING, FlatExports, FlatForest, FlatTables, Pruned, prune
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.learners.local.memm import TreeMEMM
from treecrf.learners.local.windows import (
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
)
from treecrf.trees.explain.conjunctions import WeightedConjunctions
from treecrf.trees.forest import Forest, with_transitions_as_trees
from treecrf.utils import model_file
from treecrf.utils.typing import CostMatrix, Decoding, LabelsLike, SequencesLike, Transitions
from treecrf.utils.validation import Interval, StrOptions, documented_as

# Models that can be flattened, by the names in saved models.
FLATTENABLE: dict[str, type[BoostedSequenceClassifier]] = {
    kind.__name__: kind
    for kind in (
        TreeCRF,
        TreeMEMM,
        FutureFeatureMEMM,
        SlidingWindowClassifier,
        RecurrentSlidingWindowClassifier,
    )
}


@documented_as(SequenceLearner)
@dataclass(kw_only=True, eq=False, repr=False)
class FlatModel(FlatExports, SequenceClassifier, auto_wrap_output_keys=None):
    """A boosted model as weighted conjunctions of window tests.

    `flatten` creates flat models. A leaf of a tree is a rule: if certain tests of the window have
    certain outcomes, and the previous labels belong to a certain set, add a value to the score of a
    label. In a flat model, all leaves with the same window tests form one conjunction. Tests that
    other tests imply are left out. A conjunction has one weight for each label and each set of
    previous labels that occurs in its leaves.

    The scores are those of the trees, bit for bit, so a flat model predicts the same as the
    original model. It is also a transformer: the conjunctions that hold at each position
    (`transform`) are features for any other model.

    Parameters
    ----------
    decoding : str, default="marginal"
        How `predict` chooses labels. It is initially that of the flattened model, and takes the
        same values.
    beam_width : int or None, default=None
        Beam width in prediction, if the flattened model has one.
    transitions : str, dict, bool array-like or None, default=None
        Which labels may follow each other in decoding, if the labels of the flattened model depend
        on previous labels. It takes the same values as in the flattened model.

    Attributes
    ----------
    n_conjunctions_ : int
        Number of distinct conjunctions.
    n_weights_ : int
        Number of weights of all conjunctions. Each belongs to a label and a set of previous labels.
    pruned_ : Pruned
        What `prune` has removed, with bounds on the changes of scores and probabilities.

    See Also
    --------
    flatten : Creates a flat model.
    LinearCRF : Takes a flat model as ``attributes``.

    Notes
    -----
    A conjunction either holds at a position or not, unless a value that a test needs is missing.
    With ``missing="weighting"`` or ``"surrogate"``, each tree handles such a position in its own
    way. The model therefore keeps the trees and scores these positions with them, and `transform`
    returns the mean, over the leaves of a conjunction, of the fraction of the position that reaches
    each leaf.

    A flat model is not trained: `fit` does nothing, and scikit-learn's ``clone`` returns a fitted
    copy.

    References
    ----------
    .. [1] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import TreeCRF, flatten
    >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
    >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
    >>> flat.predict(["nab"])[0].tolist()
    ['c', 'v', 'c']
    >>> flat.get_feature_names_out().tolist()
    ["symbol is 'a'", "not symbol is 'a'"]
    >>> flat.transform(["nab"])[0].toarray()
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk", "greedy", "beam"})],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left"), None],
    }

    decoding: Decoding = "marginal"
    beam_width: int | None = None
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    n_jobs: int | None = None

    def __sklearn_clone__(self) -> FlatModel:
        return copy.copy(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(self, X: SequencesLike | None = None, y: LabelsLike | None = None) -> Self:
        """Do nothing, because the model was trained before it was flattened.

        Parameters
        ----------
        X : object, optional
            Ignored.
        y : object, optional
            Ignored.

        Returns
        -------
        self : FlatModel
            The unchanged model.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        """
        check_is_fitted(self, "classes_")
        return self

    def _adopt(self, model: BoostedSequenceClassifier, forest: Forest, pruned: Pruned) -> FlatModel:
        """Set the fitted attributes: the flat form of a model, with the leaf values of a forest."""
        fitted = fitted_model(model)
        encoder = fitted.chain.encoder
        self._model = copy.copy(model)
        self._model._forest = forest
        self._flat_forest = FlatForest(forest, encoder)
        self._tables = FlatTables(self._flat, encoder, model.classes_, fitted.chain.is_backward)
        self._columns = fitted.predictor.columns
        self._n_unlabeled = fitted.n_unlabeled
        self.pruned_ = pruned
        self.classes_ = model.classes_
        self.n_features_in_ = model.n_features_in_
        self.n_conjunctions_ = len(self._flat)
        self.n_weights_ = len(self._flat.weights)
        vars(self).update(names_in(encoder.names))
        return self

    @property
    def _flat(self) -> WeightedConjunctions:
        return self._flat_forest.flat

    # Prediction

    def _chain(self) -> ForestChain:
        return self._updated()._chain()

    def _updated(self) -> BoostedSequenceClassifier:
        """Return the wrapped model, with the current parameters of this one.

        A shallow copy, because clones of a flat model share the wrapped model.
        """
        updated = copy.copy(self._model)
        names = vars(updated).keys() & set(PREDICTION_PARAMETERS)
        vars(updated).update({name: getattr(self, name) for name in names})
        return updated

    def _as_attributes(self) -> FlatAttributes:
        """Return the source of attributes for linear learners."""
        return FlatAttributes(self)

    def prune(self, tolerance: float) -> FlatModel:
        """Remove small weights, and conjunctions without any other weights.

        Parameters
        ----------
        tolerance : float
            Maximum change of the score of any label at any position in any context, at least 0. As
            many of the smallest weights are removed as this limit permits for all possible inputs.

        Returns
        -------
        FlatModel
            A smaller model. Its ``pruned_`` has the numbers of removed weights and conjunctions,
            and bounds on the changes of scores and probabilities. If a model is pruned twice, they
            add up.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ValueError
            If ``tolerance`` is not a number, or negative.

        See Also
        --------
        Pruned : Attributes of ``pruned_``.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0, second_order=False)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> small = flat.prune(0.1)
        >>> flat.n_weights_, small.n_weights_
        (8, 6)
        >>> round(small.pruned_.score_change, 3)
        0.098
        """
        check_is_fitted(self, "classes_")
        if not isinstance(tolerance, numbers.Real) or not tolerance >= 0:
            raise ValueError(f"tolerance={tolerance!r}; expected a nonnegative number")
        tolerance = float(min(tolerance, sys.float_info.max))
        forest, pruned = prune(self._flat_forest, tolerance)
        smaller = FlatModel(**self.get_params())
        smaller._adopt(self._model, forest, self.pruned_ + pruned)
        smaller._columns = self._columns
        return smaller

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        parameters, (values, arrays) = estimator_state(self._model)
        values = {
            "model": type(self._model).__name__,
            "model_parameters": parameters,
            "pruned": vars(self.pruned_),
        } | values
        return values, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> FlatModel:
        self._validate_params()
        kind = FLATTENABLE[values["model"]]
        model = restored_estimator(kind, values["model_parameters"], values, arrays)
        pruned = Pruned(**values["pruned"])
        model_file.check_counts(pruned.n_weights, pruned.n_conjunctions)
        changes = (pruned.score_change, pruned.log_probability_change)
        model_file.require(all(type(c) is float and 0 <= c < np.inf for c in changes), "bounds")
        # The conjunctions are derived from the trees.
        return self._adopt(model, fitted_model(model).chain.forest, pruned)


class FlatAttributes:
    """A source of attributes for linear learners: the conjunctions of a flat model."""

    kind: ClassVar[str] = "flat"

    # The tests of the conjunctions contain the window.
    window = (0, 0)

    def __init__(self, flat: FlatModel):
        self.flat = flat

    @property
    def schema(self) -> InputSchema:
        """Description of the training data, which all other data must match."""
        return fitted_model(self.flat).chain.schema

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return self.flat.n_conjunctions_

    def fit(self, sequences: Sequences) -> FlatAttributes:
        """Do nothing; the flat model has the conjunctions."""
        return self

    def rows(self, sequences: Sequences) -> sparse.csr_array:
        """Compute the attributes of all positions; float64 array (n_positions, n_attributes)."""
        return self.flat.matrix(sequences)

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that attributes depend on."""
        return fitted_model(self.flat).chain.reach()

    def names_at(self, offset: int) -> list[str]:
        """Return the names of the conjunctions; the only offset is 0."""
        return self.flat.get_feature_names_out().tolist()

    def starting_weights(self, classes: np.ndarray) -> np.ndarray | None:
        """Return the weights of the flat model, or None if they do not fit these labels.

        They fit if the flat model has the same labels, reads from left to right, has order 0 or 1
        and no linear start.
        """
        chain = fitted_model(self.flat).chain
        if chain.order > 1 or chain.is_backward or chain.start is not None:
            return None
        if not np.array_equal(self.flat.classes_, classes):
            return None
        return self.flat.weights()

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model."""
        values, arrays = self.flat._state()
        return values, arrays | {"classes": self.flat.classes_}

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> FlatAttributes:
        """Restore an object from its `state`."""
        return cls(FlatModel()._restore(values, arrays))


def flatten(model: BoostedSequenceClassifier) -> FlatModel:
    """Convert a model of boosted trees to weighted conjunctions of tests.

    Use the result to read or export what a model has learned, to prune it, or as features of a
    linear model.

    Parameters
    ----------
    model : estimator
        A fitted `TreeCRF`, `TreeMEMM`, `FutureFeatureMEMM`, `SlidingWindowClassifier` or
        `RecurrentSlidingWindowClassifier`, the last two without an ``estimator``.

    Returns
    -------
    FlatModel
        A model that predicts the same, with the same ``decoding``, ``transitions``, and other
        parameters of prediction.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model does not consist of boosted trees.

    See Also
    --------
    treecrf.inspection : The trees themselves, importances, and explanations.

    References
    ----------
    .. [1] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import LinearCRF, TreeCRF, flatten
    >>> X, y = ["banana", "cabana"], ["cvcvcv", "cvcvcv"]
    >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> flat = flatten(crf)
    >>> flat.predict(["nab"])[0].tolist()
    ['c', 'v', 'c']
    >>> flat.to_frame()[["conjunction", "label"]]
             conjunction label
    0      symbol is 'a'     c
    1      symbol is 'a'     v
    2  not symbol is 'a'     c
    3  not symbol is 'a'     v

    The conjunctions as attributes of a linear model:

    >>> linear = LinearCRF(attributes=flat).fit(X, y)
    >>> linear.predict(["nab"])[0].tolist()
    ['c', 'v', 'c']
    """
    kind = type(model).__name__
    if not isinstance(model, BoostedSequenceClassifier):
        raise TypeError(f"model is a {kind}; expected a model of boosted trees")
    check_is_fitted(model, "classes_")
    if not hasattr(model, "_forest"):
        wrapped = type(model.estimator_).__name__
        raise TypeError(f"model is a {kind} around {wrapped}; expected a model of boosted trees")
    parameters = model.get_params(deep=False)
    names = parameters.keys() & set(PREDICTION_PARAMETERS)
    flat = FlatModel(**{name: parameters[name] for name in names})
    model = without_constant_transitions(model)
    return flat._adopt(model, fitted_model(model).chain.forest, NOTHING)


def without_constant_transitions(model: BoostedSequenceClassifier) -> BoostedSequenceClassifier:
    """Return a model of the same scores whose transitions are trees: those of a last iteration."""
    if model._forest.transitions is None:
        return model
    forest = with_transitions_as_trees(model._forest)
    copied = copy.copy(model)
    vars(copied).update(
        _forest=forest,
        n_iter_=forest.n_iter,
        constant_transitions_=False,
        multi_strategy_=ONE_OUTPUT,
        train_score_=with_last_repeated(model.train_score_),
        validation_score_=with_last_repeated(model.validation_score_),
    )
    return copied


def with_last_repeated(scores: np.ndarray) -> np.ndarray:
    """Return the scores of iterations, of which one more changes nothing."""
    return np.append(scores, scores[-1:])
