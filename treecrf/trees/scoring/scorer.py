"""Scoring encoded positions with trees, by the fastest evaluator.

All evaluators give the same scores to the last bit: leaf values are multiples of 2**-20, so their
sums are exact in any order. This module chooses among three that fill tables of scores:

- `_evaluate.Evaluator` splits bit sets of positions down each tree, for all contexts at once. It
  handles everything and has no setup cost. Used for fewer than ``MIN_TREES`` trees at fewer than
  ``MANY_POSITIONS`` positions, for more than ``MAX_CONTEXTS`` contexts, for positions with missing
  values, and for all positions if more than ``MAX_MISSING`` of them have missing values.
- `_lookup.LookupEvaluator` computes the leaf numbers of thousands of positions, bit by bit, and
  looks up the values of the leaves. Used for at least ``MIN_POSITIONS`` positions of the same
  depth, with trees that `_lookup.can_run` accepts, as nearly all are.
- `_few.Walker` takes one position at a time down each tree, in all contexts at once. Used for
  fewer positions, which would take `LookupEvaluator` as long as hundreds.

For short sequences, `treecrf.learners.linear._compiled` computes the tests itself, and chooses
between `Walker` and `QuickScorer`, which only looks at the tests that hold.

Elsewhere, `_route.PartsEvaluator` adds trees to scores in parts, in training (see `Router`), and
`treecrf.trees._tree_scores.TreeScores` takes single contexts down each tree, in beam search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.encoded import EncodedColumns, EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import LISTED, MISSING
from treecrf.trees.growing.window_tests import missing_values
from treecrf.trees.scoring._answers import find_distinct, mark_missing
from treecrf.trees.scoring._evaluate import Evaluator
from treecrf.trees.scoring._few import MAX_LEAVES, QuickScorer, Walker
from treecrf.trees.scoring._lookup import LookupEvaluator, can_run, has_permutes
from treecrf.trees.scoring._route import PartsEvaluator
from treecrf.utils.scratch import Allocate, relocated
from treecrf.utils.threads import Threads

# Column of the tests of previous labels.
LABEL = -2
# Minimum number of trees, or of positions, for evaluators with a setup cost.
MIN_TREES, MANY_POSITIONS = 50, 1 << 13
# `Walker` represents contexts as the bits of a word; `LookupEvaluator` stores sums for each.
MAX_CONTEXTS = 64
# Minimum number of positions for `LookupEvaluator`.
MIN_POSITIONS = 16
# Maximum fraction of positions with missing values for the others to be scored separately.
MAX_MISSING = 1 / 4
# Minimum number of positions of a part for a thread. Even few positions may take long: the first to
# be scored are those that the system finds memory for.
PART = 1 << 9
NO_POSITIONS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class DistinctTests:
    """Distinct tests of rows: tests of nodes, of surrogates alone, and of missing values.

    A missing-value test holds where the value of a column is missing. Tests of nodes are the first
    ``n_plain``; only these matter where no value is missing. Tests that read the same bytes are
    adjacent.
    """

    offsets: np.ndarray  # int32, like the next four
    kinds: np.ndarray  # see `treecrf.encoding.plan.Plan.lookups`
    slots: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    missing: np.ndarray  # missing-value test of each test, -1 where no value can be missing
    n_plain: int
    window: tuple[int, int]
    n_ids: int  # in lists

    def __len__(self) -> int:
        """Return the number of distinct tests."""
        return len(self.kinds)

    @cached_property
    def by_id(self) -> np.ndarray:
        """The test for one listed id, by offset and id; -1 where there is none."""
        if LISTED not in self.kinds:
            return np.empty((0, 0), dtype=np.int32)
        table = np.full((sum(self.window) + 1, self.n_ids), -1, dtype=np.int32)
        of_one_id = np.flatnonzero((self.kinds == LISTED) & (self.highs == self.lows + 1))
        # Of equal tests, the first one counts.
        of_one_id = of_one_id[::-1]
        table[self.offsets[of_one_id] + self.window[0], self.lows[of_one_id]] = of_one_id
        return table


def find_distinct_tests(
    nodes: np.ndarray, surrogates: np.ndarray, encoder: Encoder
) -> tuple[DistinctTests, np.ndarray, np.ndarray]:
    """Find the distinct tests of some nodes and surrogates, and the index of each of these.

    ``nodes`` and ``surrogates`` hold columns, offsets and values of window tests, (3, n).
    """
    columns, offsets, values = np.hstack([nodes, surrogates]).astype(np.int32)
    plan, n_nodes = encoder.plan, nodes.shape[1]
    kinds, slots, lows, highs = plan.lookups(encoder.columns, columns, values)
    parts = np.stack([offsets, kinds, slots, lows, highs, columns])
    order, missing = np.lexsort(parts[::-1]), missing_values(plan, columns, values)
    found, indices, n_plain = find_distinct(parts, order, missing, n_nodes)
    if (values == MISSING).any():
        _share_ids(found)
    tests = DistinctTests(*found, n_plain=n_plain, window=encoder.window, n_ids=plan.n_all_ids)
    return tests, indices[:n_nodes], indices[n_nodes:]


def _share_ids(tests: np.ndarray) -> None:
    """Let missing-value tests of listed ids be those of nodes and surrogates, where these exist."""
    offsets, kinds, _, lows, highs, missing = tests
    listed = np.flatnonzero((kinds == LISTED) & (highs == lows + 1))
    ids = np.stack([offsets, lows])[:, listed]
    _, first, inverse = np.unique(ids, axis=1, return_index=True, return_inverse=True)
    same = np.arange(len(kinds) + 1)
    same[listed] = listed[first[inverse.reshape(-1)]]
    missing[:] = np.where(missing >= 0, same[missing], -1)


@dataclass(frozen=True)
class PackedTrees:
    """Trees as the kernels read them."""

    nodes: dict[str, np.ndarray]  # the arrays of `treecrf.trees.forest.Forest.pack`
    n_labels: int
    classes: np.ndarray
    tests: DistinctTests  # of the window
    test_of_node: np.ndarray  # index among tests, then tests of previous labels; -1 in a leaf
    surrogates: np.ndarray  # index of each among tests

    @classmethod
    def of(cls, nodes: dict[str, np.ndarray], encoder: Encoder, n_labels: int) -> PackedTrees:
        """Pack trees."""
        on_label = nodes["column"] == LABEL
        on_window = (nodes["true_child"] >= 0) & ~on_label
        names = ("column", "offset", "value")
        of_windows, of_surrogates = (
            np.stack([nodes[prefix + name] for name in names]) for prefix in ("", "surrogate_")
        )
        tests, window_tests, surrogates = find_distinct_tests(
            of_windows[:, on_window], of_surrogates, encoder
        )
        test_of_node = np.full(len(on_label), -1, dtype=np.int32)
        test_of_node[on_window] = window_tests
        label_tests = (nodes["offset"] - 1) * (n_labels + 1) + nodes["value"]
        test_of_node[on_label] = (len(tests) + label_tests)[on_label]
        classes = np.arange(len(nodes["starts"]) - 1, dtype=np.int32) % n_labels
        return cls(nodes, n_labels, classes, tests, test_of_node, surrogates)

    @property
    def starts(self) -> np.ndarray:
        """First node of each tree, and the number of nodes; int32."""
        return self.nodes["starts"]

    @property
    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """True and false child of each node, counted from the start of its tree; int32."""
        return tuple(self.nodes[f"{side}_child"].astype(np.int32) for side in ("true", "false"))

    @property
    def surrogate_starts(self) -> np.ndarray:
        """First surrogate of each node, and the number of surrogates; int32."""
        return np.append(0, np.cumsum(self.nodes["n_surrogates"])).astype(np.int32)


@dataclass(frozen=True)
class Scoring:
    """Positions to score, and their scores."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8; number of labels before each position that define its context
    given: np.ndarray | None  # previous labels; with them, a position has one context
    scores: np.ndarray  # to which the values of trees are added
    threads: Threads

    def take(self, positions: np.ndarray, scores: np.ndarray) -> Scoring:
        """Select some of the positions, with separate scores."""
        rows = self.encoded.row_of_position[positions]
        given = None if self.given is None else np.ascontiguousarray(self.given[:, positions])
        encoded = replace(self.encoded, row_of_position=rows)
        return replace(
            self, encoded=encoded, depth=self.depth[positions], given=given, scores=scores
        )

    def run(self, evaluator: Any, *arguments: Any) -> None:
        """Let an evaluator add to the scores, part by part."""
        self.threads.map(
            lambda part: evaluator.add_scores(self, *arguments, *part),
            self.threads.even_parts(self.encoded.n_positions, PART),
        )


class Scorer:
    """Trees with the evaluators to score encoded positions."""

    def __init__(self, packed: PackedTrees, encoder: Encoder, order: int, is_given: bool):
        self.packed = packed
        self.encoder = encoder
        self.n_given = order if is_given else 0
        self.order = 0 if is_given else order
        self._lookups: dict[tuple[int, bool], LookupEvaluator] = {}
        self._lock = Lock()

    def add_scores(self, scoring: Scoring) -> None:
        """Add the trees' values to the scores."""
        n_contexts = self.packed.n_labels**self.order
        n_trees, n_positions = len(self.packed.classes), len(scoring.depth)
        has_much = n_trees >= MIN_TREES or n_positions >= MANY_POSITIONS
        if not has_much or n_contexts > MAX_CONTEXTS or not self.has_program:
            scoring.run(self.sets)
            return
        missing = self.with_missing(scoring.encoded)
        if len(missing) > MAX_MISSING * n_positions:
            scoring.run(self.sets)
        elif len(missing) == 0 and n_positions < MIN_POSITIONS:
            scoring.run(self.walker, None)
        else:
            if len(missing):
                # They may go to both sides of a test.
                scores = scoring.scores
                added = np.zeros((len(scores), len(missing), scores.shape[2]))
                scoring.take(missing, added).run(self.sets)
                scores[:, missing] += added
            is_complete = np.ones(n_positions, dtype=bool)
            is_complete[missing] = False
            few = []
            for depth in range(self.order + 1):
                positions = np.flatnonzero(is_complete & (scoring.depth == depth)).astype(np.int32)
                if len(positions) < MIN_POSITIONS:
                    few.append(positions)
                elif len(positions):
                    evaluator = self._lookup_at(depth)
                    scoring.take(positions, scoring.scores).run(evaluator, positions)
            positions = np.concatenate(few) if few else is_complete[:0]
            if len(positions):
                scoring.take(positions, scoring.scores).run(self.walker, positions)

    def with_missing(self, encoded: EncodedSequences) -> np.ndarray:
        """Find the positions that lack the value of any test."""
        if not encoded.has_missing.any():
            return NO_POSITIONS
        found = np.zeros(encoded.n_positions, dtype=np.uint8)
        mark_missing(self.packed.tests, encoded, found)
        return np.flatnonzero(found)

    # Evaluators

    @cached_property
    def sets(self) -> Evaluator:
        """Evaluator by sets of positions."""
        return self._sets_of(*extended_contexts(self.packed.n_labels, self.order))

    @cached_property
    def members(self) -> Evaluator:
        """Evaluator that lists the members of leaves in any context."""
        lags = self.order
        return self._sets_of(np.zeros((1, lags), np.int32), np.zeros(lags + 1, np.int64))

    def _sets_of(self, symbols: np.ndarray, depth_starts: np.ndarray) -> Evaluator:
        follows_surrogates = self.encoder.missing == "surrogate"
        return Evaluator(self.packed, symbols, depth_starts, self.n_given, follows_surrogates)

    @cached_property
    def has_program(self) -> bool:
        """Whether `LookupEvaluator` supports the trees."""
        packed = self.packed
        return can_run(packed, len(packed.tests) + self.n_given * (packed.n_labels + 1))

    @cached_property
    def walker(self) -> Walker:
        """Evaluator of few positions."""
        return Walker(self.packed, self.n_given, *self._passing)

    @cached_property
    def quick_scorer(self) -> QuickScorer | None:
        """Evaluator of few positions where few tests hold; None if some tree has many leaves."""
        is_leaf = self.packed.test_of_node < 0
        n_leaves = np.add.reduceat(is_leaf, self.packed.starts[:-1])
        return QuickScorer(self.packed, *self._passing) if n_leaves.max() <= MAX_LEAVES else None

    @cached_property
    def _passing(self) -> tuple[np.ndarray, list[int]]:
        """The contexts that pass each test of a previous label, and their number, by depth."""
        n_labels = self.packed.n_labels
        symbols, starts = extended_contexts(n_labels, self.order)
        sizes = [n_labels**depth for depth in range(self.order + 1)]
        passing = [
            passing_contexts(symbols[start : start + n], n_labels)
            for start, n in zip(starts.tolist(), sizes, strict=True)
        ]
        return np.stack(passing), sizes

    def _lookup_at(self, depth: int) -> LookupEvaluator:
        """Return the evaluator for many positions with this many labels before them."""
        key = depth, has_permutes()
        packed = self.packed
        with self._lock:  # threads should not make the same evaluator twice
            if key not in self._lookups:
                on_label = packed.test_of_node >= len(packed.tests)
                on_label &= self.order > 0  # given labels are tested like the window
                trees = np.arange(len(packed.classes))
                tree_of = np.repeat(trees, np.diff(packed.starts))[on_label]
                tests = packed.test_of_node[on_label] - len(packed.tests)
                symbols, starts = extended_contexts(packed.n_labels, self.order)
                here = symbols[starts[depth] : starts[depth] + packed.n_labels**depth]
                groups = groups_of(packed.classes, tree_of, tests, here, packed.n_labels)
                self._lookups[key] = LookupEvaluator(packed, self.n_given, groups, key[1])
        return self._lookups[key]


class Router:
    """Positions to whose scores trees are added."""

    def __init__(self, encoder: Encoder, encoded: EncodedSequences, order: int):
        self.encoder = encoder
        self._columns = EncodedColumns.of(encoded)
        self._rows = encoded.row_of_position
        self._depth = encoded.depth_of(order)
        self._has_missing = bool(encoded.has_missing.any())
        self._order = order

    def keep_in(self, allocate: Allocate) -> None:
        """Move the columns to arrays from a function such as `Scratch.allocate`."""
        self._columns = relocated(self._columns, allocate)

    def add(self, packed: PackedTrees, parts: ScoreParts, threads: Threads) -> None:
        """Add the values of trees to the parts of scores."""
        evaluator = PartsEvaluator(
            packed,
            *extended_contexts(packed.n_labels, self._order),
            self.encoder.missing == "surrogate",
            self._columns,
            self._has_missing,
        )
        # The largest absolute value of a leaf of each tree.
        values = np.where(packed.nodes["true_child"] < 0, np.abs(packed.nodes["leaf"]), 0)
        largest = np.maximum.reduceat(values, packed.starts[:-1])
        parts.make_room(np.bincount(packed.classes, largest, packed.n_labels))
        if evaluator.tests_labels:
            parts.ensure_rest()
        evaluator.add_defaults(parts.transitions)
        n = len(self._rows)
        threads.map(
            lambda part: evaluator.add(parts, self._rows, self._depth, *part),
            threads.even_parts(n, PART) if n else [],
        )


@dataclass(frozen=True)
class Groups:
    """Groups of contexts with the same outcomes of all tests of previous labels in some trees.

    Each tree of a class divides the contexts into groups. A group that several trees have in common
    is stored once. The groups are ordered by class.
    """

    # uint8 (n_contexts, order * (n_labels + 1) + 1): whether each context passes the tests of
    # previous labels; the last column is unused.
    outcomes: np.ndarray
    classes: np.ndarray
    members: np.ndarray  # uint8 (n_groups, n_contexts)
    starts: np.ndarray  # first of the trees of each group
    trees: np.ndarray  # that have each group


def groups_of(
    classes: np.ndarray,
    tree_of: np.ndarray,
    label_tests: np.ndarray,
    symbols: np.ndarray,
    n_labels: int,
) -> Groups:
    """Group contexts, given tests of previous labels and, ascending, the trees they are in.

    A test is ``lag * (n_labels + 1) + symbol``, where lag 0 is the label before. ``symbols`` holds
    the label at each lag of each context.
    """
    outcomes = outcomes_of(symbols, n_labels)
    cuts = np.searchsorted(tree_of, np.arange(len(classes) + 1)).tolist()
    found: dict[tuple[int, bytes], list[int]] = {}
    parted: dict[bytes, list[bytes]] = {}
    for tree, class_ in enumerate(classes.tolist()):
        tests = np.unique(label_tests[cuts[tree] : cuts[tree + 1]])
        key = tests.tobytes()
        if key not in parted:
            parted[key] = _parts(outcomes[:, tests])
        for members in parted[key]:
            found.setdefault((class_, members), []).append(tree)
    ordered = sorted(found)
    members = np.frombuffer(b"".join(group for _, group in ordered), dtype=np.uint8)
    return Groups(
        outcomes=np.ascontiguousarray(np.pad(outcomes, [(0, 0), (0, 1)]), dtype=np.uint8),
        classes=np.array([class_ for class_, _ in ordered], dtype=np.int32),
        members=members.reshape(len(ordered), len(symbols)),
        starts=np.cumsum([0, *(len(found[group]) for group in ordered)]).astype(np.int32),
        trees=np.array([tree for group in ordered for tree in found[group]], dtype=np.int32),
    )


def outcomes_of(symbols: np.ndarray, n_labels: int) -> np.ndarray:
    """Mark the contexts that pass each test of previous labels; (n_contexts, n_tests)."""
    lag, symbol = np.divmod(np.arange(symbols.shape[1] * (n_labels + 1)), n_labels + 1)
    return symbols[:, lag] == symbol


def passing_contexts(symbols: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the contexts (at most 64) that pass each test, as bits; uint64 array (n_tests,)."""
    bits = np.packbits(outcomes_of(symbols, n_labels), axis=0, bitorder="little").T
    words = np.zeros((len(bits), 8), dtype=np.uint8)
    words[:, : bits.shape[1]] = bits
    return words.view("<u8")[:, 0].astype(np.uint64)


def _parts(outcomes: np.ndarray) -> list[bytes]:
    """Return the sets of equal rows, as masks of all rows."""
    found: dict[bytes, np.ndarray] = {}
    # A dict takes a fraction of the time of np.unique.
    for context, row in enumerate(np.packbits(outcomes, axis=1)):
        members = found.setdefault(row.tobytes(), np.zeros(len(outcomes), dtype=np.uint8))
        members[context] = 1
    return [members.tobytes() for members in found.values()]
