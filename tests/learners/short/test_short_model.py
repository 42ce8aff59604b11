"""Short sequences, which are scored by a compiled form of the model, and all others agree."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from support.family import assert_equal_arrays
from support.settings import FIXED
from support.sweeps import pairs

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
)
from treecrf.encoding.column_layout import MISSING
from treecrf.learners.base.fitted import fitted_model

SMALL = FIXED | {"max_iter": 4, "l2_regularization": 1.0, "max_leaf_nodes": 8}
MODELS = {
    "CRF": TreeCRF(**SMALL),
    "window": TreeCRF(window=(3, 2), **SMALL),
    "linear start": TreeCRF(init="linear", window=(2, 1), **SMALL),
    "whole start": TreeCRF(init=LinearCRF(window=2), window=1, **SMALL),
    "order 2": TreeCRF(order=2, window=1, **SMALL),
    "order 3, linear start": TreeCRF(order=3, init="linear", **SMALL),
    "order 0": TreeCRF(order=0, window=1, **SMALL),
    "Viterbi": TreeCRF(decoding="viterbi", window=1, **SMALL),
    "deep trees": TreeCRF(window=2, **SMALL | {"max_leaf_nodes": 31}),
    "more than 64 leaves": TreeCRF(window=2, **SMALL | {"max_leaf_nodes": 99, "min_gain": 0.0}),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "greedy MEMM": TreeMEMM(window=1, decoding="greedy", **SMALL),
    "sliding window": SlidingWindowClassifier(window=2, **SMALL),
    "backward": RecurrentSlidingWindowClassifier(direction="right-to-left", **SMALL),
    "linear": LinearCRF(window=(1, 2)),
    "linear without a window": LinearCRF(),
    "linear, rare attributes left out": LinearCRF(window=1, min_count=5),
    "transition features": LinearCRF(transition_features=True),
    "kernel": StructuredSVM(kernel="rbf", max_iter=5),
    "constant transitions": TreeCRF(constant_transitions=True, window=1, **SMALL),
}
RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(1, 12, 40)
NUMBERS = [np.round(RNG.normal(size=(n, 4)), 1) for n in LENGTHS]
LABELS = [
    np.where(x[:, 0] > np.roll(x[:, 1], 1), np.where(x[:, 2] > 0, "a", "b"), "c") for x in NUMBERS
]


def symbols(x):
    return "".join("abcdef"[int(v)] for v in np.clip(x[:, 0] + 3, 0, 5))


def dicts(x):
    rows = [
        {"number": a, "none": 0.0, "word": "uvwxyz"[int(abs(b) * 2) % 6], "is": bool(c > 0), "n": 2}
        for a, b, c, _ in x.tolist()
    ]
    for row, value in zip(rows, x[:, 3].tolist(), strict=True):
        if value > 0:
            del row["number"]
        if value < -1:
            del row["word"]
    return rows


def frame(x):
    return pd.DataFrame(
        {
            "number": x[:, 0],
            "whole": (x[:, 1] * 3).astype(int),
            "word": ["uvwxyz"[int(abs(b) * 2) % 6] for b in x[:, 2]],
            "is": x[:, 3] > 0,
        }
    )


INPUTS = {
    "numbers": lambda x: x,
    "whole numbers": lambda x: (x * 2).astype(int),
    "single precision, in another order": lambda x: np.asfortranarray(x, dtype=np.float32),
    "booleans": lambda x: x > 0,
    "one boolean": lambda x: x[:, :1] > 0.5,
    "characters": symbols,
    "words": lambda x: [2 * c for c in symbols(x)],
    "whole numbers as symbols": lambda x: [int(v) for v in x[:, 0]],
    "dicts": dicts,
    "frames": frame,
    "polars": lambda x: pl.from_pandas(frame(x)),
}


def long_way(model):
    """Return a copy that reads all sequences like long ones."""
    copied = pickle.loads(pickle.dumps(model))
    fitted_model(copied).predictor.short_model = None
    return copied


def fitted(model, items):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(items, LABELS)


# Every model reads numbers, characters and dicts, and one model all forms.
@pytest.mark.parametrize(
    ("name", "form"),
    pairs(
        product(MODELS, INPUTS),
        lambda name, form: name == "linear start" or form in ("numbers", "characters", "dicts"),
    ),
)
def test_short_sequences_have_the_results_of_long_ones(name, form):
    items = list(map(INPUTS[form], NUMBERS))
    model = fitted(MODELS[name], items)
    expected = long_way(model).predict_proba(items)
    labels = long_way(model).predict(items)
    for x, probabilities, best in zip(items, expected, labels, strict=True):
        found = model.predict_proba([x])[0]
        np.testing.assert_array_equal(found, probabilities)
        assert model.predict([x])[0].tolist() == best.tolist()
    several = model.predict_proba(items[:4])
    assert [len(p) for p in several] == [len(x) for x in items[:4]]
    np.testing.assert_array_equal(np.concatenate(several), np.concatenate(expected[:4]))


def outcome(model, x, warns=True):
    """Return the probabilities or the error, and all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = model.predict_proba([x])[0].tolist()
        except (ValueError, TypeError) as error:
            found = type(error), str(error)
    return found, [str(warning.message) for warning in caught]


TABLE = frame(NUMBERS[3])
UNUSUAL = {
    "numbers": [
        np.full((3, 4), np.nan),
        np.where(np.eye(4) > 0, np.inf, 0.0),
        np.zeros((0, 4)),
        np.zeros((3, 5)),
        np.zeros(4),
        np.ma.masked_array(np.zeros((2, 4)), np.eye(2, 4) > 0),
        np.array([["a", "b", "c", "d"]]),
        [[1.0, 2.0, 3.0, 4.0]],
        [{"number": 1.0}],
        "abc",
        TABLE,
        3,
        np.zeros((2, 4), dtype=complex),
        np.full((2, 4), 1e200),
        np.zeros((70, 4)),
    ],
    "characters": [
        "xyz",
        "abxy",
        "",
        ["a", None, "b"],
        [1, 2],
        list("ab"),
        np.array(list("ab")),
        b"a",
    ],
    "whole numbers as symbols": [[0, 1, 99], [True], ["a"], "ab", [0.5]],
    "dicts": [
        [{"other": 1.0}],
        [{"word": "never"}],
        [{"word": "never"}, {"number": 1.0}],
        [{"word": 3}],
        [{"word": None, "n": 2}],
        [{"number": "x"}],
        [{"number": np.nan}],
        [{"number": np.float64(1.5), "is": np.bool_(True), "word": np.str_("u")}],
        [{"number": 10**400}],
        [{"is": 2}],
        [{"is": 1, "number": True}],
        [{3: 1.0, "number": 1.0}],
        [{}],
        [None],
        [{"number": 1.0}, {"n": 0}, {}],
        [["number", "n"]],
        [{"number": -np.inf}],
    ],
    "frames": [
        TABLE.iloc[:, ::-1],
        TABLE.assign(more=1),
        TABLE.drop(columns="word"),
        TABLE.assign(word="never"),
        TABLE.assign(word=None),
        TABLE.assign(word=pd.Categorical(TABLE.word)),
        TABLE.assign(number=TABLE.number.astype("float32")),
        TABLE.assign(number=TABLE.number.where(TABLE.number > 0)),
        TABLE.assign(whole=TABLE.whole.astype("Int64")),
        TABLE.set_index(pd.date_range("2020-01-01", periods=len(TABLE))[::-1]),
        TABLE.iloc[:0],
        pl.from_pandas(TABLE),
        TABLE.to_dict("records"),
        TABLE.to_numpy(),
        pd.concat([TABLE, TABLE["whole"]], axis=1),
        TABLE.assign(whole=pd.Timestamp("2020-01-01")),
    ],
}


@pytest.mark.parametrize("model", [TreeCRF(init="linear", window=1, **SMALL), LinearCRF()])
@pytest.mark.parametrize("form", UNUSUAL)
def test_unusual_input_has_the_same_outcome(model, form):
    model = fitted(model, list(map(INPUTS[form], NUMBERS)))
    other = long_way(model)
    for x in UNUSUAL[form]:
        found, expected = outcome(model, x), outcome(other, x)
        if isinstance(expected[0], list) and isinstance(found[0], list):
            np.testing.assert_allclose(found[0], expected[0], atol=1e-5, err_msg=repr(x))
            found, expected = found[1:], expected[1:]
        assert found == expected, x


def test_missing_values_and_unseen_symbols_take_the_rules_of_the_trees():
    X = [np.where(RNG.random(x.shape) < 0.2, np.nan, x) for x in NUMBERS]
    model = fitted(TreeCRF(window=1, **SMALL), X)
    for x, expected in zip(X, long_way(model).predict_proba(X), strict=True):
        np.testing.assert_array_equal(model.predict_proba([x])[0], expected)


@pytest.mark.parametrize("form", ["numbers", "frames"])
def test_complete_sequences_pass_no_test_of_missing_values(form):
    X = [np.where(RNG.random(x.shape) < 0.3, np.nan, x) for x in NUMBERS]
    y = [np.where(np.isnan(x[:, 1]), "a", label) for x, label in zip(X, LABELS, strict=True)]
    if form == "frames":
        X = [frame(x).mask(np.isnan(z)) for x, z in zip(NUMBERS, X, strict=True)]
    model = TreeCRF(window=1, **SMALL).fit(X, y)
    assert (model._forest.pack()["value"] == MISSING).any()
    for table in NUMBERS:
        complete = table if form == "numbers" else frame(table)
        expected = long_way(model).predict_proba([complete])[0]
        np.testing.assert_array_equal(model.predict_proba([complete])[0], expected)


def test_a_frame_of_one_group_is_a_sequence():
    rows = pd.concat([frame(x).assign(g=i, y=LABELS[i]) for i, x in enumerate(NUMBERS)])
    model = clone(MODELS["linear start"]).fit(rows, "y", groups="g")
    other = long_way(model)
    predictor = fitted_model(model).predictor
    for i in (0, 5):
        one = rows[rows.g == i]
        assert model.predict(one).tolist() == other.predict(one).tolist()
        np.testing.assert_array_equal(model.predict_proba(one), other.predict_proba(one))
        assert predictor.quick_results(one, predictor.labels_in) is not None
    assert predictor.quick_results(rows[rows.g < 2], predictor.labels_in) is None


def test_settings_after_fit_have_an_effect():
    X = list(map(symbols, NUMBERS))
    model = fitted(MODELS["window"], X)
    x = max(X, key=len)
    before = model.predict_proba([x])[0]
    first = model.predict([x])[0].tolist()
    model.set_params(transitions=np.eye(3, dtype=bool))
    assert len(set(model.predict([x])[0])) == 1
    model.set_params(transitions=None, beam_width=2)
    assert not np.array_equal(model.predict_proba([x])[0], before)
    model.set_params(beam_width=None)
    np.testing.assert_array_equal(model.predict_proba([x])[0], before)
    model.fit(X, [y[::-1] for y in LABELS])
    assert not np.array_equal(model.predict_proba([x])[0], before)
    assert len(first) == len(x)


def test_fewer_iterations_have_their_own_form():
    X = list(map(symbols, NUMBERS))
    model = fitted(MODELS["CRF"], X)
    expected = model.truncated(1).predict_proba([X[0]])[0]
    assert not np.array_equal(model.predict_proba([X[0]])[0], expected)
    np.testing.assert_array_equal(model.truncated(1).predict_proba([X[0]])[0], expected)


def test_what_prediction_makes_is_not_saved():
    X = list(map(symbols, NUMBERS))
    model = fitted(MODELS["CRF"], X)
    size = len(pickle.dumps(model))
    expected = model.predict_proba([X[0]])[0]
    assert fitted_model(model).predictor.short_model
    assert len(pickle.dumps(model)) == size
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba([X[0]])[0], expected
    )


def test_threads_share_a_model():
    model = fitted(MODELS["linear start"], NUMBERS)
    expected = long_way(model).predict_proba(NUMBERS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: model.predict_proba([x])[0], NUMBERS * 20))
    assert_equal_arrays(found, expected * 20)


class Hostile(str):
    """A string whose hash clears a row that is being read."""

    row = None

    def __hash__(self):
        if Hostile.row is not None:
            Hostile.row.clear()
        return str.__hash__(self)


@pytest.mark.parametrize("model", [TreeCRF(init="linear", window=1, **SMALL), LinearCRF()])
@pytest.mark.parametrize("place", ["key", "value"])
def test_methods_of_strings_do_not_run_while_a_dict_is_read(model, place):
    model = fitted(model, list(map(dicts, NUMBERS)))
    for i in range(200):
        row = {"number": i + 0.5, "none": 0.0}
        if place == "key":
            row[Hostile("word")] = "u"
        else:
            row["word"] = Hostile("u")
        row["unknown"] = object()
        Hostile.row = row
        try:
            model.predict([[row, {"number": 0.0, "word": "v"}]])
        except (ValueError, TypeError, RuntimeError, KeyError):
            pass
        finally:
            Hostile.row = None


class Shrinking:
    """A data frame that removes the positions of other sequences when its size is read."""

    columns = ("number", "whole", "word", "is")

    def __init__(self, X):
        self.X = X

    @property
    def shape(self):
        for item in self.X:
            if isinstance(item, list):
                item.clear()
        del self.X[1:]
        return 3, 4


def test_sequences_that_change_the_list_are_read_like_long_ones():
    model = fitted(TreeCRF(init="linear", window=1, **SMALL), list(map(dicts, NUMBERS)))
    X = [dicts(NUMBERS[0])]
    X += [Shrinking(X), dicts(NUMBERS[1])]
    assert [len(found) for found in model.predict(X)] == [0]  # of what is left in X
