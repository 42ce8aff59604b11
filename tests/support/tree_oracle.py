"""Slow reference implementations of trees: growth on a table of all examples, tests on raw data.

As in ``oracles``, whose conventions hold here, no code of the package is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from support.oracles import extended_contexts


def window_test_truth(
    sequences: Sequence, tests: Sequence[tuple[str, int, int, object]]
) -> np.ndarray:
    """Return the truth of each window test at each position of all sequences, (n_tests, N).

    A sequence is a 2-D array, or a list or string of symbols (its only column is 0). A test is
    ``(kind, column, offset, value)``: "boundary" is true if the offset is outside the sequence,
    where the others are false; "category" is ``x == value``, "number" is ``x > value``,
    "at most" is ``x <= value`` and "boolean" is ``x``.
    """
    truth = [
        [_window_test(sequence, t, *test) for sequence in sequences for t in range(len(sequence))]
        for test in tests
    ]
    n_positions = sum(len(sequence) for sequence in sequences)
    return np.array(truth, dtype=bool).reshape(len(tests), n_positions)


def window_test_missing(
    sequences: Sequence, tests: Sequence[tuple[str, int, int, object]]
) -> np.ndarray:
    """Return whether the value that each test needs is missing at each position, (n_tests, N).

    A missing value is NaN. No value is missing outside of the sequence.
    """
    missing = [
        [_is_missing(sequence, t, test) for sequence in sequences for t in range(len(sequence))]
        for test in tests
    ]
    n_positions = sum(len(sequence) for sequence in sequences)
    return np.array(missing, dtype=bool).reshape(len(tests), n_positions)


def _is_missing(sequence, t: int, test: tuple) -> bool:
    kind, column, offset, _ = test
    if kind in ("boundary", "missing") or not 0 <= t + offset < len(sequence):
        return False
    x = _value(sequence, t + offset, column)
    return bool(x != x)


def _value(sequence, t: int, column: int):
    return sequence[t][column] if getattr(sequence, "ndim", 1) == 2 else sequence[t]


def _window_test(sequence, t: int, kind: str, column: int, offset: int, value) -> bool:
    inside = 0 <= t + offset < len(sequence)
    if kind == "boundary":
        return not inside
    if not inside:
        return False
    x = _value(sequence, t + offset, column)
    if kind == "missing":
        return bool(x != x)
    if kind == "category":
        return bool(x == value)
    if kind == "number":
        return bool(x > value)
    if kind == "at most":
        return bool(x <= value)
    if kind == "boolean":
        return bool(x)
    raise ValueError(f"unknown kind of test: {kind!r}")


def meaning_of_tests(encoder, columns, offsets, values) -> list[tuple[str, int, int, object]]:
    """Return window tests for `window_test_truth` from their encoding.

    Column -1 is the boundary; a value is the index of a category or of a threshold, or -1 for
    whether a value is missing. Columns in
    lists (storage 2) have "at most" tests for negative thresholds, because rows list no zeros.
    """
    meanings: list[tuple[str, int, int, object]] = []
    for column, offset, value in zip(columns, offsets, values, strict=True):
        if column == -1:
            meanings.append(("boundary", 0, int(offset), None))
            continue
        if value == -1:
            meanings.append(("missing", int(column), int(offset), None))
            continue
        learned = encoder.columns[column]
        kind, operand = learned.kind, None
        if kind != "boolean":
            operand = learned.values[value].item()
            if kind == "number" and encoder.layout.storage[column] == 2 and operand < 0:
                kind = "at most"
        meanings.append((kind, int(column), int(offset), operand))
    return meanings


class NaiveNode(NamedTuple):
    """A node; nodes are numbered in creation order.

    A leaf has -1 as ``test``, ``true_child`` and ``false_child``, and gain 0. The value of a node
    is that which it has (or would have) as a leaf, including the learning rate. ``share`` is the
    fraction of the examples' weight that passes a test, among those without a missing value; 0 for
    leaves. Surrogates are pairs (test, whether its outcome is reversed).
    """

    test: int
    true_child: int
    false_child: int
    value: float
    gain: float
    weight: float
    share: float = 0.0
    surrogates: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class NaiveTree:
    """A grown tree, the leaf of every example, and the tree's contribution to the scores.

    ``leaves`` and ``increments`` have shape (N, C); entries without an example are -1 and 0. An
    example that is in several leaves is assigned to the one that has the largest part of it.
    """

    nodes: list[NaiveNode]
    leaves: np.ndarray
    increments: np.ndarray


@dataclass(frozen=True)
class MissingValues:
    """Missing values, and their treatment.

    ``missing`` is (n_window_tests, N): whether the value that a test needs is missing. ``groups``
    numbers the pairs of column and offset of the tests; ``is_open`` marks tests that may have
    missing values at all, and ``of_missing`` those of whether a value is missing, whose gain must
    exceed ``min_gain``. ``method`` is "weighting" or "surrogate".
    """

    missing: np.ndarray
    method: str = "weighting"
    groups: np.ndarray | None = None
    is_open: np.ndarray | None = None
    of_missing: np.ndarray | None = None
    min_gain: float = 0.0


# Weights of examples are multiples of this.
SMALLEST_PART = 2.0**-16
MAX_SURROGATES = 5


def part_of(weight: np.ndarray, share: float) -> np.ndarray:
    """Return a fraction of weights, rounded to multiples of the smallest part, halves up."""
    units, share_units = np.rint(weight / SMALLEST_PART), np.rint(share / SMALLEST_PART)
    return np.floor(units * share_units * SMALLEST_PART + 0.5) * SMALLEST_PART


@dataclass(frozen=True)
class _Examples:
    """The materialized table: one row per (position, context), all columns of one length.

    ``truth`` is (n_tests, n_examples): the truth of each test for each example; ``missing`` marks
    the examples whose value is missing.
    """

    position: np.ndarray
    context: np.ndarray
    truth: np.ndarray
    missing: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    count: np.ndarray
    position_weight: np.ndarray

    def sums(self, parts: np.ndarray) -> np.ndarray:
        """Return target, weight and count of parts of the examples, (..., 3).

        Sums are exact: the terms are small multiples of 2**-32, rounded further if examples have
        parts other than 0 and 1.
        """
        return parts.astype(float) @ np.stack([self.target, self.weight, self.count], axis=1)

    def weight_of(self, parts: np.ndarray) -> float:
        """Return the weight of parts of the examples, as that of their positions."""
        return float((parts * self.position_weight).sum())


def _materialize(
    window_tests, missing, depth, n_labels, order, targets, weights, counts, position_weights
) -> _Examples:
    positions, contexts, truth = [], [], []
    for t, depth_of_t in enumerate(depth):
        for context_depth, c, symbols in extended_contexts(n_labels, order):
            if context_depth != depth_of_t:
                continue
            label_tests = [symbol == k for symbol in symbols for k in range(n_labels + 1)]
            positions.append(t)
            contexts.append(c)
            truth.append([*window_tests[:, t], *label_tests])
    rows = (positions, contexts)
    truth = np.array(truth, dtype=bool).T
    is_missing = np.zeros(truth.shape, dtype=bool)
    is_missing[: len(window_tests)] = missing[:, positions]
    return _Examples(
        position=np.array(positions),
        context=np.array(contexts),
        truth=truth & ~is_missing,
        missing=is_missing,
        target=targets[rows],
        weight=weights[rows],
        count=counts[rows],
        position_weight=position_weights[positions],
    )


class _Split(NamedTuple):
    gain: float
    test: int


@dataclass
class _Grower:
    """Grows one tree.

    ``allowed(path, test)`` returns whether a node may use a test, given the sides taken from the
    root; ``interacts(above, test)``, given the tests from the root. The sign of a test is 1 if the
    value of the child that passes must not be lower than that of the other, -1 for the opposite.
    """

    examples: _Examples
    missing_values: MissingValues
    l2: float
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_leaf_value: float | None = None
    learning_rate: float = 1.0
    allowed: Callable[[tuple[bool, ...], int], bool] | None = None
    signs: np.ndarray | None = None
    interacts: Callable[[tuple[int, ...], int], bool] | None = None
    bounds: list[tuple[float, float]] = field(default_factory=list)
    above: list[tuple[int, ...]] = field(default_factory=list)
    nodes: list[NaiveNode] = field(default_factory=list)
    paths: list[tuple[bool, ...]] = field(default_factory=list)
    parts: list[np.ndarray] = field(default_factory=list)
    candidates: dict[int, _Split] = field(default_factory=dict)  # of leaves, the oldest first

    def grow(self, max_leaf_nodes: int) -> None:
        self.add_leaf(np.ones(len(self.examples.position)), (), (-math.inf, math.inf), ())
        while len(self.candidates) < max_leaf_nodes:
            # Of equal gains max() keeps the first, which is the oldest leaf.
            node = max(self.candidates, key=lambda leaf: self.candidates[leaf].gain)
            if not self.candidates[node].gain > self.min_gain:
                break
            self.split(node)

    def split(self, node: int) -> None:
        gain, test = self.candidates.pop(node)
        parts, surrogates = self.parts[node], ()
        passed = parts * self.examples.truth[test]
        failed = parts * ~self.examples.truth[test] * ~self.examples.missing[test]
        missing = parts * self.examples.missing[test]
        passing = self.examples.weight_of(passed)
        share = passing / (passing + self.examples.weight_of(failed))
        if test < len(self.missing_values.missing):
            if self.missing_values.method == "surrogate" and self.missing_values.is_open[test]:
                surrogates = self.surrogates(parts, test)
                missing_pass = missing * self.follow(test, surrogates, share)
            else:
                missing_pass = part_of(missing, share)
            passed, failed = passed + missing_pass, failed + (missing - missing_pass)
        path, above = self.paths[node], (*self.above[node], test)
        bounds = self.bounds_of_children(node, test)
        true_child = self.add_leaf(passed, (*path, True), bounds[0], above)
        false_child = self.add_leaf(failed, (*path, False), bounds[1], above)
        self.nodes[node] = self.nodes[node]._replace(
            test=test,
            true_child=true_child,
            false_child=false_child,
            gain=gain,
            share=share,
            surrogates=surrogates,
        )

    def bounds_of_children(self, node: int, test: int) -> tuple:
        """Return the bounds of the child that passes and of the one that fails."""
        lower, upper = self.bounds[node]
        if self.signs is None or self.signs[test] == 0:
            return (lower, upper), (lower, upper)
        present = ~self.examples.missing * self.parts[node]
        values = [
            self.bounded(*self.examples.sums(truth * present)[test][:2], (lower, upper))
            for truth in (self.examples.truth, ~self.examples.truth)
        ]
        middle = 0.5 * (values[0] + values[1])
        high, low = (middle, upper), (lower, middle)
        return (high, low) if self.signs[test] > 0 else (low, high)

    def bounded(self, G: float, W: float, bounds: tuple[float, float]) -> float:
        """Return the value of examples within bounds."""
        value = G / (self.l2 + W) if self.l2 + W > 0 else 0.0
        return min(max(value, bounds[0]), bounds[1])

    def bounded_score(self, G: float, W: float, bounds: tuple[float, float]) -> float:
        """Return the score of examples whose value is within bounds."""
        value = self.bounded(G, W, bounds)
        if bounds == (-math.inf, math.inf):
            return G * G / (self.l2 + W) if self.l2 + W > 0 else 0.0
        return value * (2.0 * G - (self.l2 + W) * value)

    def surrogates(self, parts: np.ndarray, test: int) -> tuple[tuple[int, bool], ...]:
        """Return the tests that agree best with a test, one of each column and offset."""
        found: dict[int, tuple[float, int, bool]] = {}
        truth, missing = self.examples.truth, self.examples.missing
        for other, group in enumerate(self.missing_values.groups):
            if group == self.missing_values.groups[test] or self.missing_values.of_missing[other]:
                continue
            both = self.examples.count * parts * ~missing[test] * ~missing[other]
            same = (both * (truth[test] == truth[other])).sum()
            majority = max((both * truth[test]).sum(), (both * ~truth[test]).sum())
            agreement = max(same, both.sum() - same)
            best = found.get(group, (0.0, 0, False))[0]
            if agreement > majority and agreement > best:
                found[group] = (agreement, other, bool(same < both.sum() - same))
        ranked = sorted(found.values(), key=lambda entry: (-entry[0], entry[1]))
        return tuple((other, is_reversed) for _, other, is_reversed in ranked[:MAX_SURROGATES])

    def follow(self, test: int, surrogates, share: float) -> np.ndarray:
        """Return whether examples with missing values pass, by their first available surrogate."""
        passes = np.full(len(self.examples.position), share >= 0.5)
        for other, is_reversed in reversed(surrogates):
            present = ~self.examples.missing[other]
            passes[present] = (self.examples.truth[other] != is_reversed)[present]
        return passes

    def add_leaf(self, parts: np.ndarray, path: tuple, bounds: tuple, above: tuple) -> int:
        node = len(self.nodes)
        G, W, _ = self.examples.sums(parts)
        self.nodes.append(NaiveNode(-1, -1, -1, self.leaf_value(G, W, bounds), 0.0, W))
        self.bounds.append(bounds)
        self.above.append(above)
        self.parts.append(parts)
        self.paths.append(path)
        self.candidates[node] = self.best_split(node)
        return node

    def best_split(self, node: int) -> _Split:
        """Return the first of the best splits; its gain is -inf if there is none.

        The best split has the largest score or, if there are missing values, the largest gain
        among the examples without a missing value.
        """
        parts = self.parts[node]
        scores, gains = self.scores(parts, self.bounds[node])
        by_gain = self.missing_values.missing.any() or self.signs is not None
        ranks = gains if by_gain else scores
        if self.missing_values.of_missing is not None:
            marks = np.flatnonzero(self.missing_values.of_missing)
            ranks[marks[gains[marks] <= self.missing_values.min_gain]] = -math.inf
        if self.interacts is not None:
            above = self.above[node]
            ranks[[not self.interacts(above, test) for test in range(len(ranks))]] = -math.inf
        if self.allowed is not None:
            path = self.paths[node]
            ranks[[not self.allowed(path, test) for test in range(len(ranks))]] = -math.inf
        if len(ranks) == 0 or ranks.max() == -math.inf:
            return _Split(-math.inf, -1)
        best = int(ranks.argmax())
        return _Split(float(gains[best]), best)

    def scores(self, parts: np.ndarray, bounds: tuple) -> tuple[np.ndarray, np.ndarray]:
        """Return score and gain of a split by each test, -inf if it is invalid."""
        Gt, Wt, nt = self.examples.sums(self.examples.truth * parts).T
        present = ~self.examples.missing * parts
        Gf, Wf, nf = self.examples.sums(~self.examples.truth * present).T
        G, W, _ = self.examples.sums(present).T
        valid = (Wt > 0) & (Wf > 0) & (np.minimum(nt, nf) >= self.min_samples_leaf)
        scores, gains = np.full((2, len(valid)), -math.inf)
        if self.signs is not None:
            for test in np.flatnonzero(valid):
                passed, failed = (Gt[test], Wt[test]), (Gf[test], Wf[test])
                order = self.bounded(*passed, bounds) - self.bounded(*failed, bounds)
                if self.signs[test] * order < 0:
                    continue
                scores[test] = self.bounded_score(*passed, bounds)
                scores[test] += self.bounded_score(*failed, bounds)
                gains[test] = scores[test] - self.bounded_score(G[test], W[test], bounds)
            return scores, gains
        Gt, Wt, Gf, Wf, G, W = (sums[valid] for sums in (Gt, Wt, Gf, Wf, G, W))
        scores[valid] = (Gt * Gt) / (self.l2 + Wt) + (Gf * Gf) / (self.l2 + Wf)
        gains[valid] = scores[valid] - (G * G) / (self.l2 + W)
        return scores, gains

    def leaf_value(self, G: float, W: float, bounds: tuple) -> float:
        """Return the value of a leaf, rounded to a multiple of 2**-20 (ties to even)."""
        value = self.bounded(G, W, bounds)
        if self.max_leaf_value is not None:
            value = min(max(value, -self.max_leaf_value), self.max_leaf_value)
        return round_value(value * self.learning_rate)


def round_value(value):
    """Round to multiples of 2**-20, ties to even."""
    return np.rint(value * 2.0**20) / 2.0**20


def grow_naive_tree(
    window_tests: np.ndarray,
    depth: np.ndarray,
    n_labels: int,
    order: int,
    targets: np.ndarray,
    weights: np.ndarray,
    *,
    max_leaf_nodes: int,
    example_counts: np.ndarray | None = None,
    missing_values: MissingValues | None = None,
    position_weights: np.ndarray | None = None,
    **settings: Any,
) -> NaiveTree:
    """Grow a tree of one label, best split first, on a table of all examples.

    ``window_tests`` is the truth of each window test at each position, (n_window_tests, N); label
    tests are numbered after them: lag 1 is 0..K-1, lag 1 is before the sequence, then lag 2 in the
    same way. Targets and weights, (N, C), are rounded, so that sums are exact; an example with
    weight 0 must have target 0. ``example_counts`` are for ``min_samples_leaf``, and
    ``position_weights`` for ``share``. ``settings`` are those of `_Grower`.
    """
    counts = (weights > 0).astype(float) if example_counts is None else example_counts
    if missing_values is None:
        missing_values = MissingValues(np.zeros(window_tests.shape, dtype=bool))
    if position_weights is None:
        position_weights = np.ones(len(depth))
    examples = _materialize(
        window_tests,
        missing_values.missing,
        depth,
        n_labels,
        order,
        targets,
        weights,
        counts,
        position_weights,
    )
    grower = _Grower(examples, missing_values, **settings)
    grower.grow(max_leaf_nodes)
    leaves = np.full(targets.shape, -1)
    largest, increments = np.zeros((2, *targets.shape))
    for leaf in grower.candidates:
        parts = np.zeros(targets.shape)
        parts[examples.position, examples.context] = grower.parts[leaf]
        leaves[parts > largest] = leaf
        largest = np.maximum(largest, parts)
        increments += round_value(grower.nodes[leaf].value * parts)
    return NaiveTree(grower.nodes, leaves, increments)


def sampled_features(
    seed: int, path: tuple[bool, ...], n_features: int, n_chosen: int
) -> np.ndarray:
    """Return the features that a node may split on: selection sampling (Knuth)."""
    for side in path:
        seed = mix_one(seed, 1 if side else 2)
    chosen = np.zeros(n_features, dtype=bool)
    for f in range(n_features):
        random = (mix_one(seed, f) >> 11) * 2.0**-53
        chosen[f] = random * (n_features - f) < n_chosen
        n_chosen -= int(chosen[f])
    return chosen


def mix_one(seed: int, part: int) -> int:
    """Combine a seed with an integer (SplitMix64)."""
    mask = 2**64 - 1
    z = ((seed ^ part) + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
