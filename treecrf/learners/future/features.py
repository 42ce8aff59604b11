"""Discovered features in readable form: bags, rules for their instances, thresholds in use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import conjunction
from treecrf.learners.future.encoder import BagFeature, FutureEncoder, thresholds_of
from treecrf.trees.conjunctions import leaf_values
from treecrf.trees.forest import Forest


@dataclass(frozen=True)
class FutureFeature:
    """A discovered feature of bags.

    Its value is the probability that any instance of the bag is positive. The log-odds that an
    instance is positive are ``initial_score`` plus the values of the ``rules`` that hold for it.

    Attributes
    ----------
    bag_size : int or "to_end"
        Maximum number of positions in a bag, per side.
    bag_direction : {"future", "past", "both"}
        Which neighbors of a position form its bag.
    initial_score : float
        Initial log-odds that an instance shows the pattern.
    rules : list of (float, str)
        Rules by which an instance is recognized, the most important first: a value, and the tests
        that must hold.
    thresholds : float array
        Values of the feature at which the trees of the model split.
    effects : dict
        Effect on the score of each label when the feature was found: intercept and slope.
    gain : float
        Increase of the mean log-likelihood per training position due to the feature alone.
    """

    bag_size: int | str
    bag_direction: str
    initial_score: float
    rules: list[tuple[float, str]] = field(repr=False)
    thresholds: np.ndarray
    effects: dict
    gain: float

    def describe(self, n_rules: int = 10) -> str:
        """Describe the feature in a few lines.

        Parameters
        ----------
        n_rules : int, default=10
            Maximum number of rules, the most important first.

        Returns
        -------
        str

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> memm = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> memm = memm.fit(X, y)
        >>> memm.future_features_[0].describe().splitlines()[0]
        'any of the next 6 positions, with log-odds of -5.0 plus'
        """
        lines = [f"{self._bag()}, with log-odds of {self.initial_score} plus"]
        lines += [f"{value:+8.2f}  if {tests}" for value, tests in self.rules[:n_rules]]
        if len(self.rules) > n_rules:
            lines.append(f"          and {len(self.rules) - n_rules} smaller rules")
        return "\n".join(lines)

    def _bag(self) -> str:
        size = "" if self.bag_size == "to_end" else f"{self.bag_size} "
        which = {"future": "next", "past": "previous", "both": "previous and next"}
        return f"any of the {which[self.bag_direction]} {size}positions"


def future_features(
    encoder: FutureEncoder, forest: Forest, classes: np.ndarray
) -> list[FutureFeature]:
    """Return all discovered features of a model, in the order of their discovery."""
    packed = forest.pack()
    first = len(encoder.base.columns)
    thresholds = thresholds_of(encoder.n_bins)
    described = []
    for k, feature in enumerate(encoder.features, first):
        tested = (packed["true_child"] >= 0) & (packed["column"] == k)
        in_use = thresholds[np.unique(packed["value"][tested]).astype(int)]
        described.append(_future_feature(feature, in_use, encoder.base, classes))
    return described


def _future_feature(
    feature: BagFeature, in_use: np.ndarray, encoder: Encoder, classes: np.ndarray
) -> FutureFeature:
    changed = np.flatnonzero(feature.effects.any(axis=0))
    return FutureFeature(
        bag_size="to_end" if feature.size is None else feature.size,
        bag_direction=feature.direction,
        initial_score=feature.initial_score,
        rules=instance_rules(feature.trees, encoder),
        thresholds=in_use,
        effects={classes[c].item(): tuple(feature.effects[:, c].tolist()) for c in changed},
        gain=feature.gain,
    )


def instance_rules(trees: Forest, encoder: Encoder) -> list[tuple[float, str]]:
    """Return the leaves as rules, the largest first; leaves with the same tests form one rule."""
    values = leaf_values(trees, encoder)
    ranked = sorted(values.items(), key=lambda rule: -abs(rule[1]))
    return [(value, conjunction(encoder, condition.window)) for (_, condition), value in ranked]
