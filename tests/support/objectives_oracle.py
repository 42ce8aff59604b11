"""Values and gradients of the objectives, by enumeration of all label sequences.

The exponential objectives are computed as logarithms, so that they can be compared where 1 / P
exceeds the range of doubles.
"""

from __future__ import annotations

import math

import numpy as np
from support.oracles import BruteForce, indicator, log_sum_exp


def label_log_probabilities(everything: BruteForce, labels: np.ndarray) -> np.ndarray:
    """Return log P(y_t = labels[t]) of each position of one sequence."""
    return np.array([
        log_sum_exp(everything.log_probabilities[everything.sequences[:, t] == label])
        for t, label in enumerate(labels)
    ])  # fmt: skip


def log_likelihood_gradient(everything: BruteForce, labels: np.ndarray) -> np.ndarray:
    """Return the (K, T, C) derivative of log P(labels)."""
    return indicator(labels, everything.n_labels, everything.order) - everything.joint


def label_gradient(everything: BruteForce, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the (K, T, C) derivative of sum_t weights[t] log P(y_t = labels[t]).

    Forbidden labels contribute nothing.
    """
    gradient = np.zeros(everything.joint.shape)
    events = [indicator(y, everything.n_labels, everything.order) for y in everything.sequences]
    logs = label_log_probabilities(everything, labels)
    for t, (label, weight) in enumerate(zip(labels, weights, strict=True)):
        if logs[t] == -math.inf:
            continue
        for y, log_p, event in zip(
            everything.sequences, everything.log_probabilities, events, strict=True
        ):
            given = math.exp(log_p - logs[t]) if y[t] == label else 0.0
            gradient += weight * (given - math.exp(log_p)) * event
    return gradient


def log_mean_inverse(logs: np.ndarray) -> float:
    """Return the logarithm of the mean of ``exp(-logs)``."""
    return log_sum_exp(-np.asarray(logs)) - math.log(len(logs))


def inverse_weights(logs: np.ndarray) -> np.ndarray:
    """Return ``exp(-logs)`` divided by its mean."""
    return np.array([math.exp(-log - log_mean_inverse(logs)) for log in logs])
