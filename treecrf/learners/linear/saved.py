"""Linear models in model files: what an estimator has learned, and its chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treecrf.chains.contexts import check_order
from treecrf.learners.linear.attributes import SOURCES, Attributes, WindowAttributes
from treecrf.learners.linear.chain import LinearChain
from treecrf.learners.linear.model import LinearModel, WeightLayout, Weights, are_weights
from treecrf.utils.model_file import (
    NeedsEstimator,
    Section,
    check_classes,
    check_counts,
    require,
)

# Each label depends on the previous one.
ORDER = 1


def restored_model(
    values: Mapping[str, Any], arrays: Mapping[str, np.ndarray], classes: np.ndarray
) -> LinearModel:
    """Return what an estimator has learned; ValueError if parts of the file do not fit together."""
    check_classes(classes)
    check_counts(values["order"])
    require(values["order"] == ORDER, "order")
    source = values["attributes"]
    require(source["kind"] in SOURCES, "attributes")
    attributes = SOURCES[source["kind"]].from_state(source, Section(arrays, "attributes"))
    weights = _restored_weights(
        arrays["weights"], attributes, len(classes), values["transition_features"]
    )
    return LinearModel(attributes, weights)


def _restored_weights(
    vector: np.ndarray, attributes: Attributes, n_labels: int, transition_features: bool
) -> Weights:
    """Return the weights of a saved model; raises ValueError if they do not fit the attributes."""
    check_order(n_labels, ORDER)
    require(isinstance(transition_features, bool), "weights")
    n_offsets = sum(attributes.window) + 1
    n_attributes = attributes.n_attributes + any(attributes.window)
    layout = WeightLayout(n_attributes, n_offsets, n_labels, transition_features)
    require(vector.shape == (layout.size,), "weights")
    require(vector.dtype == np.float64 and are_weights(vector), "weights")
    return layout.weights(vector)


def restored_chain(
    parameters: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> LinearChain:
    """Return the chain of a linear estimator, given its parameters."""
    if values["attributes"]["kind"] != WindowAttributes.kind:
        raise NeedsEstimator("its attributes are conjunctions or those of a transformer")
    if "kernel" in values:
        raise NeedsEstimator("it has a kernel")
    classes = arrays["classes"]
    model = restored_model(values, arrays, classes)
    return linear_chain(model, classes, parameters.get("transitions"))


def linear_chain(model: LinearModel, classes: np.ndarray, transitions: Any) -> LinearChain:
    """Return the chain of a linear model; ``transitions`` is the parameter of the estimator."""
    return LinearChain(
        schema=model.attributes.schema,
        classes=classes,
        order=ORDER,
        transitions=transitions,
        attributes=model.attributes,
        weights=model.weights,
    )
