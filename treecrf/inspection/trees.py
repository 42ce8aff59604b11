"""Single trees of a model, node by node."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inspection.grown import FittedTrees, code_of


@dataclass(frozen=True)
class Node:
    """A node of a tree.

    Attributes
    ----------
    test : str
        What it asks; of a leaf an empty string.
    value : float
        What a leaf adds to the score of the label; 0 elsewhere.
    weight : float
        Sum of the weights of the training examples that reached it: of a conditional random field
        its positions in all contexts of previous labels, of a local model its positions. In
        second-order boosting these weigh as the curvature says.
    gain : float
        What the split has reduced of the squared error.
    missing : (str, str)
        What becomes of those that miss the value asked for, on the side of those that pass and on
        the other; empty where training missed none.
    passed, failed : int
        Numbers of the children; -1 of a leaf.
    n_leaves : int
        Leaves below it; of a leaf 1.
    """

    test: str
    value: float
    weight: float
    gain: float
    missing: tuple[str, str]
    passed: int
    failed: int
    n_leaves: int

    def told_value(self, decimals: int) -> str:
        """The value of a leaf, with its sign."""
        return f"{self.value:+.{decimals}f}"

    def told_weight(self, decimals: int) -> str:
        """The weight, without decimals that tell nothing."""
        return "weight " + np.format_float_positional(self.weight, decimals, trim="-")

    @property
    def is_leaf(self) -> bool:
        """Whether nothing is asked."""
        return self.passed < 0


def tree_of(grown: FittedTrees, iteration: int, label: Any) -> list[Node]:
    """The nodes of one tree; the first is the root, and children follow their parents.

    Raises
    ------
    ValueError
        If the model has no such tree.
    """
    first = iteration_of(grown, iteration) * len(grown.classes)
    tree = grown.forest.trees[first + code_of(grown.classes, label)]
    sizes = _leaf_counts(tree["true_child"].tolist(), tree["false_child"].tolist())
    return [_node(grown, tree, i, n) for i, n in enumerate(sizes)]


def iteration_of(grown: FittedTrees, iteration: int) -> int:
    """The number of an iteration, from 0 on.

    Raises
    ------
    ValueError
        If there is none.
    """
    n_iter = grown.forest.n_iter
    if not isinstance(iteration, numbers.Integral) or not -n_iter <= iteration < n_iter:
        raise ValueError(
            f"iteration={iteration!r}; the model has {n_iter}: expected 0 to {n_iter - 1}, or -1 "
            "for the last and so on"
        )
    return int(iteration) % n_iter


def _leaf_counts(passed: list[int], failed: list[int]) -> list[int]:
    sizes = [1] * len(passed)
    for i in reversed(range(len(passed))):
        if passed[i] >= 0:
            sizes[i] = sizes[passed[i]] + sizes[failed[i]]
    return sizes


def _node(grown: FittedTrees, tree: dict, i: int, n_leaves: int) -> Node:
    is_leaf = tree["true_child"][i] < 0
    test = [int(tree[name][i]) for name in ("column", "offset", "value")]
    return Node(
        test="" if is_leaf else grown.name_of_test(*test),
        value=float(tree["leaf"][i]),
        weight=float(tree["weight"][i]),
        gain=float(tree["gain"][i]),
        missing=("", "") if is_leaf else _of_missing(grown, tree, i),
        passed=int(tree["true_child"][i]),
        failed=int(tree["false_child"][i]),
        n_leaves=n_leaves,
    )


def _of_missing(grown: FittedTrees, tree: dict, i: int) -> tuple[str, str]:
    """What becomes of those that miss the value of a test."""
    column, encoder = int(tree["column"][i]), grown.encoder
    if column < 0 or not encoder.plan.has_missing[column]:
        return "", ""
    share = float(tree["share"][i])
    if encoder.missing == "weighting":
        return f"missing: {share:.0%}", f"missing: {1 - share:.0%}"
    asked = ", then ".join(_surrogates(grown, tree, i))
    rest = "else here" if asked else "here"
    if share < 0.5:
        return f"missing: as {asked}" if asked else "", f"missing: {rest}"
    return f"missing: as {asked}, {rest}" if asked else f"missing: {rest}", ""


def _surrogates(grown: FittedTrees, tree: dict, i: int) -> Iterator[str]:
    """The tests that are asked instead, as they must be to pass."""
    first = int(tree["n_surrogates"][:i].sum())
    for s in range(first, first + int(tree["n_surrogates"][i])):
        test = [int(tree[f"surrogate_{name}"][s]) for name in ("column", "offset", "value")]
        yield "not " * bool(tree["reversed"][s]) + grown.name_of_test(*test)
