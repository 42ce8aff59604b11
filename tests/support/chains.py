"""Random scores of several sequences, for tests of the inference kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from support.oracles import brute_force, indicator

from treecrf import _inference
from treecrf.chains import _decode
from treecrf.chains.contexts import chains_of
from treecrf.chains.losses import _pseudo_likelihood

SENTINEL = 7.0
STEP = 2.0**-32  # residuals and curvatures are multiples of this
POSSIBLE = ["moderate", "large", "tied", "forbidden labels", "forbidden steps", "large, forbidden"]
KINDS = [*POSSIBLE, "mostly forbidden"]


def draw_scores(kind, rng, n_labels, n_positions, order):
    """Return scores and a label sequence, which they allow unless "mostly forbidden"."""
    shape = (n_labels, n_positions, n_labels**order)
    labels = rng.integers(n_labels, size=n_positions)
    scores = rng.normal(size=shape)
    if kind.startswith("large"):
        scores += rng.choice([-500.0, 500.0], shape)
    if kind == "tied":
        scores = rng.integers(-1, 2, shape).astype(float)
    if "forbidden" in kind:
        size = (n_labels, n_positions, 1) if kind == "forbidden labels" else shape
        forbidden = np.broadcast_to(rng.random(size) < 0.4, shape).copy()
        if kind == "mostly forbidden":
            forbidden |= rng.random(shape) < 0.4
        else:
            forbidden[labels, np.arange(n_positions)] = False
        scores[forbidden] = -np.inf
    return scores, labels


def draw_candidates(rng, labels, n_labels, share=0.5):
    """Return masks of possible labels: one, some or all of them, with the given ones."""
    n = len(labels)
    candidates = rng.random((n, n_labels)) < rng.choice([0.0, 0.5, 1.0], (n, 1))
    candidates[rng.random(n) > share] = False
    candidates[np.arange(n), labels] = True
    return candidates


class Chains:
    """Several sequences in the arrays that the kernels work on."""

    def __init__(self, kind, rng, n_labels, order, lengths, draw=draw_scores):
        self.n_labels, self.order = n_labels, order
        drawn = [draw(kind, rng, n_labels, n, order) for n in lengths]
        self.pieces = [scores for scores, _ in drawn]
        self.scores = np.ascontiguousarray(np.concatenate(self.pieces, axis=1))
        self.labels = np.concatenate([labels for _, labels in drawn]).astype(np.int32)
        self.offsets = np.cumsum([0, *lengths])
        self.chains = chains_of(self.offsets, order)
        self.everything = (0, len(self.chains) - 1)

    def blank(self, *shape):
        return np.full(shape, SENTINEL)

    def per_sequence(self, values):
        """Sum the values of the chains; with order 0 each position is one."""
        return values if self.order else np.add.reduceat(values, self.offsets[:-1])

    def log_likelihood(self, part=None):
        out = self.blank(len(self.chains) - 1)
        part = part or self.everything
        _inference.log_likelihood(self.scores, self.chains, self.labels, *part, out)
        return out

    def marginals(self, part=None):
        out, log_z = self.blank(self.offsets[-1], self.n_labels), self.blank(len(self.chains) - 1)
        _inference.marginals(self.scores, self.chains, *(part or self.everything), out, log_z)
        return out, log_z

    def joint_marginals(self):
        """P(label and context) from the residuals, rounded to multiples of `STEP`."""
        truth = [indicator(labels, self.n_labels, self.order) for _, labels, _ in self.slices()]
        return np.concatenate(truth, axis=1) - self.residuals(curved=False)[0]

    def pairwise(self, part=None):
        out = self.blank(self.offsets[-1], self.n_labels, self.n_labels)
        _inference.pairwise(self.scores, self.chains, *(part or self.everything), out)
        return out

    def residuals(self, part=None, curved=True, bound_share=1.0):
        out, log_likelihoods = self.blank(*self.scores.shape), self.blank(len(self.chains) - 1)
        curvature = self.blank(*self.scores.shape) if curved else None
        part = part or self.everything
        _inference.residuals(
            self.scores,
            self.chains,
            self.labels,
            *part,
            out,
            curvature,
            log_likelihoods,
            bound_share,
        )
        return out, curvature, log_likelihoods

    def pseudo_residuals(self, part=None, curved=True):
        out = self.blank(*self.scores.shape)
        curvature = self.blank(*self.scores.shape) if curved else None
        part = part or self.everything
        _pseudo_likelihood.pseudo_residuals(
            self.scores, self.chains, self.labels, *part, out, curvature
        )
        return out, curvature

    def viterbi(self, part=None):
        out = np.full(self.offsets[-1], 7, dtype=np.int32)
        best = self.blank(len(self.chains) - 1)
        _decode.viterbi(self.scores, self.chains, *(part or self.everything), out, best)
        return out, best

    def n_best(self, n, part=None):
        out = np.full((n, self.offsets[-1]), 7, dtype=np.int32)
        best = self.blank(len(self.offsets) - 1, n)
        part = part or (0, len(self.offsets) - 1)
        _decode.n_best(self.scores, self.offsets, *part, out, best)
        return out, best

    def slices(self):
        """Yield the scores of each sequence, its labels and the slice of its positions."""
        for piece, start, stop in zip(
            self.pieces, self.offsets[:-1], self.offsets[1:], strict=True
        ):
            yield piece, self.labels[start:stop], slice(start, stop)

    def oracles(self):
        """Yield the oracle of each sequence, and the values of `slices`."""
        for piece, labels, where in self.slices():
            yield brute_force(piece, self.n_labels, self.order), piece, labels, where


shapes = st.tuples(st.integers(1, 4), st.integers(0, 3)).flatmap(
    lambda shape: st.tuples(
        st.just(shape[0]),
        st.just(shape[1]),
        st.lists(st.integers(1, 6 if shape[0] < 3 else 4), min_size=1, max_size=3),
    )
)
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
kinds = st.sampled_from(KINDS)
possible_kinds = st.sampled_from(POSSIBLE)
