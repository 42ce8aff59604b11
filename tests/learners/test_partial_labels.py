"""Training with unknown labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from support.family import NEWTON, TREES, assert_predicts_the_same, marked
from support.oracles import finite_difference_gradient
from support.settings import FIRST_ORDER
from support.training import loss_of

from treecrf import (
    FutureFeatureMEMM,
    HMMClassifier,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
    load,
)
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import make_objective
from treecrf.learners.linear.likelihoods import GeneralLikelihood

SUMMING = {
    "order 0": TreeCRF(order=0, **TREES),
    "order 1": TreeCRF(**TREES),
    "order 2": TreeCRF(order=2, **TREES),
    "Newton steps": TreeCRF(**NEWTON),
    "diagonal curvature": TreeCRF(curvature="diagonal", **NEWTON),
    "samples": TreeCRF(sampling=0.1, **TREES),
    "samples of order 2": TreeCRF(order=2, sampling=0.1, **NEWTON),
    "samples of an exponential": TreeCRF(objective="exponential", sampling=0.1, **TREES),
    "constant transitions": TreeCRF(constant_transitions=True, **TREES),
    "constant transitions, Newton steps": TreeCRF(order=2, constant_transitions=True, **NEWTON),
    "single labels": TreeCRF(objective="hamming_log", **TREES),
    "single labels, exponential": TreeCRF(objective="hamming_exponential", order=2, **TREES),
    "single labels on samples": TreeCRF(objective="hamming_log", sampling=0.1, **TREES),
    "linear, single labels": LinearCRF(objective="hamming_log", tol=1e-3),
    "linear start": TreeCRF(init="linear", **TREES),
    "linear": LinearCRF(window=(1, 0), tol=1e-8),
    "linear, exponential": LinearCRF(objective="exponential"),
    "linear, sparse": LinearCRF(window=1, l1_regularization=0.1),
    "linear, transition features": LinearCRF(window=1, transition_features=True),
    "linear, gradient steps": LinearCRF(window=1, solver="sgd", max_iter=8, random_state=0),
    "exponential": TreeCRF(objective="exponential", **TREES),
}
summing = pytest.mark.parametrize(
    "name",
    marked(SUMMING, SUMMING.keys() - {"order 0", "order 1", "samples", "exponential",
                                      "linear, sparse", "constant transitions",
                                      "single labels on samples"}),
)  # fmt: skip


def hide(y, rng, share=0.5):
    """Replace labels by None, and some by sets; at least one of each sequence stays known."""

    def unknown(label):
        other = rng.choice([v for v in "xyz" if v != label])
        return None if rng.random() < 0.5 else {label, str(other)}

    hidden = []
    for labels in y:
        goes = rng.random(len(labels)) < share
        goes[rng.integers(len(labels))] = False
        both = zip(labels, goes, strict=True)
        hidden.append([unknown(label) if gone else label for label, gone in both])
    return hidden


@pytest.fixture
def hidden(letters):
    X, y = letters
    return X, hide(y, np.random.default_rng(0))


@summing
def test_known_labels_in_other_forms_train_the_same_model(name, letters):
    X, y = letters
    sets = [[{label} if t % 2 else label for t, label in enumerate(labels)] for labels in y]
    one, other = (clone(SUMMING[name]).fit(X, labels) for labels in (y, sets))
    np.testing.assert_array_equal(one.train_score_, other.train_score_)
    assert_predicts_the_same(one, other, X)


@summing
def test_scores_are_likelihoods_of_the_known_labels(name, hidden):
    X, y = hidden
    model = clone(SUMMING[name]).set_params(scoring="loss").fit(X, y, X[:9], y[:9])
    if "exponential" in name or "single" in name:
        return
    for scores, n in (model.train_score_, len(X)), (model.validation_score_, 9):
        assert scores[-1] > scores[0]
        n_positions = sum(map(len, X[:n]))
        expected = model.predict_log_likelihood(X[:n], y[:n]).sum() / n_positions
        assert scores[-1] == pytest.approx(expected, abs=1e-12)


@summing
def test_sequences_without_known_labels_change_nothing(name, hidden):
    X, y = hidden
    more = [*y, None, [None] * 3, [{"x", "y", "z"}] * 2]
    one = clone(SUMMING[name]).fit(X, y)
    other = clone(SUMMING[name]).fit([*X, "abc", "bcd", "ab"], more)
    np.testing.assert_array_equal(one.train_score_, other.train_score_)
    assert_predicts_the_same(one, other, X)


def test_one_label_stands_for_half_of_a_context():
    """In first order, constant transitions are means over the positions of a context."""
    X, y = ["ab"] * 4, [["x", "x"], [None, "y"], ["y", "y"], ["x", "y"]]
    settings = FIRST_ORDER | {"max_iter": 1, "l2_regularization": 0.0, "learning_rate": 0.2}
    model = TreeCRF(constant_transitions=True, **settings).fit(X, y)
    steps = 2.0**-20 * model._forest.transitions[0][1]
    # All four pairs of labels have the probability 1/4 at first, (x, y) and (y, y) 1/2 if only
    # the second label is known.
    residuals = np.array([[1 - 1, 0 - 1], [1.5 - 1, 1.5 - 1]])
    np.testing.assert_allclose(steps, 0.2 * residuals / [2.5, 1.5], atol=1e-5)


def test_without_neighbors_unknown_labels_have_weight_0(hidden):
    X, y = hidden
    y = [[None if isinstance(v, set) else v for v in labels] for labels in y]
    filled = [["x" if v is None else v for v in labels] for labels in y]
    weights = [np.array([v is not None for v in labels], dtype=float) for labels in y]
    for second_order in (False, True):
        model = TreeCRF(order=0, **TREES | {"second_order": second_order})
        one = clone(model).fit(X, y)
        other = clone(model).fit(X, filled, sample_weight=weights)
        assert_predicts_the_same(one, other, X)


def test_labels_that_are_only_possible_are_classes():
    model = TreeCRF(max_iter=3).fit(["ab", "ba"], [["x", {"x", "y"}], [None, {"y", "z"}]])
    assert model.classes_.tolist() == ["x", "y", "z"]


def test_allowed_labels_restrict_both_sums(letters):
    """Where only the true label and one more are allowed, an unknown label is one of the two."""
    X, y = ["ab", "ab"], [["x", None], ["x", "y"]]
    allowed = [np.array([[1, 1, 1], [1, 1, 0]]), None]
    model = TreeCRF(max_iter=3, l2_regularization=1.0)
    one = clone(model).fit([*X, "c"], [*y, "z"], allowed=[*allowed, None])
    pairs = [["x", {"x", "y"}], ["x", "y"], ["z"]]
    other = clone(model).fit([*X, "c"], pairs, allowed=[*allowed, None])
    np.testing.assert_array_equal(one.train_score_, other.train_score_)
    free = clone(model).fit([*X, "c"], pairs)
    # Without masks, the denominators sum over all labels.
    assert free.train_score_[0] < one.train_score_[0]


def test_unknown_labels_follow_the_transitions():
    """Between O and O, the only possible label under the rules for tags is not I."""
    X, y = ["aba", "cbc", "ab"], [["O", None, "O"], ["B", "I", "O"], ["B", None]]
    model = TreeCRF(transitions="bio", max_iter=5).fit(X, y)
    assert np.isfinite(model.train_score_).all()
    log_p = model.predict_log_likelihood(["ab", "ab"], [["O", "I"], ["O", {"I"}]])
    np.testing.assert_array_equal(log_p, [-np.inf, -np.inf])
    log_p = model.predict_log_likelihood(["ab", "ab"], [["O", {"I", "B"}], ["O", "B"]])
    assert log_p[0] == pytest.approx(log_p[1])
    follows = [[False, True], [True, False]]
    with pytest.raises(
        ValueError, match="sequence 1, position 2: 'y' after 'y' is forbidden by tr"
    ):
        TreeCRF(transitions=follows).fit(["ab", "aba"], ["xy", ["x", None, "y"]])


def test_class_weights_of_unknown_labels_are_1(hidden):
    X, y = hidden
    plain = TreeCRF(**TREES).fit(X, y)
    ones = TreeCRF(class_weight={"x": 1, "y": 1, "z": 1}, **TREES).fit(X, y)
    np.testing.assert_array_equal(plain.train_score_, ones.train_score_)
    balanced = TreeCRF(class_weight="balanced", **TREES).fit(X, y)
    counts = np.array([sum(labels.count(label) for labels in y) for label in "xyz"])
    weights = dict(zip("xyz", counts.sum() / (3 * counts), strict=True))
    weighted = TreeCRF(class_weight=weights, **TREES).fit(X, y)
    np.testing.assert_array_equal(balanced.train_score_, weighted.train_score_)
    assert balanced.train_score_[-1] != plain.train_score_[-1]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TreeCRF(beam_width=5), "beam_width=5 needs all labels in training; expected None"),
        (TreeCRF(init="pseudo_likelihood"), "init='pseudo_likelihood' needs all labels in train"),
        (StructuredPerceptron(), "StructuredPerceptron needs all labels in training"),
    ],
)
def test_refusals(model, message, letters):
    X, y = letters
    unknown = [*y[:3], [*y[3][:2], None, *y[3][3:]], *y[4:]]
    with pytest.raises(
        ValueError, match=f"^sequence 3, position 2: the label is unknown; {message}"
    ):
        clone(model).fit(X, unknown)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("class_weight", [None, {"x": 3.0}])
def test_gradients_of_linear_models_are_slopes(class_weight, allowed, hidden):
    X, y = hidden
    X, y = [*X[:5], "a", "ab"], [*y[:5], ["x"], [None, "y"]]
    rng = np.random.default_rng(0)
    model = LinearCRF(window=1, class_weight=class_weight, transitions=rng.random((4, 3)) < 2)
    masks = None
    if allowed:
        masks = [(rng.random((len(word), 3)) < 0.5) for word in X]
        for mask, labels in zip(masks, y, strict=True):
            for row, label in zip(mask, labels, strict=True):
                row["xyz".index(min(label or "x"))] = True
    loss, data = loss_of(model, X, y, allowed=masks)
    chains = ChainLabels(
        data.offsets, data.codes, 3, 1, data.constraints, data.candidates, data.repeated_weights()
    )
    of_tables = GeneralLikelihood(data, make_objective("log", chains, data.threads))
    weights = data.layout.weights(rng.normal(size=data.layout.size))
    total, mean, gradient = loss.likelihood.gradient(weights)
    same_total, same_mean, same_gradient = of_tables.gradient(weights)
    np.testing.assert_allclose([total, mean], [same_total, same_mean], rtol=1e-10)
    np.testing.assert_allclose(gradient.vector, same_gradient.vector, atol=1e-7)
    slopes = finite_difference_gradient(
        lambda vector: loss.likelihood.gradient(data.layout.weights(vector))[0], weights.vector
    )
    np.testing.assert_allclose(gradient.vector, slopes, atol=1e-6)


# Prediction


@pytest.mark.parametrize(
    "model",
    [
        *(TreeCRF(order=order, **TREES) for order in range(3)),
        *(TreeMEMM(order=order, **TREES) for order in range(3)),
        *(HMMClassifier(order=order) for order in range(3)),
        RecurrentSlidingWindowClassifier(direction="right-to-left", **TREES),
    ],
)
def test_log_likelihood_sums_over_all_labels(model, letters):
    model = clone(model).fit(*letters)
    log_p = model.predict_log_likelihood(["abc"] * 3, ["xxz", "xyz", "xzz"])
    found = model.predict_log_likelihood(
        ["abc"] * 4, [["x", None, "z"], ["x", {"x", "z"}, "z"], None, ["x", float("nan"), {"z"}]]
    )
    sums = np.logaddexp.reduce(log_p), np.logaddexp(log_p[0], log_p[2])
    np.testing.assert_allclose(found, [*sums, 0.0, sums[0]], atol=1e-12)


def test_log_likelihood_in_a_beam_needs_all_labels(letters):
    model = TreeCRF(beam_width=3, **TREES).fit(*letters)
    with pytest.raises(ValueError, match="beam_width=3: labels in y are unknown"):
        model.predict_log_likelihood(["ab"], [["x", None]])


def test_score_ignores_unknown_labels(trained):
    word = "abab"
    labels = trained.predict([word])[0].tolist()
    assert trained.score([word], [[*labels[:2], None, {"x", "y"}]]) == 1
    assert trained.score([word, "a"], [[*labels[:3], "?"], None]) == 0.75
    with pytest.raises(ValueError, match="y holds no known labels"):
        trained.score([word], [[None] * 4])


# Local models and counting


LOCAL = {
    "MEMM": TreeMEMM(**TREES),
    "MEMM of order 2": TreeMEMM(order=2, **NEWTON),
    "MEMM on samples": TreeMEMM(sampling=0.1, **TREES),
    "sliding window": SlidingWindowClassifier(**TREES),
    "recurrent window, backward": RecurrentSlidingWindowClassifier(
        direction="right-to-left", **TREES
    ),
    "future features": FutureFeatureMEMM(
        bag_size=2,
        max_future_features=1,
        max_iter=3,
        instance_max_iter=3,
        early_stopping=False,
        random_state=0,
    ),
}


def are_known(labels, order, backward):
    """Whether each label and the labels before it are known."""
    labels = labels[::-1] if backward else labels
    known = [isinstance(label, str) for label in labels]
    found = [all(known[max(0, t - order) : t + 1]) for t in range(len(labels))]
    return np.array(found[::-1] if backward else found)


@pytest.mark.parametrize("name", LOCAL)
def test_local_models_leave_out_unknown_labels(name, letters):
    X, y = letters
    model, unknown = LOCAL[name], hide(y, np.random.default_rng(0), 0.3)
    backward = "backward" in name
    weights = [are_known(labels, model.order, backward).astype(float) for labels in unknown]
    expected = clone(model).fit(X, y, sample_weight=weights)
    found = clone(model).fit([*X, "ab"], [*unknown, None])
    np.testing.assert_array_equal(found.train_score_, expected.train_score_)
    assert_predicts_the_same(found, expected, X)


def test_refitting_to_all_sequences_with_unknown_labels(letters):
    X, y = letters
    unknown = hide(y, np.random.default_rng(0), 0.3)
    settings = {"bag_size": 2, "max_future_features": 1, "max_iter": 3, "instance_max_iter": 3,
                "random_state": 0}  # fmt: skip
    model = FutureFeatureMEMM(early_stopping=True, refit=True, **settings)
    weights = [are_known(labels, 1, False).astype(float) for labels in unknown]
    expected = clone(model).fit(X, y, X[:5], y[:5], sample_weight=weights)
    found = clone(model).fit(X, unknown, X[:5], y[:5])
    assert_predicts_the_same(found, expected, X)
    found = clone(model).fit(X, y, X[:5], unknown[:5])
    expected = clone(model).fit(X, y, X[:5], y[:5], sample_weight_val=weights[:5])
    assert_predicts_the_same(found, expected, X)


@pytest.mark.parametrize("order", [0, 2])
def test_wrapped_estimators_leave_out_unknown_labels(order, letters):
    X, y = letters
    unknown = hide(y, np.random.default_rng(0), 0.3)
    model = RecurrentSlidingWindowClassifier(
        DecisionTreeClassifier(random_state=0), order=order, window=1, decoding="marginal"
    )
    found = clone(model).fit(X, unknown)
    weights = [are_known(labels, order, False) for labels in unknown]
    n_rows = int(sum(map(sum, weights)))
    assert found.estimator_.tree_.n_node_samples[0] == n_rows
    with pytest.raises(ValueError, match="label 'y' occurs at no position whose label"):
        clone(model).fit(["ab"], [["x", {"x", "y"}]])


@pytest.mark.parametrize(
    "model",
    [TreeCRF(**TREES), LinearCRF(), TreeMEMM(max_iter=2), HMMClassifier(), StructuredPerceptron()],
    ids=lambda model: type(model).__name__,
)
def test_a_model_knows_how_many_labels_were_unknown(model, letters, tmp_path):
    X, y = letters
    complete = clone(model).fit(X, y)
    assert complete._n_unlabeled == 0
    y = [[None if t == 1 else label for t, label in enumerate(labels)] for labels in y]
    if isinstance(model, StructuredPerceptron):
        with pytest.raises(ValueError, match="label"):
            complete.fit(X, y)
        assert complete._n_unlabeled == 0
        return
    complete.fit(X, y)
    assert complete._n_unlabeled == len(X)
    complete.save(tmp_path / "model")
    assert load(tmp_path / "model")._n_unlabeled == len(X)
    assert complete.fit(*letters)._n_unlabeled == 0


def test_hmm_counts_known_labels():
    X, y = ["aab", "ba"], [["x", None, "y"], [{"x", "y"}, "y"]]
    model = HMMClassifier().fit([*X, "b"], [*y, None])
    start, steps = np.exp(model.transition_log_prob_[0]), np.exp(model.transition_log_prob_[1])
    np.testing.assert_allclose(start, [2 / 3, 1 / 3])
    np.testing.assert_allclose(steps, [[1 / 2, 1 / 2], [1 / 2, 1 / 2]])
    # For x: a once. For y: b and a once. One more symbol stands for all that are unseen.
    emissions = [[2 / 4, 1 / 4, 1 / 4], [2 / 5, 2 / 5, 1 / 5]]
    np.testing.assert_allclose(np.exp(model.emission_log_prob_), emissions)
    weighted = HMMClassifier().fit(X, y, sample_weight=[1.0, 3.0])
    expected = [[2 / 4, 1 / 4, 1 / 4], [4 / 7, 2 / 7, 1 / 7]]
    np.testing.assert_allclose(np.exp(weighted.emission_log_prob_), expected)
