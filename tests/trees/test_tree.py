"""Trees are, to the last bit, those that a table of all examples grows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.cases import STORAGES, dense, pack, random_sequences
from support.oracles import (
    Gaps,
    grow_naive_tree,
    meaning_of_tests,
    window_test_missing,
    window_test_truth,
)

import treecrf.encoding.encoder
import treecrf.trees.growing.window_tests
from treecrf import TreeCRF, _tree
from treecrf.encoding.bundling import bundle
from treecrf.encoding.encoder import Encoder
from treecrf.trees.growing.window_tests import number_tests

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

    @property
    def fewest(self):
        """Examples that must be on each side: 1 asks for no more than a part of one."""
        return 0 if self.min_samples_leaf == 1 else self.min_samples_leaf


class Positions:
    """Encoded positions, and the truth of every window test at them from the raw input."""

    def __init__(self, sequences, rng, setting):
        self.setting = setting
        packed = pack(sequences)
        self.encoder = Encoder(setting.window).fit(packed, rng)
        plan, self.encoded = bundle(self.encoder, self.encoder.encode(packed))
        self.table = table = number_tests(self.encoder, plan)
        self.bins = np.flatnonzero(table.columns >= -1)  # bins that judge a test
        tests = table.columns[self.bins], table.offsets[self.bins], table.values[self.bins]
        meanings = meaning_of_tests(self.encoder, *tests)
        self.truth = window_test_truth(dense(sequences), meanings)
        self.gaps = Gaps(
            window_test_missing(dense(sequences), meanings),
            setting.missing,
            groups=np.unique(np.stack(tests[:2]), axis=1, return_inverse=True)[1].ravel(),
            is_open=tests[0] >= 0,
        )
        self.depth = self.encoded.depth_of(setting.order)
        self.shape = (len(self.depth), setting.n_labels**setting.order)
        self.n_chosen = max(1, round(setting.max_features * table.n_features))

    def grower(self, n_planes=0):
        setting = self.setting
        uncounted = setting.second_order or setting.weighted
        fewest = setting.fewest
        return _tree.TreeGrower(
            self.encoded,
            self.table,
            self.depth,
            n_labels=setting.n_labels,
            order=setting.order,
            max_leaf_nodes=setting.max_leaf_nodes,
            l2_regularization=setting.l2,
            min_gain=setting.min_gain,
            min_samples_leaf=fewest,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            n_chosen=self.n_chosen,
            count_apart=uncounted and (fewest > 0 or setting.missing == "surrogate"),
            n_planes=n_planes,
            surrogates=setting.missing == "surrogate",
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

    def expected(self, targets, curvature, weights, seed):
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
            min_samples_leaf=setting.fewest,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            example_counts=(weights > 0)[:, np.newaxis] * every,
            allowed=None if setting.max_features == 1 else self.allowed(seed),
            gaps=self.gaps,
            position_weights=weights,
        )

    def allowed(self, seed):
        n_features = self.table.n_features

        def may_use(node, test):
            if test >= len(self.bins):
                return True
            feature = np.searchsorted(self.table.feature_starts, self.bins[test], "right") - 1
            return _tree.sample_features(seed, node, n_features, self.n_chosen)[feature]

        return may_use

    def check(self, grower, rng, examples=None):
        """Grow one tree; return it."""
        targets, curvature, weights = examples or self.draw_examples(rng)
        seed = int(rng.integers(2**63))
        before = rng.integers(-50, 50, self.shape) * 2.0**-40
        scores = before.copy()
        grown = grower.grow(targets, curvature, weights, seed, scores)
        expected = self.expected(targets, curvature, weights, seed)
        assert_same_nodes(grown, expected.nodes, self.bins, self.table.n_bins)
        assert_same_surrogates(grown, expected.nodes, self.bins)
        exists = expected.leaves >= 0
        np.testing.assert_array_equal(scores[exists], (before + expected.increments)[exists])
        np.testing.assert_array_equal(scores[~exists], before[~exists])
        return grown


def assert_same_nodes(grown, nodes, bins, n_bins):
    """Compare every field of every node; the kernel counts bins without a test too."""
    tests = np.append(bins, n_bins + np.arange(1000))
    inner = np.array([node.test >= 0 for node in nodes])
    expected = {name: [getattr(node, name) for node in nodes] for name in nodes[0]._fields}
    expected = {
        name: values if name == "surrogates" else np.array(values)
        for name, values in expected.items()
    }
    expected["test"] = np.where(inner, tests[expected["test"]], -1)
    expected["leaf"] = np.where(inner, 0.0, expected.pop("value"))
    expected["share"] = np.where(expected["test"] < n_bins, expected["share"], 0.0)
    expected["n_surrogates"] = [len(surrogates) for surrogates in expected.pop("surrogates")]
    for name, values in expected.items():
        np.testing.assert_array_equal(grown[name], values, err_msg=name)


def assert_same_surrogates(grown, nodes, bins):
    surrogates = [surrogate for node in nodes for surrogate in node.surrogates]
    tests = [bins[test] for test, _ in surrogates]
    np.testing.assert_array_equal(grown["surrogate_test"], tests)
    np.testing.assert_array_equal(grown["reversed"], [is_reversed for _, is_reversed in surrogates])


def random_positions(kind, rng, *, lengths=(9, 1, 14, 3), **settings):
    return Positions(random_sequences(kind, rng, lengths), rng, Setting(**settings))


def check_case(kind, seed, n_trees=1, **options):
    rng = np.random.default_rng(seed)
    positions = random_positions(kind, rng, **options)
    grower = positions.grower()
    for _ in range(n_trees):
        positions.check(grower, rng)


class Planes:
    """Examples in planes, each with previous labels of its own, and a table of all of them."""

    def __init__(self, positions, n_planes, rng):
        self.positions = positions
        setting, n = positions.setting, len(positions.depth)
        self.grower = positions.grower(n_planes=n_planes)
        rows = positions.encoded.row_of_position - positions.encoded.row_of_position[0]
        self.rows = (np.arange(n_planes)[:, None] * self.grower.n_rows + rows).ravel()
        exists = rng.random(n_planes * n) < 0.7
        exists[rng.integers(len(exists))] = True
        self.rows = self.rows[exists]
        shape = (setting.order, n_planes * self.grower.n_rows)
        # Where there is no example, whatever stands there must not matter.
        labels = rng.integers(0, setting.n_labels + 1, shape).astype(np.uint8)
        everywhere = np.zeros(shape[1], dtype=bool)
        everywhere[self.rows] = True
        self.grower.place(labels, everywhere)
        symbols = np.arange(setting.n_labels + 1)
        label_truth = (labels[:, None, self.rows] == symbols[:, None]).reshape(-1, len(self.rows))
        window_truth = np.tile(positions.truth, n_planes)[:, exists]
        self.truth = np.vstack([window_truth, label_truth])
        self.gaps = self._gaps(np.tile(positions.gaps.missing, n_planes)[:, exists])
        self.n_rows = shape[1]

    def _gaps(self, window_missing):
        """Tests of previous labels are answered by all and stand in for none."""
        n_labels, gaps = len(self.truth) - len(window_missing), self.positions.gaps
        return replace(
            gaps,
            missing=np.vstack([window_missing, np.zeros((n_labels, len(self.rows)), dtype=bool)]),
            is_open=np.append(gaps.is_open, np.zeros(n_labels, dtype=bool)),
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
            min_samples_leaf=setting.fewest,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            example_counts=np.ones((n, 1)),
            gaps=self.gaps,
            position_weights=weights,
        )
        assert_same_nodes(grown, expected.nodes, positions.bins, positions.table.n_bins)
        assert_same_surrogates(grown, expected.nodes, positions.bins)
        np.testing.assert_array_equal(spread[3, self.rows], expected.increments)
        assert (np.delete(spread[3], self.rows) == 0).all()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("n_planes", [1, 3])
def test_examples_in_planes(n_planes, kind, seed):
    rng = np.random.default_rng(seed)
    positions = random_positions(
        kind,
        rng,
        lengths=LENGTHS[seed % 5 if kind == "words" else seed % 6],
        n_labels=int(rng.integers(2, 6)),
        order=int(rng.integers(4)),
        window=WINDOWS[seed % 4],
        max_leaf_nodes=int(rng.choice([2, 8, 20])),
        min_samples_leaf=int(rng.choice([1, 3])),
        second_order=bool(rng.random() < 0.4),
        weighted=bool(rng.random() < 0.4),
    )
    planes = Planes(positions, n_planes, rng)
    for _ in range(2):
        planes.check(rng)


@pytest.fixture
def few_codes(monkeypatch):
    """Words, of which there are hundreds, go to lists; here a few values are enough for that."""
    monkeypatch.setattr(treecrf.encoding.encoder, "MAX_CODES", 4)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", STORAGES)
def test_random_cases(kind, seed, few_codes):
    rng = np.random.default_rng(seed)
    check_case(
        kind,
        seed,
        n_labels=int(rng.integers(2, 5)),
        order=int(rng.integers(3)),
        window=WINDOWS[seed % 4],
        max_leaf_nodes=int(rng.choice([2, 3, 8, 20])),
        l2=float(rng.choice([0.0, 1.0, 40.0])),
        min_gain=float(rng.choice([0.0, 0.0, 0.3])),
        min_samples_leaf=int(rng.choice([1, 3, 10])),
        learning_rate=float(rng.choice([1.0, 0.1])),
        second_order=bool(rng.random() < 0.4),
        max_leaf_value=float(rng.choice([np.inf, 0.05])),
        weighted=bool(rng.random() < 0.4),
        max_features=float(rng.choice([1.0, 0.3])),
        coarse=bool(rng.random() < 0.5),
        lengths=LENGTHS[seed % 5 if kind == "words" else seed % 6],
    )


@pytest.mark.parametrize("weights", ["counted", "weighted", "second order", "both"])
@pytest.mark.parametrize("min_samples_leaf", [1, 3, 10])
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_fewest_examples_of_a_leaf(kind, min_samples_leaf, weights):
    check_case(
        kind,
        5,
        min_samples_leaf=min_samples_leaf,
        second_order=weights in ("second order", "both"),
        weighted=weights in ("weighted", "both"),
    )


@pytest.mark.parametrize("n_labels", [2, 3, 4])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("window", WINDOWS)
def test_label_contexts_and_windows(window, order, n_labels):
    check_case("letters", 1, n_labels=n_labels, order=order, window=window, lengths=[30, 1, 2])


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_label_tests_alone(order):
    rng = np.random.default_rng(order)
    constant = [np.zeros((n, 2)) for n in (9, 1, 14, 3)]
    positions = Positions(constant, rng, Setting(order=order, window=(0, 0)))
    assert len(positions.bins) == 0
    tree = positions.check(positions.grower(), rng)
    assert (len(tree["test"]) > 1) == (order > 0)


@pytest.mark.parametrize("second_order", [False, True])
def test_one_grower_grows_many_trees(second_order):
    for kind in ("letters", "floats", "sparse"):
        check_case(kind, 3, n_trees=6, order=2, second_order=second_order, coarse=True)


def test_small_trees_after_large_ones_and_large_after_small():
    rng = np.random.default_rng(0)
    positions = random_positions("floats", rng, max_leaf_nodes=30, l2=0.0)
    grower = positions.grower()
    targets, _, weights = positions.draw_examples(rng)
    sizes = [
        len(positions.check(grower, rng, (share * targets, None, weights))["test"])
        for share in (1.0, 0.0, 1.0, 0.0)
    ]
    assert sizes[0] == sizes[2] > sizes[1] == sizes[3] == 1


@pytest.mark.parametrize("second_order", [False, True])
def test_residuals_of_zero_grow_a_leaf_of_zero(second_order):
    rng = np.random.default_rng(0)
    positions = random_positions("letters", rng, l2=0.0, second_order=second_order)
    curvature = np.zeros(positions.shape) if second_order else None
    examples = (np.zeros(positions.shape), curvature, np.ones(len(positions.depth)))
    tree = positions.check(positions.grower(), rng, examples)
    assert tree["test"].tolist() == [-1]
    assert tree["leaf"].tolist() == [0.0]


def test_positions_without_weight_teach_nothing_and_are_scored():
    rng = np.random.default_rng(0)
    positions = random_positions("letters", rng, weighted=True)
    weights = np.zeros(len(positions.depth))
    examples = (np.zeros(positions.shape), None, weights)
    assert positions.check(positions.grower(), rng, examples)["weight"].tolist() == [0.0]


def test_equal_and_opposite_columns_tie_toward_the_first():
    rng = np.random.default_rng(0)
    column = rng.random(40) < 0.5
    table = np.stack([rng.random(40) < 0.5, ~column, column, column], axis=1)
    positions = Positions([table], rng, Setting(order=0, window=(0, 0)))
    targets = np.where(column, 0.5, -0.25)[:, np.newaxis]
    tree = positions.check(positions.grower(), rng, (targets, None, np.ones(40)))
    assert positions.table.columns[tree["test"][0]] == 1


def test_equal_gains_go_to_the_oldest_leaf():
    """Eight groups, parted one by one, in each of which the same column gains the same."""
    rng = np.random.default_rng(0)
    group, column = np.divmod(np.arange(32), 4)
    group = rng.permutation(8)[group]
    column %= 2
    targets = (group / 8 + column / 64)[:, np.newaxis]
    for max_leaf_nodes in range(8, 17):
        setting = Setting(order=0, window=(0, 0), l2=0.0, max_leaf_nodes=max_leaf_nodes)
        positions = Positions([np.stack([group, column], axis=1)], rng, setting)
        positions.check(positions.grower(), rng, (targets, None, np.ones(32)))


@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_long_sequence(n_labels):
    """Whole bytes of bits are counted at once in large nodes, bit by bit in small ones."""
    check_case("booleans", 0, n_labels=n_labels, lengths=[700], max_leaf_nodes=40, window=(2, 1))
    check_case("floats", 0, n_labels=n_labels, lengths=[700], max_leaf_nodes=40, min_samples_leaf=4)


@pytest.mark.parametrize("kind", ["letters", "integers", "floats"])
def test_joint_histograms_of_some_codes(kind, monkeypatch):
    """Neighbouring codes are counted together while their joint bins are few."""
    monkeypatch.setattr(treecrf.trees.growing.window_tests, "MAX_PAIR_BINS", 26)
    monkeypatch.setattr(treecrf.trees.growing.window_tests, "MAX_JOINT_BINS", 60)
    for order in (0, 1):
        check_case(kind, 0, order=order, window=(2, 1), lengths=[300, 40])


def test_hundreds_of_thresholds():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(n, 2)) for n in (300, 1, 99)]
    positions = Positions(tables, rng, Setting(window=(1, 0)))
    assert len(positions.bins) == 2 * 2 * 254 + 1
    positions.check(positions.grower(), rng)


def test_hundreds_of_words():
    check_case("words", 0, window=(0, 1), lengths=[250, 200], max_leaf_nodes=6)


def test_weights_of_classes_leave_no_leaf_empty():
    """Weights are rounded as residuals are: no remainder of a subtraction passes for an example."""
    rng = np.random.default_rng(0)
    tables = [rng.random((300, 3)) < 0.5 for _ in range(3)]
    labels = [rng.integers(0, 3, 300) for _ in tables]
    weights = {0: 1 / 3, 1: 0.7, 2: 1.1}
    crf = TreeCRF(order=0, max_iter=3, l2_regularization=1.0, class_weight=weights)
    packed = crf.fit(tables, labels)._forest.pack()
    assert (packed["weight"] / 2.0**-32 % 1 == 0).all()
    assert packed["weight"].min() > 1
    assert np.diff(packed["starts"]).max() <= 15  # there are eight rows to tell apart


def test_sampled_features():
    for n_features, n_chosen in [(0, 1), (1, 1), (10, 1), (10, 4), (10, 10)]:
        for node in range(20):
            chosen = _tree.sample_features(12345, node, n_features, n_chosen)
            assert chosen.sum() == min(n_chosen, n_features)
            np.testing.assert_array_equal(
                chosen, _tree.sample_features(12345, node, n_features, n_chosen)
            )
    often = sum(_tree.sample_features(1, node, 10, 3).astype(int) for node in range(2000))
    assert (abs(often - 600) < 5 * np.sqrt(2000 * 0.3 * 0.7)).all()
