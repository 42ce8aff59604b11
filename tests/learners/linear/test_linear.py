"""The linear conditional random field: its loss, its optimum, and its training."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from support.family import assert_equal_arrays
from support.oracles import finite_difference_gradient
from support.training import loss_of, training_of

import treecrf
from treecrf import LinearCRF, RecurrentSlidingWindowClassifier, TreeCRF, flatten
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import make_objective
from treecrf.learners.linear.likelihoods import GeneralLikelihood

# Short sequences, one of them of a single position; the windows reach beyond all of them.
WORDS = ["abca", "b", "ca", "bbcab", "ac"]
TAGS = ["xyzx", "y", "zx", "yyzxy", "xz"]
VARIANTS = {
    "states": {},
    "windows": {"window": (2, 1)},
    "pairs": {"window": 1, "transition_features": True},
    "weighted": {"window": 1, "class_weight": {"x": 3.0, "y": 0.5}},
    "weighted pairs": {"transition_features": True, "class_weight": "balanced"},
    "rules": {"window": 1, "transitions": [[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]]},
}


def enumerated_loss(data, vector, l2):
    """The loss by its definition: all label sequences of every sequence."""
    scores = data.scores(data.layout.weights(vector))
    data.constraints.forbid(scores, data.offsets)
    total, n_labels = l2 * vector @ vector, len(data.classes)
    for i in range(len(data.offsets) - 1):
        positions = slice(data.offsets[i], data.offsets[i + 1])
        here, codes = scores[:, positions], data.codes[positions].tolist()

        def score(path, here=here):
            return sum(here[v, t, path[t - 1] if t else 0] for t, v in enumerate(path))

        log_z = np.logaddexp.reduce(
            [score(path) for path in product(range(n_labels), repeat=here.shape[1])]
        )
        total -= data.weights[i] * (score(codes) - log_z)
    return total


@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_sums_over_all_label_sequences(name):
    model = LinearCRF(l2_regularization=0.3, **VARIANTS[name])
    loss, data = loss_of(model, WORDS, TAGS)
    vector = np.random.default_rng(0).normal(size=data.layout.size)
    value, _ = loss(vector)
    assert value == pytest.approx(enumerated_loss(data, vector, 0.3), rel=1e-10)


# Their values are tested with the objectives, by enumeration.
OTHERS = {
    f"{objective}, {pairs}": {"window": 1, "objective": objective, "transition_features": pairs}
    for objective in ("exponential", "hamming_log", "hamming_exponential")
    for pairs in (False, True)
}


@pytest.mark.parametrize("name", VARIANTS | OTHERS)
def test_the_gradient_is_the_slope_of_the_loss(name):
    settings = (VARIANTS | OTHERS)[name]
    loss, data = loss_of(LinearCRF(l2_regularization=0.3, **settings), WORDS, TAGS)
    vector = np.random.default_rng(1).normal(size=data.layout.size) / 2
    slope = finite_difference_gradient(lambda weights: loss(weights)[0], vector)
    value, gradient = loss(vector)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-5)
    if "class_weight" not in settings:
        assert loss.mean * len(data.codes) == pytest.approx(0.3 * vector @ vector - value)


@pytest.mark.parametrize("scale", [0.5, 20.0, 45.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_constraints_have_the_same_effect_in_both_likelihoods(seed, scale):
    """Rules that leave only improbable paths make the weights of a chain underflow."""
    rng = np.random.default_rng(seed)
    n_labels = 4
    follows = rng.random((n_labels + 1, n_labels)) < 0.4
    follows[np.arange(n_labels), rng.permutation(n_labels)] = follows[-1] = True
    y = [np.array([label]) for label in range(n_labels)]
    y += [_path(rng, follows, n) for n in [2, 40, *rng.integers(3, 12, 5)]]
    X = [rng.integers(0, 3, len(labels)) for labels in y]
    masks = [rng.random((len(labels), n_labels)) < 0.7 for labels in y]
    for mask, labels in zip(masks, y, strict=True):
        mask[np.arange(len(labels)), labels] = True
    loss, data = loss_of(LinearCRF(window=1, transitions=follows), X, y, allowed=masks)
    chains = ChainLabels(data.offsets, data.codes, n_labels, 1, data.constraints)
    general = GeneralLikelihood(data, make_objective("log", chains, data.threads))
    for _ in range(5):
        weights = data.layout.weights(rng.normal(size=data.layout.size) * scale)
        fast, slow = (one.gradient(weights) for one in (loss.likelihood, general))
        assert fast[0] == pytest.approx(slow[0], rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(fast[2].vector, slow[2].vector, atol=1e-7)
        assert loss.likelihood.mean(weights) == pytest.approx(general.mean(weights), rel=1e-9)


def test_a_single_improbable_path_has_probability_1():
    """Its weight would underflow after a few positions."""
    n = 8
    masks = [np.ones((n, 2), bool)]
    masks[0][-1, 0] = False
    model = LinearCRF(transitions=[[True, False], [True, True], [True, True]])
    loss, data = loss_of(model, ["a" * n, "ab"], [[1] * n, [1, 0]], allowed=[*masks, None])
    weights = data.layout.weights()
    weights.labels[0, 0] = 90.0, 0.0
    data.weights[1] = 0.0
    total, _, gradient = loss.likelihood.gradient(weights)
    assert total == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(gradient.vector, 0.0, atol=1e-9)


def _path(rng, follows, n):
    """A random label sequence that follows the rules."""
    labels = []
    for _ in range(n):
        previous = labels[-1] if labels else len(follows) - 1
        labels.append(int(rng.choice(np.flatnonzero(follows[previous]))))
    return np.array(labels)


# Weights of labels that attributes occur with


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_attributes_have_weights_for_the_labels_that_occur_with_them(pairs, l1):
    y = [*TAGS[:4], [None, "z"]]  # the attribute at an unknown label occurs with all of them
    crf = LinearCRF(
        window=(1, 2), transition_features=pairs, all_possible_states=False, tol=1e-9,
        l1_regularization=l1, l2_regularization=0.3,
    )  # fmt: skip
    _, data, _ = training_of(crf, WORDS, y)
    crf.fit(WORDS, y)
    observed = data.layout.weights()
    observed.transitions[:] = 1
    symbols = sorted(set("".join(WORDS)))
    for x, labels in zip(WORDS, y, strict=True):
        possible = ["xyz" if label is None else label for label in labels]
        for t, j in product(range(len(x)), range(4)):
            s = t + 2 - j  # the weights of an attribute start with the rightmost position
            a = symbols.index(x[s]) if 0 <= s < len(x) else len(symbols)
            for v in possible[t]:
                observed.labels[a, j, "xyz".index(v)] = 1
                for u in possible[t - 1] if pairs and t else "":
                    observed.pairs[a, j, "xyz".index(u), "xyz".index(v)] = 1
    is_free = observed.vector > 0
    assert 0 < is_free.mean() < 0.9
    assert not crf._weights.vector[~is_free].any()
    loss, _ = loss_of(crf, WORDS, y)
    value, gradient = loss(crf._weights.vector)
    assert crf.loss_ == pytest.approx(value + l1 * np.abs(crf._weights.vector).sum())
    at_zero = crf._weights.vector == 0
    assert (np.abs(gradient[is_free & at_zero]) <= l1 + 1e-3).all()
    slopes = gradient + l1 * np.sign(crf._weights.vector)
    np.testing.assert_allclose(slopes[is_free & ~at_zero], 0.0, atol=1e-2)
    # A further fit keeps the weights of the previous one.
    more = LinearCRF(all_possible_states=False, warm_start=True)
    more.fit(["ab", "ba"], ["xy", "yx"]).fit(["ab"], ["yx"])
    assert (more.state_weights_ != 0).all()


@pytest.mark.parametrize("pairs", [False, True])
def test_labels_that_are_missing_where_they_are_expected_have_weights(pairs):
    """x is never a label of a: expected 5 * 2 / 10 = 1 times; nor z of b: expected 5 / 10 times."""
    X, y = ["aaaaabbbbb"], ["yyyyzyyyxx"]
    crf = LinearCRF(transition_features=pairs, tol=1e-9).fit(X, y)
    weights = dict(zip("ab", crf.state_weights_, strict=True))
    assert (weights["a"] != 0).all()
    assert (weights["b"] != 0).tolist() == [True, True, False]
    if pairs:  # y after y is expected 5 * 5 / 10 times, all other pairs less than once
        by_pair = dict(zip("ab", crf.transition_feature_weights_ != 0, strict=True))
        assert by_pair["a"].tolist() == [[False] * 3, [False, True, True], [False] * 3]
        assert by_pair["b"].tolist() == [[True, False, False], [True, True, False],
                                         [False, True, False]]  # fmt: skip


def test_numbers_have_weights_for_all_labels():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 2)) for _ in range(3)]
    y = [rng.choice(["x", "y", "z"], 30, p=[0.49, 0.49, 0.02]) for _ in X]
    y[0][0] = "z"
    default, whole = (LinearCRF(all_possible_states=states).fit(X, y) for states in ("auto", True))
    assert_equal_arrays([default._weights.vector], [whole._weights.vector])


# Other objectives


@pytest.mark.parametrize("objective", ["exponential", "hamming_log", "hamming_exponential"])
def test_each_objective_is_optimized(objective, letters):
    settings = {"window": 1, "l2_regularization": 0.1, "tol": 1e-9}
    crf = LinearCRF(objective=objective, **settings).fit(*letters)
    loss, _ = loss_of(crf, *letters)
    assert crf.loss_ == pytest.approx(loss(crf._weights.vector)[0])
    assert crf.loss_ < loss(LinearCRF(**settings).fit(*letters)._weights.vector)[0]


def test_class_weight_needs_the_log_objective(letters):
    crf = LinearCRF(objective="hamming_log", class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight has no effect with objective='hamming_log'"):
        crf.fit(*letters)


# The optimum


@pytest.mark.parametrize("transition_features", [False, True])
def test_the_gradient_vanishes_at_the_optimum(transition_features, letters):
    model = LinearCRF(
        window=1, transition_features=transition_features, all_possible_states=True, tol=1e-12
    )
    crf = clone(model).fit(*letters)
    loss, _ = loss_of(model, *letters)
    value, gradient = loss(crf._weights.vector)
    assert crf.loss_ == pytest.approx(value, rel=1e-12)
    assert np.abs(gradient).max() < 2e-3
    assert (np.diff(crf.train_score_) != 0).all()
    assert len(crf.train_score_) == crf.n_iter_ + 1
    assert crf.train_score_[0] == pytest.approx(-np.log(3))
    n = sum(map(len, letters[1]))
    assert crf.train_score_[-1] == pytest.approx(crf.predict_log_likelihood(*letters).sum() / n)


@pytest.mark.parametrize("transition_features", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_l1_holds_weights_at_zero(transition_features, l2, letters):
    model = LinearCRF(window=1, l2_regularization=l2, transition_features=transition_features,
                      all_possible_states=True, tol=1e-11, max_iter=5000)  # fmt: skip
    crf = clone(model).set_params(l1_regularization=1.5).fit(*letters)
    loss, _ = loss_of(model, *letters)
    weights = crf._weights.vector
    value, gradient = loss(weights)
    assert crf.loss_ == pytest.approx(value + 1.5 * np.abs(weights).sum())
    free = weights != 0
    assert 0 < free.sum() < 0.6 * len(weights)
    assert (np.abs(gradient[~free]) <= 1.5 + 1e-3).all()
    np.testing.assert_allclose(gradient[free], -1.5 * np.sign(weights[free]), atol=2e-2)
    sparser = clone(crf).set_params(l1_regularization=5.0).fit(*letters)
    assert (sparser._weights.vector != 0).sum() < free.sum()


# Training


def test_a_warm_start_continues(letters):
    X, y = letters
    whole = LinearCRF(window=1, tol=1e-9).fit(X, y)
    parts = LinearCRF(window=1, max_iter=5, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        parts.fit(X, y)
    reached = parts.train_score_[-1]
    parts.set_params(max_iter=1000, tol=1e-9).fit(X, y)
    assert parts.train_score_[0] == reached
    assert parts.loss_ == pytest.approx(whole.loss_, rel=1e-7)
    again = copy.copy(parts).fit(X, y)
    assert again.n_iter_ < whole.n_iter_ / 2
    with pytest.raises(ValueError, match="attributes of kind 'window', which cannot change"):
        copy.copy(parts).set_params(attributes=conjunctions(X, y), window=0).fit(X, y)
    # Other sequences, with a label less and a letter more.
    parts.fit(["abe", "ba"], ["xyx", "yx"])
    assert parts.classes_.tolist() == ["x", "y", "z"]
    for name, value in (("window", 2), ("transition_features", True), ("min_count", 3)):
        with pytest.raises(ValueError, match=f"warm start: the model has {name}="):
            copy.copy(parts).set_params(**{name: value}).fit(X, y)


@pytest.mark.parametrize("transition_features", [False, True])
def test_sequences_have_the_mean_weight_of_their_labels(transition_features):
    X, y = ["abca", "bb", "ca", "abc"], ["xxxx", "yy", "xx", "xyy"]
    model = LinearCRF(window=1, transition_features=transition_features, tol=1e-10)
    weighted = clone(model).set_params(class_weight={"x": 3.0, "y": 1.0}).fit(X[:3], y[:3])
    repeated = clone(model).fit(X[:3] + 2 * [X[0], X[2]], y[:3] + 2 * [y[0], y[2]])
    assert weighted.loss_ == pytest.approx(repeated.loss_, rel=1e-8)
    np.testing.assert_allclose(weighted.state_weights_, repeated.state_weights_, atol=1e-4)
    # Likelihoods are reported without weights.
    log_p = weighted.predict_log_likelihood(X[:3], y[:3]).sum() / 8
    assert weighted.train_score_[-1] == pytest.approx(log_p)


def test_sequences_may_have_one_position():
    crf = LinearCRF(l2_regularization=0.01, tol=1e-10).fit(["a", "b", "a", "b"], ["x", "y"] * 2)
    assert "".join(np.concatenate(crf.predict(["a", "b"]))) == "xy"
    assert not crf.transition_weights_.any()
    with pytest.raises(ValueError, match="holds out 1 of 1 sequences, which leaves none"):
        LinearCRF(early_stopping=True).fit(["abc"], ["xyz"])


def test_a_window_with_attributes_is_refused(letters):
    with pytest.raises(ValueError, match="window=1 has no effect with attributes"):
        LinearCRF(window=1, attributes=conjunctions(*letters)).fit(*letters)


# Other attributes


def conjunctions(X, y):
    """Another source of attributes."""
    return flatten(TreeCRF(max_iter=2, init="zero", early_stopping=False).fit(X, y))


@pytest.mark.parametrize("order", [0, 1])
def test_conjunctions_of_trees_are_attributes(order, letters, tmp_path):
    """Training starts from the scores of the trees and improves on them."""
    X, y = letters
    settings = {"window": 1, "max_iter": 4, "max_leaf_nodes": 6, "l2_regularization": 1.0}
    trees = TreeCRF(order=order, init="zero", early_stopping=False, **settings)
    flat = flatten(trees.fit(X, y))
    given = {"attributes": flat, "transition_features": True, "l2_regularization": 0.01}
    crf = LinearCRF(**given).fit(X, y)
    assert crf.train_score_[0] == pytest.approx(trees.train_score_[-1], abs=1e-12)
    assert crf.train_score_[-1] > crf.train_score_[0]
    if order == 0:
        plain = LinearCRF(**given | {"transition_features": False}).fit(X, y)
        assert plain.train_score_[0] == pytest.approx(trees.train_score_[-1], abs=1e-12)
    assert crf.get_attribute_names().tolist() == flat.get_feature_names_out().tolist()
    crf.save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    assert_equal_arrays(crf.predict_proba(X), again.predict_proba(X))
    assert clone(again).fit(X, y).loss_ == pytest.approx(crf.loss_)


def test_conjunctions_of_other_labels_give_no_starting_weights(letters):
    X, y = letters
    flat = conjunctions(X, [labels.replace("z", "x") for labels in y])
    crf = LinearCRF(attributes=flat, transition_features=True).fit(X, y)
    assert crf.train_score_[0] == pytest.approx(-np.log(3))
    backward = {"direction": "right-to-left", "decoding": "marginal", "max_iter": 2}
    flat = flatten(RecurrentSlidingWindowClassifier(**backward).fit(X, y))
    assert LinearCRF(attributes=flat).fit(X, y).train_score_[0] == pytest.approx(-np.log(3))


# Comparison with CRFsuite


@pytest.mark.parametrize(
    ("c1", "c2", "is_whole"), [(0.0, 0.5, True), (0.7, 0.1, True), (0.0, 0.5, False)]
)
def test_the_loss_is_that_of_crfsuite(c1, c2, is_whole, letters, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = letters
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({
        "c1": c1, "c2": c2, "max_iterations": 5000, "epsilon": 1e-9, "delta": 1e-12,
        "feature.possible_states": is_whole, "feature.possible_transitions": True,
    })  # fmt: skip
    for x, labels in zip(X, y, strict=True):
        padded = f"|{x}|"
        items = [[f"-{padded[t]}", f"0{padded[t + 1]}", f"+{padded[t + 2]}"] + ["first"] * (t == 0)
                 for t in range(len(x))]  # fmt: skip
        trainer.append(items, list(labels))
    trainer.train(str(tmp_path / "model"))
    theirs = trainer.logparser.last_iteration["loss"]
    crf = LinearCRF(
        window=1, l1_regularization=c1, l2_regularization=c2, tol=1e-10, max_iter=5000,
        all_possible_states=is_whole,
    ).fit(X, y)  # fmt: skip
    assert crf.loss_ == pytest.approx(theirs, rel=1e-4)
