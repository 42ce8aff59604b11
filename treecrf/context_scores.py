"""Scores of single contexts under a forest: its trees as the kernel walks them, and a memory."""

from __future__ import annotations

import numpy as np

from treecrf._context_scores import CachedScores
from treecrf.encoding import EncodedSequences, Encoder, Plan
from treecrf.forest import LABEL, Forest

# A node as the kernel walks it; the kinds of tests are those of `treecrf.encoding`, and these.
NODE = np.dtype(
    {
        "names": ["kind", "offset", "slot", "low", "high", "passed", "failed", "value"],
        "formats": ["i2", "i2", "i4", "i4", "i4", "i4", "i4", "f8"],
    },
    align=True,
)
LABEL_TEST, LEAF = 4, 5

# Contexts remembered at each position, as a multiple of those asked for at once: one that is not
# asked for now and then is not summed anew.
REMEMBERED = 2


class Nodes:
    """The trees of a growing forest, as the kernel walks them.

    Parameters
    ----------
    encoder : Encoder
    plan : Plan, optional
        Where the sequences have their columns; by default as the encoder stores them.
    """

    def __init__(self, encoder: Encoder, plan: Plan | None = None):
        self.encoder = encoder
        self.plan = plan or encoder.plan
        self.nodes = np.zeros(0, NODE)
        self.n_nodes = 0
        self.roots = np.zeros(0, dtype=np.int32)

    def follow(self, forest: Forest) -> None:
        """Take over the trees that have been added since the last time."""
        new = Forest(forest.n_labels, forest.order)
        new.trees = forest.trees[len(self.roots) :]
        packed = new.pack()
        n = self.n_nodes + int(packed["starts"][-1])
        if n > len(self.nodes):
            # Twice the room, so that a growing forest is seldom copied.
            self.nodes = np.concatenate([self.nodes, np.zeros(n, NODE)])
        self.nodes[self.n_nodes : n] = self._pack(packed)
        self.roots = np.append(self.roots, self.n_nodes + packed["starts"][:-1]).astype(np.int32)
        self.n_nodes = n

    def _pack(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        """Nodes from the arrays of `Forest.pack`."""
        starts = packed["starts"]
        shift = self.n_nodes + np.repeat(starts[:-1], np.diff(starts))
        inner = packed["true_child"] >= 0
        on_label = packed["column"] == LABEL
        on_window = inner & ~on_label
        nodes = np.zeros(len(inner), NODE)
        nodes["kind"] = np.where(inner, LABEL_TEST, LEAF)
        nodes["offset"] = packed["offset"] - on_label
        nodes["low"] = packed["value"]
        nodes["passed"] = packed["true_child"] + shift
        nodes["failed"] = packed["false_child"] + shift
        nodes["value"] = packed["leaf"]
        columns, values = (packed[name][on_window].astype(np.int64) for name in ("column", "value"))
        where = self.encoder.storage_of(columns, values, self.plan)
        for name, array in zip(("kind", "slot", "low", "high"), where, strict=True):
            nodes[name][on_window] = array
        return nodes


class Remembered:
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
        self.n_rows = 64 * (int(self.rows.max()) // 64 + 1)
        self.nodes = Nodes(encoder, plan)
        self.scores = CachedScores(
            encoded, forest.n_labels, forest.order, self.n_planes, self.n_rows
        )

    def begin_pass(self) -> CachedScores:
        """Scores under the trees of now, to be asked for once at each position."""
        self.nodes.follow(self.forest)
        self.scores.plant(self.nodes.nodes, self.nodes.roots)
        self.scores.begin_pass()
        return self.scores

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Give all examples of a position its value."""
        plane = np.zeros(self.n_rows)
        plane[self.rows] = values
        return np.tile(plane, self.n_planes)
