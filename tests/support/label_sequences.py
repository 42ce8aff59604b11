"""Features of label sequences by their definition, for all label sequences of short words."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np


class Enumerated:
    """All label sequences of some words, each with a row of features.

    Names of columns are ``(offset, symbol or "outside", label)``, with pairs also ``(offset,
    symbol, previous, label)``, and ``(previous or None, label)`` for transitions.

    Parameters
    ----------
    X, y : list of str
    window : int or (int, int)
    pairs : bool
        Whether symbols also form features with pairs of labels.
    may : callable, optional
        ``may(word, labels)`` returns whether a label sequence is possible.
    """

    def __init__(self, X, y, window=(0, 0), pairs=False, may=None):
        self.labels = sorted(set("".join(y)))
        self.sequences = [
            [
                path
                for path in product(self.labels, repeat=len(word))
                if may is None or may(word, path)
            ]
            for word in X
        ]
        found = [
            [counts(word, path, window, pairs) for path in paths]
            for word, paths in zip(X, self.sequences, strict=True)
        ]
        self.names = sorted({name for rows in found for row in rows for name in row}, key=repr)
        place = {name: k for k, name in enumerate(self.names)}
        self.features = []
        for rows in found:
            table = np.zeros((len(rows), len(place)))
            for row, features in zip(table, rows, strict=True):
                for name, count in features.items():
                    row[place[name]] = count
            self.features.append(table)
        self.true = [
            paths.index(tuple(labels)) for paths, labels in zip(self.sequences, y, strict=True)
        ]
        self.losses = [
            np.array([sum(a != b for a, b in zip(path, labels, strict=True)) for path in paths])
            for paths, labels in zip(self.sequences, y, strict=True)
        ]

    def scores(self, weights):
        """Scores of all label sequences of each word; weights by name, missing ones are 0."""
        vector = np.array([weights.get(name, 0.0) for name in self.names])
        return [table @ vector for table in self.features]


def enumerated(model, X, y):
    """The label sequences that the transitions of a model allow, with its features."""
    labels, rules = sorted(set("".join(y))), model.transitions

    def may(_, path):
        codes = [labels.index(label) for label in path]
        if rules is not None and len(rules) > len(labels):
            codes = [len(labels), *codes]
        return rules is None or all(rules[u][v] for u, v in pairwise(codes))

    return Enumerated(X, y, model.window, model.transition_features, may)


def counts(word, labels, window=(0, 0), pairs=False):
    """The features of a word with its labels."""
    found = {}

    def add(name, value=1.0):
        found[name] = found.get(name, 0.0) + value

    left, right = (window, window) if isinstance(window, int) else window
    for t, label in enumerate(labels):
        previous = labels[t - 1] if t else None
        add((previous, label))
        for offset in range(-left, right + 1):
            s = t + offset
            symbol = word[s] if 0 <= s < len(word) else "outside"
            add((offset, symbol, label))
            if pairs and t:
                add((offset, symbol, previous, label))
    return found


def named_weights(model):
    """The weights of a fitted model by the names of `Enumerated`."""
    labels = model.classes_.tolist()
    weights = {}
    for name, row, pairs in zip(
        model.get_attribute_names(), model.state_weights_, model.transition_feature_weights_,
        strict=True,
    ):  # fmt: skip
        place = parsed(name)
        for v, label in enumerate(labels):
            weights[(*place, label)] = row[v]
            for u in range(len(pairs)):
                weights[(*place, labels[u], label)] = pairs[u, v]
    for v, label in enumerate(labels):
        weights[(None, label)] = model.start_weights_[v]
        for u, previous in enumerate(labels):
            weights[(previous, label)] = model.transition_weights_[u, v]
    return weights


def parsed(name):
    """Offset and symbol of an attribute."""
    at = name.partition("[")[2].partition("]")[0]
    offset = int(at) if at else 0
    return offset, "outside" if name.startswith("outside") else name.partition(" is ")[2].strip("'")
