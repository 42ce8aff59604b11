"""Trees on data with missing values are, to the last bit, those of a table of weighted examples."""

from __future__ import annotations

import numpy as np
import pytest
from support.beams import context_numbers
from support.cases import STORAGES_WITH_MISSING, pack, random_sequences, random_with_missing
from support.family import assert_equal_arrays
from support.forests import PLAIN_GROWTH, RandomObjective, Trained
from support.growing import LENGTHS, Layers, Positions, Setting, random_settings
from support.model_files import read
from support.sweeps import sweep

from treecrf import TreeCRF, load
from treecrf.encoding.columns import BOOLEAN
from treecrf.inputs.sequences import ListedSequences
from treecrf.learners.boosted.booster import Booster
from treecrf.trees.forest import LABEL
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils import model_file
from treecrf.utils.threads import Threads

METHODS = ["weighting", "surrogate"]
# Sums of targets times parts of rows must stay exact.
UNIT = 2.0**-20


pytestmark = pytest.mark.usefixtures("few_codes")


def gapped_positions(kind, rng, *, lengths=(9, 1, 14, 3), rate=0.2, **settings):
    sequences = random_with_missing(kind, rng, lengths, rate)
    return Positions(sequences, rng, Setting(unit=UNIT, **settings))


def random_case(kind, seed, method, **others):
    """Positions of a table with missing values, with random settings."""
    rng = np.random.default_rng(seed)
    settings = random_settings(kind, seed, rng) | {
        "max_leaf_value": float(rng.choice([np.inf, 0.05])),
        "max_features": float(rng.choice([1.0, 0.3])),
        "rate": float(rng.choice([0.05, 0.2, 0.5])),
    }
    return gapped_positions(kind, rng, missing=method, **settings | others), rng


@pytest.mark.parametrize("seed", sweep(range(30), 6))
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_random_cases(method, kind, seed):
    positions, rng = random_case(kind, seed, method)
    grower = positions.grower()
    for _ in range(2):
        positions.check(grower, rng)


@pytest.mark.parametrize("constraints", [{"monotonic": True}, {"interactions": "sets"}])
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_constraints(method, kind, constraints):
    for seed in range(3):
        others = {"max_leaf_nodes": 20, "max_features": 1.0, **constraints}
        positions, rng = random_case(kind, seed, method, **others)
        positions.check(positions.grower(), rng)


@pytest.mark.parametrize("seed", sweep(range(12), 2))
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_examples_in_layers(method, kind, seed):
    positions, rng = random_case(kind, seed, method, min_gain=0.0, max_features=1.0)
    layers = Layers(positions, 1 + seed % 3, rng)
    for _ in range(2):
        layers.check(rng)


def new_sequences(kind, rate, lengths=(1, 30, 2, 50)):
    return random_with_missing(kind, np.random.default_rng(99), lengths, rate, new=True)


@pytest.mark.parametrize(
    "options", [{}, {"order": 0, "window": (2, 0)}, {"order": 2, "n_labels": 3}]
)
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_scores_equal_those_of_training_and_of_walking(method, kind, options):
    trained = Trained(kind, 1, rate=0.2, missing=method, **options)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    np.testing.assert_array_equal(trained.scores(), trained.walked(trained.sequences))


@pytest.mark.parametrize(
    "rates", sweep([(0.0, 0.3), (0.3, 0.6), (0.2, 0.0), (0.0, 1.0), (0.2, 1.0)], 2)
)
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_new_sequences(method, kind, rates):
    """Values may be missing only in training or only in prediction."""
    trained = Trained(kind, 2, rate=rates[0], missing=method, n_labels=3)
    new = new_sequences(kind, rates[1])
    np.testing.assert_array_equal(trained.scores(new), trained.walked(new))


@pytest.mark.parametrize("length", sweep([1025, 1023, 1024, 4097], 1))
@pytest.mark.parametrize("method", METHODS)
def test_blocks_and_threads(method, length):
    trained = Trained("letters", 0, rate=0.2, missing=method, n_iter=1, max_leaf_nodes=8)
    sequences = new_sequences("letters", 0.2, [length - 7, 7])
    scores = trained.scores(sequences)
    np.testing.assert_array_equal(scores, trained.walked(sequences))
    np.testing.assert_array_equal(trained.scores(sequences, 2), scores)


@pytest.mark.parametrize("kind", ["letters", "words"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_unseen_symbols_fail_all_tests(method, kind, rate):
    """They differ from missing symbols, which may occur in training or in prediction alone."""

    def symbols(lengths, rate, new):
        words = random_sequences(kind, rng, lengths, new=new)
        return [[np.nan if rng.random() < rate else s for s in word] for word in words]

    rng = np.random.default_rng(1)
    trained = Trained.__new__(Trained)
    options = {"missing": method, "window": (2, 1), "n_labels": 3}
    trained.grow(symbols(LENGTHS[4], rate, False), rng, 3, **options)
    for other in (0.0, 0.3):
        new = symbols([40, 1, 20], other, True)
        assert trained.encoder.encode(pack(new)).has_missing.any() == (other > 0)
        np.testing.assert_array_equal(trained.scores(new), trained.walked(new))


@pytest.mark.parametrize("order", sweep([2, 0, 1], 1))
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("method", METHODS)
def test_given_labels(method, kind, order):
    """Trees grown on one context per position are scored correctly in this and other contexts."""
    trained = Trained(kind, 4, rate=0.2, missing=method, n_iter=0, n_labels=3, order=order)
    encoded, rng = trained.encoded, np.random.default_rng(0)
    depth, lags = encoded.depth_of(order), np.arange(order)[:, np.newaxis]
    labels = rng.integers(0, 3, (order, encoded.n_positions))
    objective = RandomObjective((3, encoded.n_positions, 1), 0)
    objective.given = np.where(lags < depth, labels, 3).astype(np.uint8)
    tree_settings, weights = TreeSettings(**PLAIN_GROWTH), np.ones(encoded.n_positions)
    booster = Booster(
        trained.forest, trained.encoder, encoded, objective, tree_settings, weights, Threads(1)
    )
    for _ in range(3):
        booster.step()
    np.testing.assert_array_equal(trained.scores(given=objective.given), booster.scores)
    contexts = context_numbers(objective.given, 3)
    walked = trained.walked(trained.sequences)[:, np.arange(len(depth)), contexts]
    np.testing.assert_array_equal(walked, booster.scores[:, :, 0])


def task_with_missing():
    """Tables of which a third is missing, and labels that depend on them and each other."""
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, (n, 2)) * 1.0 for n in (30, 1, 12, 40)]
    y = [np.cumsum(table.sum(axis=1).astype(int)) % 3 for table in X]
    for table in X:
        table[rng.random(table.shape) < 0.3] = np.nan
    return X, y


@pytest.mark.parametrize("method", METHODS)
def test_columns_and_tables_without_any_value(method):
    rng = np.random.default_rng(0)
    for rates in (np.array([1.0, 0.2, 0.2, 1.0, 0.2]), 1.0):
        setting = Setting(unit=UNIT, missing=method, min_samples_leaf=2)
        positions = Positions(random_with_missing("mixture", rng, LENGTHS[0], rates), rng, setting)
        tree = positions.check(positions.grower(), rng)
        tested = tree["column"][tree["true_child"] >= 0]
        assert not np.isin(tested, [0, 3] if np.ndim(rates) else range(5)).any()


def grow_on_columns(columns, targets, method, **settings):
    """Grow on one sequence of boolean columns."""
    table = np.array(columns, dtype=float).T
    kinds = np.full(len(columns), BOOLEAN, dtype=np.uint8)
    sequences = ListedSequences(
        form="dense",
        items=[table],
        offsets=np.array([0, len(table)]),
        n_features=len(columns),
        dtype=table.dtype,
        kinds=kinds,
    )
    setting = Setting(order=0, window=(0, 0), l2=0.0, missing=method, **settings)
    positions = Positions(sequences, np.random.default_rng(0), setting)
    targets = np.array(targets, dtype=float)[:, np.newaxis]
    weights = np.ones(len(table))
    return positions.check(positions.grower(), np.random.default_rng(0), (targets, None, weights))


def test_weights_by_hand():
    """Four of five rows have a value, and one passes: a quarter of the fifth row goes there."""
    columns = [[1, 0, 0, 0, np.nan]]
    tree = grow_on_columns(columns, [4, 0, 0, 0, -2], "weighting", max_leaf_nodes=2)
    assert tree["share"][0] == 0.25
    assert tree["weight"].tolist() == [5.0, 1.25, 3.75]
    # The gain is that of the four alone.
    assert tree["gain"][0] == 16 + 0 - 16 / 4
    np.testing.assert_allclose(tree["leaf"], [0.0, (4 - 0.5) / 1.25, -1.5 / 3.75], atol=2**-21)


def test_surrogates_by_hand():
    """The second column is the opposite of the first except once, the third equal except twice."""
    columns = [
        [1, 1, 1, 0, 0, 0, np.nan, np.nan],
        [0, 0, 1, 1, 1, 1, 0, np.nan],
        [1, 0, 1, 0, 1, 0, 1, 1],
    ]
    targets = [2, 2, 2, -2, -2, -2, 0.5, 0.25]
    tree = grow_on_columns(columns, targets, "surrogate", max_leaf_nodes=2)
    assert tree["column"][0] == 0
    assert tree["surrogate_column"].tolist() == [1, 2]
    assert tree["reversed"].tolist() == [True, False]
    assert tree["share"][0] == 0.5
    # The last but one passes by the second column, the last by the third.
    assert tree["weight"].tolist() == [8.0, 5.0, 3.0]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """File of a model with surrogates."""
    path = tmp_path_factory.mktemp("saved") / "model.treecrf"
    X, y = task_with_missing()
    crf = TreeCRF(missing="surrogate", window=1, max_iter=3, l2_regularization=1.0).fit(X, y)
    assert len(crf._forest.pack()["reversed"])
    crf.save(path)
    assert_equal_arrays(crf.predict_proba(X), load(path).predict_proba(X))
    return path


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("share", lambda v: v * 0 + 2.0),
        ("share", lambda v: v - 1.0),
        ("share", lambda v: v * np.nan),
        ("share", lambda v: v.astype(np.float32)),
        ("share", lambda v: v[1:]),
        ("n_surrogates", lambda v: v + 1),
        ("n_surrogates", lambda v: np.append(v[:-2], [-1, v[-2:].sum() + 1]).astype(np.int32)),
        ("n_surrogates", lambda v: v.astype(float)),
        ("surrogate_column", lambda v: v * 0 + 2),
        ("surrogate_column", lambda v: v * 0 + LABEL),
        ("surrogate_offset", lambda v: v * 0 + 2),
        ("surrogate_offset", lambda v: v * 0 - 2),
        ("surrogate_value", lambda v: v * 0 + 9),
        ("surrogate_value", lambda v: v * 0 - 1),
        ("surrogate_value", lambda v: v[1:]),
        ("reversed", lambda v: v.astype(float)),
        ("reversed", lambda v: v[1:]),
    ],
)
def test_saved_numbers_that_lead_outside_the_model(name, change, saved, tmp_path):
    values, arrays = read(saved)
    arrays[f"forest.{name}"] = change(arrays[f"forest.{name}"])
    path = tmp_path / "changed.treecrf"
    model_file.write(path, values, arrays)
    with pytest.raises(model_file.ModelFileError):
        load(path)
