"""Sequences of all kinds take the fast way, with the results of large batches to the bit."""

from __future__ import annotations

import pickle
import sys
import warnings
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone
from support.settings import FIXED

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.chains.lattice import Lattice
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.lattices import RowsLattice
from treecrf.utils.threads import Threads

SMALL = FIXED | {"max_iter": 4, "l2_regularization": 1.0, "max_leaf_nodes": 8}
MODELS = {
    "linear": LinearCRF(window=1),
    "linear, Viterbi": LinearCRF(decoding="viterbi"),
    "linear, imputed": LinearCRF(missing="impute", window=(0, 2)),
    "trees": TreeCRF(window=(2, 1), init="zero", **SMALL),
    "linear start": TreeCRF(window=1, init="linear", decoding="viterbi", **SMALL),
    "order 2": TreeCRF(order=2, init="zero", **SMALL),
    "constant transitions": TreeCRF(constant_transitions=True, window=1, **SMALL),
    "multi-output trees": TreeCRF(
        constant_transitions=True, multi_strategy="multi_output_tree", init="zero", **SMALL
    ),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "sliding window": SlidingWindowClassifier(window=2, **SMALL),
}
RNG = np.random.default_rng(0)
WORDS = [f"w{i}" for i in range(12)]


def dicts(n, rng=RNG):
    """Draw positions with a category, a number, and attributes without values."""
    rows = []
    for word, number, k in zip(rng.integers(12, size=n), rng.normal(size=n), range(n), strict=True):
        row = {"word": WORDS[word], f"is {WORDS[word % 5]}": True, "number": round(number, 1)}
        if k % 3 == 0:
            row[f"odd {word % 2}"] = 1
        rows.append(row)
    return rows


def attributes(n, rng=RNG):
    return [[f"{key} {value}" for key, value in row.items()] for row in dicts(n, rng)]


def arrays(n, rng=RNG):
    return np.round(rng.normal(size=(n, 4)), 1)


def labels(x):
    first = [len(str(row)) for row in (x.tolist() if isinstance(x, np.ndarray) else x)]
    return ["abc"[(size + before) % 3] for size, before in zip(first, [0, *first], strict=False)]


FORMS = {"dicts": dicts, "attributes": attributes, "arrays": arrays}
TRAINING = {form: [make(n) for n in RNG.integers(2, 15, 30)] for form, make in FORMS.items()}


def fitted(name, form, X=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = TRAINING[form] if X is None else X
        return clone(MODELS[name]).fit(X, list(map(labels, X)))


def long_way(model):
    """Return a copy that reads all sequences like large batches."""
    copied = pickle.loads(pickle.dumps(model))
    fitted_model(copied).predictor.short_model = None
    return copied


def as_lists(found):
    if isinstance(found, (list, tuple)):
        return list(map(as_lists, found))
    return found.tolist() if isinstance(found, np.ndarray) else found


METHODS = {
    "predict": lambda model, X: model.predict(X),
    "predict_proba": lambda model, X: model.predict_proba(X),
    "predict_pairwise_proba": lambda model, X: model.predict_pairwise_proba(X),
    "decode": lambda model, X: model.decode(X),
    "three best": lambda model, X: model.decode(X, 3),
}


def assert_same(model, X, methods=METHODS):
    """Assert that results are those of large batches, and that the way is the fast one."""
    other = long_way(model)
    predictor = fitted_model(model).predictor
    assert predictor.quick_results(X, predictor.labels_in) is not None
    for name in methods:
        call = METHODS[name]
        assert as_lists(call(model, X)) == as_lists(call(other, X)), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_long_and_many_sequences(name, form):
    model = fitted(name, form)
    make = FORMS[form]
    for lengths in ([1], [63], [64], [65], [200], [1, 130, 64], [5] * 40):
        methods = ("predict", "predict_proba") if max(lengths) > 65 else METHODS
        assert_same(model, [make(n) for n in lengths], methods)


def test_many_iterations_and_positions_by_lookup():
    X = TRAINING["arrays"]
    model = TreeCRF(window=1, init="zero", **SMALL | {"max_iter": 40, "max_leaf_nodes": 31})
    constant = clone(model).set_params(constant_transitions=True)
    for crf in (model, constant):
        crf.fit(X, list(map(labels, X)))
        assert_same(crf, [arrays(900)], ("predict_proba",))


@pytest.mark.parametrize("name", ["linear", "linear start", "MEMM"])
def test_positions_with_many_keys(name):
    model = fitted(name, "dicts")
    x = dicts(4)
    for i, row in enumerate(x):
        row.update({f"unknown {k}": k for k in range(700 * i)})
        x[i] = dict(reversed(row.items()))
    assert_same(model, [x])
    many = [[{f"key {k % 300}": True for k in range(t, t + 200)} for t in range(6)]] * 3
    assert_same(fitted(name, "dicts", many), many)


@pytest.mark.parametrize("name", ["linear", "linear start", "sliding window"])
def test_attributes_in_lists_tuples_and_sets(name):
    model = fitted(name, "attributes")
    for kind in (list, tuple, set, frozenset):
        x = [kind(row) for row in attributes(9)]
        x[3] = kind()
        assert_same(model, [x])
        expected = model.predict_proba([[dict.fromkeys(row, True) for row in x]])[0]
        np.testing.assert_array_equal(model.predict_proba([x])[0], expected)


NESTED = [
    {"word": "w1", "next": {"word": "w2", "tags": {"x", "y"}}},
    {"next": {"word": "w3"}, "tags": ["x"], "length": 3},
    {"word": "w2", "next": {"word": "w1", "tags": ()}, "length": "none", "deep": {"a": {"b": 1}}},
    {"length:none": True, "tags": {"x"}},
    {},
    {"length": 5, "next": {}},
]


@pytest.mark.parametrize("name", MODELS)
def test_nested_dicts_and_strings_beside_numbers(name):
    X = [[NESTED[k] for k in RNG.integers(len(NESTED), size=n)] for n in RNG.integers(2, 9, 40)]
    model = fitted(name, "dicts", X)
    assert {"next:tags:x", "length", "length:none", "deep:a:b"} <= set(model.feature_names_in_)
    assert_same(model, [NESTED])
    unseen = [
        {"next": {"word": "never"}, "tags": {"never"}, "length": "never"},
        {"deep": {"a": {"b": 2.5, "c": 1}}, "never": {"a": "b"}, "tags": {"x", "never"}},
        {"next": {"word": np.str_("w3"), "length": None}, "word": None},
    ]
    assert_same(model, [unseen], ("predict_proba",))


VALUES = {
    "number": [
        np.float32(0.5), np.float64(1.5), np.int8(1), np.int64(-2), np.uint16(3), True, np.True_, 3,
        None, float("nan"), np.float64("nan"), np.float32("nan"), -0.0,
    ],
    "is w1": [np.True_, np.False_, False, np.int64(1), 1.0, 0, None],
    "word": [np.str_("w3"), np.str_("never"), None, float("nan")],
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("key", VALUES)
def test_values_of_numpy_and_missing_values(name, key):
    model = fitted(name, "dicts")
    for value in VALUES[key]:
        x = dicts(5)
        x[2][key] = value
        x[4][key] = value
        assert_same(model, [x], ("predict_proba",))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", ["dicts", "arrays"])
def test_missing_values_of_models_that_have_seen_them(name, form):
    def holed(x):
        if form == "arrays":
            return np.where(RNG.random(x.shape) < 0.3, np.nan, x)
        return [{k: None if RNG.random() < 0.3 else v for k, v in row.items()} for row in x]

    X = list(map(holed, TRAINING[form]))
    model = fitted(name, form, X)
    for n in (1, 4, 70):
        assert_same(model, [holed(FORMS[form](n))], ("predict_proba",))


def test_more_labels_than_the_bits_of_a_word():
    x = arrays(400)
    y = [f"label {int(v * 12) % 70:02d}" for v in x[:, 0]]
    X = np.split(x, 40)
    Y = [y[i : i + 10] for i in range(0, 400, 10)]
    trees = TreeCRF(init="zero", **SMALL | {"max_iter": 2})
    for crf in (LinearCRF(max_iter=20), trees, clone(trees).set_params(constant_transitions=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            crf.fit(X, Y)
        assert_same(crf, [arrays(7)], ("predict", "predict_proba", "decode"))
    holed = arrays(7)
    holed[::2, 0] = np.nan
    assert_same(trees, [holed], ("predict_proba",))


@pytest.mark.parametrize("n_labels", [1, 2, 3, 8, 9, 30])
def test_best_labels_of_equal_scores_are_those_of_all_pairs(n_labels):
    offsets = np.array([0, 1, 9, 40])
    for _ in range(20):
        rows = RNG.integers(-2, 2, (40, n_labels)).astype(float)
        transitions = RNG.integers(-2, 2, (n_labels + 1, n_labels)).astype(float)
        lattice = RowsLattice(rows, offsets, transitions)
        expected = Lattice(lattice.scores, offsets, 1, Threads(1)).best_codes()
        assert lattice.best_codes().tolist() == expected.tolist()


def test_a_service_shows_once_that_nothing_is_known():
    model = fitted("linear", "dicts")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for i in range(5):
            model.predict([[{f"never {i}": 1.0}, {"word": f"never {i}"}]])
        for _ in range(5):
            model.predict([[{"word": "w1"}], [{}]])
    assert len(caught) == 1
    assert str(caught[0].message).startswith("nothing in a sequence is known: ")


class Changing(str):
    """A string whose hash clears the position that is being read."""

    position = None

    def __hash__(self):
        if Changing.position is not None:
            Changing.position.clear()
        return str.__hash__(self)


@pytest.mark.parametrize("kind", [list, set])
def test_attributes_that_change_their_position(kind):
    model = fitted("linear start", "attributes")
    for i in range(100):
        position = kind([f"number {i}", Changing("word w1"), "word w2"])
        Changing.position = position
        with suppress(ValueError, TypeError, RuntimeError):
            model.predict([[position, ["word w3"]]])
        Changing.position = None


def test_all_references_are_returned():
    model = fitted("linear start", "dicts")
    value, key = 12345.5, "key " * 3
    plain = {"number": value, key: value, "word": "w1"}
    refused = {"number": value, key: value, "word": 3j}
    counts = sys.getrefcount(value), sys.getrefcount(key)
    for row in (plain, refused):
        for _ in range(50):
            with suppress(TypeError):
                model.predict([[row, {"number": value}]])
    assert (sys.getrefcount(value), sys.getrefcount(key)) == counts
