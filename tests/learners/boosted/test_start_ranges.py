"""Linear starts of trees cut numbers to their ranges in training; linear models do not."""

import numpy as np
import pytest
from scipy import sparse

import treecrf
from treecrf import LinearCRF, TreeCRF, flatten
from treecrf.inspection import contributions

SETTINGS = {"init": "linear", "max_iter": 5, "early_stopping": False}


def sequences(n_positions=30, as_form=np.asarray):
    rng = np.random.default_rng(0)
    y = [np.cumsum(rng.random(n_positions) < 0.1) % 2 for _ in range(8)]
    X = [np.column_stack([s + rng.normal(50, 1, len(s)), -rng.random(len(s))]) for s in y]
    return [as_form(table) for table in X], y


def cut(table, X):
    table, stacked = np.asarray(table), np.vstack(X)
    return np.clip(table, stacked.min(axis=0), stacked.max(axis=0))


BEYOND = np.array([[1e300, 0.0], [49.0, 7.0], [-1e200, -1e5], [60.0, -0.5], [0.0, np.nan]])
MODELS = {
    "linear": TreeCRF(window=1, **SETTINGS),
    "raw": TreeCRF(window=1, **(SETTINGS | {"init": LinearCRF(standardize=False)})),
    "order 2": TreeCRF(order=2, **SETTINGS),
    "transitions": TreeCRF(constant_transitions=True, **SETTINGS),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("repeats", [1, 40])  # with the compiled model, and without it
def test_numbers_beyond_the_training_data_are_those_at_its_ends(name, repeats, tmp_path):
    X, y = sequences()
    model = MODELS[name].fit(X, y)
    beyond = np.tile(BEYOND, (repeats, 1))
    expected = model.predict_proba([cut(beyond, X)])[0]
    np.testing.assert_array_equal(model.predict_proba([beyond])[0], expected)
    np.testing.assert_array_equal(model.predict_proba([sparse.csr_array(beyond)])[0], expected)
    model.save(tmp_path / "model.treecrf")
    again = treecrf.load(tmp_path / "model.treecrf")
    np.testing.assert_array_equal(again.predict_proba([beyond])[0], expected)
    if name != "transitions":
        np.testing.assert_array_equal(flatten(model).predict_proba([beyond])[0], expected)


def test_numbers_of_sparse_rows_are_cut_to_ranges_that_include_0():
    X, y = sequences(as_form=sparse.csr_array)
    model, tables = MODELS["linear"].fit(X, y), [x.toarray() for x in X]
    stacked = np.vstack([*tables, np.zeros(2)])
    for repeats in (1, 40):
        beyond = np.tile(np.nan_to_num(BEYOND), (repeats, 1))
        found = model.predict_proba([sparse.csr_array(beyond)])
        expected = model.predict_proba([sparse.csr_array(cut(beyond, [stacked]))])
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, model.predict_proba([beyond]))


def test_a_fitted_linear_model_is_cut_only_where_trees_are_added_to_it(tmp_path):
    X, y = sequences()
    linear = LinearCRF().fit(X, y)
    linear.save(tmp_path / "linear.treecrf")
    again = treecrf.load(tmp_path / "linear.treecrf")
    beyond = [np.array([[80.0, -0.5]])]
    for start in (linear, again):
        model = TreeCRF(**(SETTINGS | {"init": start})).fit(X, y)
        found = model.predict_proba([cut(beyond[0], X)])
        np.testing.assert_array_equal(model.predict_proba(beyond), found)
    assert (
        linear.predict_proba(beyond)[0][0, 1] > linear.predict_proba([cut(beyond[0], X)])[0][0, 1]
    )
    with pytest.raises(ValueError, match="too large for a linear model"):
        linear.predict([BEYOND])


def test_contributions_are_those_of_the_ends():
    X, y = sequences()
    model = MODELS["linear"].fit(X, y)
    table = np.array([[1e6, -0.5], [49.0, 30.0]])
    found, expected = (contributions(model, [x], [[0, 1]]) for x in (table, cut(table, X)))
    np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.parametrize(
    "ranges", [np.zeros((1, 2)), np.full((2, 2), np.nan), np.zeros((2, 2), int)]
)
def test_damaged_ranges_are_refused(ranges):
    source = LinearCRF().fit(*sequences())._attributes
    values, arrays = source.state()
    with pytest.raises(ValueError, match="ranges"):
        type(source).from_state(values, arrays | {"ranges": ranges})
    del values["is_cut"], arrays["ranges"]  # as in files of earlier versions
    assert type(source).from_state(values, arrays).ranges is None
