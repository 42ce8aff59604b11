"""Dicts for models that were trained on data frames: absent and unknown keys."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from support.settings import FIXED

import treecrf
from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM

SMALL = FIXED | {"max_iter": 5, "init": "zero", "l2_regularization": 1.0, "window": (1, 0)}
MODELS = {
    "trees": TreeCRF(**SMALL),
    "linear start": TreeCRF(**SMALL | {"init": "linear"}),
    "surrogates": TreeCRF(missing="surrogate", **SMALL),
    "imputed": TreeCRF(missing="impute", **SMALL),
    "linear": LinearCRF(window=(1, 0)),
    "linear, not standardized": LinearCRF(standardize=False),
    "MEMM": TreeMEMM(**{k: v for k, v in SMALL.items() if k != "init"}),
    "window": SlidingWindowClassifier(**{k: v for k, v in SMALL.items() if k != "init"}),
}
LACKS_NOISE = (
    "X lacks the column 'noise' of the training data: no dict has a value, and all are taken as "
    "missing"
)


def frame(n, rng):
    label = np.cumsum(rng.random(n) < 0.3) % 2
    columns = {"heat": 3.0 * label + rng.normal(size=n), "noise": rng.normal(size=n) + 10.0}
    columns |= {"room": np.where(label, "kitchen", "hall"), "open": rng.random(n) < 0.5}
    return pd.DataFrame(columns), label


RNG = np.random.default_rng(0)
X, Y = zip(*(frame(15, RNG) for _ in range(12)), strict=True)


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return clone(MODELS[request.param]).fit(list(X), list(Y))


def without(rows, key, at=slice(None)):
    """Return copies of dicts, without a key at some positions."""
    rows = [dict(row) for row in rows]
    for row in rows[at]:
        del row[key]
    return rows


def caught(call, *arguments, **named):
    """Return the result of a call, and its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call(*arguments, **named)
    return result, [str(warning.message) for warning in found]


@pytest.mark.parametrize("key", ["heat", "noise", "room", "open"])
@pytest.mark.parametrize("n", [4, 70])
def test_an_absent_key_is_missing(model, key, n):
    rows = frame(n, np.random.default_rng(1))[0].to_dict("records")
    some = slice(0, n // 2)
    for absent, missing in (
        (without(rows, key), [row | {key: None} for row in rows]),
        (without(rows, key, some), [*without(rows, key, some)]),
    ):
        missing = [{key: None} | row for row in absent]
        expected, none = caught(model.predict_proba, [missing])
        found, warned = caught(model.predict_proba, [absent])
        np.testing.assert_array_equal(found[0], expected[0])
        assert not none
        assert len(warned) == all(key not in row for row in absent)


@pytest.mark.parametrize("kind", [TreeCRF, LinearCRF, TreeMEMM, SlidingWindowClassifier])
def test_an_absent_number_is_not_zero(kind):
    numbers = [x[["noise"]].assign(heat=10.0 * y) for x, y in zip(X, Y, strict=True)]
    model = kind(**{} if kind is LinearCRF else FIXED).fit(numbers, list(Y))
    with pytest.warns(UserWarning, match="X lacks the column 'heat' of the training data"):
        absent = model.predict_proba([[{"noise": 10.0}]])[0]
    missing, zero = (model.predict_proba([[{"noise": 10.0, "heat": v}]])[0] for v in (None, 0.0))
    np.testing.assert_array_equal(absent, missing)
    assert np.abs(absent - zero).max() > 0.1


def test_a_column_that_no_dict_has_causes_a_warning(model):
    rows = X[0].to_dict("records")
    lacking = [without(rows[:3], "noise"), without(rows[3:], "noise")]
    y = [Y[0][:3], Y[0][3:]]
    for method, *arguments in (
        ("predict", lacking), ("predict_proba", lacking), ("decode", lacking),
        ("predict_log_likelihood", lacking, y), ("score", lacking, y),
        ("predict_pairwise_proba", lacking), ("predict", map(list, lacking)),
        ("predict", [*map(tuple, lacking)]),
    ):  # fmt: skip
        assert caught(getattr(model, method), *arguments)[1] == [LACKS_NOISE], method
    long = [row for part in lacking for row in part]
    assert caught(model.predict, long, lengths=[3, 12])[1] == [LACKS_NOISE]
    assert caught(model.predict, [[rows[0]], *lacking])[1] == []
    stream = model.stream()
    for row in long:
        _, warned = caught(stream.push, row)
        assert warned == ([LACKS_NOISE] if row is long[0] else [])


def test_an_unknown_key_causes_a_warning(model):
    rows = X[0].to_dict("records")
    text = "X has the key 'nois', not among the columns of the training data"
    extra = [row | {"nois": 1.0} for row in rows]
    found, warned = caught(model.predict_proba, [extra])
    assert warned == [f"{text}; did you mean 'noise'?"]
    np.testing.assert_array_equal(found[0], model.predict_proba([rows])[0])
    misspelt = [{"nois" if key == "noise" else key: row[key] for key in row} for row in rows]
    assert caught(model.predict, [misspelt])[1] == [LACKS_NOISE, f"{text}; did you mean 'noise'?"]
    assert caught(model.predict, [[row | {3: 1} for row in rows]])[1] == [
        "X has the key 3, not among the columns of the training data"
    ]
    stream = model.stream()
    assert caught(stream.push, rows[0])[1] == []
    assert caught(stream.push, extra[1])[1] == [f"{text}; did you mean 'noise'?"]
    assert caught(stream.push, extra[2])[1] == []


def test_lists_of_names_are_no_rows_of_a_model_of_frames(model):
    for lists in ([["heat"], ["noise", "open"]], [["heat", "noise"], ["heat", "open"]]):
        with pytest.raises((ValueError, TypeError)):
            model.predict([lists])


def test_keys_of_labels_and_groups_cause_no_warning():
    table = pd.concat([x.assign(g=i, y=y) for i, (x, y) in enumerate(zip(X, Y, strict=True))])
    model = TreeCRF(**SMALL).fit(table, "y", groups="g")
    rows = table[table.g == 0].to_dict("records")
    found, warned = caught(model.predict_proba, [rows])
    assert warned == []
    np.testing.assert_array_equal(found[0], model.predict_proba([X[0]])[0])


@pytest.mark.parametrize("kind", [TreeCRF, LinearCRF])
def test_a_model_of_dicts_takes_absent_numbers_as_zeros(kind):
    rows = [x.to_dict("records") for x in X]
    model = kind(**SMALL if kind is TreeCRF else {}).fit(rows, list(Y))
    absent, warned = caught(model.predict_proba, [without(rows[0], "noise")])
    assert warned == []
    zeros = [row | {"noise": 0.0} for row in rows[0]]
    np.testing.assert_array_equal(absent[0], model.predict_proba([zeros])[0])
    assert caught(model.predict, [[row | {"more": 1} for row in rows[0]]])[1] == []


def test_saved_models_remember_what_an_absent_key_is(model, tmp_path):
    model.save(tmp_path / "model.treecrf")
    loaded = treecrf.load(tmp_path / "model.treecrf")
    absent = [without(X[0].to_dict("records"), "heat")]
    (expected, warned), (found, also) = (caught(m.predict_proba, absent) for m in (model, loaded))
    np.testing.assert_array_equal(found[0], expected[0])
    assert warned == also != []


def test_files_are_data_frames(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.concat([x.assign(g=i, y=y) for i, (x, y) in enumerate(zip(X, Y, strict=True))])
    table.to_csv(tmp_path / "table.csv", index=False)
    model = TreeCRF(**SMALL).fit(tmp_path / "table.csv", "y", groups="g")
    rows = X[0].to_dict("records")
    absent, missing = without(rows, "heat"), [row | {"heat": None} for row in rows]
    found, warned = caught(model.predict_proba, [absent])
    assert len(warned) == 1
    np.testing.assert_array_equal(found[0], model.predict_proba([missing])[0])


def test_validation_data_without_a_column_cause_a_warning():
    rows = [without(x.to_dict("records"), "noise") for x in X[:3]]
    model = TreeCRF(**SMALL | {"early_stopping": True})
    _, warned = caught(model.fit, list(X), list(Y), X_val=rows, y_val=list(Y[:3]))
    assert LACKS_NOISE in warned


def test_vectors_are_missing_together():
    vectors = [pd.DataFrame({"v[0]": x["heat"], "v[1]": x["noise"], "w": 1.0}) for x in X]
    model = TreeCRF(**SMALL).fit(vectors, list(Y))
    rows = [{"v": row[:2], "w": row[2]} for row in vectors[0].to_numpy().tolist()]
    found, warned = caught(model.predict_proba, [rows])
    assert warned == []
    np.testing.assert_array_equal(found[0], model.predict_proba([vectors[0]])[0])
    some = [{"w": 1.0}, *rows[1:]]
    none = [{"w": 1.0, "v": None}, *rows[1:]]
    found, warned = caught(model.predict_proba, [some])
    assert warned == []
    np.testing.assert_array_equal(found[0], model.predict_proba([none])[0])
    _, warned = caught(model.predict, [[{"w": 1.0}] * 3])
    assert warned[0].startswith("X lacks the columns 'v[0]', 'v[1]' of the training data")
