"""Units of measurement change neither linear models nor the linear start of boosting."""

import numpy as np
import pytest
from scipy import sparse

import treecrf
from treecrf import (
    LinearCRF,
    SequenceBoostingClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
)
from treecrf.encoding.imputation import means_of
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.learners.linear.standardization import Standardization
from treecrf.metrics import token_accuracy_score


@pytest.fixture(scope="module")
def sensors():
    rng = np.random.default_rng(0)
    y = [np.cumsum(rng.random(40) < 0.1) % 2 for _ in range(8)]
    X = [np.column_stack([s + rng.normal(size=40), rng.random(40) < 0.3, rng.normal(size=40)])
         for s in y]  # fmt: skip
    for table in X:
        table[rng.random(table.shape) < 0.1] = np.nan
    return X, y


def learned(tables):
    sequences = as_sequences(tables)
    return Standardization.learn(sequences, means_of(LocalPartitions([sequences])))


def test_numbers_have_a_mean_of_0_and_a_deviation_of_1_to_2(sensors):
    X, _ = sensors
    tables = [table * [1e5, 1, 1e-3] + [7e6, 0, -2] for table in X]
    standardization = learned(tables)
    rows = standardization.apply(np.vstack(tables).copy())
    np.testing.assert_allclose(np.nanmean(rows[:, [0, 2]], axis=0), 0, atol=1e-7)
    deviations = np.nanstd(rows[:, [0, 2]], axis=0)
    assert ((deviations > 0.9) & (deviations < 2)).all()
    np.testing.assert_array_equal(rows[:, 1], np.vstack(tables)[:, 1])  # only 0 and 1
    shuffled = learned([table[::-1] for table in tables[::-1]])
    np.testing.assert_array_equal(shuffled.shifts, standardization.shifts)
    np.testing.assert_array_equal(shuffled.exponents, standardization.exponents)


def test_sparse_columns_are_not_shifted():
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(np.where(rng.random((200, 3)) < 0.1, rng.random((200, 3)), 0))
    rows.data = 1000 + rows.data
    scaled = learned([rows]).apply(rows)
    assert scaled.nnz == rows.nnz
    assert ((scaled.data > 0.9) & (scaled.data < 2.1)).all()


@pytest.mark.parametrize("value", [0.0, 3.0, 1e300])
def test_constant_columns(value):
    table = np.column_stack([np.full(5, value), np.full(5, np.nan), [-1e308, 1e308, 0, 0, 0]])
    standardization = learned([table])
    rows = standardization.apply(table.copy())
    assert np.isnan(rows[:, 1]).all()
    assert np.isfinite(rows[:, [0, 2]]).all()
    assert np.abs(rows[:, 2]).max() < 8


@pytest.mark.parametrize("as_form", [np.asarray, sparse.csr_array])
def test_units_do_not_change_predictions(as_form, sensors, tmp_path):
    X, y = sensors
    settings = {"window": 1, "max_iter": 5, "init": "linear", "early_stopping": False}
    expected = None
    for exponents in ([0, 0, 0], [40, 0, -30], [1000, 0, 600]):
        tables = [as_form(np.ldexp(table, exponents)) for table in X]
        model = TreeCRF(**settings).fit(tables, y)
        model.save(tmp_path / f"{exponents}.treecrf")
        again = treecrf.load(tmp_path / f"{exponents}.treecrf")
        found = np.concatenate(again.predict_proba(tables))
        np.testing.assert_array_equal(found, np.concatenate(model.predict_proba(tables)))
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)


LINEAR = {
    "LBFGS": LinearCRF(window=1),
    "SGD": LinearCRF(window=1, solver="sgd", max_iter=10, random_state=0),
    "pairs": LinearCRF(transition_features=True),
    "perceptron": StructuredPerceptron(window=1, random_state=0),
    "SVM": StructuredSVM(window=1),
    "boosting": SequenceBoostingClassifier(window=1, max_iter=30),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("as_form", [np.asarray, sparse.csr_array])
def test_units_and_offsets_do_not_change_linear_models(name, as_form, sensors):
    X, y = sensors
    offset = 20 * (as_form is np.asarray)
    expected = LINEAR[name].fit([*map(as_form, X)], y).predict([*map(as_form, X)])
    shifted = [as_form(table * [1024.0, 1, 0.125] + [offset * 1024.0, 0, offset]) for table in X]
    model = LINEAR[name].fit(shifted, y)
    # The order of the sequences in training depends on their values, by hashes.
    assert token_accuracy_score(expected, model.predict(shifted)) > 0.9
    assert token_accuracy_score(y, model.predict(shifted)) > 0.7


def test_standardization_is_a_choice(sensors, tmp_path):
    X, y = sensors
    raw = LinearCRF(standardize=False).fit(X, y)
    means = np.nanmean(np.vstack(X), axis=0)
    moved = [table - means * [1, 0, 1] for table in X]
    # Numbers with deviations between 1 and 2 have a scale of 1.
    np.testing.assert_allclose(
        LinearCRF().fit(moved, y).state_weights_, LinearCRF().fit(X, y).state_weights_, atol=1e-3
    )
    assert np.abs(raw.state_weights_ - LinearCRF().fit(X, y).state_weights_).max() > 1e-3
    raw.save(tmp_path / "raw.treecrf")
    assert treecrf.load(tmp_path / "raw.treecrf").standardize is False
    with pytest.raises(ValueError, match=r"warm start: .*standardize"):
        raw.set_params(warm_start=True, standardize=True).fit(X, y)


@pytest.mark.parametrize(
    ("shifts", "exponents"),
    [(np.zeros(2, np.float16), np.zeros(2, np.int64)), (np.zeros(2), np.zeros(2))],
)
def test_damaged_scales_are_refused(shifts, exponents):
    with pytest.raises(ValueError, match="scales"):
        Standardization(shifts, exponents).check(2)


@pytest.mark.parametrize("model", [LinearCRF(), TreeCRF(init="linear", max_iter=2)])
@pytest.mark.parametrize("n", [20, 200])  # with the compiled model, and without it
def test_zeros_of_dicts_and_of_sparse_matrices_are_shifted_as_in_training(model, n):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(50, 1, n), "b": rng.poisson(1, n), "c": rng.random(n) < 0.5}
    frame = pandas.DataFrame(columns, dtype=float)
    y = [(frame.a > 50).astype(int).to_numpy()]
    dicts = [frame.to_dict("records")]
    model = model.set_params(early_stopping=False).fit([frame], y)
    np.testing.assert_array_equal(model.predict_proba(dicts), model.predict_proba([frame]))
    table = frame.to_numpy()
    model.fit([table], y)
    in_csr = model.predict_proba([sparse.csr_array(table)])
    np.testing.assert_array_equal(in_csr, model.predict_proba([table]))
