"""Averages of models with boosted trees."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.encoded import widest
from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.base import BoostedSequenceClassifier, feature_importances
from treecrf.learners.boosted.chains import ForestChain
from treecrf.learners.linear.start import mean_start
from treecrf.trees.forest import Forest


def average(models: Sequence[BoostedSequenceClassifier]) -> BoostedSequenceClassifier:
    """Average the scores of models into one model.

    Models that differ only in their random choices make different errors, and the mean of their
    scores is often better than each of them. The result is an ordinary model. It has the trees of
    all models, with their values divided by the number of models.

    Parameters
    ----------
    models : list of estimators
        Fitted models of the same class with boosted trees. They were trained on the same sequences
        with the same ``window``, ``order``, ``missing``, ``max_bins`` and ``objective``. They may
        differ in ``random_state``, the number of trees, and other parameters of training. They may
        also differ in the size of trees, unless ``max_bins="auto"`` follows from it.

    Returns
    -------
    estimator
        A fitted model of the same class, with the parameters of the first model.

        - Its ``n_iter_`` is the sum of those of all models, whose iterations take turns.
        - Its ``train_score_`` is NaN, because the mean has not been evaluated, and its
          ``validation_score_`` is empty.
        - The scores of each model have already been divided by its ``temperature_``. That of the
          mean is 1.

    Raises
    ------
    NotFittedError
        If a model is not fitted.
    TypeError
        If the models are not of one class, or have no boosted trees.
    ValueError
        If there are no models, or they differ in something that they must share.

    See Also
    --------
    TreeCRF : Conditional random field with boosted trees.
    treecrf.load : Load a saved model.

    Notes
    -----
    For a conditional random field, the mean of the scores gives the normalized geometric mean of
    the distributions over label sequences.

    Examples
    --------
    >>> import treecrf
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> settings = {"window": 1, "max_iter": 5, "max_features": 0.5, "l2_regularization": 1.0}
    >>> models = [treecrf.TreeCRF(**settings, random_state=s).fit(X, y) for s in range(3)]
    >>> mean = treecrf.average(models)
    >>> mean.n_iter_
    15
    >>> "".join(mean.predict(["bacan"])[0])
    'cvcvc'
    """
    models = list(models)
    if not models:
        raise ValueError("models is empty; expected at least one")
    for i, model in enumerate(models):
        _check_model(i, model, models[0])
    chains = [fitted_model(model).chain for model in models]
    window = widest(*(chain.encoder.window for chain in chains))
    encoder = chains[0].encoder.with_window(window)
    forest = _mean_forest([chain.forest for chain in chains])
    mean = copy.copy(models[0])
    vars(mean).update(
        _forest=forest,
        n_iter_=forest.n_iter,
        train_score_=np.full(forest.n_iter + 1, np.nan),
        validation_score_=np.zeros(0),
        evals_result_={},
        feature_importances_=feature_importances(forest, encoder),
        _encoder=encoder,
    )
    if hasattr(mean, "temperature_"):
        mean.temperature_ = 1.0
    if chains[0].start is not None:
        mean.init_ = mean_start([model.init_ for model in models])
    return mean


def _mean_forest(forests: list[Forest]) -> Forest:
    """Return the trees of all forests, by iteration, with their values divided by the number."""
    is_multi_output = all(forest.is_multi_output for forest in forests)
    if not is_multi_output:
        forests = [forest.one_output_per_tree() for forest in forests]
    forests = [forest.divided(len(forests)) for forest in forests]
    first = forests[0]
    n_trees = first.n_trees
    has_transitions = first.transitions is not None
    mean = Forest(first.n_labels, first.order, has_transitions, is_multi_output)
    for iteration in range(max(forest.n_iter for forest in forests)):
        for forest in forests:
            trees = slice(iteration * n_trees, (iteration + 1) * n_trees)  # none after the last
            mean.trees += forest.trees[trees]
            if has_transitions and iteration < forest.n_iter:
                mean.transitions.append(forest.transitions[iteration])
    return mean


def _check_model(i: int, model: Any, first: Any) -> None:
    """Raise an error unless a model can be averaged with the first one."""
    if not isinstance(model, BoostedSequenceClassifier):
        raise TypeError(f"model {i} is a {type(model).__name__}; expected a model of boosted trees")
    check_is_fitted(model, "classes_")
    fitted = fitted_model(model)
    chain = fitted.chain
    if not isinstance(chain, ForestChain):
        raise TypeError(f"model {i} wraps another estimator; expected a model of boosted trees")
    if type(model) is not type(first):
        raise TypeError(
            f"model {i} is a {type(model).__name__}; expected a {type(first).__name__}, as model 0"
        )
    first_fitted = fitted_model(first)
    first_chain = first_fitted.chain
    has_transitions = chain.forest.transitions is not None
    first_has_transitions = first_chain.forest.transitions is not None
    is_shared = {
        "labels": model.classes_.tolist() == first.classes_.tolist(),
        "order": chain.order == first_chain.order,
        "direction": chain.is_backward == first_chain.is_backward,
        "objective": fitted.objective == first_fitted.objective,
        "window": chain.encoder.max_window == first_chain.encoder.max_window,
        "columns": _have_equal_columns(chain.encoder, first_chain.encoder),
        "linear start": (chain.start is None) == (first_chain.start is None),
        "constant transitions": has_transitions == first_has_transitions,
    }
    for name, is_equal in is_shared.items():
        if not is_equal:
            raise ValueError(
                f"models 0 and {i} differ in {name}; expected models trained on the same sequences "
                "with the same settings"
            )


def _have_equal_columns(one: Encoder, other: Encoder) -> bool:
    """Return whether encoders have the same state, however their windows are cut."""
    values, arrays = one.state()
    other_values, other_arrays = other.state()
    del values["window"], other_values["window"]
    return (
        values == other_values
        and arrays.keys() == other_arrays.keys()
        and all(_equal(array, other_arrays[name]) for name, array in arrays.items())
    )


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
