"""Given scores, to which the trees of a TreeCRF are added."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from support.family import NEWTON, TREES, assert_equal_arrays, assert_predicts_the_same, variant

import treecrf
from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.callbacks import Checkpoint

SAMPLED = NEWTON | {"sampling": 0.05, "max_examples": 300}
ENGINES = {
    "order 0": TreeCRF(order=0, **TREES),
    "exact": TreeCRF(**TREES),
    "order 2": TreeCRF(order=2, **NEWTON),
    "exponential": TreeCRF(objective="hamming_exponential", **TREES),
    "linear start": TreeCRF(init="linear", **TREES),
    "samples": TreeCRF(**SAMPLED),
    "constant transitions": TreeCRF(constant_transitions=True, **SAMPLED),
}
ALL = pytest.mark.parametrize("name", ENGINES)


def scores_for(X, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 2, (len(x), 3)) for x in X]


def spread(X, scores):
    """Log-probabilities of labels that are independent of each other."""
    return [table - np.logaddexp.reduce(table, axis=1)[:, None] for table in scores]


def codes_of(y):
    return [np.array(["xyz".index(label) for label in labels]) for labels in y]


@ALL
def test_training_starts_from_the_scores(name, letters):
    X, y = letters
    scores = scores_for(X)
    model = clone(ENGINES[name]).set_params(scoring="loss")
    model.fit(X, y, X[:5], y[:5], init_score=scores, init_score_val=scores[:5])
    if name not in ("linear start", "exponential"):
        log_p = [
            table[np.arange(len(codes)), codes]
            for table, codes in zip(spread(X, scores), codes_of(y), strict=True)
        ]
        assert model.train_score_[0] == pytest.approx(np.concatenate(log_p).mean(), abs=1e-5)
        assert model.validation_score_[0] == pytest.approx(
            np.concatenate(log_p[:5]).mean(), abs=1e-5
        )
    assert model.train_score_[-1] > model.train_score_[0]
    # The reported scores are those of predictions with the same scores.
    if name != "exponential":
        value = model.predict_log_likelihood(X, y, init_score=scores).sum() / sum(map(len, X))
        assert model.train_score_[-1] == pytest.approx(value)
        value = model.predict_log_likelihood(X[:5], y[:5], init_score=scores[:5]).sum()
        assert model.validation_score_[-1] == pytest.approx(value / sum(map(len, X[:5])))


@ALL
def test_scores_add_up(name, letters):
    """Scores of 0 change nothing, nor does a constant in the scores of all labels."""
    X, y = letters
    scores = scores_for(X)
    model = clone(ENGINES[name]).fit(X, y, init_score=scores)
    shifted = [table + 3.0 for table in scores]
    same = clone(ENGINES[name]).fit(X, y, init_score=shifted)
    for ours, theirs in zip(
        same.predict_proba(X, init_score=shifted),
        model.predict_proba(X, init_score=scores),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    zeros = [np.zeros_like(table) for table in scores]
    plain = clone(ENGINES[name]).fit(X, y)
    zero = clone(ENGINES[name]).fit(X, y, init_score=zeros)
    assert_predicts_the_same(zero, plain, X)
    assert_equal_arrays(zero.predict_proba(X, init_score=zeros), zero.predict_proba(X))
    assert not np.array_equal(model.predict_proba(X)[0], plain.predict_proba(X)[0])


@ALL
def test_all_predictions_take_scores(name, letters):
    X, y = letters
    scores = scores_for(X)
    model = clone(ENGINES[name]).fit(X, y, init_score=scores)
    proba = model.predict_proba(X, init_score=scores)
    viterbi = variant(model, decoding="viterbi")
    labels, log_p = model.decode(X, init_score=scores)
    assert_equal_arrays(labels, viterbi.predict(X, init_score=scores))
    np.testing.assert_allclose(log_p, model.predict_log_likelihood(X, labels, init_score=scores))
    best, _ = model.decode(X, n_best=2, init_score=scores)
    assert_equal_arrays([paths[0] for paths in best], labels)
    pairs = model.predict_pairwise_proba(X, init_score=scores)
    for pair, p in zip(pairs, proba, strict=True):
        np.testing.assert_allclose(pair.sum(axis=1), p[1:], atol=1e-9)
    *_, last = model.staged_predict_proba(X, init_score=scores)
    for ours, theirs in zip(last, proba, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    predicted = model.predict(X, init_score=scores)
    correct = [np.mean(np.concatenate(predicted) == np.concatenate([list(t) for t in y]))]
    assert model.score(X, y, init_score=scores) == pytest.approx(correct[0])
    # Long tables
    lengths = [len(x) for x in X]
    long = model.predict_proba([*"".join(X)], init_score=np.concatenate(scores), lengths=lengths)
    np.testing.assert_array_equal(long, np.concatenate(proba))


def test_held_out_sequences_keep_their_scores(letters, tmp_path):
    X, y = letters
    scores = scores_for(X)
    settings = {**TREES, "early_stopping": True, "max_iter": 9, "validation_fraction": 0.3}
    path = tmp_path / "model"
    crf = TreeCRF(**settings).fit(X, y, init_score=scores, callbacks=[Checkpoint(path, every=2)])
    order = np.random.default_rng(1).permutation(len(X))
    same = TreeCRF(**settings).fit(
        [X[i] for i in order], [y[i] for i in order], init_score=[scores[i] for i in order]
    )
    np.testing.assert_array_equal(same.validation_score_, crf.validation_score_)
    resumed = treecrf.load(path).set_params(warm_start=True).fit(X, y, init_score=scores)
    np.testing.assert_array_equal(resumed.validation_score_, crf.validation_score_)
    assert_predicts_the_same(resumed, crf, X)
    weighted = TreeCRF(**TREES).fit(X, y, init_score=scores, sample_weight=[0, *[1] * 23])
    left_out = TreeCRF(**TREES).fit(X[1:], y[1:], init_score=scores[1:])
    assert_predicts_the_same(weighted, left_out, X)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([np.zeros((4, 3))], "X has 2 sequences, init_score has 1"),
        ([np.zeros((4, 2)), np.zeros((2, 3))], r"sequence 0 has shape \(4, 2\); expected \(4, 3\)"),
        ([np.zeros((4, 3)), np.zeros(2)], r"sequence 1 has shape \(2,\); expected \(2, 3\)"),
        ([np.zeros((4, 3)), [["a"] * 3] * 2], "sequence 1 is not numeric"),
        (
            [np.zeros((4, 3)), [[0, 0, 0], [0, np.nan, 0]]],
            "sequence 1, position 1 has the score nan",
        ),
        (
            [np.zeros((4, 3)), [[0, -np.inf, 0], [0, 0, 0]]],
            "sequence 1, position 0 has the score -inf",
        ),
        (3, "init_score is of type int; expected a list of arrays"),
    ],
)
def test_invalid_scores(scores, message):
    X, y = ["abca", "ab"], ["xyzx", "xy"]
    with pytest.raises((ValueError, TypeError), match=message):
        TreeCRF(**TREES).fit(X, y, init_score=scores)
    model = TreeCRF(**TREES).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=message):
        model.predict(X, init_score=scores)


def test_training_and_validation_data_have_scores_together(letters):
    X, y = letters
    scores = scores_for(X)
    crf = TreeCRF(**TREES)
    for data, arguments in (
        ((X, y, X, y), {"init_score": scores}),
        ((X, y, X, y), {"init_score_val": scores}),
        ((X, y), {"init_score": scores, "eval_set": [(X, y)]}),
        ((X, y), {"init_score": scores, "init_score_val": scores}),
    ):
        with pytest.raises(ValueError, match="init_score_val"):
            crf.fit(*data, **arguments)


def test_other_models_refuse_scores(fitted, letters):
    X, y = letters
    scores = scores_for(X)
    message = "init_score: .* does not support it; TreeCRF does"
    for model in (TreeMEMM(), LinearCRF()):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, init_score=scores)
    with pytest.raises(ValueError, match="init_score cannot be used with an estimator"):
        SlidingWindowClassifier(LinearCRF()).fit(X, y, init_score=scores)
    with pytest.raises(ValueError, match="init_score needs all contexts; expected beam_width=None"):
        TreeCRF(beam_width=2).fit(X, y, init_score=scores)
    for name in (
        "HMM of order 1",
        "linear CRF",
        "perceptron",
        "MEMM of order 1",
        "flat CRF of order 1",
    ):
        with pytest.raises(ValueError, match=message):
            fitted(name).predict(X, init_score=scores)


@pytest.mark.parametrize("sampling", [None, 0.05])
def test_equal_sequences_with_other_scores_in_any_order(sampling):
    X, y = ["abca"] * 12 + ["bcab"] * 12, ["xyzx"] * 12 + ["yzxx"] * 12
    scores = scores_for(X)
    settings = TREES | {
        "subsample": 0.4, "early_stopping": True, "validation_fraction": 0.4, "init": "zero",
    }  # fmt: skip
    crf = TreeCRF(sampling=sampling, **settings).fit(X, y, init_score=scores)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(24)
        same = TreeCRF(sampling=sampling, **settings).fit(
            [X[i] for i in order], [y[i] for i in order], init_score=[scores[i] for i in order]
        )
        assert_equal_arrays(same.predict_proba(X), crf.predict_proba(X))
