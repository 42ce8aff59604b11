"""Attributes of linear learners, and their names."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import treecrf
from treecrf import LinearCRF
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.linear.attributes import WindowAttributes

NAN = float("nan")
ROOMS = [["attic", 1.5, True], ["bath", NAN, False], [None, 4.5, None], ["attic", 0.0, True]]


def learned(X, window=(0, 0), **parameters):
    sequences = as_sequences(X, None, Segmentation())
    attributes = WindowAttributes(window, standardize=False, **parameters).fit(sequences)
    return attributes, attributes.rows(sequences).toarray()


def test_symbols_are_indicators():
    attributes, rows = learned(["abca", "b"])
    assert attributes.names_at(0) == ["symbol is 'a'", "symbol is 'b'", "symbol is 'c'"]
    assert rows.tolist() == np.eye(3)[[0, 1, 2, 0, 1]].tolist()
    unseen = as_sequences(["cz"], attributes.schema, Segmentation())
    assert attributes.rows(unseen).toarray().tolist() == [[0, 0, 1], [0, 0, 0]]


def test_missing_values_get_indicators():
    attributes, rows = learned([ROOMS])
    assert attributes.names_at(0) == [
        "x0 is 'attic'", "x0 is 'bath'", "x1", "x2",
        "x0 is missing", "x1 is missing", "x2 is missing",
    ]  # fmt: skip
    mean = 2 / 3
    assert rows.tolist() == [
        [1, 0, 1.5, 1, 0, 0, 0],
        [0, 1, 2.0, 0, 0, 1, 0],
        [0, 0, 4.5, mean, 1, 0, 1],
        [1, 0, 0.0, 1, 0, 0, 0],
    ]
    # Without missing values in training there are no indicators, and a number is its mean.
    attributes, _ = learned([[["a", 1.0], ["b", 3.0]]])
    unseen = as_sequences([[[None, NAN], ["c", 5.0]]], attributes.schema, Segmentation())
    assert attributes.rows(unseen).toarray().tolist() == [[0, 0, 2], [0, 0, 5]]


def test_missing_values_can_be_imputed():
    attributes, rows = learned([ROOMS], missing="impute")
    assert attributes.names_at(0) == ["x0 is 'attic'", "x0 is 'bath'", "x1", "x2"]
    assert rows[1].tolist() == [0, 1, 2.0, 0]
    assert rows[2].tolist() == [1, 0, 4.5, 1]
    symbols, _ = learned(["aab"], missing="impute")
    new = as_sequences([["z", None]], symbols.schema, Segmentation())
    assert symbols.rows(new).toarray().tolist() == [[0, 0], [1, 0]]


def test_sparse_matrices_keep_their_zeros():
    table = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    attributes, rows = learned([sparse.csr_array(table)])
    assert attributes.names_at(0) == ["x0", "x1"]  # the last column is all 0
    assert rows.tolist() == table[:, :2].tolist()


def test_too_large_numbers_are_refused():
    y = [[0, 1, 1], [1, 0]]
    X = [[[1.0], [2.0], [3.0]], [[1.0], [-1e101]]]
    with pytest.raises(
        ValueError, match=r"^sequence 1, position 1: -1e\+101 is too large for a lin"
    ):
        LinearCRF(standardize=False).fit(X, y)
    crf = LinearCRF(standardize=False).fit([X[0], [[1e100], [-1e100]]], y)
    assert np.isfinite(crf.loss_)
    assert np.isfinite(np.concatenate(crf.predict_proba([[[1e100], [1e-300]]]))).all()
    with pytest.raises(ValueError, match=r"^sequence 0, position 0: 1e\+308 is too large"):
        crf.predict([[[1e308]]])


def test_rare_attributes_are_dropped():
    X = ["aaab", "aac", "b"]
    attributes, rows = learned(X, min_count=2)
    assert attributes.names_at(0) == ["symbol is 'a'", "symbol is 'b'"]
    assert rows.sum(axis=0).tolist() == [5, 2]
    assert rows.shape == (8, 2)
    for min_count, n in ((1, 3), (2, 2), (5, 1), (6, 0)):
        crf = LinearCRF(min_count=min_count).fit(X, ["xxxy", "xxy", "y"])
        assert len(crf.get_attribute_names()) == len(crf.state_weights_) == n
        assert len(crf.predict(["abcz"])[0]) == 4


def test_names_hold_offsets_from_the_labeled_position():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"aa": ["P", "G", "P"], "heat": [1.0, 2.0, 3.0]})
    crf = LinearCRF(window=(2, 1)).fit([frame], ["xyx"])
    assert crf.get_attribute_names().tolist() == [
        "aa[-2] is 'G'", "aa[-1] is 'G'", "aa[0] is 'G'", "aa[+1] is 'G'",
        "aa[-2] is 'P'", "aa[-1] is 'P'", "aa[0] is 'P'", "aa[+1] is 'P'",
        "heat[-2]", "heat[-1]", "heat[0]", "heat[+1]",
        "outside[-2]", "outside[-1]", "outside[+1]",
    ]  # fmt: skip
    assert crf.state_weights_.shape == (15, 2)
    assert crf.transition_feature_weights_.shape == (15, 0, 0)


@pytest.mark.parametrize("transition_features", [False, True])
def test_weights_are_in_the_order_of_the_names(transition_features):
    """Scores of all label sequences, computed from the public weights, are those of the model."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ab"), n)) for n in (1, 2, 5, 6)]
    y = ["".join(rng.choice(list("xy"), len(x))) for x in X]
    crf = LinearCRF(
        window=(2, 1), transition_features=transition_features, l2_regularization=0.1
    ).fit(X, y)
    names = {name: k for k, name in enumerate(crf.get_attribute_names())}

    def score(x, codes):
        total, before = crf.start_weights_[codes[0]], None
        for t, v in enumerate(codes):
            for offset in (-2, -1, 0, 1):
                at = f"[{offset:+d}]" if offset else "[0]"
                inside = 0 <= t + offset < len(x)
                k = names[f"symbol{at} is {x[t + offset]!r}" if inside else f"outside{at}"]
                total += crf.state_weights_[k, v]
                if transition_features and t:
                    total += crf.transition_feature_weights_[k, before, v]
            total += crf.transition_weights_[before, v] if t else 0.0
            before = v
        return total

    for x in X:
        paths = list(product((0, 1), repeat=len(x)))
        scores = np.array([score(x, codes) for codes in paths])
        log_p = crf.predict_log_likelihood([x] * len(paths), crf.classes_[np.array(paths)])
        np.testing.assert_allclose(log_p, scores - np.logaddexp.reduce(scores))


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
def test_weights_by_name_are_made_once_for_each_fit(letters, tmp_path):
    X, y = letters
    crf = LinearCRF(warm_start=True, max_iter=5).fit(X, y)
    size = len(pickle.dumps(crf))
    state = crf.state_features_
    assert len(pickle.dumps(crf)) == size
    assert crf.state_features_ is state
    assert crf.set_params(decoding="viterbi").state_features_ is state
    with pytest.raises(TypeError):
        state["a", "b"] = 1.0
    for other in (pickle.loads(pickle.dumps(crf)), copy.deepcopy(crf)):
        assert other.state_features_ == state
    crf.save(tmp_path / "crf.treecrf")
    assert treecrf.load(tmp_path / "crf.treecrf").state_features_ == state
    before = dict(state)
    crf.set_params(max_iter=50).fit(X, y)
    assert crf.state_features_ != before == dict(state)
    assert crf.fit(X[:1], [labels[::-1] for labels in y[:1]]).state_features_ != before
    with pytest.raises(NotFittedError):
        getattr(clone(crf), "state_features_")  # noqa: B009


def test_weights_in_the_form_of_sklearn_crfsuite(letters, tables):
    crf = LinearCRF(window=(1, 0), l2_regularization=0.1).fit(*letters)
    names, labels = crf.get_attribute_names().tolist(), crf.classes_.tolist()
    state, transitions = crf.state_features_, crf.transition_features_
    assert len(state) == np.count_nonzero(crf.state_weights_)
    assert len(transitions) == len(labels) ** 2
    for (name, label), weight in state.items():
        assert weight == crf.state_weights_[names.index(name), labels.index(label)] != 0
    for (before, label), weight in transitions.items():
        assert weight == crf.transition_weights_[labels.index(before), labels.index(label)]
    (likeliest, _), *_ = Counter(state).most_common(1)
    assert likeliest in {("symbol[0] is 'a'", "x"), ("symbol[0] is 'b'", "y"),
                         ("symbol[0] is 'c'", "z")}  # fmt: skip
    assert Counter(transitions) == dict(transitions)
    of_numbers = LinearCRF().fit(*tables)
    assert all(type(label) is int for _, label in of_numbers.state_features_)
    assert all(type(weight) is float for weight in of_numbers.transition_features_.values())
