"""Random scores in parts, for tests of the inference kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from treecrf.chains.constraints import Constraints
from treecrf.chains.factored.factored_scores import FactoredScores

SCALES = {"none": 0, "moderate": 2**20, "large": 500 * 2**20, "tied": 1}


def draw_parts(rng, n_labels, order, lengths, scale="moderate", rest=True, constraints=None):
    """Return random parts; those of contexts that do not exist are random, too."""
    parts = FactoredScores(n_labels, order, np.cumsum([0, *lengths]), constraints)
    size = SCALES[scale]
    drawn = [parts.state, parts.transitions, *([parts.ensure_rest()] if rest else [])]
    for part in drawn:
        part[:] = rng.integers(-size, size + 1, part.shape)
    return parts


def draw_constraints(rng, kind, labels, n_labels, offsets):
    """Return constraints that allow the labels."""
    follows = allowed = None
    if "follows" in kind:
        follows = rng.random((n_labels + 1, n_labels)) < 0.6
        before = np.append(0, labels[:-1])
        before[offsets[:-1]] = n_labels
        follows[before, labels] = True
    if "allowed" in kind:
        allowed = rng.random((len(labels), n_labels)) < 0.6
        allowed[np.arange(len(labels)), labels] = True
    return Constraints(np.arange(n_labels), follows, allowed)


def draw_case(rng, n_labels, order, lengths, scale="moderate", rest=True, constraints=""):
    """Return random parts and labels that they allow."""
    offsets = np.cumsum([0, *lengths])
    labels = rng.integers(n_labels, size=offsets[-1]).astype(np.int32)
    if not order:
        constraints = constraints.replace("follows", "")
    rules = draw_constraints(rng, constraints, labels, n_labels, offsets)
    return draw_parts(rng, n_labels, order, lengths, scale, rest, rules), labels


def shuffled_case(rng, parts):
    """Return an order of the sequences, their old positions in it, and the parts in this order."""
    shuffled = rng.permutation(len(parts.offsets) - 1)
    old = np.concatenate([np.arange(*parts.offsets[i : i + 2]) for i in shuffled])
    lengths = np.diff(parts.offsets)[shuffled]
    moved = draw_parts(rng, parts.n_labels, parts.order, lengths)
    moved.state[:], moved.rest[:] = parts.state[:, old], parts.rest[:, old]
    moved.transitions[:] = parts.transitions
    return shuffled, old, moved


shapes = st.tuples(st.integers(1, 9), st.integers(0, 3)).filter(lambda s: s[0] ** s[1] <= 81)
lengths_of = st.lists(st.integers(1, 9), min_size=1, max_size=4)
scales = st.sampled_from(list(SCALES))
rules = st.sampled_from(["", "follows", "allowed", "follows allowed"])
