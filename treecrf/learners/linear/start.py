"""The linear model that trees start from; see `treecrf.learners.boosted.selection`."""

from __future__ import annotations

import copy
from collections import ChainMap
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from treecrf.chains.partial_labels import completed
from treecrf.chains.transitions import as_transitions, check_labels
from treecrf.encoding.encoded import widest
from treecrf.learners.base.reading import draw_seed
from treecrf.learners.base.saving import estimator_state, restored_estimator
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.base import linear_model, with_model
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.model import LinearModel, Weights
from treecrf.utils import model_file
from treecrf.utils.exact import rounded_leaves

# Training


def own_start(**parameters: Any) -> LinearCRF:
    """Make a linear model that need not converge, and whose penalty grows with the data."""
    linear = LinearCRF(**parameters)
    linear._is_start = True
    return linear


def fitted_to(linear: LinearCRF, data: TrainingInput, n_jobs: int | None) -> LinearCRF:
    """Fit a start, or a copy of another model, to data which another estimator has read."""
    fitted = linear
    if not linear._is_start:  # a model of the user
        fitted = clone(linear)
        fitted._validate_params()
    seed = data.seed
    if linear.random_state is not None:
        seed = draw_seed(linear.random_state)
    training = _with_all_labels(linear, data)
    held_out = None
    if linear.solver == "lbfgs":  # It sums over the sequences in their order.
        training = training.take(np.argsort(training.hashes(0)))
    if linear.early_stopping:
        training, held_out = training.hold_out(linear.validation_fraction, seed)
    learner = copy.copy(fitted)
    if linear.n_jobs is None:
        learner.n_jobs = n_jobs
    prepared = TrainingInput(data.classes, training, held_out, seed, {})
    train = _trained_in_content_order if linear._is_start else LinearCRF._trained
    vars(fitted).update(train(learner, prepared))
    return fitted


def _trained_in_content_order(learner: LinearCRF, data: TrainingInput) -> dict:
    """Train with labels and columns in the order of their content; return the fitted attributes.

    L-BFGS magnifies the rounding errors of sums. With sums in this order, the weights do not depend
    on the order of the columns and the names of the labels.
    """
    labels = data.training.label_order(len(data.classes))
    learner.transitions = _reordered(learner.transitions, labels)
    reordered = replace(
        data, classes=data.classes[labels], training=data.training.relabeled(labels)
    )
    results = learner._trained(reordered, column_order=data.training.column_order())
    attributes = results["_attributes"]
    order = np.argsort(attributes.kept)
    weights = _in_input_order(results["_weights"], order, labels)
    attributes.kept = attributes.kept[order]
    return results | {"classes_": data.classes, "_weights": weights}


def _reordered(transitions: Any, labels: np.ndarray) -> Any:
    """Return the parameter ``transitions`` for labels in another order, which concerns a matrix."""
    if transitions is None or isinstance(transitions, (str, dict)):
        return transitions
    table = np.asarray(transitions)
    starts = np.arange(len(labels), len(table))
    return table[np.append(labels, starts)][:, labels]


def _in_input_order(weights: Weights, attributes: np.ndarray, labels: np.ndarray) -> Weights:
    """Return weights with the attributes in this order, and labels that were in another order."""
    ordered = weights.layout.weights()
    outside = np.arange(len(attributes), weights.layout.n_attributes)
    ordered.labels[:, :, labels] = weights.labels[np.append(attributes, outside)]
    rows = np.append(labels, len(labels))
    ordered.transitions[np.ix_(rows, labels)] = weights.transitions
    return ordered


def _with_all_labels(linear: LinearCRF, data: TrainingInput) -> LabeledSequences:
    """Return the training data with a possible label sequence where labels are unknown."""
    training = data.training
    classes = data.classes
    offsets = training.sequences.offsets
    if training.candidates is None:
        check_labels(linear.transitions, linear.order, classes, training.codes, offsets)
        return training
    rules = as_transitions(linear.transitions, classes, linear.order)
    codes, candidates = completed(training.candidates, training.allowed, rules, classes, offsets)
    return replace(training, codes=codes, candidates=candidates)


def rounded_linear(linear: LinearCRF, share: float = 1.0) -> LinearCRF:
    """Return a copy with this share of the weights, rounded to multiples of ``LEAF_UNIT``.

    It cuts numbers to their ranges in training.
    """
    model = linear_model(linear)
    attributes = model.attributes
    if isinstance(attributes, WindowAttributes):
        attributes = attributes.with_ranges()
    rounded = Weights(model.weights.layout, rounded_leaves(share * model.weights.vector))
    return with_model(linear, LinearModel(attributes, rounded))


# Saved models


def saved_start(linear: LinearCRF) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the contents of a saved model: values for JSON, and arrays."""
    parameters, (values, arrays) = estimator_state(linear)
    return {"parameters": parameters} | values, arrays


def restored_start(values: dict, arrays: dict[str, np.ndarray], classes: np.ndarray) -> LinearCRF:
    """Restore a model from its `saved_start`; ValueError if the contents do not fit together."""
    arrays = ChainMap({"classes": classes}, arrays)
    linear = restored_estimator(LinearCRF, values["parameters"], values, arrays)
    model_file.require(not values["transition_features"], "start")
    return linear


# Averages


def mean_start(estimators: list[LinearCRF]) -> LinearCRF:
    """Average the weights of linear models; ValueError if their attributes differ."""
    models = _equally_wide([linear_model(estimator) for estimator in estimators])
    estimators = [with_model(*pair) for pair in zip(estimators, models, strict=True)]
    names = estimators[0].get_attribute_names()
    scales = _scales_of(models[0])
    for estimator, model in zip(estimators[1:], models[1:], strict=True):
        if not np.array_equal(estimator.get_attribute_names(), names):
            raise ValueError("init_: the linear models have different attributes")
        if _scales_of(model) != scales:
            raise ValueError("init_: the linear models standardize or cut numbers differently")
    mean = sum(model.weights.vector for model in models) / len(models)
    weights = Weights(models[0].weights.layout, mean)
    return rounded_linear(with_model(estimators[0], LinearModel(models[0].attributes, weights)))


def _equally_wide(models: list[LinearModel]) -> list[LinearModel]:
    """Return models with one window, if theirs are cut to different sequences."""
    sources = [model.attributes for model in models]
    if not all(isinstance(source, WindowAttributes) for source in sources):
        return models
    if len({source.max_window for source in sources}) > 1:
        return models
    window = widest(*(source.window for source in sources))
    return [model.widened(window) for model in models]


def _scales_of(model: LinearModel) -> list[list | None]:
    """Return how a model standardizes and cuts numbers, in a form that can be compared."""
    source = model.attributes
    if not isinstance(source, WindowAttributes):
        return []
    arrays = [source.ranges]
    if source.standardization is not None:
        arrays += [source.standardization.shifts, source.standardization.exponents]
    return [None if array is None else array.tolist() for array in arrays]
