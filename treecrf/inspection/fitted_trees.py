"""The trees of a fitted model, and the names of their tests."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import conjunction, name_of_label_test, name_of_labels, name_of_test
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.trees.forest import LABEL, Forest
from treecrf.trees.rules import Condition
from treecrf.utils.warn import warn


@dataclass(frozen=True)
class FittedTrees:
    """The trees of a fitted model with their encoder and labels.

    Attributes
    ----------
    forest : Forest
    encoder : Encoder
    classes : array (n_classes,)
    backward : bool
        Whether the chain starts at the end of the sequences.
    """

    forest: Forest
    encoder: Encoder
    classes: np.ndarray
    backward: bool

    @classmethod
    def of(cls, model: Any) -> FittedTrees:
        """Take the trees of a model.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If the model has no trees.
        """
        check_model(model)
        if not has_trees(model):
            around = getattr(model, "estimator_", None)
            what = type(model).__name__ + (f" around {type(around).__name__}" if around else "")
            raise TypeError(
                f"{what} has no boosted trees; expected a model such as TreeCRF or TreeMEMM. "
                f"{_alternatives(model)}"
            )
        return cls(model._forest, model._encoder, model.classes_, model._trained_backward)

    @property
    def offsets(self) -> np.ndarray:
        """The offsets in the window, from left to right."""
        left, right = self.encoder.window
        left, right = (right, left) if self.backward else (left, right)
        return np.arange(-left, right + 1)

    def name_of_test(self, column: int, offset: int, value: int) -> str:
        """Describe the test of a node."""
        if column == LABEL:
            return name_of_label_test(self.classes, offset, value, backward=self.backward)
        return name_of_test(self.encoder, column, offset, value, backward=self.backward)

    def name_of_condition(self, condition: Condition) -> str:
        """Describe the condition under which a leaf is reached."""
        everything = (1 << len(self.classes) + 1) - 1
        parts = [
            name_of_labels(self.classes, lag, mask, backward=self.backward)
            for lag, mask in enumerate(condition.labels, 1)
            if mask != everything
        ]
        if condition.window or not parts:
            parts.append(conjunction(self.encoder, condition.window, backward=self.backward))
        return " and ".join(parts)


def _alternatives(model: Any) -> str:
    if isinstance(model, LinearSequenceClassifier):
        return (
            "strongest_weights and plot_weights show the weights of linear models, and "
            "permutation_importance their importance"
        )
    return "permutation_importance and transition_scores support all models"


def warn_of_linear_start(model: Any, what: str) -> None:
    """Warn that some numbers of a model describe its trees alone, if it starts from a linear model.

    Parameters
    ----------
    model : fitted classifier with trees
    what : str
        Description of the numbers, the subject of the warning.
    """
    if model._start is not None:
        warn(
            f"the model adds the trees of {model._forest.n_iter} iterations to a linear model, "
            f"init_, and {what} without it; permutation_importance, explain and "
            "partial_dependence include it, and strongest_weights(model.init_) lists its weights"
        )


def has_trees(model: Any) -> bool:
    """Return whether a fitted classifier has boosted trees."""
    return hasattr(model, "_forest")


def check_model(model: Any) -> None:
    """Raise unless the model is a fitted sequence classifier.

    Raises
    ------
    NotFittedError, TypeError
    """
    if not isinstance(model, SequenceClassifier):
        raise TypeError(
            f"model is of type {type(model).__name__}; expected a fitted classifier of treecrf, "
            "such as TreeCRF. For a pipeline, pass its last step and transformed data"
        )
    check_is_fitted(model, "classes_")


def code_of(classes: np.ndarray, label: Any) -> int:
    """Return the index of a label.

    Raises
    ------
    ValueError
        If the model does not have this label.
    """
    labels = classes.tolist()
    if label not in labels:
        raise ValueError(f"label={label!r}; expected one of {', '.join(map(repr, labels))}")
    return labels.index(label)


def feature_index(feature: Any, names: np.ndarray) -> int | None:
    """Return the index of a feature, given by its name or its index; None if there is none."""
    if isinstance(feature, str):
        found = np.flatnonzero(names == feature)
        return int(found[-1]) if len(found) else None
    is_number = isinstance(feature, numbers.Integral) and not isinstance(feature, (bool, np.bool_))
    return int(feature) if is_number and 0 <= feature < len(names) else None


def window_of(model: SequenceClassifier) -> tuple[int, int]:
    """Return the window of a model, the widest one if it has several parts.

    Raises
    ------
    TypeError
        If the model has neither trees nor weights.
    """
    if isinstance(model, LinearSequenceClassifier):
        return tuple(model._attributes.window)
    if not has_trees(model):
        raise TypeError(
            f"{type(model).__name__} has neither boosted trees nor weights; expected a model such "
            "as TreeCRF or LinearCRF"
        )
    left, right = model._encoder.window
    if model._start is not None:
        more = model._start.estimator._attributes.window
        left, right = max(left, more[0]), max(right, more[1])
    return (right, left) if model._trained_backward else (left, right)
