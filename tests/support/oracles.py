"""Slow reference implementations of inference, with which tests compare the compiled kernels.

They enumerate all label sequences in NumPy and plain Python, and use no code of the package, so
that a mistake there cannot be repeated here. ``tree_oracle`` does the same for trees.

Conventions: labels are 0..K-1, and K stands for "before the sequence"; scores have shape
(K, T, C) with C = K**order; the context of position t has ``min(t, order)`` digits in base K, the
previous label being the least significant one. Entries of contexts that a position cannot have are
ignored in arguments and zero in results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# ---------------------------------------------------------------------------------------------
# Contexts
# ---------------------------------------------------------------------------------------------


def context_at(labels: Sequence[int], t: int, n_labels: int, order: int) -> int:
    """Return the index of the context of position ``t`` under ``labels``."""
    return sum(int(labels[t - j]) * n_labels ** (j - 1) for j in range(1, min(t, order) + 1))


def extended_contexts(n_labels: int, order: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """List every context of every depth, full depth first, the empty context last.

    Each is ``(depth, c, symbols)``, where ``symbols[j - 1]`` is the label at lag j, or
    ``n_labels`` if lag j is before the sequence.
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
    """Return the logarithm of a sum of exponentials, for exponents of any size."""
    largest = max(values)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in values))


@dataclass(frozen=True)
class BruteForce:
    """The whole distribution over the label sequences of one sequence."""

    n_labels: int
    order: int
    sequences: np.ndarray  # all label sequences, (n_sequences, T), in lexicographic order
    log_probabilities: np.ndarray  # of each label sequence
    log_z: float
    unary: np.ndarray  # P(y_t = v), (T, K)
    joint: np.ndarray  # P(context c and label v at position t), (K, T, C)
    pairwise: np.ndarray  # P(y_{t-1} = u and y_t = v), (T, K, K), 0 at t = 0
    best: np.ndarray  # the first of the most probable label sequences
    best_log_probability: float

    def log_probability(self, labels: Sequence[int]) -> float:
        """Return the log-probability of one label sequence."""
        (row,) = np.flatnonzero((self.sequences == np.asarray(labels)).all(axis=1))
        return float(self.log_probabilities[row])


def brute_force(scores: np.ndarray, n_labels: int, order: int) -> BruteForce:
    """Enumerate all label sequences of one sequence; ``scores`` has shape (K, T, C).

    A score of minus infinity forbids a label. If no label sequence is allowed, log Z is minus
    infinity, probabilities are 0 and log-probabilities NaN.
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
    """Log-probabilities; NaN if no label sequence is allowed."""
    return scores - log_z if log_z > -math.inf else scores * math.nan


def n_best(
    scores: np.ndarray, n_labels: int, order: int, n: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Return the n best allowed label sequences with their scores, best first.

    Ties go to the lowest context after the last position, then to the lowest context before it, and
    so on. With order 0 they go to the lowest last label, then to the lowest label before it.
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

    With ``add=np.maximum`` these are the best score, and the difference between the best score
    through each event and the best score.
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

    Returns, for each replacement, the entries (v, s, c) of the scores that it involves (those of
    position t and of the ``order`` positions after it), and its probability given all other labels.
    """
    involved = []
    for v in range(n_labels):
        changed = [*labels[:t], v, *labels[t + 1 :]]
        reach = range(t, min(t + order + 1, len(changed)))
        involved.append([(changed[s], s, context_at(changed, s, n_labels, order)) for s in reach])
    totals = [math.fsum(scores[entry] for entry in entries) for entries in involved]
    log_z = log_sum_exp(totals)
    return involved, [math.exp(total - log_z) for total in totals]


def pseudo_likelihood_gradient(
    scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int
) -> np.ndarray:
    """Return the (K, T, C) gradient of the pseudo-log-likelihood."""
    gradient = np.zeros(scores.shape)
    for t, true_label in enumerate(labels):
        involved, probabilities = _replacements(scores, labels, t, n_labels, order)
        for v in range(n_labels):
            for entry in involved[v]:
                gradient[entry] += (v == true_label) - probabilities[v]
    return gradient


def pseudo_likelihood_curvature(
    scores: np.ndarray, labels: Sequence[int], n_labels: int, order: int
) -> np.ndarray:
    """Return a bound of the row sums of the absolute Hessian of the pseudo-log-likelihood.

    In P(y_t | all other labels) a label of probability p involves the scores of several positions.
    Each has a row in the Hessian, with entries for all of them and for those of the other labels.
    """
    curvature = np.zeros(scores.shape)
    for t in range(len(labels)):
        involved, probabilities = _replacements(scores, labels, t, n_labels, order)
        for v, p in enumerate(probabilities):
            for entry in involved[v]:
                curvature[entry] += 2 * p * (1 - p) * len(involved[v])
    return curvature


def finite_difference_gradient(
    function: Callable[[np.ndarray], float], scores: np.ndarray, eps: float = 1e-5
) -> np.ndarray:
    """Return central differences of ``function`` for each entry of ``scores``."""
    gradient = np.zeros(scores.shape)
    for entry in np.ndindex(scores.shape):
        step = np.zeros(scores.shape)
        step[entry] = eps
        gradient[entry] = (function(scores + step) - function(scores - step)) / (2 * eps)
    return gradient
