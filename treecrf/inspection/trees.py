"""Trees as text and graphs, and their strongest rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np

from treecrf.chains.contexts import check_label_codes, previous_labels
from treecrf.encoding.column_layout import MISSING
from treecrf.inspection.fitted import (
    CheckedData,
    FittedTrees,
    code_of,
    integer_between,
    quoted_label,
    warn_of_linear_start,
)
from treecrf.trees.explain.conjunctions import Condition, leaf_values
from treecrf.trees.explain.shapley import relative_covers
from treecrf.trees.forest import LABEL, TEST, Forest, make_tree
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive

# Text before a node: for each node above it, and for the node itself.
SPACE = "|   "
BRANCH = "|--- "


def export_text(
    model: Any,
    iteration: int = 0,
    label: Any = None,
    *,
    max_depth: int | None = None,
    decimals: int = 3,
) -> str:
    """Export the trees of a boosting iteration as text.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    iteration : int, default=0
        Index of the iteration. Negative numbers count from the last one.
    label : str, int or bool, default=None
        Label of the tree. By default, the trees of all labels are exported.
    max_depth : int, default=None
        Maximum depth to print. Below it, only the number of leaves is shown. None prints all nodes.
    decimals : int, default=3
        Number of decimal places of values, gains, weights, and percentages.

    Returns
    -------
    str
        One line for each branch and for each leaf:

        - A test and its gain. The lines below it, up to ``not`` and the same test, apply if the
          test holds. ``label[-1]`` is the previous label, or ``none`` at the start of a sequence.
          The table of tests in :doc:`/guide/inspection` explains the others.
        - If the feature had missing values in training, the branches also say where these go.
        - A leaf shows its value, which is added to the score of the label.
        - In parentheses follow the weight of the training examples in the leaf and their fraction
          of all examples. With ``second_order=True``, the weight is the sum of their curvatures, to
          which the penalty is added. The fraction is the one by which `contributions` weights the
          branches.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, or the iteration or the label does not exist.

    See Also
    --------
    export_graphviz : A tree in the DOT language.
    strongest_rules : The strongest effects of all trees together.
    treecrf.plotting.plot_tree : Draw a tree.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_text
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     max_iter=2, max_leaf_nodes=3, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> print(export_text(crf, label="v", decimals=2))
    'v', iteration 0
    |--- label[-1] is 'c' (gain 3.17)
    |   |--- symbol is 'a' (gain 3.16)
    |   |   |--- +0.68 (weight 9, 27.27%)
    |   |--- not symbol is 'a'
    |   |   |--- -0.21 (weight 6, 18.18%)
    |--- not label[-1] is 'c'
    |   |--- -0.28 (weight 18, 54.55%)
    """
    grown = FittedTrees.of(model)
    labels = grown.classes.tolist() if label is None else [label]
    texts = []
    for tree_label in labels:
        title, nodes = titled_tree(grown, iteration, tree_label, decimals)
        texts.append("\n".join([title, *_lines(nodes, 0, 0, max_depth, decimals)]))
    return "\n\n".join(texts)


def _lines(
    nodes: list[Node], i: int, depth: int, max_depth: int | None, decimals: int
) -> Iterator[str]:
    """Yield the lines of node i and of all below it."""
    node = nodes[i]
    indent = SPACE * depth + BRANCH
    if node.is_leaf:
        yield f"{indent}{node.format_value(decimals)} ({node.format_examples(decimals)})"
        return
    if max_depth is not None and depth >= max_depth:
        yield f"{indent}... {node.n_leaves} leaves"
        return
    missing_passed, missing_failed = node.missing
    gain = f"gain {node.gain:.{decimals}f}"
    note = f"{gain}; {missing_passed}" if missing_passed else gain
    yield f"{indent}{node.test} ({note})"
    yield from _lines(nodes, node.passed, depth + 1, max_depth, decimals)
    note = f" ({missing_failed})" if missing_failed else ""
    yield f"{indent}not {node.test}{note}"
    yield from _lines(nodes, node.failed, depth + 1, max_depth, decimals)


def export_graphviz(model: Any, iteration: int = 0, label: Any = None, *, decimals: int = 3) -> str:
    r"""Export a tree in the DOT language of Graphviz.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    iteration : int, default=0
        Index of the boosting iteration. Negative numbers count from the last one.
    label : str, int or bool, default=None
        Label of the tree. By default, this is the first label.
    decimals : int, default=3
        Number of decimal places of values, weights, and percentages.

    Returns
    -------
    str
        The source of a graph. ``dot -Tsvg tree.dot``, for example, draws it. This function itself
        does not need Graphviz.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, or the iteration or the label does not exist.

    See Also
    --------
    export_text : The trees of all labels as text.
    treecrf.plotting.plot_tree : Draw a tree with matplotlib.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_graphviz
    >>> crf = TreeCRF(
    ...     max_iter=2, max_leaf_nodes=2, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(["aabb"] * 3, ["xxyy"] * 3)
    >>> print(export_graphviz(crf, label="y", decimals=1))
    digraph tree {
      label="'y', iteration 0"
      node [shape=box, style=rounded, fontname=sans]
      0 [label="symbol is 'a'"]
      0 -> 1 [label="yes"]
      0 -> 2 [label="no"]
      1 [label="-0.3\nweight 9, 42.9%"]
      2 [label="+0.2\nweight 12, 57.1%"]
    }
    """
    title, nodes = titled_tree(FittedTrees.of(model), iteration, label, decimals)
    style = "node [shape=box, style=rounded, fontname=sans]"
    lines = ["digraph tree {", f"  label={_quoted(title)}", f"  {style}"]
    for i, node in enumerate(nodes):
        lines += _statements(i, node, decimals)
    return "\n".join([*lines, "}"])


def _statements(i: int, node: Node, decimals: int) -> list[str]:
    if node.is_leaf:
        leaf = f"{node.format_value(decimals)}\n{node.format_examples(decimals)}"
        return [f"  {i} [label={_quoted(leaf)}]"]
    sides = zip((node.passed, node.failed), ("yes", "no"), node.missing, strict=True)
    return [f"  {i} [label={_quoted(node.test)}]"] + [
        f"  {i} -> {child} [label={_quoted(chr(10).join(filter(None, (word, note))))}]"
        for child, word, note in sides
    ]


def _quoted(text: str) -> str:
    """Quote a string for the DOT language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


@dataclass(frozen=True)
class Node:
    """A node of a tree."""

    test: str  # empty for a leaf
    value: float  # of a leaf; 0 for inner nodes
    weight: float  # of the training examples that reached the node; curvature in second order
    fraction: float  # of the training examples, by which `contributions` weighs the node
    gain: float
    missing: tuple[str, str]  # how missing values are routed to each child; "" if training had none
    passed: int  # indices of the children; -1 for a leaf
    failed: int
    n_leaves: int  # of the subtree

    def format_value(self, decimals: int) -> str:
        """Format the value of a leaf with its sign."""
        return f"{self.value:+.{decimals}f}"

    def format_examples(self, decimals: int) -> str:
        """Format the weight and the fraction of the examples without trailing zeros."""
        weight = _without_zeros(self.weight, decimals)
        return f"weight {weight}, {_without_zeros(100 * self.fraction, decimals)}%"

    @property
    def is_leaf(self) -> bool:
        """Whether the node is a leaf."""
        return self.passed < 0


def _without_zeros(value: float, decimals: int) -> str:
    """Format a number without trailing zeros."""
    return np.format_float_positional(value, decimals, trim="-")


def titled_tree(
    grown: FittedTrees, iteration: int, label: Any, decimals: int, *, is_short: bool = False
) -> tuple[str, list[Node]]:
    """Return the title of a tree, by default of the first label, and its nodes.

    The first node is the root, and children follow their parents. Short tests have thresholds of
    few digits.
    """
    if label is None:
        label = grown.classes[0].item()
    iteration = _from_start(iteration, grown.forest.n_iter)
    trees = grown.forest.one_output_per_tree().trees
    tree = trees[iteration * len(grown.classes) + code_of(grown.classes, label)]
    if is_short:
        tests = np.column_stack([tree[name] for name in TEST])[tree["true_child"] >= 0]
        grown = grown.shortened(map(tuple, tests.tolist()))
    nodes = []
    n_leaves, fractions = _leaves_and_fractions(tree)
    for i in range(len(n_leaves)):
        test = ""
        missing = ("", "")
        if tree["true_child"][i] >= 0:
            column, offset, value = (int(tree[name][i]) for name in TEST)
            test = grown.name_of_test(column, offset, value)
            missing = _routes_of_missing(grown, tree, i, decimals)
        nodes.append(
            Node(
                test=test,
                value=float(tree["leaf"][i]),
                weight=float(tree["weight"][i]),
                fraction=fractions[i],
                gain=float(tree["gain"][i]),
                missing=missing,
                passed=int(tree["true_child"][i]),
                failed=int(tree["false_child"][i]),
                n_leaves=n_leaves[i],
            )
        )
    return f"{quoted_label(grown.classes, label)}, iteration {iteration}", nodes


def _from_start(iteration: int, n_iter: int) -> int:
    """Return the number of an iteration, counted from 0."""
    if n_iter == 0:
        raise ValueError(
            "the model has no trees: it has 0 iterations; "
            "strongest_weights(model.init_) lists the weights of a linear start"
        )
    what = f": the model has {n_iter} iterations"
    return integer_between("iteration", iteration, -n_iter, n_iter - 1, what) % n_iter


def _leaves_and_fractions(tree: dict) -> tuple[list[int], list[float]]:
    """Return the number of leaves below each node, and the fraction of the examples in it."""
    passed = tree["true_child"].tolist()
    failed = tree["false_child"].tolist()
    n_nodes = len(passed)
    covers = relative_covers(tree | {"starts": np.array([0, n_nodes])}).tolist()
    inner_nodes = [i for i in range(n_nodes) if passed[i] >= 0]
    fractions = [1.0] * n_nodes
    for i in inner_nodes:
        fractions[passed[i]] = fractions[i] * covers[i]
        fractions[failed[i]] = fractions[i] * (1.0 - covers[i])
    n_leaves = [1] * n_nodes
    for i in reversed(inner_nodes):
        n_leaves[i] = n_leaves[passed[i]] + n_leaves[failed[i]]
    return n_leaves, fractions


def _routes_of_missing(grown: FittedTrees, tree: dict, i: int, decimals: int) -> tuple[str, str]:
    """Describe how missing values of a test are routed, for both children."""
    column = int(tree["column"][i])
    encoder = grown.encoder
    is_never_missing = column < 0 or int(tree["value"][i]) == MISSING
    if is_never_missing or not encoder.layout.has_missing[column]:
        return "", ""
    share = float(tree["share"][i])
    if encoder.missing != "surrogate":
        passed = _without_zeros(100 * share, decimals)
        failed = _without_zeros(100 * (1 - share), decimals)
        return f"missing: {passed}%", f"missing: {failed}%"
    surrogates = ", then ".join(_surrogate_tests(grown, tree, i))
    passes_by_default = share >= 0.5
    if not surrogates:
        return ("missing: here", "") if passes_by_default else ("", "missing: here")
    if passes_by_default:
        return f"missing: as {surrogates}, else here", ""
    return f"missing: as {surrogates}", "missing: else here"


def _surrogate_tests(grown: FittedTrees, tree: dict, i: int) -> Iterator[str]:
    """Yield the surrogate tests of a node, in the form in which they pass."""
    first = int(tree["n_surrogates"][:i].sum())
    for s in range(first, first + int(tree["n_surrogates"][i])):
        column, offset, value = (int(tree[f"surrogate_{name}"][s]) for name in TEST)
        test = grown.name_of_test(column, offset, value)
        yield f"not {test}" if tree["reversed"][s] else test


@dataclass(frozen=True)
class Rule:
    """A condition and its effect on the score of a label, from `strongest_rules`.

    ``str(rule)`` describes the rule in one line.

    Attributes
    ----------
    label : str, int or bool
        The label whose score changes.
    value : float
        Amount that is added to the score: the sum of the values of all leaves with this condition.
    condition : str
        The tests of the previous labels and of the window. Thresholds have as many digits as it
        takes to separate the values of the training data as the model does.
    labels_before : tuple of length ``order``
        For each lag, the nearest first, a tuple of the previous labels that the condition allows,
        in which None stands for the start of a sequence. If all are allowed, None takes the place
        of the tuple.
    share : float or None
        Fraction of the positions at which the condition holds, between 0 and 1. None if no data
        were passed.
    short_condition : str or None
        The condition as it is printed and plotted. Thresholds have three digits, or as many as it
        takes to distinguish them from those of the other rules. None stands for ``condition``.

    See Also
    --------
    strongest_rules : Find the rules of a model.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import strongest_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     max_iter=5, max_leaf_nodes=3, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> rule = strongest_rules(crf, X)[0]
    >>> rule.label, round(rule.value, 3), rule.condition
    ('v', 1.435, "label[-1] is 'c' and symbol is 'a'")
    >>> rule.labels_before, rule.share
    ((('c',),), 0.5)
    """

    label: Any
    value: float
    condition: str
    labels_before: tuple[tuple | None, ...]
    share: float | None = None
    short_condition: str | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        condition = self.short_condition or self.condition
        coverage = "" if self.share is None else f"  ({self.share:.1%} of positions)"
        return f"{self.value:+.3f} for {self.label!r} if {condition}{coverage}"


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

    Every leaf of a tree is a rule: if the tests on the path to the leaf have these outcomes, its
    value is added to the score of a label. Rules of the same label with the same condition are
    added up over all iterations. Tests that follow from others are left out.

    Only trees have rules. If the trees are added to a linear model (``init_`` of
    `treecrf.TreeCRF`), the rules do not include it, and a warning says so.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    X : list of sequences, or one long table, default=None
        Data on which to count how often the rules hold. By default, this is not counted.
    y : list of array-like of shape (n_positions,), array-like or str, default=None
        Labels of X, for tests of the previous labels. By default, these are the predicted labels.
    n_rules : int, default=20
        Maximum number of rules.
    label : str, int or bool, default=None
        Label of the rules. By default, rules of all labels are returned.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    list of Rule
        The rules, by decreasing absolute value.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees or no such label, ``n_rules`` is not a positive integer, y is
        given without X, X does not match the training data, or y does not match X.

    See Also
    --------
    strongest_weights : The same for linear models.
    export_text : Single trees as text.
    treecrf.plotting.plot_rules : Draw rules as bars.

    Notes
    -----
    A missing value satisfies neither a test of the value nor its negation. If the model was trained
    with ``missing="impute"`` or ``"indicator"``, tests apply to the values that replace missing
    ones.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import strongest_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     max_iter=5, max_leaf_nodes=3, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> print(*strongest_rules(crf, X, n_rules=2), sep="\n")
    +1.435 for 'v' if label[-1] is 'c' and symbol is 'a'  (50.0% of positions)
    +1.154 for 'c' if not label[-1] is 'c' and not symbol is 'a'  (50.0% of positions)
    """
    grown = FittedTrees.of(model)
    check_positive("n_rules", n_rules)
    if X is None and y is not None:
        raise ValueError("y is given without X; pass both or neither")
    warn_of_linear_start(model, "rules describe the trees")
    values = leaf_values(grown.forest, grown.encoder)
    if label is not None:
        label_code = code_of(grown.classes, label)
        values = {key: value for key, value in values.items() if key[0] == label_code}
    strongest = nlargest(n_rules, values, key=lambda key: abs(values[key]))
    conditions = [condition for _, condition in strongest]
    short = grown.shortened(test for condition in conditions for test, _ in condition.window)
    shares: list = [None] * len(strongest)
    if X is not None:
        shares = _fractions_of(conditions, grown, CheckedData.of(model, X, y, lengths, groups))
    return [
        Rule(
            label=grown.classes[code].item(),
            value=values[code, condition],
            condition=grown.name_of_condition(condition),
            labels_before=tuple(_labels(grown.classes, mask) for mask in condition.labels),
            share=share,
            short_condition=short.name_of_condition(condition),
        )
        for (code, condition), share in zip(strongest, shares, strict=True)
    ]


def _labels(classes: np.ndarray, mask: int) -> tuple | None:
    """Return the labels in a mask, and None for the start; None instead of a tuple for all."""
    symbols = [*classes.tolist(), None]
    allowed = tuple(symbol for k, symbol in enumerate(symbols) if mask >> k & 1)
    if len(allowed) == len(symbols):
        return None
    return allowed


def _fractions_of(
    conditions: list[Condition], grown: FittedTrees, data: CheckedData
) -> list[float]:
    """Return the fraction of positions at which each condition holds."""
    n_labels = len(grown.classes)
    order = grown.forest.order
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
    inner = 2 * np.arange(len(tests))
    n = 2 * len(tests) + 1
    holds = np.array([holds for _, holds in tests], dtype=bool)
    children = np.full((2, n), -1)
    children[:, inner] = inner + np.where(holds, [[2], [1]], [[1], [2]])
    fields = np.zeros((3, n))
    fields[:, inner] = np.reshape([test for test, _ in tests], (-1, 3)).T
    share = np.zeros(n)
    share[inner] = ~holds  # a missing value counts as failure
    test_fields = dict(zip(TEST, fields, strict=True))
    return make_tree(children, leaf=np.arange(n) == n - 1, share=share, **test_fields)
