"""Discovered features: their bags and values, columns of encoded positions, readable forms."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace

import numpy as np

from treecrf.encoding.column_layout import CODES, MAX_CODES, ColumnLayout
from treecrf.encoding.columns import NUMBER, Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import conjunction
from treecrf.inputs.sequences import Sequences
from treecrf.trees.explain.conjunctions import leaf_values
from treecrf.trees.forest import Forest, check_forest
from treecrf.utils import model_file
from treecrf.utils.exact import UNIT
from treecrf.utils.threads import Threads

# Gradients that are larger, as with huge learning rates, count as this.
MAX_VALUE = 2.0**30
# Larger scores do not change the probability of an instance noticeably.
MAX_SCORE = 30.0
DIRECTIONS = ("future", "past", "both")
# Attributes of a feature that JSON can hold.
PLAIN = ("size", "direction", "initial_score", "gain")


class Bags:
    """The bag of each position: up to ``size`` neighbors to a side, within its sequence."""

    def __init__(self, offsets: np.ndarray, size: int | None, direction: str = "future"):
        positions = np.arange(offsets[-1])
        lengths = np.diff(offsets)
        starts = np.repeat(offsets[:-1], lengths)
        ends = np.repeat(offsets[1:], lengths)
        reach = int(offsets[-1]) if size is None else size
        # Ranges of positions: the first one, and the one after the last.
        ahead = (positions + 1, np.minimum(positions + 1 + reach, ends))
        behind = (np.maximum(positions - reach, starts), positions)
        # With bags of the future, a position is in the bags of the positions before it.
        ranges = {"future": (ahead,), "past": (behind,), "both": (behind, ahead)}
        self._members = ranges[direction]
        self._holders = ranges[{"future": "past", "past": "future"}.get(direction, direction)]
        # Number of bags that contain each position.
        self.n_holders = sum(last - first for first, last in self._holders)

    def sum_members(self, values: np.ndarray) -> np.ndarray:
        """Sum, for each bag, of the values of its positions."""
        return _sums(values, self._members)

    def sum_holders(self, values: np.ndarray) -> np.ndarray:
        """Sum, for each position, of the values of the bags that contain it."""
        return _sums(values, self._holders)


def bag_probabilities(bags: Bags, score: np.ndarray) -> np.ndarray:
    """Compute the probability that each bag is positive from the scores of the instances."""
    score = np.clip(score, -MAX_SCORE, MAX_SCORE)
    return -np.expm1(bags.sum_members(-np.log1p(np.exp(score))))


def _sums(values: np.ndarray, ranges: tuple) -> np.ndarray:
    """Sum over ranges of positions; the sums do not depend on the positions before a range."""
    values = np.clip(values, -MAX_VALUE, MAX_VALUE)
    # Cumulative sums of integers that wrap around still have exact differences.
    until = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.rint(values / UNIT).astype(np.int64), out=until[1:])
    return sum(until[last] - until[first] for first, last in ranges) * UNIT


@dataclass(frozen=True)
class BagFeature:
    """A discovered feature: the probability that a bag contains a positive instance."""

    # Maximum number of positions of a bag on each side; None for no limit.
    size: int | None
    # Sides of a bag: one of `DIRECTIONS`.
    direction: str
    # Log-odds of every instance before any trees.
    initial_score: float
    # Trees whose values are added to the log-odds of an instance; one label, order 0.
    trees: Forest
    # Intercepts and slopes of the scores of the labels, when the feature was discovered.
    effects: np.ndarray
    # Increase of the mean log-likelihood per training position at that time.
    gain: float

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
        effects = arrays[f"future.{k}.effects"]
        size = values["size"]
        if size is not None:
            model_file.check_counts(size)
        model_file.require(size is None or size > 0, "bags")
        model_file.require(values["direction"] in DIRECTIONS, "bags")
        for number in (values["initial_score"], values["gain"]):
            model_file.require(isinstance(number, numbers.Real) and np.isfinite(number), "features")
        model_file.require(
            effects.shape == (2, n_labels) and effects.dtype == np.float64, "features"
        )
        model_file.require(bool(np.isfinite(effects).all()), "features")
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
        layout = _with_codes(base.layout, len(features), n_bins)
        self.n_derived = len(features)
        parts = columns, layout, base.imputation, base.schema.absent_is_missing
        self.restore(base.window, base.form, base.names, *parts)
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
        full = encoded = self.base.encode(sequences, threads)
        for feature in self.features:
            codes = np.zeros((len(full.codes), full.codes.shape[1] + 1), dtype=np.uint8)
            codes[:, :-1] = full.codes
            bins = bins_of(feature.values(self.base, encoded), self.n_bins)
            codes[full.row_of_position, -1] = bins
            has_missing = np.append(full.has_missing, False)
            full = replace(full, codes=codes, has_missing=has_missing)
        return full

    def without_features(self, encoded: EncodedSequences) -> EncodedSequences:
        """Return encoded positions without the columns of the features."""
        codes = np.ascontiguousarray(encoded.codes[:, : len(self.base.layout.n_codes)])
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
        features = []
        for k, feature in enumerate(self.features):
            feature_values, feature_arrays = feature.state(k)
            features.append(feature_values)
            arrays |= feature_arrays
        return values | {"n_future_bins": self.n_bins, "features": features}, arrays

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> FutureEncoder:
        """Restore an object from its `state`; raises ValueError if the state is invalid."""
        base = Encoder.from_state(values, arrays)
        n_bins = values["n_future_bins"]
        n_labels = len(arrays["classes"])
        model_file.check_counts(n_bins)
        model_file.require(2 <= n_bins <= MAX_CODES, "bins")
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
    thresholds = np.tile(thresholds_of(n_bins), n_derived)
    return Columns(
        np.append(columns.kinds, np.full(n_derived, NUMBER, dtype=np.uint8)),
        np.append(columns.sizes, np.full(n_derived, n_bins - 1)),
        np.append(columns.thresholds, thresholds),
        columns.categories,
        np.append(columns.margins, np.zeros(len(thresholds), dtype=np.float32)),
    )


def _with_codes(layout: ColumnLayout, n_derived: int, n_bins: int) -> ColumnLayout:
    """Return the layout of the input, followed by derived columns, each in its own code column."""

    def longer(array: np.ndarray, values: np.ndarray | int) -> np.ndarray:
        return np.append(array, np.full(n_derived, values)).astype(array.dtype)

    return replace(
        layout,
        storage=longer(layout.storage, CODES),
        slots=longer(layout.slots, len(layout.n_codes) + np.arange(n_derived)),
        first_codes=longer(layout.first_codes, 0),
        zeros=longer(layout.zeros, 0),
        has_missing=longer(layout.has_missing, 0),
        # No value is missing; this is the code after the last.
        missing_codes=longer(layout.missing_codes, n_bins),
        missing_ids=longer(layout.missing_ids, -1),
        has_one_id=longer(layout.has_one_id, n_bins == 2),
        n_codes=longer(layout.n_codes, n_bins),
    )


@dataclass(frozen=True)
class FutureFeature:
    """A discovered feature of bags.

    Its value at a position is the probability that any instance of the bag is positive. The
    log-odds that an instance is positive are ``initial_score`` plus the values of the ``rules``
    that hold for it. The attribute ``future_features_`` of `FutureFeatureMEMM` and `FutureFeatures`
    is a list of such features.

    Attributes
    ----------
    bag_size : int or "to_end"
        Maximum number of positions in a bag, per side.
    bag_direction : {"future", "past", "both"}
        Which neighbors of a position form its bag.
    initial_score : float
        Initial log-odds that an instance is positive.
    rules : list of (float, str)
        Rules that recognize an instance, the most important first: a value, and the tests that must
        hold.
    thresholds : float array
        Values of the feature at which the trees of the model split, sorted.
    effects : dict
        Effect on the score of each label when the feature was discovered, as a pair of intercept
        and slope.
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
            The kind of the bag in the first line, then a line for each rule with its value and its
            tests, and the number of the other rules.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> memm = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> memm = memm.fit(X, y)
        >>> print(memm.future_features_[0].describe(n_rules=3))
        any of the next 6 positions, with log-odds of -5.0 plus
          +10.00  if not x0 and not x1 and not x2 and not x4
          +10.00  if not x0 and not x1 and not x2 and not x3 and x4 and not x5
          -10.00  if not x0 and not x1 and not x2 and x3 and not x4 and x5 and not x6 and x7
                  and 366 smaller rules
        """
        lines = [f"{self._bag()}, with log-odds of {self.initial_score} plus"]
        lines += [f"{value:+8.2f}  if {tests}" for value, tests in self.rules[:n_rules]]
        if len(self.rules) > n_rules:
            lines.append(f"          and {len(self.rules) - n_rules} smaller rules")
        return "\n".join(lines)

    def _bag(self) -> str:
        size = "" if self.bag_size == "to_end" else f"{self.bag_size} "
        sides = {"future": "next", "past": "previous", "both": "previous and next"}
        return f"any of the {sides[self.bag_direction]} {size}positions"


def future_features(
    encoder: FutureEncoder, forest: Forest, classes: np.ndarray
) -> list[FutureFeature]:
    """Return all discovered features of a model, in the order of their discovery."""
    packed = forest.pack()
    thresholds = thresholds_of(encoder.n_bins)
    described = []
    for k, feature in enumerate(encoder.features, len(encoder.base.columns)):
        tested = (packed["true_child"] >= 0) & (packed["column"] == k)
        changed = np.flatnonzero(feature.effects.any(axis=0))
        # Leaves with the same tests form one rule.
        rules = leaf_values(feature.trees, encoder.base).items()
        described.append(
            FutureFeature(
                bag_size="to_end" if feature.size is None else feature.size,
                bag_direction=feature.direction,
                initial_score=feature.initial_score,
                rules=[
                    (value, conjunction(encoder.base, condition.window))
                    for (_, condition), value in sorted(rules, key=lambda rule: -abs(rule[1]))
                ],
                thresholds=thresholds[np.unique(packed["value"][tested]).astype(int)],
                effects={classes[c].item(): tuple(feature.effects[:, c].tolist()) for c in changed},
                gain=feature.gain,
            )
        )
    return described
