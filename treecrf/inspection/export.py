"""Trees as plain text and in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treecrf.inspection.fitted_trees import FittedTrees
from treecrf.inspection.trees import Node, iteration_of, tree_of

SPACE, BRANCH = "|   ", "|--- "


def export_text(
    model: Any,
    iteration: int = 0,
    label: Any = None,
    *,
    max_depth: int | None = None,
    decimals: int = 3,
) -> str:
    """Export the trees of an iteration as text.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    iteration : int, default=0
        Number of the iteration; negative numbers count from the last.
    label : str, int or bool, optional
        Label of the tree. By default the trees of all labels are exported.
    max_depth : int, optional
        Maximum depth to print; deeper nodes are only counted.
    decimals : int, default=3
        Number of decimal places of values, gains, weights, and percentages.

    Returns
    -------
    str
        One line per node. ``label[-1]`` is the previous label, or ``none`` at the start of a
        sequence; for other tests see :doc:`/guide/inspection`. A leaf shows its value, which is
        added to the score of the label, the weight of the training examples that reached it (in
        second-order boosting the sum of their curvature, to which the penalty is added), and their
        fraction of all examples, by which `contributions` weighs the branches. If the feature of a
        test had missing values in training, the branches show how they are routed.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, or the iteration or label does not exist.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_text
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> settings = dict(l2_regularization=1.0, second_order=False, learning_rate=1.0)
    >>> crf = TreeCRF(max_iter=2, max_leaf_nodes=3, **settings).fit(X, y)
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
    parts = []
    for one in grown.classes.tolist() if label is None else [label]:
        nodes = tree_of(grown, iteration, one)
        lines = _lines(nodes, 0, 0, max_depth, decimals)
        parts.append("\n".join([title_of(grown, iteration, one), *lines]))
    return "\n\n".join(parts)


def title_of(grown: FittedTrees, iteration: int, label: Any) -> str:
    """Return the title of a tree."""
    return f"{label!r}, iteration {iteration_of(grown, iteration)}"


def _lines(
    nodes: list[Node], i: int, depth: int, max_depth: int | None, decimals: int
) -> Iterator[str]:
    node = nodes[i]
    if node.is_leaf:
        leaf = f"{node.format_value(decimals)} ({node.format_examples(decimals)})"
        yield SPACE * depth + BRANCH + leaf
        return
    if max_depth is not None and depth >= max_depth:
        yield SPACE * depth + BRANCH + f"... {node.n_leaves} leaves"
        return
    notes = [f"gain {node.gain:.{decimals}f}", node.missing[0]], [node.missing[1]]
    for child, word, of_side in zip((node.passed, node.failed), ("", "not "), notes, strict=True):
        note = "; ".join(filter(None, of_side))
        yield SPACE * depth + BRANCH + word + node.test + (f" ({note})" if note else "")
        yield from _lines(nodes, child, depth + 1, max_depth, decimals)


def export_graphviz(model: Any, iteration: int = 0, label: Any = None, *, decimals: int = 3) -> str:
    r"""Export a tree in the DOT language of Graphviz.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    iteration : int, default=0
        Number of the iteration; negative numbers count from the last.
    label : str, int or bool, optional
        Label of the tree; the first label by default.
    decimals : int, default=3
        Number of decimal places of values, weights, and percentages.

    Returns
    -------
    str
        The source of a graph, to be drawn by ``dot -Tsvg``, for example. Graphviz does not need to
        be installed.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, or the iteration or label does not exist.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_graphviz
    >>> settings = dict(l2_regularization=1.0, second_order=False, learning_rate=1.0)
    >>> crf = TreeCRF(max_iter=2, max_leaf_nodes=2, **settings)
    >>> print(export_graphviz(crf.fit(["aabb"] * 3, ["xxyy"] * 3), label="y", decimals=1))
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
    grown = FittedTrees.of(model)
    label = grown.classes[0].item() if label is None else label
    nodes = tree_of(grown, iteration, label)
    lines = [
        "digraph tree {",
        f"  label={_quoted(title_of(grown, iteration, label))}",
        "  node [shape=box, style=rounded, fontname=sans]",
    ]
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
