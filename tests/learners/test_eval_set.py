"""Scores of validation sequences by any metric, and of several sets."""

from __future__ import annotations

import functools
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from support.family import BOOSTED, NEWTON, TREES, assert_predicts_the_same, every, value_of
from support.sweeps import pairs

import treecrf
from treecrf import FutureFeatureMEMM, LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.callbacks import Log
from treecrf.metrics import SCORERS, get_scorer, make_scorer, token_recall_score

SAMPLED = NEWTON | {"sampling": 0.05, "max_examples": 200}
ENGINES = BOOSTED | {
    "samples": TreeCRF(**SAMPLED),
    "constant transitions": TreeCRF(constant_transitions=True, decoding="viterbi", **SAMPLED),
    "narrow beam": TreeCRF(order=2, beam_width=2, **TREES),
    "minimum risk": TreeCRF(decoding="minimum_risk", cost_matrix={("x", "y"): 3.0}, **TREES),
    "rules": TreeCRF(transitions=np.ones((4, 3), bool), **TREES),
    "linear start": TreeCRF(init="linear", **TREES),
    "greedy": TreeMEMM(decoding="greedy", **TREES),
}
LINEAR = {
    "linear": LinearCRF(),
    "linear by gradient steps": LinearCRF(solver="sgd", max_iter=5, random_state=0),
    "linear, single labels": LinearCRF(objective="hamming_log"),
    "linear, transition features": LinearCRF(transition_features=True, decoding="viterbi"),
}
FAST = LINEAR.keys() | {
    "CRF of order 2", "samples", "constant transitions", "narrow beam", "minimum risk",
    "linear start", "greedy", "recurrent window, backward", "sliding window",
}  # fmt: skip


def mean_log(model, X, y):
    """The mean logarithm of the predicted probability of a true label."""
    codes = np.searchsorted(model.classes_, np.concatenate(list(map(list, y))))
    found = np.concatenate(model.predict_proba(X))[np.arange(len(codes)), codes]
    return np.log(np.maximum(found, np.finfo(float).tiny)).mean()


def wrong_first(y_true, y_pred):
    """Minus the number of sequences that begin with a wrong label, and that are short."""
    return -sum(bool(t[0] != p[0]) for t, p in zip(y_true, y_pred, strict=True) if len(t) < 9)


# Each fast engine has three of the five scorings, or two.
SCORINGS = ["accuracy", "neg_log_loss", wrong_first, "sequence_accuracy", "log_likelihood"]
NAMES = list(ENGINES | LINEAR)


@pytest.mark.parametrize(
    ("name", "scoring"),
    pairs(
        product(NAMES, SCORINGS),
        lambda name, scoring: (
            name in FAST and (NAMES.index(name) + SCORINGS.index(scoring)) % 2 == 0
        ),
    ),
)
def test_scores_are_those_of_predictions(name, scoring, letters):
    X, y = letters
    estimator = (ENGINES | LINEAR)[name]
    model = clone(estimator).set_params(scoring=scoring)
    copies = []
    model.fit(X, y, X[:9], y[:9], callbacks=[lambda info: copies.append(info.model())])
    score = {
        "neg_log_loss": lambda copied: mean_log(copied, X[:9], y[:9]),
        wrong_first: lambda copied: wrong_first(list(map(list, y[:9])), copied.predict(X[:9])),
        "accuracy": lambda copied: copied.score(X[:9], y[:9]),
    }.get(scoring, lambda copied: get_scorer(scoring)(copied, X[:9], y[:9]))
    if scoring != "log_likelihood" or "beam" not in name:  # where it is too high
        expected = [score(copied) for copied in copies]
        np.testing.assert_allclose(model.validation_score_[1:], expected)
    plain = clone(estimator).fit(X, y)
    assert_predicts_the_same(model, plain, X)
    np.testing.assert_array_equal(model.train_score_, plain.train_score_)


@every(ENGINES, fast={"CRF of order 2", "samples", "sliding window"})
def test_scorers_and_their_names(name, letters):
    X, y = letters
    recall = make_scorer(token_recall_score, labels=["y"], average="macro")
    for scoring, key in (
        ("token_f1_macro", "token_f1_macro"),
        (get_scorer("token_f1_macro"), "token_f1_macro"),
        (SCORERS["sequence_accuracy"], "sequence_accuracy"),
        (recall, repr(recall)),
    ):
        model = clone(ENGINES[name]).set_params(scoring=scoring)
        copies = []
        add = functools.partial(lambda copies, info: copies.append(info.model()), copies)
        model.fit(X, y, eval_set=[(X[:9], y[:9])], callbacks=[add])
        scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
        expected = [scorer(copied, X[:9], y[:9]) for copied in copies]
        np.testing.assert_allclose(model.evals_result_["valid_0"][key][1:], expected)
    likelihoods = [
        clone(ENGINES[name]).set_params(scoring=scoring).fit(X, y, X[:9], y[:9]).validation_score_
        for scoring in ("log_likelihood", get_scorer("log_likelihood"))
    ]
    np.testing.assert_array_equal(*likelihoods)


@every(ENGINES, fast=FAST)
def test_several_sets(name, letters):
    X, y = letters
    sets = [(X[:5], y[:5]), (X[5:9], y[5:9])]
    estimator = clone(ENGINES[name]).set_params(scoring="loss")
    expected = [clone(estimator).fit(X, y, *pair) for pair in sets]
    model = clone(estimator).fit(X, y, eval_set=sets)
    assert list(model.evals_result_) == ["valid_0", "valid_1"]
    for scores, one in zip(model.evals_result_.values(), expected, strict=True):
        assert list(scores) == ["objective"]
        np.testing.assert_array_equal(scores["objective"], one.validation_score_)
    np.testing.assert_array_equal(model.validation_score_, expected[0].validation_score_)
    # With X_val, the sets are only recorded.
    model = clone(ENGINES[name]).set_params(scoring="accuracy")
    model.fit(X, y, X[9:], y[9:], eval_set=sets)
    for scores, one, (some_X, some_y) in zip(
        model.evals_result_.values(), expected, sets, strict=True
    ):
        assert list(scores) == ["objective", "accuracy"]
        np.testing.assert_array_equal(scores["objective"], one.validation_score_)
        assert scores["accuracy"][-1] == pytest.approx(model.score(some_X, some_y))
    assert model.validation_score_[-1] == pytest.approx(model.score(X[9:], y[9:]))


def test_the_log_likelihood_of_other_objectives(letters):
    X, y = letters
    crf = TreeCRF(objective="hamming_log", scoring="log_likelihood", **TREES)
    crf.fit(X, y, eval_set=[(X[:5], y[:5])])
    value = crf.predict_log_likelihood(X[:5], y[:5]).sum() / sum(map(len, y[:5]))
    assert crf.validation_score_[-1] == pytest.approx(value)
    assert crf.evals_result_["valid_0"]["log_likelihood"][-1] == pytest.approx(value)
    assert value != pytest.approx(value_of(crf, X[:5], y[:5]))
    same = TreeCRF(scoring="log_likelihood", **TREES).fit(X, y, X[:5], y[:5])
    loss = TreeCRF(scoring="loss", **TREES).fit(X, y, X[:5], y[:5])
    np.testing.assert_array_equal(same.validation_score_, loss.validation_score_)


AUTO = {
    "marginal": ({}, "neg_log_loss"),
    "minimum risk": ({"decoding": "minimum_risk", "cost_matrix": {}}, "neg_log_loss"),
    "viterbi": ({"decoding": "viterbi"}, "loss"),
    "single labels": ({"objective": "hamming_log"}, "loss"),
    "beam": ({"beam_width": 3}, "loss"),
    "order 0": ({"order": 0}, "neg_log_loss"),
}


@pytest.mark.parametrize("name", AUTO)
def test_the_default_score_agrees_with_predictions(name, letters):
    X, y = letters
    settings, scoring = AUTO[name]
    crf = TreeCRF(**TREES, **settings).fit(X, y, X[:9], y[:9])
    assert crf.scoring == "auto"
    same = clone(crf).set_params(scoring=scoring).fit(X, y, X[:9], y[:9])
    np.testing.assert_array_equal(crf.validation_score_, same.validation_score_)
    if name != "viterbi":
        assert crf.validation_score_[-1] == pytest.approx(mean_log(crf, X[:9], y[:9]))
    else:
        assert crf.validation_score_[-1] == pytest.approx(value_of(crf, X[:9], y[:9]))


def test_early_stopping_on_a_metric(noisy):
    X, y = noisy
    settings = {"early_stopping": True, "n_iter_no_change": 3, "tol": 0.0, "max_iter": 50}
    crf = TreeCRF(scoring="accuracy", **{**TREES, **settings}).fit(X[:20], y[:20], X[20:], y[20:])
    assert crf.n_iter_ == crf.validation_score_.argmax() < 47
    assert crf.validation_score_[-1] == pytest.approx(crf.score(X[20:], y[20:]))
    # The first of several sets decides; scores end with the model.
    sets = [(X[20:], y[20:]), (X[:20], y[:20])]
    same = clone(crf).fit(X[:20], y[:20], eval_set=sets)
    np.testing.assert_array_equal(same.validation_score_, crf.validation_score_)
    for scores in same.evals_result_.values():
        assert all(len(array) == crf.n_iter_ + 1 for array in scores.values())


def test_weights_of_scored_sets(letters):
    X, y = letters
    weights = np.random.default_rng(1).choice([0.5, 3], 9)
    crf = TreeCRF(scoring="accuracy", **TREES)
    crf.fit(X, y, eval_set=[(X[:9], y[:9], weights), (X[:9], y[:9])])
    expected = crf.score(X[:9], y[:9], sample_weight=weights)
    assert crf.evals_result_["valid_0"]["accuracy"][-1] == pytest.approx(expected)
    assert crf.evals_result_["valid_1"]["accuracy"][-1] == pytest.approx(crf.score(X[:9], y[:9]))
    same = TreeCRF(scoring="loss", **TREES)
    same.fit(X, y, X[:9], y[:9], sample_weight_val=weights)
    objective = crf.evals_result_["valid_0"]["objective"]
    np.testing.assert_array_equal(objective, same.validation_score_)


def test_unknown_labels(letters):
    X, y = letters
    known = [[None, *labels[1:]] for labels in y[:9]]
    crf = TreeCRF(scoring="accuracy", **TREES).fit(X, y, X[:9], known)
    assert crf.validation_score_[-1] == pytest.approx(crf.score(X[:9], known))
    crf.set_params(scoring="neg_log_loss").fit(X, y, X[:9], known)
    tables = zip(crf.predict_proba(X[:9]), y[:9], strict=True)
    rows = [table[t, "xyz".index(v)] for table, labels in tables for t, v in enumerate(labels) if t]
    n_first = len(known)
    total = np.log(rows).sum()
    assert crf.validation_score_[-1] == pytest.approx(total / (len(rows) + n_first))
    with pytest.raises(ValueError, match="scoring='wrong_first' needs all labels"):
        crf.set_params(scoring=wrong_first).fit(X, y, X[:9], known)
    some = [[{"x", "y"}] * len(labels) for labels in y[:9]]
    with pytest.raises(ValueError, match="scoring='accuracy' needs known labels"):
        crf.set_params(scoring="accuracy").fit(X, y, X[:9], some)


def test_warm_starts_continue_the_scores(letters):
    X, y = letters
    sets = [(X[:5], y[:5]), (X[5:9], y[5:9])]
    crf = TreeCRF(scoring="accuracy", warm_start=True, **TREES)
    whole = clone(crf).fit(X, y, eval_set=sets).evals_result_
    crf.set_params(max_iter=2).fit(X, y, eval_set=sets[:1])
    crf.set_params(max_iter=4).fit(X, y, eval_set=sets)
    for metric in ("objective", "accuracy"):
        one, other = (crf.evals_result_[name][metric] for name in ("valid_0", "valid_1"))
        np.testing.assert_array_equal(one, whole["valid_0"][metric])
        assert np.isnan(other[:2]).all()
        np.testing.assert_array_equal(other[2:], whole["valid_1"][metric][2:])


def test_files_have_no_functions(letters, tmp_path):
    crf = TreeCRF(scoring=wrong_first, **TREES).fit(*letters, eval_set=[letters])
    with pytest.warns(UserWarning, match=r"^scoring is a function, which the file does not contai"):
        crf.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    assert loaded.scoring == "auto"
    assert loaded.evals_result_ == {}
    assert treecrf.average([crf, crf]).evals_result_ == {}


def test_callbacks_receive_the_scores(letters, capsys):
    X, y = letters
    seen = []
    crf = TreeCRF(scoring="accuracy", **TREES).fit(
        X, y, eval_set=[(X, y)], callbacks=[Log(), lambda info: seen.append(info.evals_result)]
    )
    for n, scores in enumerate(seen, 1):
        expected = crf.evals_result_["valid_0"]
        assert scores == {"valid_0": {name: s[: n + 1].tolist() for name, s in expected.items()}}
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"valid_0 accuracy {crf.validation_score_[-1]:.4f}" in last


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        ("abc", "eval_set is of type str; expected a list of tuples"),
        ([["ab"], ["xy"]], r"eval_set\[0\] is not a tuple \(X, y\) or"),
        ((["ab"], ["xy"]), r"eval_set\[0\] is not a tuple \(X, y\) or"),
        ([(["ab"],)], r"eval_set\[0\] is not a tuple \(X, y\) or"),
    ],
)
def test_invalid_sets(eval_set, message, letters):
    with pytest.raises(TypeError, match=message):
        TreeCRF(**TREES).fit(*letters, eval_set=eval_set)


def test_errors_name_the_set(letters):
    with pytest.raises(ValueError, match=r"eval_set\[1\]: X has 2 sequences, y has 1"):
        TreeCRF(**TREES).fit(*letters, eval_set=[letters, (["ab", "b"], ["xy"])])


@pytest.mark.parametrize("result", [None, np.nan, "high", [1]])
def test_a_metric_must_return_a_number(result, letters):
    def metric(y_true, y_pred):
        return result

    with pytest.raises(ValueError, match=r"scoring='metric' returned .*; expected a number"):
        TreeCRF(scoring=metric, **TREES).fit(*letters, *letters)


@pytest.mark.parametrize(
    "model", [LinearCRF(), FutureFeatureMEMM(), SlidingWindowClassifier(clone(LinearCRF()))]
)
def test_models_with_one_set_refuse_more(model, letters):
    with pytest.raises(ValueError, match="eval_set"):
        model.fit(*letters, eval_set=[letters])


def test_early_stopping_of_a_linear_model_on_a_metric(noisy, tmp_path):
    X, y = noisy
    crf = LinearCRF(early_stopping=True, n_iter_no_change=4, scoring=wrong_first)
    crf.fit(X[:20], y[:20], X[20:], y[20:])
    assert crf.n_iter_ == crf.validation_score_.argmax()
    assert crf.validation_score_[-1] == wrong_first(y[20:], crf.predict(X[20:]))
    with pytest.warns(UserWarning, match="^scoring is a function, which the file does not contain"):
        crf.save(tmp_path / "model")
    assert treecrf.load(tmp_path / "model").scoring == "loss"
