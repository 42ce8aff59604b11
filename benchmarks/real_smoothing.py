"""Smoothers of the labels of positions: by a filter, and by a Markov chain (hybrid HMM).

A smoother is fitted to the training data and to predictions for held-out persons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from real_sequences import Examples, Predicted, n_correct

FILTER_LENGTHS = (1, 3, 5, 9, 15, 25, 41)
POWERS = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1)

Choice = TypeVar("Choice")
Smooth = Callable[[Predicted], Predicted]
Smoother = Callable[[Examples, Examples, Predicted], Smooth]


def best(choices: Iterable[Choice], correct: Callable[[Choice], int]) -> Choice:
    """Return the choice with the highest number of correct labels, the first of equal ones."""
    return max(choices, key=correct)


def majority_filter(data: Examples, rest: Examples, of_rest: Predicted) -> Smooth:
    """Give each position the most frequent label around it; the probabilities remain."""

    def filtered(predicted: Predicted, length: int) -> Predicted:
        labels = [_most_frequent(each, length) for each in predicted.labels]
        return predicted._replace(labels=labels)

    length = best(FILTER_LENGTHS, lambda n: n_correct(filtered(of_rest, n).labels, rest.y))
    return lambda predicted: filtered(predicted, length)


def _most_frequent(labels: np.ndarray, length: int) -> np.ndarray:
    is_label = labels[:, np.newaxis] == np.arange(labels.max() + 1)
    totals = np.pad(np.cumsum(is_label, axis=0), [(1, 0), (0, 0)])
    ends = np.minimum(np.arange(len(labels)) + length // 2 + 1, len(labels))
    starts = np.maximum(np.arange(len(labels)) - length // 2, 0)
    # Among equally frequent labels, the one of the position itself is kept.
    return (totals[ends] - totals[starts] + 0.5 * is_label).argmax(axis=1)


def markov_chain(data: Examples, rest: Examples, of_rest: Predicted) -> Smooth:
    """Use posteriors, divided by the frequencies of the labels, as emissions of a Markov chain.

    Their power is chosen. Labels are those of the most probable sequence (Viterbi), probabilities
    those of forward and backward recursions.
    """
    n_labels = of_rest.probabilities[0].shape[1]
    start, transitions = chain_probabilities(data.y, n_labels)
    counts = np.bincount(np.concatenate(data.y), minlength=n_labels) + 1
    frequencies = counts / counts.sum()

    def decoded(predicted: Predicted, power: float) -> Predicted:
        emissions = [(np.maximum(each, 1e-6) / frequencies) ** power
                     for each in predicted.probabilities]  # fmt: skip
        return Predicted([viterbi(start, transitions, each) for each in emissions],
                         [marginals(start, transitions, each) for each in emissions])  # fmt: skip

    power = best(POWERS, lambda power: n_correct(decoded(of_rest, power).labels, rest.y))
    return lambda predicted: decoded(predicted, power)


def chain_probabilities(y: list[np.ndarray], n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the frequencies of first labels and of transitions, each count plus one."""
    start = np.bincount([labels[0] for labels in y], minlength=n_labels) + 1.0
    counts = np.ones((n_labels, n_labels))
    for labels in y:
        np.add.at(counts, (labels[:-1], labels[1:]), 1)
    return start / start.sum(), counts / counts.sum(axis=1, keepdims=True)


def viterbi(start: np.ndarray, transitions: np.ndarray, emissions: np.ndarray) -> np.ndarray:
    """Return the most probable sequence of labels of a Markov chain."""
    scores, steps = np.log(emissions), np.log(transitions)
    before = np.empty(scores.shape, dtype=int)
    best_score = np.log(start) + scores[0]
    for t in range(1, len(scores)):
        candidates = best_score[:, np.newaxis] + steps
        before[t] = candidates.argmax(axis=0)
        best_score = candidates.max(axis=0) + scores[t]
    labels = np.empty(len(scores), dtype=int)
    labels[-1] = best_score.argmax()
    for t in range(len(scores) - 1, 0, -1):
        labels[t - 1] = before[t, labels[t]]
    return labels


def marginals(start: np.ndarray, transitions: np.ndarray, emissions: np.ndarray) -> np.ndarray:
    """Return the posterior probability of each label at each position of a Markov chain."""
    forward, backward = np.empty(emissions.shape), np.ones(emissions.shape)
    forward[0] = start * emissions[0]
    forward[0] /= forward[0].sum()
    for t in range(1, len(emissions)):
        forward[t] = forward[t - 1] @ transitions * emissions[t]
        forward[t] /= forward[t].sum()
    for t in range(len(emissions) - 1, 0, -1):
        backward[t - 1] = transitions @ (emissions[t] * backward[t])
        backward[t - 1] /= backward[t - 1].sum()
    return forward * backward / (forward * backward).sum(axis=1, keepdims=True)
