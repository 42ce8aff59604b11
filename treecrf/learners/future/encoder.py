"""Discovered features as additional columns of the encoded positions."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.encoding.columns import NUMBER, Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import CODES, MAX_CODES, Plan
from treecrf.inputs.sequences import Sequences
from treecrf.learners.future.bags import DIRECTIONS, Bags, bag_probabilities
from treecrf.trees.forest import Forest, check_forest
from treecrf.utils import checks, model_file
from treecrf.utils.threads import Threads

# Attributes of a feature that JSON can hold.
PLAIN = ("size", "direction", "initial_score", "gain")


@dataclass(frozen=True)
class BagFeature:
    """A discovered feature: the probability that a bag contains a positive instance."""

    size: int | None  # maximum number of positions of a bag per side
    direction: str
    initial_score: float  # log-odds of every instance before any trees
    trees: Forest  # their values are added to the log-odds of an instance; one label, order 0
    effects: np.ndarray  # intercepts and slopes of the scores of the labels when discovered
    gain: float  # increase of the mean log-likelihood per training position at that time

    def scores(self, encoder: Encoder, encoded: EncodedSequences) -> np.ndarray:
        """Compute the log-odds of each position as an instance."""
        with Threads(None) as threads:
            return self.initial_score + self.trees.scores(encoder, encoded, threads)[0, :, 0]

    def values(self, encoder: Encoder, encoded: EncodedSequences) -> np.ndarray:
        """Compute the probability that the bag of each position contains a positive instance."""
        return bag_probabilities(self.bags(encoded), self.scores(encoder, encoded))

    def bags(self, encoded: EncodedSequences) -> Bags:
        """Return the bags of encoded positions."""
        return Bags(encoded.offsets, self.size, self.direction)

    def state(self, k: int) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of feature k in a saved model."""
        values = {name: getattr(self, name) for name in PLAIN}
        trees = {f"future.{k}.trees.{name}": array for name, array in self.trees.pack().items()}
        return values, {f"future.{k}.effects": self.effects} | trees

    @classmethod
    def from_state(
        cls, k: int, values: dict, arrays: dict[str, np.ndarray], encoder: Encoder, n_labels: int
    ) -> BagFeature:
        """Restore an object from its `state`; ``encoder`` encodes the input alone."""
        effects, size = arrays[f"future.{k}.effects"], values["size"]
        if size is not None:
            checks.check_counts(size)
        checks.require(size is None or size > 0, "bags")
        checks.require(values["direction"] in DIRECTIONS, "bags")
        checks.require(all(map(_is_finite, (values["initial_score"], values["gain"]))), "features")
        checks.require(effects.shape == (2, n_labels) and effects.dtype == np.float64, "features")
        checks.require(bool(np.isfinite(effects).all()), "features")
        packed = model_file.Section(arrays, f"future.{k}.trees")
        check_forest(packed, len(packed["starts"]) - 1, 1, 0, encoder)
        trees = Forest.unpack(1, 0, packed)
        return cls(effects=effects, trees=trees, **{name: values[name] for name in PLAIN})


class FutureEncoder(Encoder):
    """An encoder that computes discovered features as additional columns.

    Prediction uses it like any other encoder and needs no special case for the columns that are
    computed by trees. Training replaces the encoder whenever it adds a feature.

    A discovered feature is a number from 0 to 1, in bins of equal width. Its values depend on
    positions outside the window anyway, so its tests read the current position only
    (``n_derived``). The ``base`` encodes the input.
    """

    def __init__(self, base: Encoder, features: tuple[BagFeature, ...], n_bins: int):
        super().__init__(base.max_window, base.max_bins, base.missing)
        columns = _with_columns(base.columns, len(features), n_bins)
        plan = _with_codes(base.plan, len(features), n_bins)
        self.n_derived = len(features)
        self.restore(base.window, base.form, base.names, columns, plan, base.imputation)
        self.base = base
        self.features = features
        self.n_bins = n_bins

    def with_window(self, window: tuple[int, int]) -> FutureEncoder:
        """Return an encoder of the same columns with another window, within ``max_window``."""
        return FutureEncoder(self.base.with_window(window), self.features, self.n_bins)

    @property
    def reach(self) -> tuple[int, int] | None:
        """Number of positions to each side that tests depend on; None if it is not limited."""
        left, right = self.window
        for feature in self.features:
            if feature.size is None:
                return None
            # Positions of a bag have windows, too.
            if feature.direction != "future":
                left = max(left, feature.size + self.window[0])
            if feature.direction != "past":
                right = max(right, feature.size + self.window[1])
        return left, right

    def encode(self, sequences: Sequences, threads: Threads | None = None) -> EncodedSequences:
        """Encode sequences; an unseen symbol or category fails all tests."""
        return self.complete(self.base.encode(sequences, threads))

    def complete(self, encoded: EncodedSequences) -> EncodedSequences:
        """Add the features to sequences that the base has encoded."""
        full = encoded
        for feature in self.features:
            full = _with_bins(full, bins_of(feature.values(self.base, encoded), self.n_bins))
        return full

    def without_features(self, encoded: EncodedSequences) -> EncodedSequences:
        """Undo `complete`."""
        codes = np.ascontiguousarray(encoded.codes[:, : len(self.base.plan.n_codes)])
        has_missing = encoded.has_missing[: len(self.base.columns)]
        return replace(encoded, codes=codes, has_missing=has_missing)

    def by_feature(self, gains: np.ndarray) -> np.ndarray:
        """Sum over the columns that come from the same column of the input.

        The gain of a discovered feature is credited to the input columns that its trees test.
        """
        n = len(self.base.columns)
        total = self.base.by_feature(gains[:n])
        for feature, gain in zip(self.features, gains[n:], strict=True):
            inside = self.base.by_feature(feature.trees.gains(n))
            total = total + gain * inside / max(inside.sum(), np.finfo(float).tiny)
        return total

    def features_in_use(self, tested: np.ndarray) -> np.ndarray:
        """Mark the features that the given columns and all discovered features depend on."""
        n = len(self.base.columns)
        tested = tested[:n].copy()
        for feature in self.features:
            tested |= feature.trees.tested_columns(n)
        return self.base.features_in_use(tested)

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        values, arrays = self.base.state()
        states = [feature.state(k) for k, feature in enumerate(self.features)]
        for _, of_feature in states:
            arrays |= of_feature
        features = [plain for plain, _ in states]
        return values | {"n_future_bins": self.n_bins, "features": features}, arrays

    @classmethod
    def from_state(
        cls, values: dict, arrays: dict[str, np.ndarray], n_labels: int
    ) -> FutureEncoder:
        """Restore an object from its `state`; raises ValueError if the state is invalid."""
        base = Encoder.from_state(values, arrays)
        n_bins = values["n_future_bins"]
        checks.check_counts(n_bins)
        checks.require(2 <= n_bins <= MAX_CODES, "bins")
        features = [
            BagFeature.from_state(k, plain, arrays, base, n_labels)
            for k, plain in enumerate(values["features"])
        ]
        return cls(base, tuple(features), n_bins)


def thresholds_of(n_bins: int) -> np.ndarray:
    """Return the inner boundaries of bins of equal width from 0 to 1."""
    return np.arange(1, n_bins) / n_bins


def bins_of(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the bin of each value: the number of thresholds below it; uint8."""
    return np.searchsorted(thresholds_of(n_bins), values, side="left").astype(np.uint8)


def _with_columns(columns: Columns, n_derived: int, n_bins: int) -> Columns:
    """Return the columns of the input, followed by derived columns."""
    return Columns(
        np.append(columns.kinds, np.full(n_derived, NUMBER, dtype=np.uint8)),
        np.append(columns.sizes, np.full(n_derived, n_bins - 1)),
        np.append(columns.thresholds, np.tile(thresholds_of(n_bins), n_derived)),
        columns.categories,
    )


def _with_codes(plan: Plan, n_derived: int, n_bins: int) -> Plan:
    """Return the plan of the input, followed by derived columns, each in its own code column."""

    def longer(array: np.ndarray, values: np.ndarray | int) -> np.ndarray:
        return np.append(array, np.full(n_derived, values)).astype(array.dtype)

    return replace(
        plan,
        storage=longer(plan.storage, CODES),
        slots=longer(plan.slots, len(plan.n_codes) + np.arange(n_derived)),
        first_codes=longer(plan.first_codes, 0),
        zeros=longer(plan.zeros, 0),
        has_missing=longer(plan.has_missing, 0),
        # No value is missing; this is the code after the last.
        missing_codes=longer(plan.missing_codes, n_bins),
        missing_ids=longer(plan.missing_ids, -1),
        has_one_id=longer(plan.has_one_id, n_bins == 2),
        n_codes=longer(plan.n_codes, n_bins),
    )


def _with_bins(encoded: EncodedSequences, bins: np.ndarray) -> EncodedSequences:
    """Return the encoded positions with the bins of one more derived column."""
    codes = np.zeros((len(encoded.codes), encoded.codes.shape[1] + 1), dtype=np.uint8)
    codes[:, :-1] = encoded.codes
    codes[encoded.row_of_position, -1] = bins
    has_missing = np.append(encoded.has_missing, False)
    return replace(encoded, codes=codes, has_missing=has_missing)


def _is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Real) and bool(np.isfinite(value))
