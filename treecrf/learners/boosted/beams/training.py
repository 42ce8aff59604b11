"""Beam search: training and prediction with only the best contexts at each position.

With many labels or a high order, a position has too many contexts to keep a score for each. A beam
keeps the best few contexts (see ``_beam``), and the trees are evaluated for these alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.chains.beam import _beam, _beam_gradients
from treecrf.chains.beam._beam import BeamChains
from treecrf.chains.constraints import Constraints
from treecrf.chains.likelihood import ChainLabels, ExampleTable, WeightedMean
from treecrf.encoding.column_layout import ColumnLayout
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.booster import Booster, Scored
from treecrf.trees.contexts._tree_scores import TreeScores
from treecrf.trees.contexts.context_scores import ScoreCache, tree_scores
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

# Assumed probability of a validation label outside the beam.
MIN_PROBABILITY = 1e-4

# Indices of contexts must fit into 64 bits.
MAX_CONTEXTS = 2**62


@dataclass(frozen=True)
class Beam:
    """Settings of a beam."""

    width: int  # maximum number of contexts at each position
    # Training omits the backward pass, and uses probabilities given the positions so far.
    forward_only: bool = False

    def width_for(self, n_labels: int, order: int) -> int:
        """Return the number of contexts at each position; ValueError for order 0 or too many."""
        if order < 1:
            raise ValueError(
                "order=0 has only one context per position; use a beam with order 1 or higher"
            )
        if n_labels**order > MAX_CONTEXTS:
            raise ValueError(
                f"order={order} with {n_labels} labels gives {n_labels}**{order} contexts; a beam "
                "supports at most 2**62"
            )
        return min(self.width, n_labels**order)


class BeamObjective:
    """Log-likelihood of label sequences within a beam, and its functional gradient.

    The counterpart of ``treecrf.chains.likelihood.LogLikelihood`` for scores in a `ScoreCache`.
    """

    given = None
    counts = None
    candidates = None

    def __init__(self, data: ChainLabels, beam: Beam, threads: Threads, bound_share: float | None):
        self.offsets = data.offsets
        self.codes = data.codes
        self.constraints = data.constraints
        self.mean = WeightedMean(data.weights, data.offsets)
        self.mean_of_positions = WeightedMean(data.weights, np.arange(len(data.codes) + 1))
        self.width = beam.width_for(data.n_labels, data.order)
        self.beam = beam
        # Minimum fraction of the bound in the curvature, see `ChainObjective`; None: no curvature.
        self.bound_share = bound_share
        self.threads = threads
        self.parts = threads.parts(data.offsets)
        self.likelihoods = np.zeros(len(data.offsets) - 1)
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def cache_of(
        self, forest: Forest, encoder: Encoder, layout: ColumnLayout, encoded: EncodedSequences
    ) -> ScoreCache:
        """Return the scores of the sequences under the constraints."""
        cache = ScoreCache(forest, encoder, layout, encoded, self.width)
        cache.scores.constrain(self.constraints.allowed, self.constraints.follows)
        return cache

    def examples(
        self, cache: ScoreCache, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute residuals, curvature and mean log-likelihood at the scores of cached contexts."""
        scores = cache.begin_pass()
        if self._residuals is None:
            shape = (scores.n_labels, scores.n_entries)
            self._residuals = np.zeros(shape)
            self._curvature = None if self.bound_share is None else np.zeros(shape)
        chains = BeamChains(scores, self.offsets, self.width, self.beam.forward_only)
        results = self._residuals, self._curvature, self.likelihoods, self.bound_share or 0.0
        self.threads.map(
            lambda part: _beam_gradients.residuals(chains, self.codes, *part, *results), self.parts
        )
        curvature = None if self._curvature is None else self._curvature[:, :, None]
        return self._residuals[:, :, None], curvature, self.mean(self.likelihoods)

    def value(self, cache: ScoreCache) -> float:
        """Compute the mean log-likelihood of a position."""
        chains = BeamChains(cache.begin_pass(), self.offsets, self.width)
        self.threads.map(
            lambda part: _beam.log_likelihood(chains, self.codes, *part, self.likelihoods),
            self.parts,
        )
        return self.mean(self.likelihoods)

    def label_value(self, cache: ScoreCache) -> float:
        """Compute the mean of log P(label) in a beam that is chosen without the true labels.

        The likelihood of whole sequences is too high in a beam, since contexts outside the beam are
        ignored, especially before the first tree. This value can be compared between iterations.
        """
        scores = cache.begin_pass()
        marginals = np.zeros((len(self.codes), scores.n_labels))
        chains = BeamChains(scores, self.offsets, self.width)
        self.threads.map(
            lambda part: _beam.marginals(chains, *part, marginals, self.likelihoods), self.parts
        )
        true = marginals[np.arange(len(self.codes)), self.codes]
        return self.mean_of_positions(np.log(np.maximum(true, MIN_PROBABILITY)))


class BeamBooster(Booster):
    """Trees and scores of a training run with a beam, for a `BeamObjective`."""

    source: ScoreCache

    def _start(self, layout: ColumnLayout, start: None) -> tuple[np.ndarray, ScoreCache]:
        cache = self.objective.cache_of(self.forest, self.encoder, layout, self.encoded)
        self.n_planes = cache.n_planes
        return cache.scores.values, cache

    def _weighted_examples(self, iteration: int) -> tuple[ExampleTable, float]:
        found, scores = super()._weighted_examples(iteration), self.source.scores
        for grower in self._growers:
            grower.set_examples(scores.labels, scores.seen())
        return found

    def step(self) -> float:
        """Add one iteration of trees; return the mean log-likelihood before it."""
        value = super().step()
        self.source.scores.note_iteration()
        return value

    def _weights_of(self, iteration: int) -> np.ndarray | None:
        weights = super()._weights_of(iteration)
        return None if weights is None else self.source.spread(weights)


@dataclass
class BeamScores(Scored):
    """Cached scores of sequences in the beam."""

    encoder: Encoder
    encoded: EncodedSequences
    objective: BeamObjective
    cache: ScoreCache | None = None

    def value(self, forest: Forest) -> float:
        """Compute the mean log-probability of a label; only new trees are evaluated."""
        if self.cache is None:
            self.cache = self.objective.cache_of(
                forest, self.encoder, self.encoder.layout, self.encoded
            )
        return self.objective.label_value(self.cache)

    def lattice(self, order: int) -> None:
        """Return None: the cache has no scores of all contexts."""


@dataclass(frozen=True)
class BeamLattice:
    """Predictions from the contexts in the beam, with the methods of `Lattice`."""

    forest: Forest
    encoder: Encoder
    encoded: EncodedSequences
    beam: Beam
    threads: Threads
    constraints: Constraints

    @property
    def offsets(self) -> np.ndarray:
        """Starts of the sequences."""
        return self.encoded.offsets

    @cached_property
    def scores(self) -> TreeScores:
        """Scores of contexts, summed on demand."""
        scores = tree_scores(self.forest, self.encoder, self.encoded)
        scores.constrain(self.constraints.allowed, self.constraints.follows)
        return scores

    @property
    def width(self) -> int:
        """Number of contexts kept at each position."""
        return self.beam.width_for(self.forest.n_labels, self.forest.order)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        return self._table(_beam.marginals, self.forest.n_labels)

    def pairwise(self) -> np.ndarray:
        """Return P(previous label, label), (n_positions, n_labels, n_labels); 0 at the start."""
        return self._table(_beam.pair_marginals, self.forest.n_labels, self.forest.n_labels)

    def _table(self, probabilities: Callable[..., None], *shape: int) -> np.ndarray:
        """Compute probabilities at every position."""
        out = np.zeros((self.encoded.n_positions, *shape))
        log_z = np.zeros(len(self.offsets) - 1)
        self._map(lambda *part: probabilities(*part, out, log_z))
        self._check(log_z)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Compute log P of one label sequence per sequence, whose contexts stay in the beam."""
        values = np.zeros(len(self.offsets) - 1)
        self._map(
            lambda chains, first, last: _beam.log_likelihood(chains, codes, first, last, values)
        )
        return values

    def best_codes(self) -> np.ndarray:
        """Find the codes of the best label sequences in the beam."""
        return self.best()[0]

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Find the codes and log-probabilities of the best label sequences in the beam."""
        codes, values = self._best_paths(1)
        return codes[0], values[:, 0]

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Find the n best label sequences in the beam, and their log-probabilities."""
        codes, values = self._best_paths(n)
        found = []
        for i, (start, stop) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            m = int(np.isfinite(values[i]).sum())
            found.append((list(codes[:m, start:stop]), values[i, :m]))
        return found

    def _best_paths(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.zeros((n, self.encoded.n_positions), dtype=np.int32)
        best = np.zeros((len(self.offsets) - 1, n))
        log_z = np.zeros(len(self.offsets) - 1)
        self._map(lambda *part: _beam.best_paths(*part, codes, best, log_z))
        self._check(log_z)
        return codes, best - log_z[:, None]

    def _map(self, function: Callable[[BeamChains, int, int], None]) -> None:
        chains = BeamChains(self.scores, self.offsets, self.width)
        self.threads.map(lambda part: function(chains, *part), self.threads.parts(self.offsets))

    def _check(self, log_z: np.ndarray) -> None:
        dead = np.flatnonzero(log_z == -np.inf)
        if len(dead):
            raise ValueError(
                f"sequence {dead[0]}: no label sequence in the beam is allowed; a beam wider than "
                f"{self.width} contexts may contain some"
            )
