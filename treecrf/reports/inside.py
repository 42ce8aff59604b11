"""What a model has learned: its settings, importances, transitions, and effects of features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inputs.sequences import Sequences
from treecrf.inspection import (
    gain_importance,
    partial_dependence,
    strongest_weights,
    transition_scores,
)
from treecrf.inspection.fitted import has_trees
from treecrf.inspection.scores import mean_over_further_labels
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.base import LinearSequenceClassifier

# Features of the map of importances, weights of a linear model, and labels of the matrix.
N_FEATURES = 15
N_WEIGHTS = 25
MAX_LABELS = 30
# Features whose effects are drawn, positions that they are averaged over, and values of each.
N_EFFECTS = 4
N_POSITIONS = 2000
N_VALUES = 40
# Labels of the drawn effects: those that change the most.
N_EFFECT_LABELS = 6
# Fitted attributes that say how a model was trained, if it has them.
FITTED = (
    "n_iter_",
    "window_",
    "constant_transitions_",
    "multi_strategy_",
    "temperature_",
    "n_features_in_",
)


def described_model(model: SequenceClassifier) -> dict[str, Any]:
    """Return the class of a model, the parameters that are not defaults, and what was learned."""
    defaults = type(model)().get_params(deep=False)
    parameters = model.get_params(deep=False)
    changed = {
        name: value
        for name, value in parameters.items()
        if name not in defaults or repr(value) != repr(defaults[name])
    }
    learned = {}
    for name in FITTED:
        value = getattr(model, name, None)
        if value is not None:
            learned[name] = str(value)
    return {
        "class": type(model).__name__,
        "parameters": {name: _short(value) for name, value in changed.items()},
        "learned": learned,
    }


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def gains_of_trees(model: SequenceClassifier) -> Bunch | None:
    """Return the gains of features; None without trees."""
    if not has_trees(model):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page says that a linear start is left out
        return gain_importance(model)


def importances(model: SequenceClassifier, gains: Bunch | None) -> dict[str, Any] | None:
    """Return the gains of features by offset, or the strongest weights; None for other models."""
    if isinstance(model, LinearSequenceClassifier):
        return _weights(model)
    if gains is None:
        return None
    total = gains.importances.sum(axis=1) + gains.in_bags
    order = np.argsort(-total, kind="stable")[:N_FEATURES]
    order = order[total[order] > 0]
    return {
        "features": gains.feature_names[order].tolist(),
        "offsets": np.asarray(gains.offsets).tolist(),
        "gains": np.round(gains.importances[order], 5).tolist(),
        "labels_before": float(np.sum(gains.labels_before)),
        "has_linear_start": bool(gains.linear_start),
    }


def _weights(model: LinearSequenceClassifier) -> dict[str, Any] | None:
    """Return the strongest weights of a linear model; None if it has a kernel instead."""
    try:
        weights = strongest_weights(model, N_WEIGHTS)
    except TypeError:
        return None
    return {"weights": [[str(w.label), w.condition, round(float(w.value), 4)] for w in weights]}


def transitions(model: SequenceClassifier, sequences: Sequences) -> dict[str, Any] | None:
    """Return the mean score of each label after each label; None without previous labels."""
    n_labels = len(model.classes_)
    if fitted_model(model).chain.order == 0 or not 1 < n_labels <= MAX_LABELS:
        return None
    try:
        found = transition_scores(model, _sample(sequences))
    except (ValueError, TypeError):  # no sequence is longer than the order
        return None
    table = mean_over_further_labels(found.scores)
    if table.ndim < 2:
        return None
    cells = [[round(v, 3) if np.isfinite(v) else None for v in row] for row in table.tolist()]
    return {"table": cells, "backward": bool(found.backward)}


def effects(
    model: SequenceClassifier, sequences: Sequences, gains: Bunch | None
) -> list[dict[str, Any]]:
    """Return mean probabilities by the values of the most important features."""
    if gains is None:
        return []
    sample = _sample(sequences)
    longest = int(np.diff(sample.offsets).max())
    order = np.argsort(-gains.importances.sum(axis=1), kind="stable")[:N_EFFECTS]
    found = []
    for j in order.tolist():
        if not gains.importances[j].any():
            break
        offset = int(gains.offsets[int(gains.importances[j].argmax())])
        if abs(offset) < longest:
            found.append(_effect(model, sample, j, offset))
    return found


def _effect(model: SequenceClassifier, sample: Sequences, j: int, offset: int) -> dict[str, Any]:
    """Return the mean probabilities of the labels that depend the most on a feature."""
    result = partial_dependence(model, sample, j, offset, n_values=N_VALUES)
    order = np.arange(len(result.grid_values))
    if result.is_number:
        order = np.argsort(result.grid_values, kind="stable")
    changes = np.ptp(result.average, axis=0)
    labels = np.sort(np.argsort(-changes, kind="stable")[:N_EFFECT_LABELS])
    values = result.grid_values[order].tolist()
    return {
        "name": result.feature_name,
        "n": sample.n_positions,
        "is_number": bool(result.is_number),
        "values": values if result.is_number else [str(value) for value in values],
        "labels": labels.tolist(),
        "average": np.round(result.average[order][:, labels], 4).tolist(),
    }


def _sample(sequences: Sequences) -> Sequences:
    """Return the first sequences that hold about `N_POSITIONS` positions."""
    ends = sequences.offsets[1:]
    n = int(np.searchsorted(ends, N_POSITIONS)) + 1
    return sequences.take(np.arange(min(n, len(ends))))
