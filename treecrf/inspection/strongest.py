"""The conjunctions that say most of a label, as rules to read."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np

from treecrf.inputs.labels import RawData
from treecrf.inputs.segmentation import Segmentation
from treecrf.inspection.counting import shares_of
from treecrf.inspection.grown import FittedTrees, code_of
from treecrf.trees.rules import Condition, leaf_values


@dataclass(frozen=True)
class Rule:
    """A condition, and what it adds to the score of a label.

    Attributes
    ----------
    label : str, int or bool
    value : float
        Sum of all leaves with this condition.
    condition : str
        On the previous labels and the window.
    labels_before : tuple
        For each lag, the nearest first, the labels that are meant, None among them for the start of
        a sequence; or None where any may be.
    share : float or None
        Share of some positions for which it holds.
    """

    label: Any
    value: float
    condition: str
    labels_before: tuple[tuple | None, ...]
    share: float | None = None

    def __str__(self) -> str:
        often = "" if self.share is None else f"  ({self.share:.1%} of positions)"
        return f"{self.value:+.3f} for {self.label!r} if {self.condition}{often}"


def strongest_rules(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    n_rules: int = 20,
    label: Any = None,
    lengths: Any = None,
    groups: Any = None,
) -> list[Rule]:
    r"""The conditions that add most to the scores of labels, or take most from them.

    Every leaf of a tree is a rule: if the tests on its path turn out so, and the previous labels
    are among some, the score of a label changes by the value of the leaf. Leaves of a label that
    have the same condition are one rule, whatever their iterations. A condition leaves out what
    follows from the rest of it.

    Parameters
    ----------
    model : fitted classifier
        With boosted trees.
    X : sequences, optional
        Data to count on how often the rules hold.
    y : their labels, optional
        The labels before a position are those of y, or else those that the model predicts.
    n_rules : int, default=20
        Most rules that are wanted.
    label : str, int or bool, optional
        Only rules of this label.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    list of Rule
        The largest absolute values first. A missing value fulfills no test of a rule, nor that it
        should not hold.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the model has no trees or no such label, X is not like the training data, or y does not
        fit X.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import strongest_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5, max_leaf_nodes=3, l2_regularization=1.0).fit(X, y)
    >>> print(*strongest_rules(crf, X, n_rules=2), sep="\n")
    +1.435 for 'v' if label[-1] is 'c' and symbol is 'a'  (50.0% of positions)
    +1.154 for 'c' if not label[-1] is 'c' and not symbol is 'a'  (50.0% of positions)
    """
    grown = FittedTrees.of(model)
    if not isinstance(n_rules, numbers.Integral) or n_rules < 1:
        raise ValueError(f"n_rules={n_rules!r}; expected a positive integer")
    if X is None and y is not None:
        raise ValueError("y is given without X")
    chosen = _largest(grown, n_rules, None if label is None else code_of(grown.classes, label))
    shares: list = [None] * len(chosen)
    if X is not None:
        conditions = [condition for (_, condition), _ in chosen]
        shares = shares_of(model, grown, conditions, RawData(X, y, Segmentation(lengths, groups)))
    return [
        Rule(
            label=grown.classes[code].item(),
            value=value,
            condition=grown.name_of_condition(condition),
            labels_before=tuple(_labels(grown.classes, mask) for mask in condition.labels),
            share=share,
        )
        for ((code, condition), value), share in zip(chosen, shares, strict=True)
    ]


def _largest(
    grown: FittedTrees, n: int, code: int | None
) -> list[tuple[tuple[int, Condition], float]]:
    """The rules of a label, or of all, with the largest absolute values."""
    rules = leaf_values(grown.forest, grown.encoder).items()
    some = (rule for rule in rules if code is None or rule[0][0] == code)
    return nlargest(n, some, key=lambda rule: abs(rule[1]))


def _labels(classes: np.ndarray, mask: int) -> tuple | None:
    symbols = [*classes.tolist(), None]
    meant = tuple(symbol for k, symbol in enumerate(symbols) if mask >> k & 1)
    return None if len(meant) == len(symbols) else meant
