"""Trees as text, for people and for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treecrf.inspection.grown import FittedTrees
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
    """The trees of an iteration as text.

    Parameters
    ----------
    model : fitted classifier
        With boosted trees.
    iteration : int, default=0
        Counted from 0, or from -1 backward.
    label : str, int or bool, optional
        Whose tree. By default the trees of all labels, one after another.
    max_depth : int, optional
        Deeper nodes are only counted.
    decimals : int, default=3
        Of values, gains and weights.

    Returns
    -------
    str
        A line for each node. ``label[-1]`` is the previous label, ``none`` at the start of a
        sequence; for other tests see :doc:`/guide/inspection`. A leaf tells what it adds to the
        score of the label, and the weight of the training examples that reached it. Where training
        missed values of a test, its branches tell what becomes of such positions.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the model has no trees, or no such iteration or label.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_text
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=2, l2_regularization=1.0, max_leaf_nodes=3).fit(X, y)
    >>> print(export_text(crf, label="v", decimals=2))
    'v', iteration 0
    |--- label[-1] is 'c' (gain 3.17)
    |   |--- symbol is 'a' (gain 3.16)
    |   |   |--- +0.68 (weight 9)
    |   |--- not symbol is 'a'
    |   |   |--- -0.21 (weight 6)
    |--- not label[-1] is 'c'
    |   |--- -0.28 (weight 18)
    """
    grown = FittedTrees.of(model)
    parts = []
    for one in grown.classes.tolist() if label is None else [label]:
        nodes = tree_of(grown, iteration, one)
        lines = _lines(nodes, 0, 0, max_depth, decimals)
        parts.append("\n".join([title_of(grown, iteration, one), *lines]))
    return "\n\n".join(parts)


def title_of(grown: FittedTrees, iteration: int, label: Any) -> str:
    """What a tree is called."""
    return f"{label!r}, iteration {iteration_of(grown, iteration)}"


def _lines(
    nodes: list[Node], i: int, depth: int, max_depth: int | None, decimals: int
) -> Iterator[str]:
    node = nodes[i]
    if node.is_leaf:
        told = f"{node.told_value(decimals)} ({node.told_weight(decimals)})"
        yield SPACE * depth + BRANCH + told
        return
    if max_depth is not None and depth >= max_depth:
        yield SPACE * depth + BRANCH + f"... {node.n_leaves} leaves"
        return
    notes = [f"gain {node.gain:.{decimals}f}", node.missing[0]], [node.missing[1]]
    for child, word, of_side in zip((node.passed, node.failed), ("", "not "), notes, strict=True):
        told = "; ".join(filter(None, of_side))
        yield SPACE * depth + BRANCH + word + node.test + (f" ({told})" if told else "")
        yield from _lines(nodes, child, depth + 1, max_depth, decimals)


def export_graphviz(model: Any, iteration: int = 0, label: Any = None, *, decimals: int = 3) -> str:
    r"""One tree in Graphviz's language, for ``dot -Tsvg`` and its like.

    Parameters
    ----------
    model : fitted classifier
        With boosted trees.
    iteration : int, default=0
        Counted from 0, or from -1 backward.
    label : str, int or bool, optional
        Whose tree. By default that of the first label.
    decimals : int, default=3
        Of values and weights.

    Returns
    -------
    str
        Graphviz itself is not needed to make it.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the model has no trees, or no such iteration or label.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import export_graphviz
    >>> crf = TreeCRF(max_iter=2, l2_regularization=1.0, max_leaf_nodes=2)
    >>> print(export_graphviz(crf.fit(["aabb"] * 3, ["xxyy"] * 3), label="y", decimals=1))
    digraph tree {
      label="'y', iteration 0"
      node [shape=box, style=rounded, fontname=sans]
      0 [label="symbol is 'a'"]
      0 -> 1 [label="yes"]
      0 -> 2 [label="no"]
      1 [label="-0.3\nweight 9"]
      2 [label="+0.2\nweight 12"]
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
        told = f"{node.told_value(decimals)}\n{node.told_weight(decimals)}"
        return [f"  {i} [label={_quoted(told)}]"]
    sides = zip((node.passed, node.failed), ("yes", "no"), node.missing, strict=True)
    return [f"  {i} [label={_quoted(node.test)}]"] + [
        f"  {i} -> {child} [label={_quoted(chr(10).join(filter(None, (word, note))))}]"
        for child, word, note in sides
    ]


def _quoted(text: str) -> str:
    """A string of Graphviz's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
