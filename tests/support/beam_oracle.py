"""A beam over dictionaries of contexts, and enumeration of the label sequences in it.

Conventions are those of ``oracles``.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from support.oracles import context_at, indicator, log_sum_exp, sequence_score


def naive_beam(scores, n_labels, order, width, labels=None):
    """Return the contexts kept at each position, and log Z.

    The beam keeps the ``width`` contexts with the largest forward weight, the lowest among equals,
    and the context of ``labels``, if necessary in place of the last.
    """
    weights, kept, log_z = {0: 0.0}, [], 0.0
    for t in range(scores.shape[1]):
        kept.append(sorted(weights))
        arriving = defaultdict(list)
        for c, weight in sorted(weights.items()):
            for v in range(n_labels):
                arriving[(c * n_labels + v) % n_labels**order].append(weight + scores[v, t, c])
        totals = {c: log_sum_exp(terms) for c, terms in arriving.items() if max(terms) > -np.inf}
        ranked = sorted(totals, key=lambda c: (-totals[c], c))[:width]
        if labels is not None:
            truth = context_at(labels, t + 1, n_labels, order)
            if truth not in ranked:
                ranked[width - 1 :] = [truth]
                totals.setdefault(truth, -np.inf)
        highest = max(totals[c] for c in ranked)
        weights = {c: totals[c] - highest for c in ranked}
        log_z += highest
    return kept, log_z - highest + log_sum_exp(list(totals.values()))


@dataclass(frozen=True)
class Paths:
    """All label sequences of one length whose contexts are kept, and their probabilities."""

    sequences: list
    totals: np.ndarray
    probabilities: np.ndarray
    events: np.ndarray  # (n_sequences, K, T, C): indicators of (label, position, context)

    @property
    def joint(self):
        """P(label and context), of the shape of the scores."""
        return np.tensordot(self.probabilities, self.events, axes=1)

    @property
    def sums_of_covariance(self):
        """Sum of |Cov(event, any event)| for each event."""
        events = self.events.reshape(len(self.sequences), -1)
        centered = events - self.probabilities @ events
        covariance = centered.T @ (self.probabilities[:, None] * centered)
        return np.abs(covariance).sum(axis=1).reshape(self.events.shape[1:])


def paths_in(kept, scores, n_labels, order, length=None):
    """Enumerate the label sequences in a beam, or their first ``length`` labels."""
    length = scores.shape[1] if length is None else length
    sequences = [
        labels
        for labels in itertools.product(range(n_labels), repeat=length)
        if all(context_at(labels, t, n_labels, order) in kept[t] for t in range(length))
    ]
    totals = np.array([sequence_score(scores, labels, n_labels, order) for labels in sequences])
    probabilities = np.exp(totals - log_sum_exp(totals.tolist()))
    events = np.zeros((len(sequences), *scores.shape))
    for event, labels in zip(events, sequences, strict=True):
        event[:, :length] = indicator(labels, n_labels, order)
    return Paths(sequences, totals, probabilities, events)
