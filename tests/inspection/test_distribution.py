"""Scores, entropies and margins of label sequences, compared with a list of all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    HMMClassifier,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
)
from treecrf.inspection import sequence_entropy, sequence_margin, sequence_scores

FEW = {"max_iter": 3, "max_leaf_nodes": 6, "random_state": 0}
ZERO = {"init": "zero", "early_stopping": False, "window": 1, **FEW}
# No P after N, and none at the start.
RULES = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0]], dtype=bool)

CONSTANT = {
    "linear": LinearCRF(window=1, max_iter=20, tol=0.1),
    "linear, rules": LinearCRF(max_iter=20, transitions=RULES, tol=0.1),
    "perceptron": StructuredPerceptron(max_iter=3, random_state=0),
    "machine": StructuredSVM(max_iter=5, tol=0.5, random_state=0),
    "machine with a kernel": StructuredSVM(kernel="rbf", max_iter=5, tol=0.5, random_state=0),
    "boosted sequences": SequenceBoostingClassifier(max_iter=3),
    "Markov": HMMClassifier(),
    "Markov, order 0": HMMClassifier(order=0),
    "Markov, rules": HMMClassifier(transitions=RULES),
    "trees, order 0": TreeCRF(order=0, **ZERO),
    "trees, constant": TreeCRF(constant_transitions=True, **ZERO),
    "trees, constant, rules": TreeCRF(
        constant_transitions=True, transitions=RULES, **ZERO | {"init": "linear"}
    ),
    "windows": SlidingWindowClassifier(**FEW),
    "windows of a regression": SlidingWindowClassifier(LogisticRegression()),
}
BY_POSITION = {
    "linear, transition features": LinearCRF(transition_features=True, max_iter=20, tol=0.1),
    "trees": TreeCRF(**ZERO),
    "trees, defaults": TreeCRF(constant_transitions=False, random_state=0),
    "trees, rules": TreeCRF(transitions=RULES, **ZERO),
    "trees, order 2": TreeCRF(order=2, **ZERO),
    "trees, order 2, rules": TreeCRF(order=2, transitions=RULES, **ZERO),
    "trees, order 2, constant": TreeCRF(order=2, constant_transitions=True, **ZERO),
    "trees, order 3": TreeCRF(order=3, sampling=None, **ZERO),
    "Markov, order 2": HMMClassifier(order=2),
    "Markov, order 3": HMMClassifier(order=3),
    "local": TreeMEMM(**FEW),
    "local, order 2": TreeMEMM(order=2, **FEW),
    "local, rules": TreeMEMM(transitions=RULES, **FEW),
    "local, in a beam": TreeMEMM(decoding="beam", beam_width=2, **FEW),
    "recurrent": RecurrentSlidingWindowClassifier(order=2, **FEW),
    "recurrent, backward": RecurrentSlidingWindowClassifier(
        order=1, direction="right-to-left", **FEW
    ),
    "recurrent, order 2, backward": RecurrentSlidingWindowClassifier(
        order=2, direction="right-to-left", **FEW
    ),
    "recurrent, rules, backward": RecurrentSlidingWindowClassifier(
        order=1, direction="right-to-left", transitions=RULES, **FEW
    ),
    "future": FutureFeatureMEMM(bag_size=3, max_future_features=1, instance_max_iter=3, **FEW),
}
MODELS = CONSTANT | BY_POSITION


def with_rules(labels):
    joined = "".join(labels)
    return list(joined.replace("NP", "NM").removeprefix("P").rjust(len(joined), "M"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = [[str(label) for label in rng.choice(list("MNP"), n)] for n in (5, 4, 7, 9, 3, 12) * 3]
    y = [with_rules(labels) for labels in y]
    X = [[rng.choice(["a", "b", "c"]) if rng.random() < 0.6 else v.lower() for v in labels]
         for labels in y]  # fmt: skip
    return X, y


@pytest.fixture(scope="module")
def fitted(data):
    kept = {}

    def fitted(name):
        if name not in kept:
            kept[name] = MODELS[name].fit(*data)
        return kept[name]

    return fitted


def all_labels(model, n):
    return [list(labels) for labels in product(model.classes_.tolist(), repeat=n)]


def log_probabilities(model, x, **options):
    """Log-probabilities of all label sequences of x, which are conditional on the options."""
    every = all_labels(model, len(x))
    log_p = model.predict_log_likelihood([x] * len(every), every)
    for t, label in enumerate(options.get("known", [[None] * len(x)])[0]):
        if label is not None:
            log_p[[labels[t] != label for labels in every]] = -np.inf
    return every, log_p - np.logaddexp.reduce(log_p)


def score_of(model, scores, codes):
    """Add the scores of a label sequence, as documented."""
    order, transitions = max(1, model.order), scores.transitions
    is_backward = getattr(model, "direction", None) == "right-to-left"
    total = sum(scores.state[t, code] for t, code in enumerate(codes))
    # Labels beyond the ends are any.
    padded = [1] * order + list(codes) + [1] * order
    for t in range(len(codes) - 1):
        first = order + (t if is_backward else t + 1 - order)
        index = tuple(padded[first : first + order + 1])
        total += transitions[index] if transitions.ndim == 2 else transitions[t][index]
    return total


@pytest.mark.parametrize("known", [None, [["M", None, None, "N"]]], ids=["any", "known"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_label_sequences(name, known, fitted):
    model, x = fitted(name), list("mapb")
    options = {} if known is None else {"known": known}
    scores = sequence_scores(model, [x], **options)[0]
    assert scores.state.shape == (4, 3)
    axes = (3,) * (max(1, model.order) + 1)
    assert scores.transitions.shape == (axes if name in CONSTANT else (3, *axes))
    every, expected = log_probabilities(model, x, **options)
    codes = [np.searchsorted(model.classes_, labels) for labels in every]
    found = np.array([score_of(model, scores, path) for path in codes]) - scores.log_partition
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("known", [None, [["M", None, None, "N"]]], ids=["any", "known"])
@pytest.mark.parametrize("name", MODELS)
def test_entropies_and_margins_are_those_of_all_label_sequences(name, known, fitted):
    model, x = fitted(name), list("mapb")
    options = {} if known is None else {"known": known}
    _, log_p = log_probabilities(model, x, **options)
    present = log_p[log_p > -np.inf]
    expected = -(np.exp(present) * present).sum()
    found = sequence_entropy(model, [x], **options)
    np.testing.assert_allclose(found, [expected], atol=1e-9)
    second, best = np.sort(present)[-2:]
    found = sequence_margin(model, [x], **options)
    np.testing.assert_allclose(found, [best - second], atol=1e-8)


@pytest.mark.parametrize("name", ["linear", "trees", "trees, constant", "Markov", "windows"])
def test_short_and_empty_sequences_and_long_tables(name, fitted, data):
    model, (X, _) = fitted(name), data
    X = [X[0], [], X[1][:1], X[2]]
    entropies, margins = sequence_entropy(model, X), sequence_margin(model, X)
    assert entropies[1] == 0 and margins[1] == np.inf
    scores = sequence_scores(model, X)
    assert [len(of_one.state) for of_one in scores] == [len(x) for x in X]
    assert scores[1].log_partition == 0
    for i in (0, 2, 3):
        assert entropies[i] == pytest.approx(sequence_entropy(model, [X[i]])[0], abs=1e-12)
        alone = sequence_scores(model, [X[i]])[0]
        np.testing.assert_array_equal(scores[i].state, alone.state)
        np.testing.assert_array_equal(scores[i].transitions, alone.transitions)
    p = model.predict_proba([X[2]])[0][0]
    assert entropies[2] == pytest.approx(-(p * np.log(p)).sum())
    long, lengths = np.concatenate([X[0], X[2], X[3]]), [len(x) for x in X]
    assert sequence_entropy(model, long, lengths=lengths).tolist() == entropies.tolist()
    assert sequence_margin(model, long, lengths=lengths).tolist() == margins.tolist()


def test_columns_of_groups_and_scores_to_start_from():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": np.repeat([1, 2, 3], 4), "x": rng.normal(size=12)})
    frame["y"] = (frame.x > 0).map({True: "N", False: "M"})
    init = rng.normal(size=(12, 2))
    model = TreeCRF(**ZERO).fit(frame, "y", groups="g", init_score=init)
    scores = sequence_scores(model, frame, init_score=init)
    assert len(scores) == len(sequence_margin(model, frame, init_score=init)) == 3
    log_p = model.predict_log_likelihood(frame, frame.y, init_score=init)
    codes = np.split(np.searchsorted(model.classes_, frame.y), 3)
    pairs = zip(scores, codes, strict=True)
    found = [score_of(model, one, path) - one.log_partition for one, path in pairs]
    np.testing.assert_allclose(found, log_p, atol=1e-9)


def test_entropies_of_many_positions_and_large_scores(fitted):
    model = fitted("trees")
    flat = TreeCRF(max_iter=1, init="zero", learning_rate=1e-9, early_stopping=False)
    flat = flat.fit(["ab"], ["xy"])
    n = 20_000
    assert sequence_entropy(flat, ["ab" * n])[0] == pytest.approx(2 * n * np.log(2))
    x = list("mapb") * 1000
    entropy = sequence_entropy(model, [x], known=[["M"] * len(x)])
    assert entropy[0] == 0
    assert sequence_margin(model, [x], known=[["M"] * len(x)])[0] == np.inf


def test_threads_and_saved_models_have_the_same_entropies(fitted, data, tmp_path):
    model, (X, _) = fitted("trees, order 2"), data
    expected = sequence_entropy(model, X).tolist()
    model.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model").set_params(n_jobs=3)
    assert sequence_entropy(loaded, X).tolist() == expected
    assert sequence_entropy(treecrf.flatten(model), X) == pytest.approx(expected)


def test_beams_and_wrong_models_are_refused(data):
    beam = TreeCRF(order=2, beam_width=3, **ZERO).fit(*data)
    for function in (sequence_scores, sequence_entropy):
        with pytest.raises(ValueError, match=r"beam_width=3: .* need all contexts"):
            function(beam, [["a"]])
    assert (sequence_margin(beam, data[0]) >= 0).all()
    for function in (sequence_scores, sequence_entropy, sequence_margin):
        with pytest.raises(NotFittedError):
            function(TreeCRF(), [["a"]])
        with pytest.raises(TypeError, match="expected a fitted classifier of treecrf"):
            function(LogisticRegression(), [["a"]])
        with pytest.raises(ValueError, match="forbidden by transitions"):
            function(LinearCRF(transitions=RULES, tol=0.1).fit(*data), [["a"]], known=[["P"]])
