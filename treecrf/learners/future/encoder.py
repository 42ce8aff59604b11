"""Features that training has discovered in bags, as columns that trees can ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Sequences
from treecrf.learners.future.bags import Bags
from treecrf.learners.future.discovery import shown
from treecrf.learners.future.made_columns import bins_of, with_derived_columns, with_values
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class BagFeature:
    """A feature of bags.

    Attributes
    ----------
    size : int or None
        Most positions of a bag on a side; None for all to the end.
    direction : {"future", "past", "both"}
    initial_score : float
        Score of every instance before the trees.
    trees : Forest
        They add to the score of an instance; one label, order 0.
    effects : float64 array (2, n_labels)
        Intercept and slope of the scores of the labels, when the feature was found.
    gain : float
        What it added to the mean log-likelihood of a training position then.
    """

    size: int | None
    direction: str
    initial_score: float
    trees: Forest
    effects: np.ndarray
    gain: float

    def scores(self, encoder: Encoder, encoded: EncodedSequences) -> np.ndarray:
        """The score of each position as an instance."""
        with Threads(None) as threads:
            return self.initial_score + self.trees.scores(encoder, encoded, threads)[0, :, 0]

    def values(self, encoder: Encoder, encoded: EncodedSequences) -> np.ndarray:
        """The probability that the bag of each position shows the pattern."""
        return shown(self.bags(encoded), self.scores(encoder, encoded))

    def bags(self, encoded: EncodedSequences) -> Bags:
        """The bags of encoded positions."""
        return Bags(encoded.offsets, self.size, self.direction)


class FutureEncoder(Encoder):
    """Encodes sequences with features of bags as further columns.

    Whoever predicts asks the encoder for the columns, and need not know that some of them are
    computed from trees; training replaces the encoder where it adds a feature.

    Parameters
    ----------
    base : Encoder
        Encodes the input.
    features : tuple of BagFeature
    n_bins : int
        Number of even bins of a feature.
    """

    def __init__(self, base: Encoder, features: tuple[BagFeature, ...], n_bins: int):
        super().__init__(base.window, base.max_bins, base.missing)
        columns, plan = with_derived_columns(base.columns, base.plan, len(features), n_bins)
        self.restore(base.form, base.names, columns, plan, base.imputation)
        self.base = base
        self.features = features
        self.n_bins = n_bins
        self.n_derived = len(features)

    def encode(self, sequences: Sequences) -> EncodedSequences:
        """Encode sequences; an unseen symbol or category counts as missing."""
        return self.complete(self.base.encode(sequences))

    def complete(self, encoded: EncodedSequences) -> EncodedSequences:
        """Add the features to what the base has encoded."""
        full = encoded
        for feature in self.features:
            full = with_values(full, bins_of(feature.values(self.base, encoded), self.n_bins))
        return full

    @property
    def n_features(self) -> int:
        """Number of columns of the input."""
        return self.base.n_features

    def by_feature(self, gains: np.ndarray) -> np.ndarray:
        """Sums over the columns that come from the same column of the input.

        What a feature of bags has gained belongs to the columns that its instances are told by.
        """
        n = len(self.base.columns)
        total = self.base.by_feature(gains[:n])
        for feature, gain in zip(self.features, gains[n:], strict=True):
            inside = self.base.by_feature(feature.trees.gains(n))
            total = total + gain * inside / max(inside.sum(), np.finfo(float).tiny)
        return total

    def features_in_use(self, tested: np.ndarray) -> np.ndarray:
        """Which features the values of some columns, and of the derived ones, depend on."""
        n = len(self.base.columns)
        tested = tested[:n].copy()
        for feature in self.features:
            tested |= feature.trees.tested_columns(n)
        return self.base.features_in_use(tested)
