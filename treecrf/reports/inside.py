"""What a model has learned: its settings, importances, transitions, and effects of features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inputs.schema import CATEGORY, NUMBER, InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.inspection import (
    gain_importance,
    partial_dependence,
    strongest_weights,
    transition_scores,
)
from treecrf.inspection.fitted import category_counts, column_values, has_trees
from treecrf.inspection.scores import mean_over_further_labels
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.base import LinearSequenceClassifier

# Features of the map of importances, weights of a linear model, and labels of the matrix.
N_FEATURES = 15
N_WEIGHTS = 25
MAX_LABELS = 30
# Features whose effects are shown, and positions that they are averaged over.
N_EFFECTS = 4
N_POSITIONS = 2000
# Values of a number, which become lines, and of a category, which become rows of a table.
N_VALUES = 40
N_CATEGORIES = 20
# Labels of the effects, those that change the most: lines of a number, columns of a category.
N_LINES = 6
N_COLUMNS = 10
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
    schema = fitted_model(model).chain.schema
    sample = _sample(sequences).for_model(schema)
    longest = int(np.diff(sample.offsets).max())
    order = np.argsort(-gains.importances.sum(axis=1), kind="stable")[:N_EFFECTS]
    found = []
    for j in order.tolist():
        if not gains.importances[j].any():
            break
        offset = int(gains.offsets[int(gains.importances[j].argmax())])
        counts = _value_counts(sample, schema, j)
        if abs(offset) < longest and counts:
            is_number = bool(schema.kinds[j] == NUMBER)
            found.append(_effect(model, sample, j, offset, is_number, counts))
    return found


def _value_counts(sequences: Sequences, schema: InputSchema, j: int) -> dict[Any, int]:
    """Count the positions of each value of a feature, if it occurs in the training data."""
    if schema.kinds[j] == CATEGORY:
        values, counts = category_counts(sequences, j, schema.categories[j])
    else:
        column = column_values(sequences, j).astype(float)
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _effect(
    model: SequenceClassifier,
    sample: Sequences,
    j: int,
    offset: int,
    is_number: bool,
    counts: dict[Any, int],
) -> dict[str, Any]:
    """Return the mean probabilities of the labels that depend the most on a feature."""
    n_values, n_labels = (N_VALUES, N_LINES) if is_number else (N_CATEGORIES, N_COLUMNS)
    result = partial_dependence(model, sample, j, offset, n_values=n_values)
    values = result.grid_values.tolist()
    if is_number:
        order = np.argsort(values, kind="stable")
        shown = {"values": [values[i] for i in order]}
    else:
        n_positions = [counts.get(value, 0) for value in values]
        order = np.argsort(np.negative(n_positions), kind="stable")
        shown = {
            "values": [str(values[i]) for i in order],
            "counts": [n_positions[i] for i in order],
            "n_values": max(len(counts), len(values)),
        }
    changes = np.ptp(result.average, axis=0)
    labels = np.sort(np.argsort(-changes, kind="stable")[:n_labels])
    return {
        "name": result.feature_name,
        "n": sample.n_positions,
        "is_number": is_number,
        "labels": labels.tolist(),
        "average": np.round(result.average[order][:, labels], 4).tolist(),
        **shown,
    }


def _sample(sequences: Sequences) -> Sequences:
    """Return the first sequences that hold about `N_POSITIONS` positions."""
    ends = sequences.offsets[1:]
    n = int(np.searchsorted(ends, N_POSITIONS)) + 1
    return sequences.take(np.arange(min(n, len(ends))))
