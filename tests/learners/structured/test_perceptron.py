"""The structured perceptron: lazily averaged weights are those of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from support.label_sequences import counts, enumerated, named_weights

from treecrf import StructuredPerceptron

WORDS = ["abca", "b", "ca", "bbcab", "ac", "cab"]
TAGS = ["xyzx", "y", "zz", "yxzxy", "xz", "yxy"]
VARIANTS = {
    "states": {},
    "windows": {"window": (2, 1)},
    "pairs": {"window": 1, "transition_features": True},
    "weighted": {"window": 1, "class_weight": {"x": 3.0, "y": 0.5}},
    "rules": {"window": 1, "transitions": [[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0]]},
}


def trained_plainly(model, X, y, n_epochs):
    """Weights after each sequence, by name; ties are broken as in Viterbi's algorithm."""
    features, every = (model.window, model.transition_features), enumerated(model, X, y)
    class_weight = model.class_weight or {}
    weights, history = {}, []
    for _ in range(n_epochs):
        for i, (word, labels) in enumerate(zip(X, y, strict=True)):
            scores = every.scores(weights)[i]
            best = np.flatnonzero(scores >= scores.max() - 1e-9)
            # The last label is decided first.
            found = min((every.sequences[i][k] for k in best), key=lambda path: path[::-1])
            step = np.mean([class_weight.get(label, 1.0) for label in labels])
            for path, sign in ((tuple(labels), step), (found, -step)):
                for name, count in counts(word, path, *features).items():
                    weights[name] = weights.get(name, 0.0) + sign * count
            history.append(dict(weights))
    return history


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_are_those_of_the_definition(variant, average):
    model = StructuredPerceptron(shuffle=False, max_iter=3, average=average, **VARIANTS[variant])
    y = TAGS if variant != "rules" else ["xyxx", "x", "yx", "yxzxy", "xz", "yxy"]
    model.fit(WORDS, y)
    history = trained_plainly(model, WORDS, y, model.n_iter_)
    assert model.n_iter_ == 3
    for name, weight in named_weights(model).items():
        values = [weights.get(name, 0.0) for weights in history]
        assert weight == pytest.approx(np.mean(values) if average else values[-1], abs=1e-9), name


def test_an_epoch_without_a_mistake_is_the_last(letters):
    X = ["".join(word) for word in letters[0]]
    y = [word.translate(str.maketrans("abcd", "xyzx")) for word in X]
    model = StructuredPerceptron(max_iter=100, random_state=0).fit(X, y)
    assert model.n_iter_ < 100
    assert model.train_accuracy_[-1] == 1
    assert (model.train_accuracy_[:-1] < 1).all()
    assert len(model.train_accuracy_) == model.n_iter_
    assert model.score(X, y) == 1


def test_orders_depend_on_the_seed(letters):
    X, y = letters
    one, same, other, plain = (
        StructuredPerceptron(window=1, **given).fit(X, y).state_weights_
        for given in ({"random_state": 0}, {"random_state": 0}, {"random_state": 1},
                      {"shuffle": False})
    )  # fmt: skip
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, plain)


def test_a_warm_start_continues(letters):
    X, y = letters
    settings = {"window": 1, "shuffle": False, "average": False}
    whole = StructuredPerceptron(max_iter=4, **settings).fit(X, y)
    parts = StructuredPerceptron(max_iter=2, warm_start=True, **settings).fit(X, y).fit(X, y)
    np.testing.assert_array_equal(whole.state_weights_, parts.state_weights_)
    np.testing.assert_array_equal(whole.train_accuracy_[2:], parts.train_accuracy_)


def test_verbose_shows_the_accuracy(letters, capfd):
    StructuredPerceptron(max_iter=2, verbose=1).fit(*letters)
    assert "accuracy" in capfd.readouterr().err
