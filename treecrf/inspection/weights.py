"""Weights of linear models: the strongest ones, and transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.chains.score_parts import SCORE_UNIT
from treecrf.encoding.names import name_of_label_test
from treecrf.inspection.fitted import check_model, code_of, has_trees
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.contributions import check_weights
from treecrf.utils.validation import check_positive


@dataclass(frozen=True)
class Weight:
    """A weight of a linear model.

    Attributes
    ----------
    label : str, int or bool
    value : float
        The weight, which is added to the score of the label, multiplied by the value of the
        attribute.
    condition : str
        The attribute, and the label before.
    attribute : str or None
        One of ``get_attribute_names()``; None for weights of labels after labels.
    labels_before : tuple of length 1
        The label before, in a tuple; ``(None,)`` within it stands for the start of a sequence, and
        None instead of a tuple for any label, as in `Rule`.
    """

    label: Any
    value: float
    condition: str
    attribute: str | None
    labels_before: tuple[tuple | None]

    def __str__(self) -> str:
        return f"{self.value:+.3f} for {self.label!r}: {self.condition}"


def strongest_weights(model: Any, n_weights: int = 20, *, label: Any = None) -> list[Weight]:
    r"""Return the weights of a linear model with the largest absolute values.

    Parameters
    ----------
    model : fitted classifier
        A linear model: `treecrf.LinearCRF`, `treecrf.StructuredPerceptron`,
        `treecrf.StructuredSVM` with the linear kernel, or `treecrf.SequenceBoostingClassifier`.
        For trees with a linear start, pass ``model.init_``.
    n_weights : int, default=20
        Maximum number of weights.
    label : str, int or bool, optional
        If given, only weights for this label.

    Returns
    -------
    list of Weight
        Weights other than 0 by decreasing absolute value. They are weights of attributes, of labels
        after labels, and of labels at first positions. Weights of numbers depend on their units.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has no weights.
    ValueError
        If it has no such label, or ``n_weights`` is not a positive integer.

    See Also
    --------
    strongest_rules : The same for boosted trees.
    transition_weights : All weights of labels after labels.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import strongest_weights
    >>> crf = LinearCRF().fit(["banana", "panama", "cabana"], ["cvcvcv"] * 3)
    >>> print(*strongest_weights(crf, 2, label="v"), sep="\n")
    +0.773 for 'v': label[-1] is 'c'
    -0.627 for 'v': label[-1] is 'v'
    """
    check_model(model)
    if not isinstance(model, LinearSequenceClassifier):
        has_start = getattr(model, "init_", None) is not None
        start = "Its trees are added to a linear model: pass model.init_"
        raise TypeError(
            f"{type(model).__name__} is not a linear model; expected a model such as LinearCRF. "
            + (start if has_start else "strongest_rules supports boosted trees")
        )
    check_weights(model)
    check_positive("n_weights", n_weights)
    codes = slice(None) if label is None else [code_of(model.classes_, label)]
    # Of attributes, of attributes after labels, and of labels after labels; last axis: labels.
    transitions = np.vstack([model.transition_weights_, model.start_weights_])
    blocks = [model.state_weights_, model.transition_feature_weights_, transitions]
    blocks = [block[..., codes] if block.size else block for block in blocks]
    values = np.concatenate([block.ravel() for block in blocks])
    strongest = np.argsort(-np.abs(values), kind="stable")[:n_weights]
    ends = np.cumsum([block.size for block in blocks])
    names, labels = model.get_attribute_names(), model.classes_[codes]
    weights = []
    for i in strongest[values[strongest] != 0]:
        k = int(np.searchsorted(ends, i, side="right"))
        *index, v = np.unravel_index(i - ends[k] + blocks[k].size, blocks[k].shape)
        attribute, before, conditions = names[index[0]] if k < 2 else None, None, []
        if k > 0:
            symbol = int(index[-1])
            is_start = symbol == len(model.classes_)
            before = (None if is_start else model.classes_[symbol].item(),)
            conditions.append(name_of_label_test(model.classes_, 1, symbol))
        conditions += [] if attribute is None else [attribute]
        condition = " and ".join(conditions)
        weights.append(Weight(labels[v].item(), float(values[i]), condition, attribute, (before,)))
    return weights


def transition_weights(model: Any) -> Bunch:
    """Return the weights of labels after labels, which do not depend on the input.

    Parameters
    ----------
    model : fitted classifier
        A linear model, or a `treecrf.TreeCRF` with constant transitions.

    Returns
    -------
    Bunch
        With the attributes of the result of `transition_scores`, which this is for a position where
        all other scores are 0:

        - scores : float array with ``order + 1`` axes of length n_classes. Entry ``[u, v]`` is for
          label v after u; with order 2, ``[w, u, v]`` is for v after u after w; minus infinity for
          labels that the parameter ``transitions`` forbids;
        - start : float array (n_classes,), for labels at first positions;
        - backward : bool, always False;
        - labels : array (n_classes,).

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the transitions of the model depend on the input.

    See Also
    --------
    treecrf.plotting.plot_transition_scores : Plots the result.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import transition_weights
    >>> crf = LinearCRF().fit(["aabb", "ab"], ["xxyy", "xy"])
    >>> found = transition_weights(crf)
    >>> found.scores.shape, found.start.shape
    ((2, 2), (2,))
    """
    check_model(model)
    tables = _transition_tables(model)
    order, n_labels = len(tables) - 1, len(model.classes_)
    # A sequence whose last position has all previous labels.
    scores, offsets = np.ascontiguousarray(tables.swapaxes(0, 1)), np.array([0, order + 1])
    model._predictor().chain.constraints(offsets).forbid(scores, offsets)
    return Bunch(
        scores=scores[:, -1].T.reshape((n_labels,) * (order + 1)),
        start=scores[:, 0, 0].copy(),
        backward=False,
        labels=model.classes_,
    )


def has_transition_weights(model: SequenceClassifier) -> bool:
    """Return whether the transitions of a fitted model do not depend on the input."""
    if isinstance(model, LinearSequenceClassifier):
        return not model.transition_feature_weights_.size
    return has_trees(model) and model._forest.transitions is not None


def _transition_tables(model: SequenceClassifier) -> np.ndarray:
    """Return the scores by the number of labels before, label and context."""
    if not has_transition_weights(model):
        raise TypeError(
            f"the transitions of the {type(model).__name__} depend on the input; expected a linear "
            "model without transition features, or constant_transitions=True. transition_scores "
            "supports all models"
        )
    n_labels = len(model.classes_)
    if isinstance(model, LinearSequenceClassifier):
        tables = np.zeros((2, n_labels, n_labels))
        tables[0, :, 0], tables[1] = model.start_weights_, model.transition_weights_.T
        return tables
    forest = model._forest
    tables = forest.sum_of_transitions((0, forest.n_iter)) * SCORE_UNIT
    if model._start is not None:
        of_start = _transition_tables(model._start)
        tables[0, :, 0] += of_start[0, :, 0]
        for depth in range(1, forest.order + 1):
            # The nearest previous label is the lowest digit of a context.
            tables[depth, :, : n_labels**depth] += np.tile(of_start[1], n_labels ** (depth - 1))
    return tables
