"""The conjunctions with the largest effect on a label, as readable rules."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np

from treecrf.inputs.dataset import RawData
from treecrf.inspection.coverage import fractions_of
from treecrf.inspection.fitted_trees import FittedTrees, code_of, warn_of_linear_start
from treecrf.trees.rules import Condition, leaf_values
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike


@dataclass(frozen=True)
class Rule:
    """A condition and its effect on the score of a label.

    Attributes
    ----------
    label : str, int or bool
    value : float
        Sum of the values of all leaves with this condition.
    condition : str
        Description of the tests on the previous labels and the window.
    labels_before : tuple
        The allowed labels at each lag, the nearest first; None among them stands for the start of a
        sequence, and None instead of a tuple for any label.
    share : float or None
        Fraction of positions at which the condition holds, if data were passed.
    """

    label: Any
    value: float
    condition: str
    labels_before: tuple[tuple | None, ...]
    share: float | None = None

    def __str__(self) -> str:
        coverage = "" if self.share is None else f"  ({self.share:.1%} of positions)"
        return f"{self.value:+.3f} for {self.label!r} if {self.condition}{coverage}"


def strongest_rules(
    model: Any,
    X: SequencesLike | None = None,
    y: LabelsLike | None = None,
    *,
    n_rules: int = 20,
    label: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> list[Rule]:
    r"""Return the rules that change the scores of labels the most.

    Every leaf of a tree is a rule: if the tests on its path hold, including those of the previous
    labels, the score of a label changes by the value of the leaf. Leaves of the same label with the
    same condition are merged into one rule over all iterations. Redundant tests are removed from
    conditions. If the trees are added to a linear model (``init_`` of `treecrf.TreeCRF`), the rules
    do not include it, and a warning states this.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    X : sequences, optional
        Data on which to count how often the rules hold.
    y : their labels, optional
        Labels for the tests of previous labels; predicted by the model if not passed.
    n_rules : int, default=20
        Maximum number of rules.
    label : str, int or bool, optional
        If given, only rules for this label.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    list of Rule
        Rules by decreasing absolute value. A missing value satisfies neither a test nor its
        negation.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees or no such label, X does not match the training data, or y does
        not match X.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import strongest_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> settings = dict(l2_regularization=1.0, second_order=False, learning_rate=1.0)
    >>> crf = TreeCRF(max_iter=5, max_leaf_nodes=3, **settings).fit(X, y)
    >>> print(*strongest_rules(crf, X, n_rules=2), sep="\n")
    +1.435 for 'v' if label[-1] is 'c' and symbol is 'a'  (50.0% of positions)
    +1.154 for 'c' if not label[-1] is 'c' and not symbol is 'a'  (50.0% of positions)
    """
    grown = FittedTrees.of(model)
    if not isinstance(n_rules, numbers.Integral) or n_rules < 1:
        raise ValueError(f"n_rules={n_rules!r}; expected a positive integer")
    if X is None and y is not None:
        raise ValueError("y is given without X; pass both or neither")
    warn_of_linear_start(model, "rules describe the trees")
    chosen = _largest(grown, n_rules, None if label is None else code_of(grown.classes, label))
    fractions: list = [None] * len(chosen)
    if X is not None:
        conditions = [condition for (_, condition), _ in chosen]
        fractions = fractions_of(
            model, grown, conditions, RawData(X, y, model._segmentation(X, lengths, groups))
        )
    return [
        Rule(
            label=grown.classes[code].item(),
            value=value,
            condition=grown.name_of_condition(condition),
            labels_before=tuple(_labels(grown.classes, mask) for mask in condition.labels),
            share=share,
        )
        for ((code, condition), value), share in zip(chosen, fractions, strict=True)
    ]


def _largest(
    grown: FittedTrees, n: int, code: int | None
) -> list[tuple[tuple[int, Condition], float]]:
    """Return the rules of a label, or of all labels, with the largest absolute values."""
    rules = leaf_values(grown.forest, grown.encoder).items()
    some = (rule for rule in rules if code is None or rule[0][0] == code)
    return nlargest(n, some, key=lambda rule: abs(rule[1]))


def _labels(classes: np.ndarray, mask: int) -> tuple | None:
    symbols = [*classes.tolist(), None]
    allowed = tuple(symbol for k, symbol in enumerate(symbols) if mask >> k & 1)
    return None if len(allowed) == len(symbols) else allowed
