"""Single trees of a model, node by node."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inspection.fitted_trees import FittedTrees, code_of
from treecrf.trees.shapley import relative_covers


@dataclass(frozen=True)
class Node:
    """A node of a tree.

    Attributes
    ----------
    test : str
        Description of the test; empty for a leaf.
    value : float
        Value that a leaf adds to the score of the label; 0 for inner nodes.
    weight : float
        Sum of the weights of the training examples that reached the node: positions in all contexts
        of previous labels for a conditional random field, positions for a local model. In
        second-order boosting, weights are curvatures.
    fraction : float
        Fraction of the training examples that reached the node, by which `contributions` weighs it.
    gain : float
        Reduction of the squared error by the split.
    missing : (str, str)
        How missing values are routed to the child of positions that pass the test, and to the
        other; empty if training had none.
    passed, failed : int
        Indices of the children; -1 for a leaf.
    n_leaves : int
        Number of leaves of the subtree; 1 for a leaf.
    """

    test: str
    value: float
    weight: float
    fraction: float
    gain: float
    missing: tuple[str, str]
    passed: int
    failed: int
    n_leaves: int

    def format_value(self, decimals: int) -> str:
        """Format the value of a leaf with its sign."""
        return f"{self.value:+.{decimals}f}"

    def format_examples(self, decimals: int) -> str:
        """Format the weight and the fraction of the examples without trailing zeros."""
        weight, percent = (
            np.format_float_positional(value, decimals, trim="-")
            for value in (self.weight, 100 * self.fraction)
        )
        return f"weight {weight}, {percent}%"

    @property
    def is_leaf(self) -> bool:
        """Whether the node is a leaf."""
        return self.passed < 0


def tree_of(grown: FittedTrees, iteration: int, label: Any) -> list[Node]:
    """List the nodes of a tree; the first is the root, and children follow their parents.

    Raises
    ------
    ValueError
        If the iteration or the label does not exist.
    """
    first = iteration_of(grown, iteration) * len(grown.classes)
    tree = grown.forest.trees[first + code_of(grown.classes, label)]
    children = tree["true_child"].tolist(), tree["false_child"].tolist()
    counted = zip(_leaf_counts(*children), _fractions(tree, *children), strict=True)
    return [_node(grown, tree, i, *of_node) for i, of_node in enumerate(counted)]


def iteration_of(grown: FittedTrees, iteration: int) -> int:
    """Return the number of an iteration, counted from 0.

    Raises
    ------
    ValueError
        If the iteration does not exist.
    """
    n_iter = grown.forest.n_iter
    if n_iter == 0:
        raise ValueError(
            "the model has no trees: it has 0 iterations; "
            "strongest_weights(model.init_) lists the weights of a linear start"
        )
    if not isinstance(iteration, numbers.Integral) or not -n_iter <= iteration < n_iter:
        raise ValueError(
            f"iteration={iteration!r}; expected an integer from {-n_iter} to {n_iter - 1}: the "
            f"model has {n_iter} iterations"
        )
    return int(iteration) % n_iter


def _leaf_counts(passed: list[int], failed: list[int]) -> list[int]:
    sizes = [1] * len(passed)
    for i in reversed(range(len(passed))):
        if passed[i] >= 0:
            sizes[i] = sizes[passed[i]] + sizes[failed[i]]
    return sizes


def _fractions(tree: dict, passed: list[int], failed: list[int]) -> list[float]:
    """Return the fraction of the examples in each node."""
    fractions = [1.0] * len(passed)
    covers = relative_covers(tree | {"starts": np.array([0, len(passed)])}).tolist()
    for i, cover in enumerate(covers):
        if passed[i] >= 0:
            fractions[passed[i]] = fractions[i] * cover
            fractions[failed[i]] = fractions[i] * (1.0 - cover)
    return fractions


def _node(grown: FittedTrees, tree: dict, i: int, n_leaves: int, fraction: float) -> Node:
    is_leaf = tree["true_child"][i] < 0
    test = [int(tree[name][i]) for name in ("column", "offset", "value")]
    return Node(
        test="" if is_leaf else grown.name_of_test(*test),
        value=float(tree["leaf"][i]),
        weight=float(tree["weight"][i]),
        fraction=fraction,
        gain=float(tree["gain"][i]),
        missing=("", "") if is_leaf else _of_missing(grown, tree, i),
        passed=int(tree["true_child"][i]),
        failed=int(tree["false_child"][i]),
        n_leaves=n_leaves,
    )


def _of_missing(grown: FittedTrees, tree: dict, i: int) -> tuple[str, str]:
    """Describe how missing values of a test are routed, for both children."""
    column, encoder = int(tree["column"][i]), grown.encoder
    if column < 0 or not encoder.plan.has_missing[column]:
        return "", ""
    share = float(tree["share"][i])
    if encoder.missing == "weighting":
        return f"missing: {share:.0%}", f"missing: {1 - share:.0%}"
    surrogates = ", then ".join(_surrogates(grown, tree, i))
    rest = "else here" if surrogates else "here"
    if share < 0.5:
        return f"missing: as {surrogates}" if surrogates else "", f"missing: {rest}"
    return f"missing: as {surrogates}, {rest}" if surrogates else f"missing: {rest}", ""


def _surrogates(grown: FittedTrees, tree: dict, i: int) -> Iterator[str]:
    """Describe the surrogate tests in the form in which they pass."""
    first = int(tree["n_surrogates"][:i].sum())
    for s in range(first, first + int(tree["n_surrogates"][i])):
        test = [int(tree[f"surrogate_{name}"][s]) for name in ("column", "offset", "value")]
        yield "not " * bool(tree["reversed"][s]) + grown.name_of_test(*test)
