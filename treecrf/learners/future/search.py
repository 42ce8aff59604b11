"""Looking for features of bags where boosted trees have come to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.learners.boosted.loop import Booster
from treecrf.learners.future.bags import Bags
from treecrf.learners.future.discovery import Candidate, Search, discover
from treecrf.learners.future.encoder import BagFeature, FutureEncoder
from treecrf.learners.future.instances import InstanceGrower
from treecrf.learners.future.responses import OneLabel, Sloped, log_total
from treecrf.trees.forest import Forest

# A feature must add this to the mean log-likelihood of a training position by itself.
MIN_GAIN = 1e-5


@dataclass(frozen=True)
class SearchSettings:
    """How features are looked for.

    Attributes
    ----------
    sizes : tuple of int or None
        Sizes of bags, of which the best for the first feature is kept; None reaches to the end.
    direction : {"future", "past", "both"}
    max_features : int
        Most rounds of discovery.
    multiclass : {"all", "best", "shared"}
        Whether a round finds a feature for each label; or the one that gains most, for its label;
        or this one for all labels.
    n_bins : int
    max_leaf_nodes, l2_regularization
        Of the trees on instances.
    search : Search
    """

    sizes: tuple[int | None, ...]
    direction: str
    max_features: int
    multiclass: str
    n_bins: int
    max_leaf_nodes: int
    l2_regularization: float
    search: Search


class FeatureSearch:
    """Looks for features where the trees so far have come to.

    Each feature that it finds changes its ``scores``, from which it goes on.
    """

    def __init__(self, encoder: FutureEncoder, booster: Booster, plan: SearchSettings):
        self.plan = plan
        self.offsets = booster.encoded.offsets
        self.codes, self.weights = booster.objective.codes, booster.position_weights
        self.scores = booster.scores[:, :, 0].copy()
        encoded = _without_made(booster.whole, encoder)
        self.grower = InstanceGrower(
            encoder.base, encoded, plan.max_leaf_nodes, plan.l2_regularization
        )

    def find(self, size: int | None, search: Search) -> list[tuple[BagFeature, np.ndarray]]:
        """Features and their values at the training positions."""
        bags = Bags(self.offsets, size, self.plan.direction)
        # Of two labels, one score tells as much as both.
        labels = range(1 if len(self.scores) == 2 else 0, len(self.scores))
        if self.plan.multiclass == "all":
            found = [self._feature(size, *self._best(label, bags, search)) for label in labels]
        else:
            of_labels = (self._best(label, bags, search) for label in labels)
            candidate, effects = max(of_labels, key=lambda one: one[0].value)
            found = [self._feature(size, candidate, effects)]
        return [(feature, values) for feature, values in found if feature.gain > MIN_GAIN]

    def sharpen(
        self, feature: BagFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """A feature found again, from the scores where it is 0 and where it is 1."""
        bags = Bags(self.offsets, feature.size, feature.direction)
        with np.errstate(invalid="ignore"):
            slopes = high - low
        response = Sloped(low, slopes, self.codes, self.weights)
        found = discover(response, bags, self.grower, self.plan.search, 1)
        return self._feature(feature.size, found, feature.effects)

    def _feature(
        self, size: int | None, found: Candidate, effects: np.ndarray
    ) -> tuple[BagFeature, np.ndarray]:
        """A feature with the effects that are best now, from others on."""
        trees = Forest(1, 0)
        for tree in found.trees:
            trees.append(tree.grown, self.grower.meanings)
        before = self._value()
        effects = self._take(effects, found.feature)
        gain = self._value() - before
        start = self.plan.search.initial_score
        feature = BagFeature(size, self.plan.direction, start, trees, effects, gain)
        return feature, found.feature

    def _take(self, effects: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Add a feature to the scores of its label or labels; return its effects."""
        is_shared = self.plan.multiclass == "shared" and len(self.scores) > 2
        labels = range(len(self.scores)) if is_shared else [int(np.abs(effects[1]).argmax())]
        effects, before = np.zeros_like(effects), self.scores.copy()
        for label in (*labels, *labels) if is_shared else labels:
            self.scores[label] = before[label]
            response = OneLabel(self.scores, self.codes, label, self.weights)
            effects[:, label] = response.fit(effects[:, label], feature)
            self.scores[label] += effects[0, label] + effects[1, label] * feature
        return effects

    def _value(self) -> float:
        log_p = self.scores - log_total(self.scores)
        of_true = log_p[self.codes, np.arange(len(self.codes))]
        return float((self.weights * of_true).sum()) / len(of_true)

    def _best(self, label: int, bags: Bags, search: Search) -> tuple[Candidate, np.ndarray]:
        """The better one of two signs, and its effects."""
        response = OneLabel(self.scores, self.codes, label, self.weights)
        both = [discover(response, bags, self.grower, search, sign) for sign in (1, -1)]
        best = max(both, key=lambda candidate: candidate.value)
        return best, response.on_labels(best.effect)


def _without_made(encoded: EncodedSequences, encoder: FutureEncoder) -> EncodedSequences:
    """What the encoder's base has encoded."""
    n = len(encoder.base.plan.n_codes)
    codes = np.ascontiguousarray(encoded.codes[:, :n])
    has_missing = encoded.has_missing[: len(encoder.base.columns)]
    return replace(encoded, codes=codes, has_missing=has_missing)
