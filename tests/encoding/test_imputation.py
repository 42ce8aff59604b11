"""Imputation and indicators give the same models as tables imputed by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from support.family import assert_equal_arrays
from support.settings import FIXED

import treecrf
from treecrf import SlidingWindowClassifier, TreeCRF
from treecrf.encoding.encoder import METHODS
from treecrf.encoding.imputation import means_of
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.learners.base.fitted import fitted_model

NAN = np.nan
SETTINGS = FIXED | {"window": 1, "max_iter": 4, "l2_regularization": 1.0, "random_state": 0}


def tables(rng, lengths, rate):
    """Numbers, a boolean and a rarely non-zero column, with missing values."""
    out = []
    for n in lengths:
        common, rare = rng.random(n) < 0.5, (rng.random(n) < 0.1) * rng.normal(size=n)
        table = np.stack([rng.normal(size=n), rng.integers(0, 4, n), common, rare], axis=1)
        table[rng.random(table.shape) < rate] = NAN
        out.append(table)
    return out


def labels_of(X, rng):
    return [rng.integers(0, 2, len(x)) for x in X]


def filled(X, values):
    return [np.where(np.isnan(x), values, x) for x in X]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, X_test = tables(rng, [40, 1, 30], 0.3), tables(rng, [20, 1], 0.3)
    X[0][:, 3] = np.nan_to_num(X[0][:, 3])
    return X, labels_of(X, rng), X_test


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_imputed_numbers_are_means(data, form):
    X, y, X_test = data
    means = np.nanmean(np.concatenate(X), axis=0)
    ours = TreeCRF(missing="impute", **SETTINGS).fit(list(map(form, X)), y)
    theirs = TreeCRF(**SETTINGS).fit(list(map(form, filled(X, means))), y)
    found = ours.predict_proba(list(map(form, X_test)))
    assert_equal_arrays(found, theirs.predict_proba(list(map(form, filled(X_test, means)))))
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_indicators_are_further_columns(data, form):
    X, y, X_test = data
    X = [np.where(np.arange(4) == 1, np.nan_to_num(x), x) for x in X]  # one column is complete

    def by_hand(X):
        missing = [np.isnan(x)[:, [0, 2, 3]] for x in X]
        return [form(np.hstack([x, m])) for x, m in zip(filled(X, 0.0), missing, strict=True)]

    ours = TreeCRF(missing="indicator", **SETTINGS).fit(list(map(form, X)), y)
    theirs = TreeCRF(**SETTINGS).fit(by_hand(X), y)
    found = ours.predict_proba(list(map(form, X_test)))
    assert_equal_arrays(found, theirs.predict_proba(by_hand(X_test)))
    gains = theirs.feature_importances_
    expected = gains[:4] + np.array([gains[4], 0, gains[5], gains[6]])
    np.testing.assert_allclose(ours.feature_importances_, expected)


def test_missing_symbols_become_the_most_common_one_and_unseen_ones_do_not():
    X, y = ["abbabb", "bba", "caab"], ["xyyxyy", "yyx", "zxxy"]
    crf = TreeCRF(missing="impute", **SETTINGS).fit(X, y)
    plain = TreeCRF(**SETTINGS).fit(X, y)
    assert_equal_arrays(crf.predict_proba([["a", None, "c"]]), plain.predict_proba(["abc"]))
    assert_equal_arrays(crf.predict_proba(["a?c"]), plain.predict_proba(["a?c"]))
    assert (crf.predict_proba(["a?c"])[0] != crf.predict_proba(["abc"])[0]).any()


def test_unseen_categories_are_not_marked_as_missing():
    X = [[["a"], [None], ["b"]], [["b"], [None], ["a"], ["a"]]]
    crf = TreeCRF(missing="indicator", **SETTINGS).fit(X, ["xzy", "yzxx"])
    sequences, _ = fitted_model(crf).predictor.read([[["?"], [None], ["b"]]])
    rows = crf._encoder.prepared(sequences).rows(0, 1)
    assert rows.tolist() == [[0, 0], [0, 1], [2, 0]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [float, bool, "symbols"])
def test_without_missing_values_all_methods_agree(method, dtype):
    rng = np.random.default_rng(1)
    X = [rng.integers(0, 2, (n, 3)) for n in (30, 2, 20)]
    X = [x[:, 0] for x in X] if dtype == "symbols" else [x.astype(dtype) for x in X]
    y = labels_of(X, rng)
    ours, default = (TreeCRF(missing=m, **SETTINGS).fit(X, y) for m in (method, METHODS[0]))
    assert_equal_arrays(ours.predict_proba(X), default.predict_proba(X))


def test_means_of_booleans_are_those_of_their_numbers():
    table = np.random.default_rng(0).random((1_000, 5)) < [0.0, 0.1, 0.5, 1.0, 1 / 3]
    means = means_of(LocalPartitions([as_sequences(np.split(table, [3, 500]))]))
    np.testing.assert_array_equal(means, table.mean(axis=0))
    as_numbers = means_of(LocalPartitions([as_sequences([table.astype(float)])]))
    np.testing.assert_array_equal(means, as_numbers)


MEANS = {
    # A float32 sum of 2 million values is 1.5% off, a float16 sum of 4,000 is infinite.
    "small float32": (np.full(2_000_000, 0.1, np.float32), np.float64(np.float32(0.1))),
    "float16": ((30 + np.arange(4000) % 7).astype(np.float16), 32.9985),
    "large float32": (np.array([3.4e38, 1, 3.4e38, 1], np.float32), np.float32(3.4e38) / 2),
    "large float64": (np.array([1.7e308, 1.7e308, np.nan, 1.7e308]), 1.7e308),
    "smallest": (np.array([5e-324, 5e-324, np.nan]), 5e-324),
}


@pytest.mark.parametrize("case", MEANS)
def test_means_are_finite_and_exact_for_every_type(case):
    values, expected = MEANS[case]
    table = values[:, np.newaxis]
    forms = [table] if table.dtype == np.float16 else [table, sparse.csr_array(table)]
    for form in forms:
        mean = means_of(LocalPartitions([as_sequences([form])]))
        assert mean.dtype == np.float64
        np.testing.assert_allclose(mean, expected, rtol=1e-15)


@pytest.mark.parametrize("missing", ["impute", "indicator"])
def test_a_model_of_float16_numbers_can_be_loaded(missing, tmp_path):
    x = (30 + np.arange(4000) % 7).astype(np.float16)[:, np.newaxis]
    x[::50] = np.nan
    TreeCRF(missing=missing, max_iter=1).fit([x], [np.arange(4000) % 2]).save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    assert np.isfinite(again.predict_proba([x])[0]).all()


@pytest.mark.parametrize("method", ["impute", "indicator"])
def test_a_saved_model_imputes_the_same(method, data, tmp_path):
    X, y, X_test = data
    crf = TreeCRF(missing=method, **SETTINGS).fit(X, y)
    crf.save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    assert_equal_arrays(again.predict_proba(X_test), crf.predict_proba(X_test))
    assert again.n_features_in_ == 4


@pytest.mark.parametrize("method", ["impute", "indicator"])
def test_any_estimator_gets_complete_rows(method, data):
    from sklearn.linear_model import LogisticRegression

    X, y, X_test = data
    model = SlidingWindowClassifier(LogisticRegression(), window=1, missing=method).fit(X, y)
    assert len(model.predict(X_test)[0]) == 20


def test_a_warm_start_keeps_the_method(data):
    X, y, _ = data
    crf = TreeCRF(missing="impute", warm_start=True, **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="missing='impute', which cannot change to 'indicator'"):
        crf.set_params(missing="indicator").fit(X, y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_means_are_exact_in_any_order(form, monkeypatch):
    monkeypatch.setattr(treecrf.inputs.sequences, "PIECE_BYTES", 1000)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 5)) * 10.0 ** rng.integers(-5, 5, (300, 5))
    table[:, 3] = 0.0
    table[:, 4] *= 1e300
    table[rng.random(table.shape) < 0.1] = np.nan
    expected = []
    for column in table.T:
        present = [Fraction(x) for x in column[~np.isnan(column)].tolist()]
        expected.append(float(sum(present)) / len(present))
    found = set()
    for _ in range(5):
        table = rng.permutation(table)
        X = [form(piece) for piece in np.split(table, [1, 30, 150])]
        means = means_of(LocalPartitions([as_sequences(X)]))
        np.testing.assert_allclose(means, expected, rtol=1e-13)
        found.add(tuple(means.tolist()))
    assert len(found) == 1
