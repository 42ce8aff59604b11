"""Scores of single contexts under a growing forest: nodes for the kernel, and a cache."""

from __future__ import annotations

import numpy as np

from treecrf.encoding.column_layout import ColumnLayout, missing_values
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.contexts._tree_scores import CachedScores, TreeScores
from treecrf.trees.forest import LABEL, Forest

# A node as the kernel reads it: `Node` in ``_tree_scores`` describes the fields. Kinds of window
# tests are those of `treecrf.encoding.column_layout`.
NODE = np.dtype(
    [
        ("kind", "i2"),
        ("offset", "i2"),
        ("slot", "i4"),
        ("low", "i4"),
        ("high", "i4"),
        ("missing", "i4"),
        ("passed", "i4"),
        ("failed", "i4"),
        ("first_surrogate", "i4"),
        ("n_surrogates", "i4"),
        ("value", "f8"),
    ],
    align=True,
)
# Kinds of the other nodes.
LABEL_TEST = 4
LEAF = 5

# Contexts cached at each position, as a multiple of those requested at once: a context that a few
# iterations do not request need not be summed again from the first tree.
CACHED = 2


class Nodes:
    """The nodes of a growing forest, as the kernel reads them.

    A surrogate is also stored as a node. Its children are 1 for passing its node's test, and 0.
    """

    def __init__(self, encoder: Encoder, layout: ColumnLayout | None = None):
        self.encoder = encoder
        self.layout = layout or encoder.layout
        self.nodes = _GrowingArray()
        self.surrogates = _GrowingArray()
        self.roots = np.zeros(0, dtype=np.int32)
        self.max_nodes = 0

    def follow(self, forest: Forest) -> None:
        """Add the trees that the forest has gained since the last call."""
        new = Forest(forest.n_labels, forest.order)
        new.trees = forest.one_output_per_tree().trees[len(self.roots) :]
        packed = new.pack()
        starts = packed["starts"]
        roots = len(self.nodes.array) + starts[:-1]
        self._add_nodes(packed, np.repeat(roots, np.diff(starts)))
        self._add_surrogates(packed)
        self.roots = np.append(self.roots, roots).astype(np.int32)
        self.max_nodes = max(self.max_nodes, np.diff(starts).max(initial=0))

    def _add_nodes(self, packed: dict[str, np.ndarray], root: np.ndarray) -> None:
        """Add the nodes of packed trees, given the root of each."""
        inner = packed["true_child"] >= 0
        on_label = packed["column"] == LABEL
        nodes = np.zeros(len(inner), NODE)
        nodes["kind"] = np.where(inner, LABEL_TEST, LEAF)
        nodes["offset"] = packed["offset"] - on_label
        nodes["low"] = packed["value"]
        nodes["passed"] = packed["true_child"] + root
        nodes["failed"] = packed["false_child"] + root
        nodes["value"] = np.where(inner, packed["share"], packed["leaf"])
        n = packed["n_surrogates"]
        nodes["n_surrogates"] = n
        nodes["first_surrogate"] = len(self.surrogates.array) + np.cumsum(n) - n
        self._look_up(nodes, packed["column"], packed["value"], inner & ~on_label)
        self.nodes.extend(nodes)

    def _add_surrogates(self, packed: dict[str, np.ndarray]) -> None:
        """Add the surrogates of packed trees."""
        surrogates = np.zeros(len(packed["reversed"]), NODE)
        surrogates["offset"] = packed["surrogate_offset"]
        surrogates["passed"] = ~packed["reversed"].astype(bool)
        surrogates["failed"] = packed["reversed"]
        every = np.ones(len(surrogates), dtype=bool)
        columns = packed["surrogate_column"]
        self._look_up(surrogates, columns, packed["surrogate_value"], every)
        self.surrogates.extend(surrogates)

    def plant_in(self, scores: TreeScores) -> None:
        """Set the trees of some scores."""
        surrogates = None
        if self.encoder.missing == "surrogate":
            surrogates = self.surrogates.array
        scores.plant(self.nodes.array, self.roots, surrogates, int(self.max_nodes))

    def _look_up(
        self, nodes: np.ndarray, columns: np.ndarray, values: np.ndarray, chosen: np.ndarray
    ) -> None:
        """Set how some window tests are evaluated."""
        columns = columns[chosen].astype(np.int64)
        values = values[chosen].astype(np.int64)
        lookups = self.layout.lookups(self.encoder.columns, columns, values)
        for name, array in zip(("kind", "slot", "low", "high"), lookups, strict=True):
            nodes[name][chosen] = array
        nodes["missing"][chosen] = missing_values(self.layout, columns, values)


def tree_scores(forest: Forest, encoder: Encoder, encoded: EncodedSequences) -> TreeScores:
    """Return the scores of single contexts of encoded positions under all trees of a forest."""
    nodes = Nodes(encoder)
    nodes.follow(forest)
    scores = TreeScores(encoded, forest.n_labels, forest.order)
    nodes.plant_in(scores)
    return scores


class _GrowingArray:
    """An array that grows; it has spare room, so that it is rarely copied."""

    def __init__(self):
        self._room = np.zeros(0, NODE)
        self.array = self._room

    def extend(self, nodes: np.ndarray) -> None:
        """Append some nodes."""
        first = len(self.array)
        last = first + len(nodes)
        if last > len(self._room):
            self._room = np.concatenate([self._room[:first], np.zeros(2 * last - first, NODE)])
        self._room[first:last] = nodes
        self.array = self._room[:last]


class ScoreCache:
    """Cached scores of some positions under a growing forest, in the contexts used last."""

    def __init__(
        self,
        forest: Forest,
        encoder: Encoder,
        layout: ColumnLayout,  # of ``encoded``
        encoded: EncodedSequences,
        width: int,  # most contexts that are requested at once
    ):
        self.forest = forest
        self.n_layers = min(CACHED * width, forest.n_labels**forest.order)
        self.rows = encoded.rows_from_first
        self.n_rows = encoded.n_padded_rows
        self.nodes = Nodes(encoder, layout)
        self.scores = CachedScores(
            encoded, forest.n_labels, forest.order, self.n_layers, self.n_rows
        )

    def begin_pass(self) -> CachedScores:
        """Return the scores under the current trees, for one request at each position."""
        self.nodes.follow(self.forest)
        self.nodes.plant_in(self.scores)
        self.scores.begin_pass()
        return self.scores

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Copy the value of each position to all its examples."""
        layer = np.zeros(self.n_rows)
        layer[self.rows] = values
        return np.tile(layer, self.n_layers)
