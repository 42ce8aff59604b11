"""Scores of single contexts under a forest: its trees as the kernel walks them, and a memory."""

from __future__ import annotations

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import Plan
from treecrf.trees._tree_scores import CachedScores, TreeScores
from treecrf.trees.forest import LABEL, Forest
from treecrf.trees.growing.window_tests import missing_values

# A node as the kernel walks it; the kinds of tests are those of the encoder, and these.
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
LABEL_TEST, LEAF = 4, 5

# Contexts remembered at each position, as a multiple of those asked for at once: one that is not
# asked for now and then is not summed anew.
REMEMBERED = 2


class Nodes:
    """The trees of a growing forest, as the kernel walks them.

    A surrogate is a node too, whose children are 1 for what passes its node's test, and 0.

    Parameters
    ----------
    encoder : Encoder
    plan : Plan, optional
        Where the sequences have their columns; by default as the encoder stores them.
    """

    def __init__(self, encoder: Encoder, plan: Plan | None = None):
        self.encoder = encoder
        self.plan = plan or encoder.plan
        self.nodes, self.surrogates = _Growing(), _Growing()
        self.roots = np.zeros(0, dtype=np.int32)
        self.max_nodes = 0

    def follow(self, forest: Forest) -> None:
        """Take over the trees that have been added since the last time."""
        new = Forest(forest.n_labels, forest.order)
        new.trees = forest.trees[len(self.roots) :]
        packed = new.pack()
        starts, n_nodes = packed["starts"], len(self.nodes.array)
        self.nodes.extend(self._pack_nodes(packed))
        self.surrogates.extend(self._pack_surrogates(packed))
        self.roots = np.append(self.roots, n_nodes + starts[:-1]).astype(np.int32)
        self.max_nodes = max(self.max_nodes, np.diff(starts).max(initial=0))

    def plant_in(self, scores: TreeScores) -> None:
        """Let scores be those of the trees."""
        surrogates = self.surrogates.array if self.encoder.missing == "surrogate" else None
        scores.plant(self.nodes.array, self.roots, surrogates, int(self.max_nodes))

    def _pack_nodes(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        """Nodes from the arrays of `Forest.pack`."""
        starts = packed["starts"]
        shift = len(self.nodes.array) + np.repeat(starts[:-1], np.diff(starts))
        inner = packed["true_child"] >= 0
        on_label = packed["column"] == LABEL
        nodes = np.zeros(len(inner), NODE)
        nodes["kind"] = np.where(inner, LABEL_TEST, LEAF)
        nodes["offset"] = packed["offset"] - on_label
        nodes["low"] = packed["value"]
        nodes["passed"] = packed["true_child"] + shift
        nodes["failed"] = packed["false_child"] + shift
        nodes["value"] = np.where(inner, packed["share"], packed["leaf"])
        n = packed["n_surrogates"]
        nodes["n_surrogates"] = n
        nodes["first_surrogate"] = len(self.surrogates.array) + np.cumsum(n) - n
        self._look_up(nodes, packed["column"], packed["value"], inner & ~on_label)
        return nodes

    def _pack_surrogates(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        nodes = np.zeros(len(packed["reversed"]), NODE)
        nodes["offset"] = packed["surrogate_offset"]
        nodes["passed"] = ~packed["reversed"].astype(bool)
        nodes["failed"] = packed["reversed"]
        columns, values = packed["surrogate_column"], packed["surrogate_value"]
        self._look_up(nodes, columns, values, np.ones(len(nodes), dtype=bool))
        return nodes

    def _look_up(
        self, nodes: np.ndarray, columns: np.ndarray, values: np.ndarray, chosen: np.ndarray
    ) -> None:
        """Say where the answers to some window tests are."""
        columns, values = columns[chosen].astype(np.int64), values[chosen].astype(np.int64)
        where = self.encoder.storage_of(columns, values, self.plan)
        for name, array in zip(("kind", "slot", "low", "high"), where, strict=True):
            nodes[name][chosen] = array
        nodes["missing"][chosen] = missing_values(self.plan, columns)


class _Growing:
    """An array that is extended again and again, and has room ahead so that it is seldom copied."""

    def __init__(self):
        self._room = np.zeros(0, NODE)
        self.array = self._room

    def extend(self, nodes: np.ndarray) -> None:
        """Append some nodes."""
        first, last = len(self.array), len(self.array) + len(nodes)
        if last > len(self._room):
            self._room = np.concatenate([self._room[:first], np.zeros(2 * last - first, NODE)])
        self._room[first:last] = nodes
        self.array = self._room[:last]


class ScoreCache:
    """Scores of some positions under a growing forest, in the contexts seen lately.

    Parameters
    ----------
    forest : Forest
    encoder : Encoder
    plan : Plan
        Where ``encoded`` has its columns.
    encoded : EncodedSequences
    width : int
        Most contexts that are asked for at once.
    """

    def __init__(
        self,
        forest: Forest,
        encoder: Encoder,
        plan: Plan,
        encoded: EncodedSequences,
        width: int,
    ):
        self.forest = forest
        self.n_planes = min(REMEMBERED * width, forest.n_labels**forest.order)
        self.rows = encoded.rows_from_first
        self.n_rows = encoded.n_padded_rows
        self.nodes = Nodes(encoder, plan)
        self.scores = CachedScores(
            encoded, forest.n_labels, forest.order, self.n_planes, self.n_rows
        )

    def begin_pass(self) -> CachedScores:
        """Scores under the trees of now, to be asked for once at each position."""
        self.nodes.follow(self.forest)
        self.nodes.plant_in(self.scores)
        self.scores.begin_pass()
        return self.scores

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Give all examples of a position its value."""
        plane = np.zeros(self.n_rows)
        plane[self.rows] = values
        return np.tile(plane, self.n_planes)
