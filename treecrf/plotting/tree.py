"""Plot of a tree from left to right, with a row per leaf and passing branches on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inspection.fitted import FittedTrees
from treecrf.inspection.trees import Node, titled_tree
from treecrf.plotting.common import (
    POINTS_PER_INCH,
    axes_of,
    drawing,
    ink,
    plain,
    points_of,
    pyplot,
    set_title,
)

FONT_SIZE = 9.0
# Width of a character of a monospaced font, and height of a line, relative to the font size.
CHARACTER = 0.602
LINE = 1.75
# Characters between columns.
GAP = 4
# Opacity of the lines of tests that hold, and of those that fail.
STRONG = 0.8
WEAK = 0.5


@dataclass
class PlacedNode:
    """A node and its position in the plot."""

    node: Node
    # What is written at its place.
    text: str
    # Whether no children are drawn.
    is_end: bool
    # Number of nodes above it.
    depth: int
    # Index of the parent among the drawn nodes, or -1.
    parent: int
    # Whether the test of the parent holds for this node.
    passes: bool
    # Its height in the plot: the mean of the rows of its children.
    row: float = 0.0


@drawing
def plot_tree(
    model: Any,
    iteration: int = 0,
    label: Any = None,
    *,
    max_depth: int | None = 4,
    decimals: int = 3,
    ax: Any = None,
) -> Any:
    """Draw one tree.

    The tree is drawn from left to right:

    - If a test holds, follow the upper branch, which has a solid line. Otherwise, follow the lower
      one, which is dashed. The width of a branch shows the fraction of the training examples.
    - A leaf shows its value, which is added to the score of the label, and in parentheses the
      weight of the training examples that reached it.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    iteration : int, default=0
        Index of the boosting iteration. Negative numbers count from the last one.
    label : str, int or bool, default=None
        Label of the tree. By default, this is the first label.
    max_depth : int or None, default=4
        Maximum depth to draw. Below it, only the number of leaves is shown. None draws the whole
        tree, which may be wider than a page.
    decimals : int, default=3
        Number of decimal places of values.
    $ax The text is scaled to fit them.

    $raises
        If the model has no trees, the iteration or the label does not exist, or ``ax`` is not an
        Axes object.

    See Also
    --------
    treecrf.inspection.export_text : Trees of any size as text.
    treecrf.inspection.export_graphviz : A tree in the DOT language.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_tree
    >>> crf = TreeCRF(
    ...     max_iter=2, max_leaf_nodes=2, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(["aabb"] * 3, ["xxyy"] * 3)
    >>> ax = plot_tree(crf, label="y")
    >>> [text.get_text() for text in ax.texts]
    ["symbol is 'a'", '-0.300 (9)', '+0.231 (12)', 'yes', 'no']
    """
    title, nodes = titled_tree(FittedTrees.of(model), iteration, label, decimals, is_short=True)
    placed = _placed(nodes, max_depth, decimals)
    starts, width = _columns(placed)
    n_rows = sum(item.is_end for item in placed)
    height = n_rows + 0.6
    size_in_inches = (
        FONT_SIZE * CHARACTER * width / POINTS_PER_INCH + 0.4,
        FONT_SIZE * LINE * height / POINTS_PER_INCH + 0.6,
    )
    ax = axes_of(ax, size_in_inches)
    room = points_of(ax)
    size = min(FONT_SIZE, room[0] / width / CHARACTER, room[1] / height / LINE)
    limit = max(abs(item.node.value) for item in placed)
    for item in placed:
        _draw_branch(ax, item, placed, starts)
        _draw_node(ax, item, starts[item.depth], size, limit)
    for item in placed:
        if item.parent == 0:
            word, side = ("yes", "bottom") if item.passes else ("no", "top")
            x = starts[1] - GAP / 2 - 0.4
            style = {"fontsize": 0.8 * size, "alpha": WEAK, "ha": "right", "va": side}
            ax.text(x, item.row, word, **style)
    ax.set(xlim=(0, width), ylim=(n_rows - 0.2, -0.8))
    ax.set_axis_off()
    set_title(ax, f"label {title}")
    return ax


def _placed(nodes: list[Node], max_depth: int | None, decimals: int) -> list[PlacedNode]:
    """List the drawn nodes; the first is the root, and parents come before their children."""
    placed: list[PlacedNode] = []

    def place(node: Node, depth: int, parent: int, passes: bool) -> float:
        """Place a node and the nodes below it; return its row."""
        is_end = node.is_leaf or depth == max_depth
        if node.is_leaf:
            weight = np.format_float_positional(node.weight, 1, trim="-")
            text = f"{node.format_value(decimals)} ({weight})"
        elif is_end:
            text = f"... {node.n_leaves} leaves"
        else:
            text = node.test
        k = len(placed)
        placed.append(PlacedNode(node, text, is_end, depth, parent, passes))
        if is_end:
            placed[k].row = float(sum(item.is_end for item in placed) - 1)
        else:
            upper = place(nodes[node.passed], depth + 1, k, True)
            lower = place(nodes[node.failed], depth + 1, k, False)
            placed[k].row = (upper + lower) / 2
        return placed[k].row

    place(nodes[0], 0, -1, True)
    return placed


def _columns(placed: list[PlacedNode]) -> tuple[np.ndarray, float]:
    """Return the start of each depth and the end of the plot, in characters.

    The text at the end of a branch has its row to itself and does not widen its column.
    """
    widths = np.zeros(max(item.depth for item in placed) + 1)
    for item in placed:
        if not item.is_end:
            widths[item.depth] = max(widths[item.depth], len(item.text) + GAP)
    starts = np.cumsum(widths) - widths
    return starts, max(starts[item.depth] + len(item.text) for item in placed) + 1


def _draw_branch(ax: Any, item: PlacedNode, placed: list[PlacedNode], starts: np.ndarray) -> None:
    """Draw the line from the end of the parent's text."""
    if item.parent < 0:
        return
    parent = placed[item.parent]
    end = starts[item.depth]
    bend = end - GAP / 2
    alpha, linestyle = (STRONG, "-") if item.passes else (WEAK, (0, (3, 2)))
    ax.plot(
        [starts[parent.depth] + len(parent.text) + 0.5, bend, bend, end - 0.3],
        [parent.row, parent.row, item.row, item.row],
        color=ink(),
        alpha=alpha,
        linestyle=linestyle,
        linewidth=0.6 + 2.4 * np.sqrt(item.node.fraction),
        solid_joinstyle="round",
        zorder=1,
    )


def _draw_node(ax: Any, item: PlacedNode, x: float, size: float, limit: float) -> None:
    """Write the text of a node at x; leaves have a color by their value."""
    box: dict = {"boxstyle": "round,pad=0.2", "edgecolor": "none", "facecolor": ax.get_facecolor()}
    font = {"fontsize": size, "family": "monospace", "va": "center", "zorder": 2}
    if item.node.is_leaf:
        colors = pyplot().get_cmap("PuOr_r")
        # The ends of the scale are too dark for black text.
        box["facecolor"] = colors(0.5 + 0.25 * item.node.value / max(limit, 1e-300))
        font["color"] = "black"
    ax.text(x, item.row, plain(item.text), bbox=box, **font)
