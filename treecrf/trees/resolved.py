"""Forests in which the outcomes of some tests are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treecrf.trees.forest import FIELDS, SURROGATE_FIELDS, TEST, Forest

# Outcomes of tests, given their columns, offsets and values: 1 and 0, or -1 if unknown.
Outcomes = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def resolved(forest: Forest, outcomes: Outcomes) -> Forest:
    """Return a forest without the tests whose outcomes are known.

    A node with a known outcome is replaced by its child. A surrogate with a known outcome answers
    wherever those before it have no value, so those after it are dropped.
    """
    packed = forest.pack()
    if not forest.trees:
        return forest.copy()
    inner = packed["true_child"] >= 0
    found = np.full(len(inner), -1)
    found[inner] = outcomes(*(packed[name][inner] for name in TEST))
    packed = _bypassed(_with_known_surrogates(packed, outcomes), found)
    new = Forest.unpack(forest.n_labels, forest.order, packed)
    new.transitions = forest.transitions
    return new


def _with_known_surrogates(packed: dict[str, np.ndarray], outcomes: Outcomes) -> dict:
    """Turn the first surrogate with a known outcome into the outcome of the majority."""
    counts = packed["n_surrogates"].astype(np.int64)
    known = outcomes(*(packed[f"surrogate_{name}"] for name in TEST))
    nodes = np.repeat(np.arange(len(counts)), counts)
    ranks = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    limits, shares = counts.copy(), packed["share"].copy()
    for s in np.flatnonzero(known >= 0)[::-1]:
        limits[nodes[s]] = ranks[s]
        shares[nodes[s]] = float(bool(known[s]) != bool(packed["reversed"][s]))
    kept = ranks < limits[nodes]
    fields = {name: packed[name][kept] for name in SURROGATE_FIELDS}
    return packed | fields | {"n_surrogates": limits, "share": shares}


def _bypassed(packed: dict[str, np.ndarray], found: np.ndarray) -> dict[str, np.ndarray]:
    """Replace nodes by their child where the outcome is known."""
    starts = packed["starts"].astype(np.int64)
    first = np.repeat(starts[:-1], np.diff(starts))
    inner = packed["true_child"] >= 0
    sides = np.stack([packed["false_child"], packed["true_child"]]) + first
    target = np.arange(len(first))
    for node in np.flatnonzero(found >= 0)[::-1]:  # children follow their parents
        target[node] = target[sides[found[node], node]]
    sides = np.where(inner, target[np.where(inner, sides, 0)], -1)
    kept, here = np.zeros(len(first), dtype=bool), target[starts[:-1]]
    while len(here):
        kept[here] = True
        here = sides[:, here[inner[here]]].ravel()
    index = np.cumsum(kept) - 1
    new_starts = np.append(0, np.cumsum(np.add.reduceat(kept, starts[:-1], dtype=np.int64)))
    new_first = np.repeat(new_starts[:-1], np.diff(new_starts))
    new = {name: packed[name][kept] for name in FIELDS}
    for name, side in zip(("false_child", "true_child"), sides[:, kept], strict=True):
        new[name] = np.where(side >= 0, index[side] - new_first, -1).astype(np.int32)
    of_kept = np.repeat(kept, packed["n_surrogates"])
    surrogates = {name: packed[name][of_kept] for name in SURROGATE_FIELDS}
    new["n_surrogates"] = new["n_surrogates"].astype(np.int32)
    return new | surrogates | {"starts": new_starts.astype(np.int32)}
