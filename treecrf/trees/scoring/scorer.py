"""Ways to score positions with trees, and which of them is the fastest.

All give the same scores to the last bit: the values of leaves are multiples of 2**-40, so that
their sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.scoring._answers import mark_missing
from treecrf.trees.scoring._evaluate import Evaluator
from treecrf.trees.scoring._lookup import LookupEvaluator
from treecrf.trees.scoring._walk import Walker
from treecrf.trees.scoring.context_groups import Groups, groups_of
from treecrf.trees.scoring.distinct_tests import DistinctTests, find_distinct_tests
from treecrf.utils.threads import Threads

# Fewer positions than this walk down the trees one by one: to part a set of few takes as long as to
# part a set of many.
FEW = 20
# The faster ways keep something for each context, and take some time before the first tree.
MAX_CONTEXTS = 64
FEW_TREES = 50
# Where more positions miss values, it does not pay to score the others apart.
MAX_GAPPED = 1 / 4
# Positions of a part for a thread: a block, or half of one.
PART = 1 << 12


class Packed(NamedTuple):
    """Trees as the kernels take them.

    ``nodes`` are the arrays of `treecrf.trees.forest.Forest.pack`, ``tests`` their places among the
    questions, behind which those of previous labels follow.
    """

    nodes: dict[str, np.ndarray]
    classes: np.ndarray
    tests: np.ndarray
    asked: DistinctTests
    surrogates: np.ndarray

    @classmethod
    def of(
        cls, packed: dict[str, np.ndarray], encoder: Encoder, n_labels: int, on_label: np.ndarray
    ) -> Packed:
        """Find out what the tests ask; ``on_label`` tells those of previous labels."""
        on_window = (packed["true_child"] >= 0) & ~on_label
        names = ("column", "offset", "value")
        nodes, surrogates = (
            np.stack([packed[prefix + name] for name in names]).astype(np.int64)
            for prefix in ("", "surrogate_")
        )
        asked, of_nodes, of_surrogates = find_distinct_tests(
            nodes[:, on_window], surrogates, encoder
        )
        tests = np.full(len(on_label), -1, dtype=np.int32)
        tests[on_window] = of_nodes
        of_labels = (packed["offset"] - 1) * (n_labels + 1) + packed["value"]
        tests[on_label] = (len(asked.kinds) + of_labels)[on_label]
        classes = np.arange(len(packed["starts"]) - 1, dtype=np.int32) % n_labels
        return cls(packed, classes, tests, asked, of_surrogates)

    @property
    def trees(self) -> tuple[np.ndarray, ...]:
        """Starts, classes, tests and children."""
        children = (self.nodes[f"{side}_child"].astype(np.int32) for side in ("true", "false"))
        return (self.nodes["starts"], self.classes, self.tests, *children)


class Scorer:
    """Some trees, ready to score encoded positions in the way that is fastest for them.

    Parameters
    ----------
    packed : Packed
    encoder : Encoder
    n_labels, order : int
    is_given : bool
        Whether the previous labels are given; then a position has one context.
    """

    def __init__(self, packed: Packed, encoder: Encoder, n_labels: int, order: int, is_given: bool):
        self.packed = packed
        self.encoder = encoder
        self.n_labels = n_labels
        self.n_given = order if is_given else 0
        self.order = 0 if is_given else order
        self._groups: dict[int, Groups] = {}

    def add_scores(
        self,
        encoded: EncodedSequences,
        depth: np.ndarray,
        given: np.ndarray | None,
        threads: Threads,
        scores: np.ndarray,
    ) -> None:
        """Add the trees' values to ``scores[class, position, context]``.

        Parameters
        ----------
        encoded : EncodedSequences
        depth : uint8 array (n_positions,)
            Number of labels before each position that tell its context apart.
        given : uint8 array (order, n_positions) or None
            The label at each lag before each position.
        """
        is_small = len(self.packed.classes) < FEW_TREES
        if is_small or self.n_labels**self.order > MAX_CONTEXTS:
            self._add_by_sets(encoded, depth, given, threads, scores)
            return
        gapped = self.gapped(encoded)
        if len(gapped) > MAX_GAPPED * len(depth):
            self._add_by_sets(encoded, depth, given, threads, scores)
            return
        if len(gapped):
            self.add_with_missing(encoded, depth, given, threads, scores, gapped)
        whole = np.ones(len(depth), dtype=bool)
        whole[gapped] = False
        for d in range(self.order + 1):
            places = np.flatnonzero(whole & (depth == d)).astype(np.int32)
            if len(places):
                self._add_whole(encoded, d, given, threads, scores, places)

    def _add_whole(
        self,
        encoded: EncodedSequences,
        depth: int,
        given: np.ndarray | None,
        threads: Threads,
        scores: np.ndarray,
        places: np.ndarray,
    ) -> None:
        """Score positions that miss no value, with the same number of labels before them."""
        some, given = _some(encoded, given, places)
        groups = self._groups_at(depth)
        scorer = self.walker if len(places) < FEW else self.lookup
        threads.map(
            lambda part: scorer.add_scores(some, groups, given, places, *part, scores),
            threads.even_parts(len(places), PART),
        )

    def add_with_missing(
        self,
        encoded: EncodedSequences,
        depth: np.ndarray,
        given: np.ndarray | None,
        threads: Threads,
        scores: np.ndarray,
        gapped: np.ndarray,
    ) -> None:
        """Score positions that miss values: they may go to both sides of a test in part."""
        some, given = _some(encoded, given, gapped)
        of_some = np.zeros((len(scores), len(gapped), scores.shape[2]))
        self._add_by_sets(some, depth[gapped], given, threads, of_some)
        scores[:, gapped] += of_some

    def _add_by_sets(
        self,
        encoded: EncodedSequences,
        depth: np.ndarray,
        given: np.ndarray | None,
        threads: Threads,
        scores: np.ndarray,
    ) -> None:
        threads.map(
            lambda part: self.sets.add_scores(encoded, depth, given, *part, scores),
            threads.even_parts(encoded.n_positions, PART),
        )

    def gapped(self, encoded: EncodedSequences) -> np.ndarray:
        """Positions that miss a value of any test."""
        found = np.zeros(encoded.n_positions, dtype=np.uint8)
        if encoded.has_missing.any():
            mark_missing(self.packed.asked, encoded, found)
        return np.flatnonzero(found)

    # The ways

    @cached_property
    def sets(self) -> Evaluator:
        """By sets of positions, some of which may be in them in part."""
        return self._sets_of(*extended_contexts(self.n_labels, self.order))

    @cached_property
    def members(self) -> Evaluator:
        """The same sets to look at, whatever the previous labels are."""
        lags = self.order
        return self._sets_of(np.zeros((1, lags), np.int32), np.zeros(lags + 1, np.int64))

    def _sets_of(self, symbols: np.ndarray, depth_starts: np.ndarray) -> Evaluator:
        packed = self.packed
        nodes = packed.nodes
        starts = np.append(0, np.cumsum(nodes["n_surrogates"])).astype(np.int32)
        return Evaluator(
            packed.asked,
            packed.trees,
            nodes["leaf"],
            nodes["share"],
            (starts, packed.surrogates, nodes["reversed"].astype(np.uint8)),
            self.encoder.missing == "surrogate",
            symbols,
            depth_starts,
            self.n_labels,
            self.n_given,
        )

    @cached_property
    def lookup(self) -> LookupEvaluator:
        """By sets of positions, whose values are looked up by the numbers of leaves."""
        return LookupEvaluator(*self._plain())

    @cached_property
    def walker(self) -> Walker:
        """One position after the other."""
        return Walker(*self._plain())

    def _plain(self) -> tuple:
        packed = self.packed
        return packed.asked, packed.trees, packed.nodes["leaf"], self.n_labels, self.n_given

    def _groups_at(self, depth: int) -> Groups:
        """Groups of the contexts of positions with so many labels before them."""
        if depth not in self._groups:
            packed = self.packed
            on_label = packed.tests >= len(packed.asked.kinds)
            on_label &= self.order > 0  # labels that are given are like the window
            trees = np.arange(len(packed.classes))
            tree_of = np.repeat(trees, np.diff(packed.nodes["starts"]))[on_label]
            tests = packed.tests[on_label] - len(packed.asked.kinds)
            symbols, starts = extended_contexts(self.n_labels, self.order)
            here = symbols[starts[depth] : starts[depth] + self.n_labels**depth]
            self._groups[depth] = groups_of(packed.classes, tree_of, tests, here, self.n_labels)
        return self._groups[depth]


def _some(
    encoded: EncodedSequences, given: np.ndarray | None, places: np.ndarray
) -> tuple[EncodedSequences, np.ndarray | None]:
    """Some positions, and the labels before them."""
    some = replace(encoded, row_of_position=encoded.row_of_position[places])
    return some, None if given is None else np.ascontiguousarray(given[:, places])
