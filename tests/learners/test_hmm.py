"""Hidden Markov models: counts, probabilities and predictions."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.family import assert_equal_arrays
from support.model_files import read, sealed

import treecrf
from treecrf import HMMClassifier, ModelFileError


def log_joint(hmm: HMMClassifier, symbols, labels) -> float:
    """Logarithm of P(X, Y), from the model's tables."""
    codes = np.searchsorted(hmm.classes_, labels).tolist()
    shown = [*hmm.symbols_.tolist(), "unseen"]
    total = 0.0
    for t, (symbol, v) in enumerate(zip(symbols, codes, strict=True)):
        before = tuple(codes[max(0, t - hmm.order) : t])
        total += hmm.transition_log_prob_[len(before)][(*before, v)]
        total += hmm.emission_log_prob_[v, shown.index(symbol) if symbol in shown else -1]
    return total


def log_probability(hmm: HMMClassifier, X) -> np.ndarray:
    """Logarithm of P(X) of each sequence."""
    labels, log_p = hmm.decode(X)
    return np.array([log_joint(hmm, *pair) for pair in zip(X, labels, strict=True)]) - log_p


def draw(seed: int, n_labels: int, longest: int = 8) -> tuple[list, list]:
    """Strings of "abc" and labels from 0; sequences may be shorter than the contexts."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, 12)
    y = [rng.integers(0, n_labels, length) for length in lengths]
    y[0][:1], y[1][:1] = 0, n_labels - 1
    return ["".join(rng.choice(list("abc"), length)) for length in lengths], y


def fractions(counter: Counter, values, laplace: float) -> list[float]:
    total = sum(counter[value] for value in values) + laplace * len(values)
    return [(counter[value] + laplace) / total for value in values]


orders = st.integers(0, 3)
seeds = st.integers(0, 1000)


@given(seeds, orders, st.integers(2, 4), st.sampled_from([1e-3, 1.0, 2.5]))
def test_probabilities_are_those_of_naive_counting(seed, order, n_labels, laplace):
    X, y = draw(seed, n_labels)
    hmm = HMMClassifier(order=order, laplace=laplace).fit(X, y)
    classes = hmm.classes_.tolist()
    shown, followed = Counter(), Counter()
    for symbols, labels in zip(X, y, strict=True):
        labels = labels.tolist()
        for t, (symbol, v) in enumerate(zip(symbols, labels, strict=True)):
            shown[v, symbol] += 1
            followed[tuple(labels[max(0, t - order) : t]), v] += 1
    for i, v in enumerate(classes):
        given_v = Counter({x: shown[v, x] for x in "abc"})
        expected = fractions(given_v, ["a", "b", "c", "unseen"], laplace)
        np.testing.assert_allclose(np.exp(hmm.emission_log_prob_[i]), expected)
    for depth in range(order + 1):
        for before in product(range(len(classes)), repeat=depth):
            context = tuple(classes[i] for i in before)
            after = Counter({v: followed[context, v] for v in classes})
            found = np.exp(hmm.transition_log_prob_[depth][before])
            np.testing.assert_allclose(found, fractions(after, classes, laplace))
    assert len(hmm.transition_log_prob_) == order + 1


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@pytest.mark.parametrize("order", [0, 1, 2])
def test_probabilities_of_all_inputs_add_up_to_one(order):
    hmm = HMMClassifier(order=order).fit(["aba", "bb"], ["xyy", "yx"])
    X = ["".join(symbols) for symbols in product("ab?", repeat=4)]
    assert np.exp(log_probability(hmm, X)).sum() == pytest.approx(1.0, rel=1e-12)
    for symbols in ("abba", "?ab?", "ba", "a"):
        labels = [list(labels) for labels in product("xy", repeat=len(symbols))]
        joint = np.array([log_joint(hmm, symbols, one) for one in labels])
        expected = joint - np.logaddexp.reduce(joint)
        np.testing.assert_allclose(
            hmm.predict_log_likelihood([symbols] * len(labels), labels), expected
        )


GAPS = [["a", None, "b"], [None], ["b", "b", None, "a"], ["a"]]


@pytest.mark.parametrize("order", [0, 1, 2])
def test_missing_symbols_are_not_counted(order):
    y = ["xyy", "x", "yxxy", "x"]
    hmm = HMMClassifier(order=order).fit(GAPS, y)
    assert hmm.symbols_.tolist() == ["a", "b"]
    shown = Counter(
        (label, symbol)
        for symbols, labels in zip(GAPS, y, strict=True)
        for symbol, label in zip(symbols, labels, strict=True)
    )
    for row, label in zip(hmm.emission_log_prob_, "xy", strict=True):
        given_label = Counter({symbol: shown[label, symbol] for symbol in "ab"})
        np.testing.assert_allclose(np.exp(row), fractions(given_label, ["a", "b", "c"], 1.0))
    whole = HMMClassifier(order=order).fit([["a"] * len(labels) for labels in y], y)
    assert_equal_arrays(hmm.transition_log_prob_, whole.transition_log_prob_)


def test_a_missing_symbol_is_marginalized():
    hmm = HMMClassifier().fit(["abcab", "cabb"], ["xyxxy", "yxxy"])
    y = "xyx"
    every = [f"a{symbol}b" for symbol in "abc?"]  # ? is unseen, and not missing
    joint = [log_joint(hmm, symbols, list(y)) for symbols in every]
    total = np.logaddexp.reduce(joint)
    log_p = [
        np.logaddexp.reduce([log_joint(hmm, symbols, list(labels)) for symbols in every])
        for labels in product("xy", repeat=3)
    ]
    (found,) = hmm.predict_log_likelihood([["a", None, "b"]], [y])
    assert found == pytest.approx(total - np.logaddexp.reduce(log_p))
    unseen = hmm.predict_log_likelihood([["a", "?", None], ["a", "?", "?"]], [y, y])
    assert unseen[0] != unseen[1]
    np.testing.assert_array_equal(
        hmm.predict_proba([["a", "?"], ["b", None]])[0], hmm.predict_proba([["a", "?"]])[0]
    )
    only = hmm.predict_proba([[None, None]])[0]
    np.testing.assert_allclose(only[0], np.exp(hmm.transition_log_prob_[0]))


def test_other_tables_have_an_effect_after_a_prediction():
    X, y = draw(0, 2)
    hmm = HMMClassifier().fit(X, y)
    before = hmm.predict_proba(X)
    hmm.emission_log_prob_ = hmm.emission_log_prob_[::-1]
    emissions = hmm.predict_proba(X)
    assert any((p != other).any() for p, other in zip(before, emissions, strict=True))
    hmm.transition_log_prob_ = [table[..., ::-1] for table in hmm.transition_log_prob_]
    both = hmm.predict_proba(X)
    assert any((p != other).any() for p, other in zip(emissions, both, strict=True))


def test_all_symbols_missing():
    with pytest.raises(ValueError, match="all symbols of X are missing"):
        HMMClassifier().fit([[None, None]], ["xy"])
    with pytest.raises(TypeError, match="position 0: 1 is a number; in training all symbols were"):
        HMMClassifier().fit(["ab"], ["xy"]).predict([[1, None]])
    with pytest.raises(TypeError, match="X holds tables, but the model was trained on symbols"):
        HMMClassifier().fit(["ab"], ["xy"]).predict([[["a"], [None]]])


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@pytest.mark.parametrize("n_labels", [2, 5])
def test_first_order_agrees_with_hmmlearn(n_labels):
    hmmlearn = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")
    X, y = draw(7, n_labels, longest=30)
    hmm = HMMClassifier().fit(X, y)
    other = hmmlearn.CategoricalHMM(len(hmm.classes_), n_features=4, init_params="")
    other.startprob_, other.transmat_ = map(np.exp, hmm.transition_log_prob_)
    other.emissionprob_ = np.exp(hmm.emission_log_prob_)
    X_new, _ = draw(8, n_labels, longest=30)
    X_new[2] = "?" * len(X_new[2])
    codes = np.array(["abc?".index(symbol) for symbol in "".join(X_new)])[:, np.newaxis]
    lengths = list(map(len, X_new))
    marginals = np.concatenate(hmm.predict_proba(X_new))
    np.testing.assert_allclose(marginals, other.predict_proba(codes, lengths), rtol=1e-9)
    log_p = log_probability(hmm, X_new).sum()
    assert log_p == pytest.approx(other.score(codes, lengths), rel=1e-12)
    # Ties between paths are common, so only their probabilities are compared.
    best = hmm.decode(X_new)[1].sum() + log_p
    assert best == pytest.approx(other.decode(codes, lengths)[0], rel=1e-12)


def test_orders_with_too_many_contexts_are_refused():
    with pytest.raises(ValueError, match=r"order=24 with 2 labels needs 2\*\*25 scores"):
        HMMClassifier(order=24).fit(["ab"], ["xy"])


def uniform(table: np.ndarray) -> np.ndarray:
    return np.log(np.full(table.shape, 1 / table.shape[-1]))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("symbols", lambda a: a[::-1]),
        ("symbols", lambda a: a[:0]),
        ("symbols", lambda a: np.array([0.5, 1.5, 2.5])),
        ("classes", lambda a: a[:2]),
        ("emissions", lambda a: uniform(a[:, 1:])),
        ("emissions", lambda a: np.where(a == a.min(), -np.inf, a)),
        ("emissions", lambda a: a + 1.0),
        ("emissions", lambda a: a.astype(np.float32)),
        ("transitions.0", lambda a: uniform(a[:2])),
        ("transitions.1", lambda a: a * np.nan),
        ("transitions.1", lambda a: a - 1.0),
    ],
)
def test_inconsistent_parts_are_rejected(name, change, tmp_path):
    path = tmp_path / "model"
    HMMClassifier().fit(*draw(3, 3)).save(path)
    values, arrays = read(path)
    arrays[name] = change(arrays[name])
    path.write_bytes(sealed(values, arrays))
    with pytest.raises(ModelFileError, match="invalid"):
        treecrf.load(path)
