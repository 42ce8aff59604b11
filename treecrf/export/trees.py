"""Tables of trees: their tests by the places of values, and their nodes in preorder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.column_layout import BOUNDARY, LISTS, MISSING
from treecrf.encoding.encoder import Encoder
from treecrf.export.columns import MISSING_CODE, NUMBER_CODE, LabelerColumns, Values
from treecrf.export.linear import padded
from treecrf.export.parts import unsupported
from treecrf.export.tables import Tables
from treecrf.inputs.offsets import offsets_of
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.packed_trees import LABEL, TEST
from treecrf.utils.exact import LEAF_UNIT

# Weights of positions that go to both children are in units of 1 / WHOLE.
WHOLE = 1 << 16
# Maximum number of contexts in all sets.
MAX_LISTED = 1 << 22
# Largest absolute value of leaves, in their unit.
MAX_UNITS = 1 << 31


@dataclass(frozen=True)
class WindowTests:
    """Tests of nodes and, after them, of surrogates; some are equal."""

    # Column of the input that is tested, -1 for the boundaries of sequences.
    columns: np.ndarray
    # Code of the value that passes, see `treecrf.export.columns`.
    codes: np.ndarray
    # Position of the value, relative to the labeled one.
    offsets: np.ndarray
    # Numbers above the threshold pass; 0 for other tests.
    thresholds: np.ndarray
    # Whether numbers up to the threshold pass instead.
    are_reversed: np.ndarray

    @classmethod
    def of(
        cls, columns: np.ndarray, offsets: np.ndarray, values: np.ndarray, encoder: Encoder
    ) -> WindowTests:
        """Convert tests of an encoder's columns to tests of the columns of the input."""
        learned = encoder.columns
        layout = encoder.layout
        is_number = (columns >= 0) & ~learned.is_category[columns] & (values != MISSING)
        codes = np.where(is_number, NUMBER_CODE, values + 1)
        codes[values == MISSING] = MISSING_CODE
        has_threshold = is_number & learned.is_number[columns]
        thresholds = np.zeros(len(columns))
        thresholds[has_threshold] = learned.thresholds[
            learned.starts[columns[has_threshold]] + values[has_threshold]
        ]
        # Tests of numbers in lists point away from 0, see `ColumnLayout.lookups`.
        is_listed = (layout.storage == LISTS) & ~layout.has_one_id
        are_reversed = has_threshold & is_listed[columns] & (values < layout.zeros[columns])
        sources = columns
        if encoder.imputation is not None:
            is_indicator = columns >= encoder.n_features
            codes[is_indicator] = MISSING_CODE
            sources = np.where(columns >= 0, encoder.imputation.sources[columns], BOUNDARY)
        return cls(sources, codes, offsets, thresholds, are_reversed)

    @property
    def values(self) -> Values:
        """The values that are tested."""
        on_column = self.columns != BOUNDARY
        return Values(self.columns[on_column], self.codes[on_column])


@dataclass(frozen=True)
class ForestTables:
    """A forest, and what a labeler reads of it."""

    # The trees.
    forest: Forest
    # Encoder of their columns.
    encoder: Encoder

    @cached_property
    def packed(self) -> dict[str, np.ndarray]:
        """All nodes, in one array for each field."""
        return self.forest.pack()

    @cached_property
    def is_inner(self) -> np.ndarray:
        """Whether each node has children."""
        return self.packed["true_child"] >= 0

    @cached_property
    def on_label(self) -> np.ndarray:
        """Whether each node tests a previous label."""
        return self.is_inner & (self.packed["column"] == LABEL)

    @cached_property
    def tests(self) -> WindowTests:
        """Tests of the nodes that test the window and, after them, of surrogates."""
        nodes = np.stack([self.packed[name] for name in TEST])[:, self.is_inner & ~self.on_label]
        surrogates = np.stack([self.packed[f"surrogate_{name}"] for name in TEST])
        columns, offsets, values = np.hstack([nodes, surrogates]).astype(np.int64)
        return WindowTests.of(columns, offsets, values, self.encoder)

    def tables(self, columns: LabelerColumns, name: str) -> Tables:
        """Return all tables of the trees; ``name`` is of the estimator, for errors."""
        tests, numbers = self._test_tables(columns)
        tables = tests | self._node_tables(numbers, int(tests.constants["N_TESTS"]), name)
        if self.encoder.imputation is not None:
            fills = columns.fills_of(self.encoder.imputation.values)
            tables |= Tables({"HAS_TREE_FILLS": 1}, {"tree_fills": fills})
        return tables

    # Tests

    def _test_tables(self, columns: LabelerColumns) -> tuple[Tables, np.ndarray]:
        """Return tables of the distinct tests, and the number of each test among them.

        They are sorted by place; boundaries come last. There is at least one.
        """
        tests = self.tests
        places = np.full(len(tests.columns), columns.n_places)
        places[tests.columns != BOUNDARY] = columns.places_of(tests.values)
        fields = np.stack([places, tests.are_reversed, tests.thresholds, tests.offsets])
        never = np.array([[columns.n_places], [0], [0], [0]])
        distinct, numbers = np.unique(np.hstack([fields, never]), axis=1, return_inverse=True)
        places, are_reversed, thresholds, offsets = distinct
        places = places.astype(np.int64)
        starts = np.searchsorted(places, np.arange(columns.n_places + 1))
        n_thresholds = int(starts[columns.n_number_places])
        is_value = (places[:n_thresholds] % 2).astype(bool)
        passes_zero = (
            is_value & (thresholds[:n_thresholds] < 0) & ~are_reversed.astype(bool)[:n_thresholds]
        )
        zero_tests = np.flatnonzero(passes_zero)
        constants = {
            "N_TESTS": len(places),
            "FIRST_BOUNDARY": int(starts[-1]),
            "N_THRESHOLDS": n_thresholds,
            "HAS_REVERSED": int(are_reversed.any()),
            "N_ZERO_TESTS": len(zero_tests),
            "LEAST_OFFSET": int(offsets.min()),
            "GREATEST_OFFSET": int(offsets.max()),
        }
        arrays = {"test_offsets": offsets.astype(np.int64), "place_tests": starts}
        if n_thresholds:
            arrays["thresholds"] = thresholds[:n_thresholds]
        if are_reversed.any():
            arrays["test_is_reversed"] = are_reversed[:n_thresholds].astype(np.uint8)
        if len(zero_tests):
            arrays["zero_tests"] = zero_tests
        return Tables(constants, arrays), numbers.reshape(-1)[:-1]

    # Nodes

    @cached_property
    def children(self) -> np.ndarray:
        """The true and the false child of each node among all nodes, (2, n_nodes)."""
        starts = self.packed["starts"].astype(np.int64)
        roots = np.repeat(starts[:-1], np.diff(starts))
        return roots + np.stack([self.packed["true_child"], self.packed["false_child"]])

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The inner nodes at each distance from the root."""
        levels = []
        nodes = self.packed["starts"][:-1].astype(np.int64)
        while len(nodes := nodes[self.is_inner[nodes]]):
            levels.append(nodes)
            nodes = self.children[:, nodes].ravel()
        return levels

    @cached_property
    def preorder(self) -> np.ndarray:
        """Number of each node if true children follow their parents."""
        sizes = np.ones(len(self.is_inner), dtype=np.int64)
        for nodes in reversed(self.levels):
            sizes[nodes] += sizes[self.children[:, nodes]].sum(axis=0)
        numbers = np.zeros(len(sizes), dtype=np.int64)
        roots = self.packed["starts"][:-1]
        numbers[roots] = roots
        for nodes in self.levels:
            passed, failed = self.children[:, nodes]
            numbers[passed] = numbers[nodes] + 1
            numbers[failed] = numbers[nodes] + 1 + sizes[passed]
        return numbers

    def _node_tables(self, test_numbers: np.ndarray, n_tests: int, name: str) -> Tables:
        """Return the tables of nodes, given the number of each test of the window."""
        label_test = n_tests
        leaf = n_tests + 1
        on_window = self.is_inner & ~self.on_label
        n_nodes = len(self.is_inner)
        tests = np.full(n_nodes, leaf)
        tests[self.on_label] = label_test
        tests[on_window] = test_numbers[: np.count_nonzero(on_window)]
        links = np.zeros(n_nodes, dtype=np.int64)
        inner = np.flatnonzero(self.is_inner)
        links[inner] = self.preorder[self.children[1, inner]] - self.preorder[inner]
        values = np.zeros(n_nodes, dtype=np.int64)
        shares = self.packed["share"][inner]
        follows_surrogates = self.encoder.missing == "surrogate"
        values[inner] = shares >= 0.5 if follows_surrogates else np.rint(shares * WHOLE)
        tables = self._leaf_tables(values, links, name)
        if follows_surrogates:
            tables |= self._surrogate_tables(test_numbers[np.count_nonzero(on_window) :])
        order = np.argsort(self.preorder)
        constants = {
            "HAS_TREES": 1,
            "N_TREES": len(self.packed["starts"]) - 1,
            "LABEL_TEST": label_test,
            "MAX_VISITS": max(1, len(self.levels)),
            "FOLLOWS_SURROGATES": int(follows_surrogates),
        }
        arrays = {
            "tree_starts": self.packed["starts"][:-1],
            "node_tests": tests[order],
            "node_links": links[order],
            "node_values": values[order],
        }
        return tables | Tables(constants, arrays)

    def _leaf_tables(self, values: np.ndarray, links: np.ndarray, name: str) -> Tables:
        """Write the values of leaves and their sets of contexts to nodes; return further tables."""
        leaves = np.flatnonzero(~self.is_inner)
        units = self.packed["leaf"][leaves] / LEAF_UNIT
        if (units != np.rint(units)).any() or np.abs(units).max(initial=0) >= MAX_UNITS:
            raise unsupported(name, "leaves that are not rounded", "train it with this version")
        units = units.astype(np.int64)
        if self.forest.is_multi_output:
            values[leaves] = np.arange(len(leaves))
            return Tables({"IS_MULTI_OUTPUT": 1}, {"leaf_values": units.ravel()})
        values[leaves] = units
        if not self.on_label.any():
            return Tables()
        sets, numbers = self._context_sets(leaves)
        links[leaves] = numbers
        return set_tables(sets, self.forest.n_labels, name)

    def _context_sets(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct sets of contexts that reach leaves, and the set of each leaf.

        A set has the labels at each lag, bool (n_sets, order, n_labels + 1), the last one for none.
        The first set has all contexts.
        """
        shape = (self.forest.order, self.forest.n_labels + 1)
        masks = np.ones((len(self.is_inner), *shape), dtype=bool)
        for nodes in self.levels:
            passed, failed = self.children[:, nodes]
            masks[passed] = masks[failed] = masks[nodes]
            on_label = self.on_label[nodes]
            lags = self.packed["offset"][nodes[on_label]].astype(np.int64) - 1
            labels = self.packed["value"][nodes[on_label]].astype(np.int64)
            passed = passed[on_label]
            had_label = masks[passed, lags, labels]
            masks[passed, lags] = False
            masks[passed, lags, labels] = had_label
            masks[failed[on_label], lags, labels] = False
        every = np.ones((1, *shape), dtype=bool)
        flat = np.packbits(np.vstack([every, masks[leaves]]).reshape(len(leaves) + 1, -1), axis=1)
        _, firsts, numbers = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        # The sets in the order of their first leaves, so that the first is the set of all.
        order = np.argsort(firsts)
        ranks = np.argsort(order)
        return np.vstack([every, masks[leaves]])[firsts[order]], ranks[numbers.reshape(-1)][1:]

    def _surrogate_tables(self, numbers: np.ndarray) -> Tables:
        """Return the surrogates of each node in preorder, given the numbers of their tests."""
        counts = self.packed["n_surrogates"].astype(np.int64)
        starts = offsets_of(counts)
        order = np.argsort(self.preorder)
        surrogates = np.concatenate(
            [np.arange(starts[i], starts[i + 1]) for i in order] or [np.zeros(0, np.int64)]
        )
        arrays = {
            "surrogate_starts": offsets_of(counts[order]),
            "surrogate_tests": padded(numbers[surrogates]),
            "surrogate_is_reversed": padded(self.packed["reversed"][surrogates].astype(np.uint8)),
        }
        return Tables({}, arrays)


def set_tables(sets: np.ndarray, n_labels: int, name: str) -> Tables:
    """Return the contexts of each set, for each number of previous labels.

    If a set has most contexts, those that it lacks are listed.
    """
    order = sets.shape[1]
    symbols, firsts = extended_contexts(n_labels, order)
    lags = np.arange(order)
    lists = []
    are_complements = []
    n_listed = 0
    for labels in sets:
        is_member = labels[lags, symbols].all(axis=1)
        for depth in range(order + 1):
            own = is_member[firsts[depth] : firsts[depth] + n_labels**depth]
            is_complement = 2 * np.count_nonzero(own) > len(own)
            lists.append(np.flatnonzero(own != is_complement))
            are_complements.append(is_complement)
            n_listed += len(lists[-1])
        if n_listed > MAX_LISTED:
            raise unsupported(name, "trees that test too many contexts", "lower the order")
    arrays = {
        "set_starts": offsets_of(list(map(len, lists))),
        "set_contexts": padded(np.concatenate(lists)),
        "set_is_complement": np.array(are_complements, dtype=np.uint8),
    }
    return Tables({"HAS_SETS": 1}, arrays)
