"""Training with a beam: only the best contexts at each position have scores.

With many labels or a high order, a position has too many contexts to keep a score for each. A beam
keeps the best few contexts (see `treecrf.chains.beam._beam`), and the trees are evaluated for
these alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.beam import _beam, _beam_gradients
from treecrf.chains.beam._beam import BeamChains
from treecrf.chains.contexts import check_label_codes, check_lags
from treecrf.chains.likelihood import ChainLabels, ExampleTable, WeightedMean
from treecrf.encoding.column_layout import ColumnLayout
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.beams.beam import Beam
from treecrf.learners.boosted.booster import Booster, ScoreStorage
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.training_scores import TrainingScores
from treecrf.trees.contexts.context_scores import ScoreCache
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

# Assumed probability of a validation label outside the beam.
MIN_PROBABILITY = 1e-4


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

    def _store_scores(self, layout: ColumnLayout, start: None) -> ScoreStorage:
        """Cache scores of the contexts in the beam, which are the examples of a position."""
        cache = self.objective.cache_of(self.forest, self.encoder, layout, self.encoded)
        return ScoreStorage(cache.scores.values, cache, cache.n_layers)

    def step(self) -> float:
        """Add one iteration of trees; return the mean log-likelihood before it."""
        value = super().step()
        self.source.scores.note_iteration()
        return value

    def _weighted_examples(self, iteration: int) -> tuple[ExampleTable, float]:
        examples, value = super()._weighted_examples(iteration)
        scores = self.source.scores
        for grower in self._growers:
            grower.set_examples(scores.labels, scores.seen())
        return examples, value

    def _iteration_weights(self, iteration: int) -> np.ndarray | None:
        weights = super()._iteration_weights(iteration)
        return None if weights is None else self.source.spread(weights)


@dataclass
class BeamScores(TrainingScores):
    """Cached scores of sequences in the beam."""

    encoder: Encoder
    encoded: EncodedSequences
    objective: BeamObjective
    cache: ScoreCache | None = None

    def add_trees(self, forest: Forest) -> None:
        """Make the cache of the forest, which evaluates new trees when it needs them."""
        if self.cache is None:
            self.cache = self.objective.cache_of(
                forest, self.encoder, self.encoder.layout, self.encoded
            )

    def present_value(self) -> float:
        """Compute the mean log-probability of a label."""
        return self.objective.label_value(self.cache)

    def lattice(self, order: int, temperature: float = 1.0) -> None:
        """Return None: the cache has no scores of all contexts."""


@dataclass(frozen=True, kw_only=True)
class BeamKind(ChainKind):
    """Inference with only the best contexts at each position."""

    beam: Beam
    bound_share: float | None  # minimum fraction of the bound in the curvature

    booster_class = BeamBooster

    def objective(
        self, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> BeamObjective:
        """Return the objective that training maximizes, and that is reported."""
        return BeamObjective(data.labels, self.beam, threads, self.bound_share)

    def scores(
        self, encoder: Encoder, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> BeamScores:
        """Return the scores that trees are added to, with their objective."""
        return BeamScores(encoder, data.encoded, self.objective(data, threads))

    def check_size(self, n_labels: int, n_positions: int, in_partitions: bool = False) -> None:
        """Raise ValueError if labels, lags or contexts do not fit in the kernels' integers."""
        check_label_codes(n_labels, "a beam")
        check_lags(self.order)
        self.beam.width_for(n_labels, self.order)

    def why_no_samples(self, n_labels: int) -> str:
        """Return why ``sampling`` must be None."""
        return "needs all contexts; a beam requires None"
