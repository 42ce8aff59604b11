"""Scores of all contexts as a beam reads them, and lattices of trained forests."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from support.cases import pack
from support.settings import FIXED

from treecrf.chains.beam import _beam
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import chains_of
from treecrf.learners.boosted.beams.beam import Beam
from treecrf.learners.boosted.beams.prediction import BeamLattice
from treecrf.trees.contexts._tree_scores import CachedScores
from treecrf.trees.contexts.context_scores import NODE
from treecrf.utils.threads import Threads


class KnownScores:
    """Scores of all contexts in a cache that has a layer for each context, and no trees.

    ``entries`` are the places in the cache of each context of each position; -1 if it has none.
    """

    def __init__(self, scores: np.ndarray, offsets: np.ndarray, order: int):
        n_labels, n, n_contexts = scores.shape
        nothing = np.zeros((n, 0), dtype=np.uint8)
        encoded = SimpleNamespace(
            row_of_position=np.arange(n, dtype=np.int32),
            codes=nothing,
            bits=nothing,
            list_starts=np.zeros(n + 1, dtype=np.int64),
            list_ids=np.zeros(0, dtype=np.int32),
            has_missing=np.zeros(0, dtype=bool),
        )
        self.source = CachedScores(encoded, n_labels, order, n_contexts, n)
        self.source.plant(np.zeros(0, NODE), np.zeros(0, dtype=np.int32), None, 1)
        self.source.begin_pass()
        # Under scores of 0 a beam of this width has every context of every position.
        everything(self.source, chains_of(offsets, order), n_contexts)
        seen = np.flatnonzero(self.source.seen())
        positions = seen % n
        contexts = context_numbers(self.source.labels[:, seen], n_labels)
        self.entries = np.full((n, n_contexts), -1)
        self.entries[positions, contexts] = seen
        self.source.values[:, seen, 0] = scores[:, positions, contexts]


def everything(source, offsets, width):
    """Results of the kernels for some sequences; equal scores give equal bits."""
    n, n_positions = len(offsets) - 1, int(offsets[-1])
    unary, log_z, best = np.zeros((n_positions, source.n_labels)), np.zeros(n), np.zeros((n, 2))
    codes = np.zeros((2, n_positions), dtype=np.int32)
    chains = _beam.BeamChains(source, offsets, width)
    _beam.marginals(chains, 0, n, unary, log_z)
    _beam.best_paths(chains, 0, n, codes, best, log_z)
    return unary, log_z, best, codes


# Parameters of an estimator that grows trees as `PLAIN_GROWTH` does.
LIKE_PLAIN_GROWTH = FIXED | {
    "max_leaf_nodes": 15, "l2_regularization": 1.0, "learning_rate": 0.3
}  # fmt: skip

FREE = Constraints(np.arange(3))


def lattice_of(trained, sequences=None, width=3, n_threads=1, constraints=FREE):
    encoded = trained.encoded
    if sequences is not None:
        encoded = trained.encoder.encode(pack(sequences))
    beam, threads = Beam(width), Threads(n_threads)
    return BeamLattice(trained.forest, trained.encoder, encoded, beam, threads, constraints)


def context_numbers(labels, n_labels):
    """Numbers of contexts given as a label at each lag, ``n_labels`` for none."""
    lags = n_labels ** np.arange(len(labels))[:, None]
    return (np.where(labels < n_labels, labels, 0) * lags).sum(axis=0)
