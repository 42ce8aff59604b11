"""Search for features of bags, given the scores of the trees so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.learners.boosted.loop import Booster
from treecrf.learners.future.bags import Bags
from treecrf.learners.future.discovery import (
    CandidateFeature,
    DiscoverySettings,
    InstanceGrower,
    discover,
)
from treecrf.learners.future.encoder import BagFeature, FutureEncoder
from treecrf.learners.future.responses import OneLabel, Sloped, log_sum_exp
from treecrf.trees.forest import Forest
from treecrf.utils.exact import exact_sum

# Minimum increase of the mean log-likelihood per training position by a feature alone.
MIN_GAIN = 1e-5


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for features, as in `FutureFeatureMEMM`."""

    sizes: tuple[int | None, ...]  # candidates, of which the best one for the first feature is kept
    direction: str
    max_features: int  # maximum number of rounds of discovery
    multiclass: str
    n_bins: int
    max_leaf_nodes: int  # of the trees of the instance score
    l2_regularization: float
    discovery: DiscoverySettings


class FeatureSearch:
    """Search for features that raise the likelihood of the trees so far.

    The effect of each feature that it finds is added to its ``scores``, from which the search for
    the next one starts.
    """

    def __init__(self, encoder: FutureEncoder, booster: Booster, settings: SearchSettings):
        self.settings = settings
        self.offsets = booster.encoded.offsets
        self.codes, self.weights = booster.objective.codes, booster.position_weights
        self.scores = booster.scores[:, :, 0].copy()
        self.grower = InstanceGrower(
            encoder.base,
            encoder.without_features(booster.whole),
            settings.max_leaf_nodes,
            settings.l2_regularization,
        )

    def find(
        self, size: int | None, discovery: DiscoverySettings
    ) -> list[tuple[BagFeature, np.ndarray]]:
        """Find features; return them with their values at the training positions."""
        bags = Bags(self.offsets, size, self.settings.direction)
        # With two labels, changing one score is as general as changing both.
        labels = range(1 if len(self.scores) == 2 else 0, len(self.scores))
        if self.settings.multiclass == "all":
            pairs = [self._feature(size, *self._best(label, bags, discovery)) for label in labels]
        else:
            of_labels = (self._best(label, bags, discovery) for label in labels)
            candidate, effects = max(of_labels, key=lambda one: one[0].value)
            pairs = [self._feature(size, candidate, effects)]
        return [(feature, values) for feature, values in pairs if feature.gain > MIN_GAIN]

    def rediscover(
        self, feature: BagFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """Discover a feature again, given the scores if it is 0 and if it is 1."""
        bags = Bags(self.offsets, feature.size, feature.direction)
        with np.errstate(invalid="ignore"):
            slopes = high - low
        response = Sloped(low, slopes, self.codes, self.weights)
        candidate = discover(response, bags, self.grower, self.settings.discovery, 1)
        return self._feature(feature.size, candidate, feature.effects)

    def _feature(
        self, size: int | None, candidate: CandidateFeature, effects: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """Make a feature with its best effects; their search starts at ``effects``."""
        trees = Forest(1, 0)
        for tree in candidate.trees:
            trees.append(tree.nodes, self.grower.meanings)
        before = self._mean_log_likelihood()
        effects = self._add_to_scores(effects, candidate.feature)
        gain = self._mean_log_likelihood() - before
        start = self.settings.discovery.initial_score
        feature = BagFeature(size, self.settings.direction, start, trees, effects, gain)
        return feature, candidate.feature

    def _add_to_scores(self, effects: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Add a feature to the scores of its label or labels; return its best effects."""
        is_shared = self.settings.multiclass == "shared" and len(self.scores) > 2
        labels = range(len(self.scores)) if is_shared else [int(np.abs(effects[1]).argmax())]
        effects, before = np.zeros_like(effects), self.scores.copy()
        for label in (*labels, *labels) if is_shared else labels:
            self.scores[label] = before[label]
            response = OneLabel(self.scores, self.codes, label, self.weights)
            effects[:, label] = response.fit(effects[:, label], feature)
            self.scores[label] += effects[0, label] + effects[1, label] * feature
        return effects

    def _mean_log_likelihood(self) -> float:
        log_p = self.scores - log_sum_exp(self.scores)
        of_true = log_p[self.codes, np.arange(len(self.codes))]
        return exact_sum(self.weights * of_true) / len(of_true)

    def _best(
        self, label: int, bags: Bags, discovery: DiscoverySettings
    ) -> tuple[CandidateFeature, np.ndarray]:
        """Return the better candidate of both signs, and its effects on all labels."""
        response = OneLabel(self.scores, self.codes, label, self.weights)
        both = [discover(response, bags, self.grower, discovery, sign) for sign in (1, -1)]
        best = max(both, key=lambda candidate: candidate.value)
        return best, response.effects_by_label(best.effect)
