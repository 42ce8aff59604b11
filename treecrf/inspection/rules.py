"""The conjunctions with the largest effect on a label, as readable rules."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np

from treecrf.chains.contexts import check_label_codes, previous_labels
from treecrf.inspection.fitted import CheckedData, FittedTrees, code_of, warn_of_linear_start
from treecrf.trees.conjunctions import Condition, leaf_values
from treecrf.trees.forest import LABEL, SURROGATE_FIELDS, TEST, Forest
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive


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
    check_positive("n_rules", n_rules)
    if X is None and y is not None:
        raise ValueError("y is given without X; pass both or neither")
    warn_of_linear_start(model, "rules describe the trees")
    code = None if label is None else code_of(grown.classes, label)
    rules = leaf_values(grown.forest, grown.encoder).items()
    of_label = (rule for rule in rules if code is None or rule[0][0] == code)
    chosen = nlargest(n_rules, of_label, key=lambda rule: abs(rule[1]))
    fractions: list = [None] * len(chosen)
    if X is not None:
        conditions = [condition for (_, condition), _ in chosen]
        fractions = _fractions_of(conditions, grown, CheckedData.of(model, X, y, lengths, groups))
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


def _labels(classes: np.ndarray, mask: int) -> tuple | None:
    symbols = [*classes.tolist(), None]
    allowed = tuple(symbol for k, symbol in enumerate(symbols) if mask >> k & 1)
    return None if len(allowed) == len(symbols) else allowed


def _fractions_of(
    conditions: list[Condition], grown: FittedTrees, data: CheckedData
) -> list[float]:
    """Return the fraction of positions at which each condition holds."""
    n_labels, order = len(grown.classes), grown.forest.order
    check_label_codes(n_labels, "counting rules")
    sequences = data.chain_sequences()
    previous = previous_labels(data.chain_codes(), sequences.offsets, n_labels, order)
    encoded = grown.encoder.encode(sequences)
    # The value of a tree is 1 where its condition holds. One iteration at a time saves memory.
    paths = _paths(conditions, n_labels, order)
    fractions: list[float] = []
    with Threads(data.model.n_jobs) as threads:
        for i in range(paths.n_iter):
            holds = paths.scores(grown.encoder, encoded, threads, (i, i + 1), given=previous)
            fractions += holds.mean(axis=(1, 2)).tolist()
    return fractions[: len(conditions)]


def _paths(conditions: list[Condition], n_labels: int, order: int) -> Forest:
    """Make trees with value 1 where a condition holds and 0 elsewhere, for whole iterations."""
    forest = Forest(n_labels, order)
    forest.trees = [_path(condition, n_labels) for condition in conditions]
    while len(forest.trees) % n_labels:
        forest.trees.append(_path(Condition(frozenset(), ()), n_labels))
    return forest


def _path(condition: Condition, n_labels: int) -> dict[str, np.ndarray]:
    """Make a tree that is a chain of tests: node 2i is a test, leaf 2i + 1 its failure."""
    tests = sorted(condition.window)
    for lag, mask in enumerate(condition.labels, 1):
        symbols = range(n_labels + 1)
        allowed = [symbol for symbol in symbols if mask >> symbol & 1]
        if len(allowed) == 1:
            tests.append(((LABEL, lag, allowed[0]), True))
        else:
            tests += [((LABEL, lag, s), False) for s in symbols if s not in allowed]
    inner, n = 2 * np.arange(len(tests)), 2 * len(tests) + 1
    tree = {name: np.zeros(n) for name in ("leaf", "gain", "weight", "share")}
    tree |= {name: np.zeros(n, np.int32) for name in (*TEST, "n_surrogates")}
    tree |= {name: np.full(n, -1, np.int32) for name in ("true_child", "false_child")}
    tree |= {name: np.zeros(0, np.int32) for name in SURROGATE_FIELDS}
    tree["leaf"][-1] = 1.0
    if tests:
        holds = np.array([holds for _, holds in tests])
        fields = np.array([test for test, _ in tests]).T
        for name, field in zip(TEST, fields, strict=True):
            tree[name][inner] = field
        tree["true_child"][inner] = np.where(holds, inner + 2, inner + 1)
        tree["false_child"][inner] = np.where(holds, inner + 1, inner + 2)
        tree["share"][inner] = ~holds  # a missing value counts as failure
    return tree
