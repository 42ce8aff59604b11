"""Trees packed into arrays: collected while boosting, evaluated on encoded sequences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treecrf._evaluate import Evaluator
from treecrf.contexts import extended_contexts
from treecrf.encoding import LISTED, EncodedSequences, Encoder
from treecrf.threads import Threads
from treecrf.window_tests import TestTable

LABEL = -2
FIELDS = ("column", "offset", "value", "true_child", "false_child", "leaf", "gain", "weight")


class Forest:
    """The trees of all classes, iteration by iteration.

    A node holds its test as (column, offset, value): ``column`` counts the input's columns,
    ``BOUNDARY`` asks whether the sequence has ended at ``offset``, ``LABEL`` whether the label
    ``offset`` positions back is number ``value`` (``n_labels``: there is none). Children are
    counted from the start of their tree; leaves have none (-1) and hold ``leaf``.

    Parameters
    ----------
    n_labels, order : int
    """

    def __init__(self, n_labels: int, order: int):
        self.n_labels = n_labels
        self.order = order
        self.trees: list[dict[str, np.ndarray]] = []
        self._evaluators: dict = {}

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_evaluators": {}}

    @property
    def n_iter(self) -> int:
        """Number of boosting iterations: each has one tree a class."""
        return len(self.trees) // self.n_labels

    def copy(self, n_iter: int | None = None) -> Forest:
        """The first iterations, in a list of their own."""
        forest = Forest(self.n_labels, self.order)
        n_trees = None if n_iter is None else n_iter * self.n_labels
        forest.trees = self.trees[:n_trees]
        return forest

    def meanings(self, table: TestTable) -> np.ndarray:
        """Column, offset and value of every test; int32 array (3, n_tests + 1).

        The window tests are followed by those of the previous labels and, last, by a place for
        the leaves, whose test is -1.
        """
        n_symbols = self.n_labels + 1
        lag, symbol = np.divmod(np.arange(self.order * n_symbols), n_symbols)
        window = np.stack([table.columns, table.offsets, table.values])
        labels = np.stack([np.full_like(lag, LABEL), lag + 1, symbol])
        return np.hstack([window, labels, np.zeros((3, 1))]).astype(np.int32)

    def append(self, grown: dict[str, np.ndarray], meanings: np.ndarray) -> None:
        """Add the tree of the next class, as `TreeGrower.grow` returns it."""
        tree = dict(grown)
        tree["column"], tree["offset"], tree["value"] = meanings[:, tree.pop("test")]
        self.trees.append(tree)

    def pack(self) -> dict[str, np.ndarray]:
        """All nodes in one array a field, and where each tree starts."""
        packed = {
            name: np.concatenate([tree[name] for tree in self.trees]) if self.trees else np.zeros(0)
            for name in FIELDS
        }
        sizes = [len(tree["leaf"]) for tree in self.trees]
        packed["starts"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return packed

    @classmethod
    def unpack(cls, n_labels: int, order: int, packed: dict[str, np.ndarray]) -> Forest:
        """The inverse of `pack`."""
        forest = cls(n_labels, order)
        starts = packed["starts"]
        forest.trees = [
            {name: packed[name][start:stop] for name in FIELDS}
            for start, stop in pairwise(starts.tolist())
        ]
        return forest

    def gains(self, n_columns: int) -> np.ndarray:
        """Total gain of the splits on each column."""
        packed = self.pack()
        inner = (packed["true_child"] >= 0) & (packed["column"] >= 0)
        columns = packed["column"][inner].astype(np.int64)
        return np.bincount(columns, weights=packed["gain"][inner], minlength=n_columns)

    def scores(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        iterations: tuple[int, int] | None = None,
        start: np.ndarray | None = None,
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Sum of the trees' values for every class, position and context.

        Parameters
        ----------
        iterations : (int, int), optional
            First iteration and the one after the last; all by default.
        start : array (n_labels, n_positions, n_contexts), optional
            Scores to add to, in place.
        given : uint8 array (order, n_positions), optional
            The label at each lag before each position, ``n_labels`` for none: only this context
            is scored.

        Returns
        -------
        float64 array (n_labels, n_positions, n_contexts)
        """
        n_contexts = 1 if given is not None else self.n_labels**self.order
        shape = (self.n_labels, encoded.n_positions, n_contexts)
        scores = np.zeros(shape) if start is None else start
        evaluator = self._evaluator(encoder, *(iterations or (0, self.n_iter)), given is not None)
        n = encoded.n_positions
        depth = encoded.depth_of(self.order) if given is None else np.zeros(n, dtype=np.uint8)
        parts = min(threads.n_threads * 4, -(-n // 4096)) if threads.n_threads > 1 else 1
        cuts = np.linspace(0, n, parts + 1).astype(int)
        threads.map(
            lambda k: evaluator.add_scores(encoded, depth, given, cuts[k], cuts[k + 1], scores),
            range(parts),
        )
        return scores

    def _evaluator(self, encoder: Encoder, first: int, last: int, is_given: bool) -> Evaluator:
        """The chosen iterations, ready to score; the whole forest is kept for the next time."""
        key = (first, last, is_given)
        if key[:2] == (0, self.n_iter) and key in self._evaluators:
            return self._evaluators[key]
        some = Forest(self.n_labels, self.order)
        some.trees = self.trees[first * self.n_labels : last * self.n_labels]
        evaluator = _compile(some, encoder, is_given)
        if key[:2] == (0, self.n_iter):
            self._evaluators = {key: evaluator}
        return evaluator


def _compile(forest: Forest, encoder: Encoder, is_given: bool) -> Evaluator:
    packed = forest.pack()
    true_child = packed["true_child"].astype(np.int32)
    on_label = packed["column"] == LABEL
    on_window = (true_child >= 0) & ~on_label
    tests, which = _distinct_tests(packed, on_window, encoder)
    test = np.full(len(true_child), -1, dtype=np.int32)
    test[on_window] = which
    label_test = (packed["offset"] - 1) * (forest.n_labels + 1) + packed["value"]
    test[on_label] = (len(tests[0]) + label_test)[on_label]
    classes = np.arange(len(forest.trees), dtype=np.int32) % forest.n_labels
    return Evaluator(
        tests,
        _by_id(tests, encoder),
        encoder.window[0],
        (packed["starts"], classes, test, true_child, packed["false_child"].astype(np.int32)),
        packed["leaf"],
        *extended_contexts(forest.n_labels, 0 if is_given else forest.order),
        forest.n_labels,
        forest.order if is_given else 0,
    )


def _distinct_tests(
    packed: dict[str, np.ndarray], on_window: np.ndarray, encoder: Encoder
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Kinds, offsets, slots, lows and highs of the tests in use; the test of each node."""
    column, offset, value = (
        packed[name][on_window].astype(np.int64) for name in ("column", "offset", "value")
    )
    width = sum(encoder.window) + 1
    key = ((column + 1) * width + offset + encoder.window[0]) * (1 << 32) + value
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    column, offset, value = column[first], offset[first].astype(np.int32), value[first]
    kinds, slots, lows, highs = encoder.storage_of(column, value)
    # Tests that read the same bytes stand together.
    order = np.lexsort((lows, slots, kinds, offset))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    tests = tuple(array[order] for array in (kinds, offset, slots, lows, highs))
    return tests, place[which]


def _by_id(tests: tuple[np.ndarray, ...], encoder: Encoder) -> np.ndarray:
    """The test that asks for a listed id at an offset, -1 where none does."""
    kinds, offsets, _, lows, highs = tests
    n_ids = encoder.plan.n_all_ids if (kinds == LISTED).any() else 0
    table = np.full((sum(encoder.window) + 1, n_ids), -1, dtype=np.int32)
    one = np.flatnonzero((kinds == LISTED) & (highs == lows + 1))
    table[offsets[one] + encoder.window[0], lows[one]] = one
    return table
