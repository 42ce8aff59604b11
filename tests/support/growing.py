"""Trees grown by the kernel and by a table of all examples, on the same positions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from support.cases import dense, pack, random_sequences
from support.tree_oracle import (
    MissingValues,
    grow_naive_tree,
    meaning_of_tests,
    sampled_features,
    window_test_missing,
    window_test_truth,
)

from treecrf import _tree
from treecrf.encoding.column_layout import bundle
from treecrf.encoding.encoder import Encoder
from treecrf.trees.growing.settings import TreeConstraints, TreeSettings
from treecrf.trees.growing.window_tests import number_tests
from treecrf.trees.scoring.packed_trees import LABEL

LENGTHS = [[9, 1, 14, 3], [30], [1, 1, 1, 1, 1, 1], [1], [60, 45, 20], [2, 150]]
WINDOWS = [(0, 0), (1, 1), (2, 0), (0, 3)]


@dataclass(frozen=True)
class Setting:
    """How the trees of a case grow."""

    n_labels: int = 2
    order: int = 1
    window: tuple[int, int] = (1, 1)
    max_leaf_nodes: int = 12
    l2: float = 1.0
    max_depth: int | None = None
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_leaf_value: float = np.inf
    learning_rate: float = 1.0
    second_order: bool = False
    weighted: bool = False
    max_features: float = 1.0
    coarse: bool = False  # few distinct targets make many ties
    unit: float = 2.0**-32  # of targets and curvature
    missing: str = "weighting"
    min_missing_gain: float = 0.0
    monotonic: bool = False  # random signs of the columns
    interactions: str | None = None  # "sets", at random, or "pairwise"

    @property
    def min_examples(self):
        """Minimum number of examples on each side; for 1, a fraction of an example suffices."""
        return 0 if self.min_samples_leaf == 1 else self.min_samples_leaf

    def tree_settings(self, constraints=None):
        """Return the settings of growers."""
        return TreeSettings(
            max_leaf_nodes=self.max_leaf_nodes,
            l2_regularization=self.l2,
            learning_rate=self.learning_rate,
            depth_limit=-1 if self.max_depth is None else self.max_depth,
            min_gain=self.min_gain,
            min_missing_gain=self.min_missing_gain,
            min_examples=self.min_examples,
            max_features=self.max_features,
            max_leaf_value=self.max_leaf_value,
            constraints=constraints,
        )


class Positions:
    """Encoded positions, and the truth of every window test at them from the raw input."""

    def __init__(self, sequences, rng, setting):
        self.setting = setting
        packed = pack(sequences)
        self.encoder = Encoder(setting.window, missing=setting.missing).fit(packed)
        layout, self.encoded = bundle(self.encoder.layout, self.encoder.encode(packed))
        self.table = table = number_tests(self.encoder, layout)
        self.bins = np.flatnonzero(table.columns >= -1)  # bins that judge a test
        tests = table.columns[self.bins], table.offsets[self.bins], table.values[self.bins]
        meanings = meaning_of_tests(self.encoder, *tests)
        lags, symbols = np.indices((setting.order, setting.n_labels + 1)).reshape(2, -1)
        of_labels = [np.full_like(lags, LABEL), lags + 1, symbols]
        self.tests = np.hstack([tests, of_labels, np.zeros((3, 1), dtype=int)])  # -1: a leaf
        self.truth = window_test_truth(dense(sequences), meanings)
        self.missing_values = MissingValues(
            window_test_missing(dense(sequences), meanings),
            setting.missing,
            groups=np.unique(np.stack(tests[:2]), axis=1, return_inverse=True)[1].ravel(),
            is_open=(tests[0] >= 0) & (tests[2] >= 0),
            of_missing=(tests[0] >= 0) & (tests[2] < 0),
            min_gain=setting.min_missing_gain,
        )
        self.depth = self.encoded.depth_of(setting.order)
        self.shape = (len(self.depth), setting.n_labels**setting.order)
        self.kinds, self.columns = [kind for kind, *_ in meanings], tests[0]
        self.features = np.searchsorted(table.feature_starts, self.bins, "right") - 1
        of_lists = table.list_bins[0]
        for i in np.flatnonzero((tests[2] == -1) & (self.bins >= of_lists)):
            # The bin of missing values is elsewhere than the others of the same feature.
            of_column = np.flatnonzero(table.feature_columns == tests[0][i])
            self.features[i] = of_column[tests[1][i] + table.left]
        self.constraints = self._constraints(rng)
        self.n_chosen = max(1, math.ceil(setting.max_features * table.n_features))

    def _constraints(self, rng):
        setting, n = self.setting, len(self.encoder.columns)
        if not setting.monotonic and setting.interactions is None:
            return None
        return TreeConstraints(
            np.arange(n, dtype=np.int32),
            rng.integers(-1, 2, (1, n)).astype(np.int8) if setting.monotonic else None,
            (rng.random((3, n)) < 0.6).astype(np.uint8) if setting.interactions == "sets" else None,
            2 if setting.interactions == "pairwise" else 0,
        )

    def tree_settings(self):
        """Return the settings of growers."""
        return self.setting.tree_settings(self.constraints)

    def signs(self):
        """Return the order that each test must keep, those of previous labels included."""
        if not self.setting.monotonic:
            return None
        signs = self.constraints.signs[0][np.maximum(self.columns, 0)] * (self.columns >= 0)
        signs = np.where([kind == "at most" for kind in self.kinds], -signs, signs)
        signs = np.where([kind == "missing" for kind in self.kinds], 0, signs)
        return np.append(signs, np.zeros(self.setting.order * (self.setting.n_labels + 1), int))

    def interacts(self):
        """Return which tests may follow others in a branch."""
        if self.setting.interactions is None:
            return None
        groups = self.constraints.groups

        def may_follow(above, test):
            tested = {
                int(self.columns[t]) for t in (*above, test)
                if t < len(self.bins) and self.columns[t] >= 0
            }  # fmt: skip
            if test >= len(self.bins) or self.columns[test] < 0:
                return True
            if groups is None:
                return len(tested) <= 2
            return any(all(group[j] for j in tested) for group in groups)

        return may_follow

    def grower(self, n_layers=0):
        setting = self.setting
        return _tree.TreeGrower(
            self.encoded,
            self.table,
            self.tree_settings(),
            setting.n_labels,
            setting.order,
            weighted=setting.second_order or setting.weighted,
            surrogates=setting.missing == "surrogate",
            n_layers=n_layers,
        )

    def draw_examples(self, rng):
        """Targets, curvature (or None) and position weights."""
        unit = 0.25 if self.setting.coarse else self.setting.unit
        weights = np.ones(len(self.depth))
        if self.setting.weighted:
            weights = rng.choice([0.0, 0.5, 1.0, 2.75], len(self.depth))
        targets, curvature = (
            np.rint(rng.uniform(low, 1, self.shape) / unit) * unit * weights[:, np.newaxis]
            for low in (-1, 0)
        )
        if not self.setting.second_order:
            return targets, None, weights
        targets[curvature == 0] = 0.0
        return targets, curvature, weights

    def expected(self, targets, curvature, weights, seed, chosen=None):
        setting = self.setting
        every = np.ones(self.shape)
        example_weights = weights[:, np.newaxis] * every if curvature is None else curvature
        return grow_naive_tree(
            self.truth,
            self.depth,
            setting.n_labels,
            setting.order,
            targets,
            example_weights,
            max_leaf_nodes=setting.max_leaf_nodes,
            l2=setting.l2,
            min_gain=setting.min_gain,
            min_samples_leaf=setting.min_examples,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            example_counts=(weights > 0)[:, np.newaxis] * every,
            allowed=self.allowed(seed, chosen),
            missing_values=self.missing_values,
            position_weights=weights,
            signs=self.signs(),
            interacts=self.interacts(),
        )

    def allowed(self, seed, chosen=None):
        n_features = self.table.n_features

        def may_use(path, test):
            if len(path) == self.setting.max_depth:
                return False
            if test >= len(self.bins):
                return True
            feature = self.features[test]
            if chosen is not None and not chosen[feature]:
                return False
            if self.setting.max_features == 1:
                return True
            return sampled_features(seed, path, n_features, self.n_chosen)[feature]

        return may_use

    def check(self, grower, rng, examples=None, chosen=None, seed=None):
        """Grow one tree; return it."""
        targets, curvature, weights = examples or self.draw_examples(rng)
        seed = int(rng.integers(2**63)) if seed is None else seed
        before = rng.integers(-50, 50, self.shape) * 2.0**-20
        scores = before.copy()
        grown = grower.grow(targets, curvature, weights, seed, scores, chosen)
        expected = self.expected(targets, curvature, weights, seed, chosen)
        assert_same_nodes(grown, expected.nodes, self.tests)
        exists = expected.leaves >= 0
        np.testing.assert_array_equal(scores[exists], (before + expected.increments)[exists])
        np.testing.assert_array_equal(scores[~exists], before[~exists])
        return grown


def assert_same_nodes(grown, nodes, tests):
    """Compare every field of every node, and of the surrogates."""
    inner = np.array([node.test >= 0 for node in nodes])
    expected = {name: [getattr(node, name) for node in nodes] for name in nodes[0]._fields}
    surrogates = [one for some in expected.pop("surrogates") for one in some]
    expected["n_surrogates"] = [len(node.surrogates) for node in nodes]
    expected["leaf"] = np.where(inner, 0.0, expected.pop("value"))
    of_nodes = tests[:, expected.pop("test")]
    of_surrogates = tests[:, [test for test, _ in surrogates]]
    expected["reversed"] = [is_reversed for _, is_reversed in surrogates]
    for prefix, meanings in (("", of_nodes), ("surrogate_", of_surrogates)):
        for name, values in zip(("column", "offset", "value"), meanings, strict=True):
            expected[prefix + name] = values
    for name, values in expected.items():
        np.testing.assert_array_equal(grown[name], values, err_msg=name)


def random_settings(kind, seed, rng):
    """Lengths of sequences, and settings of growth."""
    return {
        "lengths": LENGTHS[seed % 5 if kind == "words" else seed % 6],
        "n_labels": int(rng.integers(2, 6)),
        "order": int(rng.integers(3)),
        "window": WINDOWS[seed % 4],
        "max_leaf_nodes": int(rng.choice([2, 3, 8, 20])),
        "max_depth": rng.choice([None, None, 1, 2, 4]),
        "l2": float(rng.choice([0.0, 1.0, 40.0])),
        "min_gain": float(rng.choice([0.0, 0.0, 0.3])),
        "min_samples_leaf": int(rng.choice([1, 3, 10])),
        "learning_rate": float(rng.choice([1.0, 0.1])),
        "second_order": bool(rng.random() < 0.4),
        "weighted": bool(rng.random() < 0.4),
        "coarse": bool(rng.random() < 0.4),
    }


def random_positions(kind, rng, *, lengths=(9, 1, 14, 3), **settings):
    return Positions(random_sequences(kind, rng, lengths), rng, Setting(**settings))


class Layers:
    """Examples in layers, each with separate previous labels, and a table of all of them."""

    def __init__(self, positions, n_layers, rng):
        self.positions = positions
        setting, n = positions.setting, len(positions.depth)
        self.grower = positions.grower(n_layers=n_layers)
        rows = positions.encoded.row_of_position - positions.encoded.row_of_position[0]
        self.rows = (np.arange(n_layers)[:, None] * self.grower.n_rows + rows).ravel()
        exists = rng.random(n_layers * n) < 0.7
        exists[rng.integers(len(exists))] = True
        self.rows = self.rows[exists]
        shape = (setting.order, n_layers * self.grower.n_rows)
        # Where there is no example, whatever stands there must not matter.
        labels = rng.integers(0, setting.n_labels + 1, shape).astype(np.uint8)
        everywhere = np.zeros(shape[1], dtype=bool)
        everywhere[self.rows] = True
        self.grower.set_examples(labels, everywhere)
        symbols = np.arange(setting.n_labels + 1)
        label_truth = (labels[:, None, self.rows] == symbols[:, None]).reshape(-1, len(self.rows))
        window_truth = np.tile(positions.truth, n_layers)[:, exists]
        self.truth = np.vstack([window_truth, label_truth])
        self.missing_values = self._missing(
            np.tile(positions.missing_values.missing, n_layers)[:, exists]
        )
        self.n_rows = shape[1]

    def _missing(self, window_missing):
        """Missing values; tests of previous labels always have a value and are no surrogates."""
        n_labels, missing_values = (
            len(self.truth) - len(window_missing),
            self.positions.missing_values,
        )
        return replace(
            missing_values,
            missing=np.vstack([window_missing, np.zeros((n_labels, len(self.rows)), dtype=bool)]),
            is_open=np.append(missing_values.is_open, np.zeros(n_labels, dtype=bool)),
            of_missing=np.append(missing_values.of_missing, np.zeros(n_labels, dtype=bool)),
        )

    def check(self, rng):
        positions, setting, n = self.positions, self.positions.setting, len(self.rows)
        weights = rng.choice([0.5, 1.0, 2.75], n) if setting.weighted else np.ones(n)
        targets = np.rint(rng.uniform(-1, 1, n) / setting.unit) * setting.unit * weights
        curvature = np.rint(rng.uniform(0.01, 1, n) / setting.unit) * setting.unit * weights
        spread = np.zeros((4, self.n_rows, 1))
        spread[:3, self.rows, 0] = targets, curvature, weights
        grown = self.grower.grow(
            spread[0],
            spread[1] if setting.second_order else None,
            spread[2, :, 0].copy() if setting.weighted else None,
            0,
            spread[3],
        )
        expected = grow_naive_tree(
            self.truth,
            np.zeros(n, dtype=int),
            setting.n_labels,
            0,
            targets[:, None],
            (curvature if setting.second_order else weights)[:, None],
            max_leaf_nodes=setting.max_leaf_nodes,
            l2=setting.l2,
            min_samples_leaf=setting.min_examples,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            example_counts=np.ones((n, 1)),
            allowed=positions.allowed(0),
            signs=positions.signs(),
            interacts=positions.interacts(),
            missing_values=self.missing_values,
            position_weights=weights,
        )
        assert_same_nodes(grown, expected.nodes, positions.tests)
        np.testing.assert_array_equal(spread[3, self.rows], expected.increments)
        assert (np.delete(spread[3], self.rows) == 0).all()
