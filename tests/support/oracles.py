"""Slow reference implementations that the tests compare the compiled kernels with.

Everything here enumerates: all label sequences, all examples, all tests. Nothing is shared with
the package, so that a mistake there cannot hide here. NumPy and plain Python only.

Conventions: labels are 0..K-1 and K stands for "before the sequence"; scores have shape
(K, T, C) with C = K**order, class-major; the context of position t has ``min(t, order)`` digits in
base K, the previous label being the least significant one. Entries of contexts that a position
cannot have are ignored in arguments and zero in results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# ---------------------------------------------------------------------------------------------
# Contexts
# ---------------------------------------------------------------------------------------------


def context_at(labels: Sequence[int], t: int, n_labels: int, order: int) -> int:
    """Return the index of the context that ``labels`` give to position ``t``."""
    return sum(int(labels[t - j]) * n_labels ** (j - 1) for j in range(1, min(t, order) + 1))


def extended_contexts(n_labels: int, order: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """List every context of every depth, full depth first, the empty context last.

    Each is ``(depth, c, symbols)``, where ``symbols[j - 1]`` is the label at lag j, or
    ``n_labels`` where lag j lies before the sequence.
    """
    contexts = []
    for depth in range(order, -1, -1):
        for c in range(n_labels**depth):
            digits = [c // n_labels**j % n_labels for j in range(depth)]
            contexts.append((depth, c, tuple(digits + [n_labels] * (order - depth))))
    return contexts


# ---------------------------------------------------------------------------------------------
# Inference
# ---------------------------------------------------------------------------------------------


def sequence_score(scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int) -> float:
    """Return the sum of the scores along one label sequence: log P(labels) + log Z."""
    return math.fsum(
        scores[v, t, context_at(labels, t, n_labels, order)] for t, v in enumerate(labels)
    )


def log_sum_exp(values: Sequence[float]) -> float:
    """Return the logarithm of a sum of exponentials, whatever the size of the exponents."""
    largest = max(values)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in values))


@dataclass(frozen=True)
class BruteForce:
    """The whole distribution over the label sequences of one sequence.

    Attributes
    ----------
    sequences : int array (n_sequences, T)
        All label sequences, in lexicographic order.
    log_probabilities : float array (n_sequences,)
    log_z : float
    unary : float array (T, K)
        P(y_t = v).
    joint : float array (K, T, C)
        P(context c and label v at position t).
    pairwise : float array (T, K, K)
        P(y_{t-1} = u and y_t = v), 0 at t = 0.
    best : int array (T,)
        A most probable label sequence; another one may be as probable.
    best_log_probability : float
    """

    n_labels: int
    order: int
    sequences: np.ndarray
    log_probabilities: np.ndarray
    log_z: float
    unary: np.ndarray
    joint: np.ndarray
    pairwise: np.ndarray
    best: np.ndarray
    best_log_probability: float

    def log_probability(self, labels: Sequence[int]) -> float:
        """Return the log-probability of one label sequence."""
        (row,) = np.flatnonzero((self.sequences == np.asarray(labels)).all(axis=1))
        return float(self.log_probabilities[row])


def brute_force(scores: np.ndarray, n_labels: int, order: int) -> BruteForce:
    """Enumerate all label sequences of one sequence; ``scores`` has shape (K, T, C).

    A score of minus infinity forbids. If nothing is allowed, log Z is minus infinity, the
    probabilities are 0 and log-probabilities NaN.
    """
    n_positions = scores.shape[1]
    sequences = list(itertools.product(range(n_labels), repeat=n_positions))
    totals = [sequence_score(scores, labels, n_labels, order) for labels in sequences]
    log_z = log_sum_exp(totals)
    unary = np.zeros((n_positions, n_labels))
    joint = np.zeros(scores.shape)
    pairwise = np.zeros((n_positions, n_labels, n_labels))
    for labels, total in zip(sequences, totals, strict=True):
        probability = math.exp(total - log_z) if total > -math.inf else 0.0
        for t, v in enumerate(labels):
            unary[t, v] += probability
            joint[v, t, context_at(labels, t, n_labels, order)] += probability
            if t:
                pairwise[t, labels[t - 1], v] += probability
    best = max(range(len(sequences)), key=totals.__getitem__)
    return BruteForce(
        n_labels=n_labels,
        order=order,
        sequences=np.array(sequences),
        log_probabilities=_less(np.array(totals), log_z),
        log_z=log_z,
        unary=unary,
        joint=joint,
        pairwise=pairwise,
        best=np.array(sequences[best]),
        best_log_probability=_less(totals[best], log_z),
    )


def _less(scores, log_z: float):
    """Log-probabilities; NaN if nothing is allowed."""
    return scores - log_z if log_z > -math.inf else scores * math.nan


def n_best(
    scores: np.ndarray, n_labels: int, order: int, n: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Return the best label sequences that are allowed, with their scores, best first.

    Ties go to the lower number of the context after the last position, then of that before, and so
    on. With order 0 it is the last label that counts, then the one before.
    """
    n_positions = scores.shape[1]

    def rank(item: tuple[float, tuple[int, ...]]) -> tuple:
        score, labels = item
        ends = range(n_positions, 0, -1)
        return -score, [context_at(labels, t, n_labels, max(order, 1)) for t in ends]

    sequences = itertools.product(range(n_labels), repeat=n_positions)
    scored = [(sequence_score(scores, labels, n_labels, order), labels) for labels in sequences]
    return sorted((item for item in scored if item[0] > -math.inf), key=rank)[:n]


def indicator(labels: Sequence[int], n_labels: int, order: int) -> np.ndarray:
    """Return the (K, T, C) array that is 1 at the labels and their contexts, else 0."""
    array = np.zeros((n_labels, len(labels), n_labels**order))
    for t, v in enumerate(labels):
        array[v, t, context_at(labels, t, n_labels, order)] = 1.0
    return array


def hessian_row_sums(scores: np.ndarray, n_labels: int, order: int) -> np.ndarray:
    """Return, for each event i = (v, t, c), the sum over all events j of |Cov(i, j)|.

    Event (v, t, c) is "context c and label v at position t"; the sum includes j = i.
    """
    everything = brute_force(scores, n_labels, order)
    probabilities = np.exp(everything.log_probabilities)
    events = np.array([indicator(y, n_labels, order).ravel() for y in everything.sequences])
    # Centered events keep small covariances accurate: no difference of two large numbers.
    centered = events - probabilities @ events
    covariance = centered.T @ (probabilities[:, np.newaxis] * centered)
    return np.abs(covariance).sum(axis=1).reshape(scores.shape)


def log_forward_backward(
    scores: np.ndarray, n_labels: int, order: int, add: np.ufunc = np.logaddexp
) -> tuple[float, np.ndarray]:
    """Return log Z of one long sequence and log P(context, label), of the shape of the scores.

    With ``add=np.maximum`` these are the best score, and the best score through each event less
    the best of all.
    """
    n_positions, n_contexts = scores.shape[1:]
    labels = np.arange(n_labels)[:, np.newaxis]

    def leads_to(t: int) -> np.ndarray:
        """Contexts at t + 1, by label and context at t."""
        return (np.arange(n_labels ** min(t, order)) * n_labels + labels) % n_contexts

    forward = np.full((n_positions + 1, n_contexts), -np.inf)
    forward[0, 0] = 0.0
    for t in range(n_positions):
        after = leads_to(t)
        step = forward[t, : after.shape[1]] + scores[:, t, : after.shape[1]]
        add.at(forward[t + 1], after.ravel(), step.ravel())
    log_z = add.reduce(forward[n_positions])
    joint = np.full(scores.shape, -np.inf)
    backward = np.zeros(n_contexts)
    for t in reversed(range(n_positions)):
        after = leads_to(t)
        step = scores[:, t, : after.shape[1]] + backward[after]
        joint[:, t, : after.shape[1]] = forward[t, : after.shape[1]] + step - log_z
        backward = add.reduce(step, axis=0)
    return float(log_z), joint


# ---------------------------------------------------------------------------------------------
# Pseudo-likelihood and finite differences
# ---------------------------------------------------------------------------------------------


def _replacements(
    scores: np.ndarray, labels: Sequence[int], t: int, n_labels: int, order: int
) -> tuple[list[list[tuple[int, int, int]]], list[float]]:
    """Replace the label at ``t`` by every label in turn.

    Returns, for each replacement, the entries (v, s, c) of the scores that it touches (position t
    and the ``order`` positions that see it), and its probability given all the other labels.
    """
    touched = []
    for v in range(n_labels):
        changed = [*labels[:t], v, *labels[t + 1 :]]
        seen_by = range(t, min(t + order + 1, len(changed)))
        touched.append([(changed[s], s, context_at(changed, s, n_labels, order)) for s in seen_by])
    totals = [math.fsum(scores[entry] for entry in entries) for entries in touched]
    log_z = log_sum_exp(totals)
    return touched, [math.exp(total - log_z) for total in totals]


def pseudo_log_likelihood(
    scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int
) -> float:
    """Return the sum over t of log P(y_t | all other labels)."""
    total = 0.0
    for t, v in enumerate(labels):
        _, probabilities = _replacements(scores, labels, t, n_labels, order)
        total += math.log(probabilities[v])
    return total


def pseudo_likelihood_gradient(
    scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int
) -> np.ndarray:
    """Return the (K, T, C) derivative of the pseudo-log-likelihood by each score."""
    gradient = np.zeros(scores.shape)
    for t, true_label in enumerate(labels):
        touched, probabilities = _replacements(scores, labels, t, n_labels, order)
        for v in range(n_labels):
            for entry in touched[v]:
                gradient[entry] += (v == true_label) - probabilities[v]
    return gradient


def pseudo_likelihood_curvature(
    scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int
) -> np.ndarray:
    """Return a bound of the row sums of the absolute Hessian of the pseudo-log-likelihood.

    In P(y_t | all other labels) a label of probability p has one score for every position that
    sees it: each is in a row of the Hessian with all of them, and with those of the other labels.
    """
    curvature = np.zeros(scores.shape)
    for t in range(len(labels)):
        touched, probabilities = _replacements(scores, labels, t, n_labels, order)
        for v, p in enumerate(probabilities):
            for entry in touched[v]:
                curvature[entry] += 2 * p * (1 - p) * len(touched[v])
    return curvature


def finite_difference_gradient(
    function: Callable[[np.ndarray], float], scores: np.ndarray, eps: float = 1e-5
) -> np.ndarray:
    """Return central differences of ``function`` by each entry of ``scores``."""
    gradient = np.zeros(scores.shape)
    for entry in np.ndindex(scores.shape):
        step = np.zeros(scores.shape)
        step[entry] = eps
        gradient[entry] = (function(scores + step) - function(scores - step)) / (2 * eps)
    return gradient


# ---------------------------------------------------------------------------------------------
# Trees
# ---------------------------------------------------------------------------------------------


def window_test_truth(
    sequences: Sequence, tests: Sequence[tuple[str, int, int, object]]
) -> np.ndarray:
    """Return the truth of each window test at each position of all sequences, (n_tests, N).

    A sequence is a 2-D array, or a list or string of symbols (its only column is 0). A test is
    ``(kind, column, offset, value)``: "boundary" holds where the offset leaves the sequence, the
    others never hold there; "category" is ``x == value``, "number" is ``x > value``, "at most" is
    ``x <= value`` and "boolean" is ``x``.
    """
    truth = [
        [_window_test(sequence, t, *test) for sequence in sequences for t in range(len(sequence))]
        for test in tests
    ]
    n_positions = sum(len(sequence) for sequence in sequences)
    return np.array(truth, dtype=bool).reshape(len(tests), n_positions)


def window_test_missing(
    sequences: Sequence,
    tests: Sequence[tuple[str, int, int, object]],
    categories: dict[int, Sequence] | None = None,
) -> np.ndarray:
    """Return which tests ask each position for a value that is missing, (n_tests, N).

    A missing value is NaN; one of a category is missing too if it is not among ``categories``, by
    column. Beyond the ends of a sequence nothing is missing.
    """
    known = categories or {}
    missing = [
        [
            _is_missing(sequence, t, test, known)
            for sequence in sequences
            for t in range(len(sequence))
        ]
        for test in tests
    ]
    n_positions = sum(len(sequence) for sequence in sequences)
    return np.array(missing, dtype=bool).reshape(len(tests), n_positions)


def _is_missing(sequence, t: int, test: tuple, categories: dict[int, Sequence]) -> bool:
    kind, column, offset, _ = test
    if kind == "boundary" or not 0 <= t + offset < len(sequence):
        return False
    x = _value(sequence, t + offset, column)
    # Zero is the absence of any category from a table.
    unseen = kind == "category" and column in categories and x != 0 and x not in categories[column]
    return bool(x != x or unseen)


def _value(sequence, t: int, column: int):
    return sequence[t][column] if getattr(sequence, "ndim", 1) == 2 else sequence[t]


def _window_test(sequence, t: int, kind: str, column: int, offset: int, value) -> bool:
    inside = 0 <= t + offset < len(sequence)
    if kind == "boundary":
        return not inside
    if not inside:
        return False
    x = _value(sequence, t + offset, column)
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
    """Return window tests for `window_test_truth`, from the numbers that stand for them.

    Column -1 is the boundary; a value is the index of a category or a threshold. Columns in lists
    (storage 2) ask for negative numbers from the other side: a row lists no zeros.
    """
    meanings: list[tuple[str, int, int, object]] = []
    for column, offset, value in zip(columns, offsets, values, strict=True):
        if column == -1:
            meanings.append(("boundary", 0, int(offset), None))
            continue
        learned = encoder.columns[column]
        kind, operand = learned.kind, None
        if kind != "boolean":
            operand = learned.values[value].item()
            if kind == "number" and encoder.plan.storage[column] == 2 and operand < 0:
                kind = "at most"
        meanings.append((kind, int(column), int(offset), operand))
    return meanings


class NaiveNode(NamedTuple):
    """A node; nodes are numbered in creation order.

    A leaf has ``test``, ``true_child`` and ``false_child`` -1 and gain 0. Every node has a value,
    the one it has (or would have) as a leaf, learning rate included. ``share`` is the part of the
    weight that passes a window test, of the examples that answer it; 0 in other nodes. Surrogates
    are pairs (test, whether those that fail it pass for those that pass the node's test).
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
    """A grown tree, the leaf of every example, and what the tree adds to its class's scores.

    ``leaves`` and ``increments`` have shape (N, C); entries that are no example hold -1 and 0. Of
    several leaves the one that has most of the example counts.
    """

    nodes: list[NaiveNode]
    leaves: np.ndarray
    increments: np.ndarray


@dataclass(frozen=True)
class Gaps:
    """What is missing, and what becomes of those that miss a value.

    ``missing`` is (n_window_tests, N): which positions cannot answer which tests. ``groups`` tells
    tests of one column and offset, ``is_open`` those that could be missing at all. ``method`` is
    "weighting" or "surrogate".
    """

    missing: np.ndarray
    method: str = "weighting"
    groups: np.ndarray | None = None
    is_open: np.ndarray | None = None


# Weights of examples are multiples of this.
SMALLEST_PART = 2.0**-16
MAX_SURROGATES = 5


def part_of(weight: np.ndarray, share: float) -> np.ndarray:
    """Return a share of weights, as whole multiples of the smallest part, halves rounded up."""
    units, share_units = np.rint(weight / SMALLEST_PART), np.rint(share / SMALLEST_PART)
    return np.floor(units * share_units * SMALLEST_PART + 0.5) * SMALLEST_PART


@dataclass(frozen=True)
class _Examples:
    """The materialized table: one row per (position, context), all columns of one length.

    ``truth`` is (n_tests, n_examples): the truth of each test for each example; ``missing`` tells
    the examples that cannot answer it.
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

        Plain sums are exact: the summands are multiples of 2**-32 and not large, or where there
        are parts other than 0 and 1 of numbers that leave room for them.
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
    gaps = np.zeros(truth.shape, dtype=bool)
    gaps[: len(window_tests)] = missing[:, positions]
    return _Examples(
        position=np.array(positions),
        context=np.array(contexts),
        truth=truth & ~gaps,
        missing=gaps,
        target=targets[rows],
        weight=weights[rows],
        count=counts[rows],
        position_weight=position_weights[positions],
    )


class _Split(NamedTuple):
    gain: float
    test: int


class _Grower:
    """Grows one tree; ``candidates`` holds the best split of every leaf, oldest leaf first.

    ``parts`` holds how much of each example a node has.
    """

    def __init__(
        self,
        examples,
        gaps,
        *,
        l2,
        min_gain,
        min_samples_leaf,
        max_leaf_value,
        learning_rate,
        allowed,
    ):
        self.examples = examples
        self.gaps = gaps
        self.l2 = l2
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_value = max_leaf_value
        self.learning_rate = learning_rate
        self.allowed = allowed
        self.nodes: list[NaiveNode] = []
        self.parts: list[np.ndarray] = []
        self.candidates: dict[int, _Split] = {}

    def grow(self, max_leaf_nodes: int) -> None:
        self.add_leaf(np.ones(len(self.examples.position)))
        while len(self.candidates) < max_leaf_nodes:
            # Of equal gains max() keeps the first, which is the oldest leaf.
            node = max(self.candidates, key=lambda leaf: self.candidates[leaf].gain)
            if not self.candidates[node].gain > self.min_gain:
                break
            self.split(node)

    def split(self, node: int) -> None:
        gain, test = self.candidates.pop(node)
        parts, share, surrogates = self.parts[node], 0.0, ()
        passed = parts * self.examples.truth[test]
        failed = parts * ~self.examples.truth[test] * ~self.examples.missing[test]
        missing = parts * self.examples.missing[test]
        if test < len(self.gaps.missing):
            passing = self.examples.weight_of(passed)
            share = passing / (passing + self.examples.weight_of(failed))
            if self.gaps.method == "surrogate" and self.gaps.is_open[test]:
                surrogates = self.surrogates(parts, test)
                missing_pass = missing * self.follow(test, surrogates, share)
            else:
                missing_pass = part_of(missing, share)
            passed, failed = passed + missing_pass, failed + (missing - missing_pass)
        true_child, false_child = self.add_leaf(passed), self.add_leaf(failed)
        self.nodes[node] = self.nodes[node]._replace(
            test=test,
            true_child=true_child,
            false_child=false_child,
            gain=gain,
            share=share,
            surrogates=surrogates,
        )

    def surrogates(self, parts: np.ndarray, test: int) -> tuple[tuple[int, bool], ...]:
        """Return the tests that agree best with a test, one of each column and offset."""
        found: dict[int, tuple[float, int, bool]] = {}
        truth, missing = self.examples.truth, self.examples.missing
        for other, group in enumerate(self.gaps.groups):
            if group == self.gaps.groups[test]:
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
        """Return who passes a test for want of its value: by the first surrogate at hand."""
        passes = np.full(len(self.examples.position), share >= 0.5)
        for other, is_reversed in reversed(surrogates):
            present = ~self.examples.missing[other]
            passes[present] = (self.examples.truth[other] != is_reversed)[present]
        return passes

    def add_leaf(self, parts: np.ndarray) -> int:
        node = len(self.nodes)
        G, W, _ = self.examples.sums(parts)
        self.nodes.append(NaiveNode(-1, -1, -1, self.leaf_value(G, W), 0.0, W))
        self.parts.append(parts)
        self.candidates[node] = self.best_split(node)
        return node

    def best_split(self, node: int) -> _Split:
        """Return the first of the best tests; gain -inf where there is none.

        The best has the largest score, or where anything is missing the largest gain among those
        that answer the test.
        """
        parts = self.parts[node]
        scores, gains = self.scores(parts)
        ranks = gains if self.gaps.missing.any() else scores
        if self.allowed is not None:
            ranks[[not self.allowed(node, test) for test in range(len(ranks))]] = -math.inf
        if len(ranks) == 0 or ranks.max() == -math.inf:
            return _Split(-math.inf, -1)
        best = int(ranks.argmax())
        return _Split(float(gains[best]), best)

    def scores(self, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return score and gain of a split by each test, -inf where it is not valid."""
        Gt, Wt, nt = self.examples.sums(self.examples.truth * parts).T
        present = ~self.examples.missing * parts
        Gf, Wf, nf = self.examples.sums(~self.examples.truth * present).T
        G, W, _ = self.examples.sums(present).T
        valid = (Wt > 0) & (Wf > 0) & (np.minimum(nt, nf) >= self.min_samples_leaf)
        scores, gains = np.full((2, len(valid)), -math.inf)
        Gt, Wt, Gf, Wf, G, W = (sums[valid] for sums in (Gt, Wt, Gf, Wf, G, W))
        scores[valid] = (Gt * Gt) / (self.l2 + Wt) + (Gf * Gf) / (self.l2 + Wf)
        gains[valid] = scores[valid] - (G * G) / (self.l2 + W)
        return scores, gains

    def leaf_value(self, G: float, W: float) -> float:
        """Return the value of a leaf, rounded to a multiple of 2**-40 (ties to even)."""
        value = G / (self.l2 + W) if self.l2 + W > 0 else 0.0
        if self.max_leaf_value is not None:
            value = min(max(value, -self.max_leaf_value), self.max_leaf_value)
        return round_value(value * self.learning_rate)


def round_value(value):
    """Round to multiples of 2**-40, ties to even."""
    return np.rint(value * 2.0**40) / 2.0**40


def grow_naive_tree(
    window_tests: np.ndarray,
    depth: np.ndarray,
    n_labels: int,
    order: int,
    targets: np.ndarray,
    weights: np.ndarray,
    *,
    max_leaf_nodes: int,
    l2: float,
    min_gain: float = 0.0,
    min_samples_leaf: int = 1,
    max_leaf_value: float | None = None,
    learning_rate: float = 1.0,
    example_counts: np.ndarray | None = None,
    allowed: Callable[[int, int], bool] | None = None,
    gaps: Gaps | None = None,
    position_weights: np.ndarray | None = None,
) -> NaiveTree:
    """Grow one class's tree, best split first, over a table of all examples.

    Parameters
    ----------
    window_tests : bool array (n_window_tests, N)
        Truth of each window test at each position. The label tests follow them in number:
        lag 1 is 0..K-1, lag 1 is before the sequence, then lag 2 likewise, ...
    depth : int array (N,)
        ``min(t, order)``, with t the position in its sequence.
    targets, weights : float arrays (N, C)
        Rounded, so that sums are exact. An example with weight 0 must have target 0; it joins a
        leaf all the same.
    example_counts : array (N, C), optional
        What ``min_samples_leaf`` counts; by default the examples with a weight above 0.
    allowed : callable, optional
        ``allowed(node, test)`` says whether a node may use a test; by default it always may.
    gaps : Gaps, optional
        Missing values; by default there are none.
    position_weights : float array (N,), optional
        What a position counts for in the shares of the nodes; 1 by default.
    """
    counts = (weights > 0).astype(float) if example_counts is None else example_counts
    if gaps is None:
        gaps = Gaps(np.zeros(window_tests.shape, dtype=bool))
    if position_weights is None:
        position_weights = np.ones(len(depth))
    examples = _materialize(
        window_tests,
        gaps.missing,
        depth,
        n_labels,
        order,
        targets,
        weights,
        counts,
        position_weights,
    )
    grower = _Grower(
        examples,
        gaps,
        l2=l2,
        min_gain=min_gain,
        min_samples_leaf=min_samples_leaf,
        max_leaf_value=max_leaf_value,
        learning_rate=learning_rate,
        allowed=allowed,
    )
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


# ---------------------------------------------------------------------------------------------
# Sampled features
# ---------------------------------------------------------------------------------------------


def sampled_features(seed: int, node: int, n_features: int, n_chosen: int) -> np.ndarray:
    """Return which features a node may split on: selection sampling (Knuth) by SplitMix64."""
    mask = 2**64 - 1
    state = (seed + node * 0xD1342543DE82EF95) & mask
    chosen = np.zeros(n_features, dtype=bool)
    for f in range(n_features):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        chosen[f] = (z >> 11) * 2.0**-53 * (n_features - f) < n_chosen
        n_chosen -= int(chosen[f])
    return chosen
