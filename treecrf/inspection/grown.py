"""The trees of a fitted model, and how to speak of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import conjunction, name_of_label_test, name_of_labels, name_of_test
from treecrf.learners.classifier import SequenceClassifier
from treecrf.trees.forest import LABEL, Forest
from treecrf.trees.rules import Condition


@dataclass(frozen=True)
class FittedTrees:
    """What a boosted model has learned.

    Attributes
    ----------
    forest : Forest
    encoder : Encoder
    classes : array (n_classes,)
    backward : bool
        Whether the chain begins at the end of the sequences.
    """

    forest: Forest
    encoder: Encoder
    classes: np.ndarray
    backward: bool

    @classmethod
    def of(cls, model: Any) -> FittedTrees:
        """The trees of a model.

        Raises
        ------
        NotFittedError
            Before its `fit`.
        TypeError
            If it has none.
        """
        check_model(model)
        if not has_trees(model):
            around = getattr(model, "estimator_", None)
            what = type(model).__name__ + (f" around {type(around).__name__}" if around else "")
            raise TypeError(
                f"a {what} has no trees of its own; this is for boosted models such as TreeCRF and "
                "TreeMEMM, while permutation_importance and transition_scores are for all"
            )
        return cls(model._forest, model._encoder, model.classes_, model._trained_backward)

    @property
    def offsets(self) -> np.ndarray:
        """The offsets of the window, to the right."""
        left, right = self.encoder.window
        left, right = (right, left) if self.backward else (left, right)
        return np.arange(-left, right + 1)

    def name_of_test(self, column: int, offset: int, value: int) -> str:
        """What a node asks."""
        if column == LABEL:
            return name_of_label_test(self.classes, offset, value, backward=self.backward)
        return name_of_test(self.encoder, column, offset, value, backward=self.backward)

    def name_of_condition(self, condition: Condition) -> str:
        """When a leaf is reached."""
        everything = (1 << len(self.classes) + 1) - 1
        told = [
            name_of_labels(self.classes, lag, mask, backward=self.backward)
            for lag, mask in enumerate(condition.labels, 1)
            if mask != everything
        ]
        if condition.window or not told:
            told.append(conjunction(self.encoder, condition.window, backward=self.backward))
        return " and ".join(told)


def has_trees(model: Any) -> bool:
    """Whether a fitted classifier is one of boosted trees."""
    return hasattr(model, "_forest")


def check_model(model: Any) -> None:
    """Refuse what is no fitted classifier of sequences.

    Raises
    ------
    NotFittedError, TypeError
    """
    if not isinstance(model, SequenceClassifier):
        raise TypeError(
            f"model is of type {type(model).__name__}; expected a fitted classifier of treecrf, "
            "such as a TreeCRF (of a pipeline its last step, with data as the steps before make it)"
        )
    check_is_fitted(model, "classes_")


def code_of(classes: np.ndarray, label: Any) -> int:
    """The place of a label.

    Raises
    ------
    ValueError
        If it is none of the model's.
    """
    labels = classes.tolist()
    if label not in labels:
        raise ValueError(f"label={label!r} is none of the model's: {', '.join(map(repr, labels))}")
    return labels.index(label)
