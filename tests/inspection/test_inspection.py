"""Inspection of models: gains, trees, rules, scores, likelihoods."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from support.cases import random_sequences
from support.family import COUNTED, ESTIMATED, FAMILY, GROWN, every, value_of
from support.settings import FIXED

from treecrf import HMMClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.chains.contexts import previous_labels
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import reversed_positions
from treecrf.inspection import (
    export_graphviz,
    export_text,
    gain_importance,
    likelihood_curve,
    strongest_rules,
    transition_scores,
)
from treecrf.inspection.fitted import FittedTrees
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.threads import Threads

READERS = {
    "gain_importance": gain_importance,
    "export_text": export_text,
    "export_graphviz": export_graphviz,
    "strongest_rules": strongest_rules,
    "likelihood_curve": likelihood_curve,
}


def codes_of(y, classes):
    return encode_labels([np.array(list(labels)) for labels in y], classes)


# Gain


@every(GROWN)
def test_gains_add_up_to_the_importances(name, fitted):
    model = fitted(name)
    found, by_label = gain_importance(model), gain_importance(model, per_label=True)
    assert found.offsets.tolist() == [-1, 0]
    total = found.importances.sum(axis=1) + found.in_bags
    np.testing.assert_allclose(total, model.feature_importances_)
    for part in ("importances", "in_bags", "outside", "labels_before"):
        assert by_label[part].shape == (3, *found[part].shape)
        np.testing.assert_allclose(by_label[part].sum(axis=0), found[part])
    assert found.feature_names.tolist() == ["symbol"]
    assert found.labels.tolist() == list("xyz")


@every(GROWN)
def test_gains_are_those_of_the_nodes(name, fitted):
    """The nodes are compared one by one, by their descriptions."""
    model = fitted(name)
    grown, found = FittedTrees.of(model), gain_importance(model, per_label=True)
    expected: dict = {}
    for k, tree in enumerate(grown.forest.trees):
        for i in np.flatnonzero(tree["true_child"] >= 0):
            test = grown.name_of_test(*(int(tree[f][i]) for f in ("column", "offset", "value")))
            key = k % 3, test.split(" ")[0]
            expected[key] = expected.get(key, 0.0) + tree["gain"][i]
    own = [v for (_, what), v in expected.items() if what.startswith(("symbol", "future"))]
    for label in range(3):
        for j, place in enumerate(("[-1]", "[0]")):
            share = expected.get((label, f"symbol{place}"), 0.0) / sum(own)
            assert found.importances[label, 0, j] == pytest.approx(share)
        outside = expected.get((label, "outside[-1]"), 0.0) / sum(own)
        assert found.outside[label].tolist() == pytest.approx([outside, 0.0])
        side = "+" if grown.backward else "-"
        before = [expected.get((label, f"label[{side}{lag}]"), 0.0) / sum(own) for lag in (1, 2)]
        assert found.labels_before[label].tolist() == pytest.approx(before[: grown.forest.order])


def test_indicators_of_missing_values_belong_to_their_features():
    rng = np.random.default_rng(0)
    X = [rng.random((9, 3)) for _ in range(20)]
    y = [np.where(rng.random(9) < 0.5, 0, 1) for _ in X]
    for table, labels in zip(X, y, strict=True):
        table[labels == 1, 1] = np.nan
    model = TreeCRF(missing="indicator", window=1, max_iter=3, init="zero").fit(X, y)
    found = gain_importance(model)
    assert found.importances.shape == (3, 3)
    np.testing.assert_allclose(found.importances.sum(axis=1), model.feature_importances_)
    assert found.importances[1, 1] > 0.9


def test_gains_without_tests_of_features():
    crf = TreeCRF(window=0, max_iter=2, init="zero", l2_regularization=1.0, **FIXED)
    crf.fit(["aaaaaa"] * 3, ["cvcvcv"] * 3)
    found = gain_importance(crf)
    assert not found.importances.any() and not found.outside.any()
    assert found.labels_before.tolist() == pytest.approx([1.0])


def test_a_model_that_never_splits_has_no_gains():
    model = TreeCRF(min_gain=1e9, max_iter=2).fit(["ab"], ["xy"])
    assert gain_importance(model).importances.tolist() == [[0.0]]


# Trees


@every(GROWN)
def test_text_shows_every_node(name, fitted):
    """Read back from the text, the tree is the model's."""
    model = fitted(name)
    grown = FittedTrees.of(model)
    for iteration in range(grown.forest.n_iter):
        for k, label in enumerate("xyz"):
            text = export_text(model, iteration, label, decimals=9)
            tree = grown.forest.trees[3 * iteration + k]
            title, *lines = text.splitlines()
            assert title == f"{label!r}, iteration {iteration}"
            assert lines == list(described(grown, tree, 0, "", 1.0))
    last = grown.forest.n_iter - 1
    assert export_text(model, -1).startswith(f"'x', iteration {last}\n")
    assert re.findall(r"'(.)', iteration", export_text(model, 0)) == ["x", "y", "z"]


def described(grown, tree, i, space, fraction):
    """The lines that describe a node, by a simple implementation."""
    numbers = (tree["weight"][i], 100 * fraction)
    weight, percent = (np.format_float_positional(x, 9, trim="-") for x in numbers)
    if tree["true_child"][i] < 0:
        yield f"{space}|--- {tree['leaf'][i]:+.9f} (weight {weight}, {percent}%)"
        return
    share = tree["share"][i]
    test = grown.name_of_test(*(int(tree[name][i]) for name in ("column", "offset", "value")))
    yield f"{space}|--- {test} (gain {tree['gain'][i]:.9f})"
    yield from described(grown, tree, tree["true_child"][i], space + "|   ", fraction * share)
    yield f"{space}|--- not {test}"
    rest = fraction * (1 - share)
    yield from described(grown, tree, tree["false_child"][i], space + "|   ", rest)


def test_deep_nodes_are_counted(trained):
    full, short = export_text(trained, 0, "x"), export_text(trained, 0, "x", max_depth=1)
    counts = re.findall(r"\.\.\. (\d+) leaves", short)
    leaves = full.count("weight")
    assert sum(map(int, counts)) + short.count("weight") == leaves > 2
    assert max(line.count("|") for line in short.splitlines()) == 2
    assert export_text(trained, 0, "x", max_depth=0).endswith(f"|--- ... {leaves} leaves")


def test_routing_of_missing_values_is_shown():
    rng = np.random.default_rng(0)
    X = [rng.random((9, 2)) for _ in range(30)]
    y = [(table[:, 0] > 0.3).astype(int) for table in X]
    for table in X:
        table[:, 1] = table[:, 0] + 0.5 * table[:, 1]
        table[rng.random(9) < 0.1, 0] = np.nan
    stump = {"max_iter": 1, "max_leaf_nodes": 2, "order": 0}
    text = export_text(TreeCRF(missing="weighting", **stump).fit(X, y), 0, 1)
    percents = [float(percent) for percent in re.findall(r"missing: ([\d.]+)%", text)]
    assert len(percents) == 2 and sum(percents) == 100
    text = export_text(TreeCRF(missing="surrogate", **stump).fit(X, y), 0, 1)
    assert re.search(r"x0 > 0\.\d+ \(gain .*; missing: as x1 > 0\.\d+, else here\)", text)
    assert "missing" not in export_text(TreeCRF(missing="impute", **stump).fit(X, y), 0, 1)


@every(GROWN)
def test_graphviz_has_every_node_and_branch(name, fitted):
    model = fitted(name)
    tree = FittedTrees.of(model).forest.trees[1]
    text = export_graphviz(model, 0, "y")
    nodes = dict(re.findall(r'^  (\d+) \[label="(.*)"\]$', text, re.MULTILINE))
    edges = re.findall(r'^  (\d+) -> (\d+) \[label="(yes|no)"\]$', text, re.MULTILINE)
    assert len(nodes) == len(tree["leaf"])
    children = {(i, word): j for i, j, word in edges}
    for i, (passed, failed) in enumerate(zip(tree["true_child"], tree["false_child"], strict=True)):
        if passed < 0:
            assert nodes[str(i)].startswith(f"{tree['leaf'][i]:+.3f}\\nweight ")
        else:
            assert children[str(i), "yes"] == str(passed)
            assert children[str(i), "no"] == str(failed)
    assert len(edges) == len(nodes) - 1


def test_graphviz_gets_names_with_quotes():
    X = [['a"b', "c\\d"]] * 9
    model = TreeCRF(order=0, max_iter=1).fit(X, ["xy"] * 9)
    assert "symbol is 'a\\\"b'" in export_graphviz(model)
    model = TreeCRF(order=0, max_iter=1).fit([["c\\d", "e"]] * 9, ["xy"] * 9)
    assert "symbol is 'c\\\\\\\\d'" in export_graphviz(model)  # as Python writes it, and quoted


# Rules


class Around:
    """Values around a position, as conditions access them."""

    def __init__(self, items, t, beyond):
        self.items, self.t, self.beyond = items, t, beyond

    def __getitem__(self, offset):
        inside = 0 <= self.t + offset < len(self.items)
        return self.items[self.t + offset] if inside else self.beyond


def holds(condition, word, labels, t, future) -> bool:
    """Whether a condition holds, by running its text."""
    text = condition.replace(" is ", " == ").replace("anything", "True")
    names = {
        "symbol": Around(word, t, ""),
        "label": Around(labels, t, "none"),
        "outside": Around([False] * len(word), t, True),
        "none": "none",
        **{f"future{k}": Around(column, t, None) for k, column in enumerate(future)},
    }
    return eval(text, {}, names)


def future_of(model, words):
    if not hasattr(model, "future_values"):
        return [[] for _ in words]
    return [values[..., 1].T for values in model.future_values(words)]


@every(GROWN)
def test_the_values_of_rules_that_hold_are_the_score(name, fitted, letters):
    """Given the true labels before a position, or after it if the model reads from the right."""
    model = fitted(name)
    words, y = (part[:3] for part in letters)
    rules = strongest_rules(model, n_rules=10**6)
    assert all(abs(a.value) >= abs(b.value) for a, b in pairwise(rules))
    for word, labels, future in zip(words, y, future_of(model, words), strict=True):
        scores = true_scores(model, word, labels)
        for t in range(len(word)):
            found = dict.fromkeys("xyz", 0.0)
            for rule in rules:
                if holds(rule.condition, word, labels, t, future):
                    found[rule.label] += rule.value
            np.testing.assert_allclose([*found.values()], scores[:, t], atol=1e-9)


def true_scores(model, word, labels):
    """Scores of all labels at each position, given the true ones around it."""
    grown = FittedTrees.of(model)
    sequences, _ = fitted_model(model).predictor.read([word])
    codes = codes_of([labels], model.classes_)
    indices = reversed_positions(sequences.offsets) if grown.backward else np.arange(len(codes))
    given = previous_labels(codes[indices], sequences.offsets, 3, grown.forest.order)
    encoded = grown.encoder.encode(sequences)
    with Threads(None) as threads:
        scores = grown.forest.scores(grown.encoder, encoded, threads, given=given)
    return scores[:, indices, 0]


@every(GROWN)
def test_coverage_of_rules(name, fitted, letters):
    model = fitted(name)
    words, y = (part[:10] for part in letters)
    own, futures = ["".join(labels) for labels in model.predict(words)], future_of(model, words)
    for given, labels in ((y, y), (None, own)):
        rules = strongest_rules(model, words, given, n_rules=40)
        for rule in rules:
            found = [
                holds(rule.condition, word, tags, t, future)
                for word, tags, future in zip(words, labels, futures, strict=True)
                for t in range(len(word))
            ]
            assert rule.share == pytest.approx(np.mean(found))
        assert any(0 < rule.share < 1 for rule in rules)
        assert str(rules[0]).endswith(f"({rules[0].share:.1%} of positions)")


def test_rules_of_one_label(trained):
    every_rule = strongest_rules(trained, n_rules=10**6)
    own = strongest_rules(trained, n_rules=10**6, label="y")
    assert own == [rule for rule in every_rule if rule.label == "y"]
    assert strongest_rules(trained, n_rules=3, label="y") == own[:3]
    assert str(own[0]) == f"{own[0].value:+.3f} for 'y' if {own[0].condition}"
    assert own[0].share is None


def test_labels_before_are_distinguished(fitted):
    rules = strongest_rules(fitted("CRF of order 2"), n_rules=10**6)
    assert {len(rule.labels_before) for rule in rules} == {2}
    for rule in rules:
        assert ("label[-1]" in rule.condition) == (rule.labels_before[0] is not None)
    found = {rule.labels_before[0]: rule.condition for rule in rules if rule.labels_before[0]}
    assert "label[-1] is 'x'" in found[("x",)]
    assert "not label[-1] is 'x'" in found[("y", "z", None)]


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
def test_rules_do_not_hold_where_values_are_missing(missing):
    rng = np.random.default_rng(0)
    X = [rng.random((9, 1)) for _ in range(30)]
    y = [(table[:, 0] > 0.5).astype(int) for table in X]
    model = TreeCRF(order=0, missing=missing, max_iter=1, max_leaf_nodes=2).fit(X, y)
    X = [np.array([[0.1], [np.nan], [0.9], [0.8], [np.nan]])]
    rules = strongest_rules(model, X)
    assert {rule.condition[:3]: rule.share for rule in rules} == {"not": 0.2, "x0 ": 0.4}


def test_long_tables_and_numbers_as_labels(tables):
    X, y = tables
    model = TreeCRF(max_iter=3, init="zero").fit(X, y)
    lengths = [len(labels) for labels in y]
    parts = strongest_rules(model, X, y)
    assert parts == strongest_rules(model, np.concatenate(X), np.concatenate(y), lengths=lengths)
    assert {type(rule.label) for rule in parts} == {int}
    one = strongest_rules(model, label=np.int64(1))
    assert {rule.label for rule in one} == {1}
    assert export_text(model, 0, 2).startswith("2, iteration 0\n")


# Scores


@every(COUNTED)
def test_transition_scores_of_counts(name, fitted, letters):
    model, words = fitted(name), letters[0]
    order = model.order
    found = transition_scores(model, words)
    symbols = [model.symbols_.searchsorted(list(word)) for word in words]
    late = np.concatenate([word[order:] for word in symbols])
    first = np.array([word[0] for word in symbols])
    emissions = model.emission_log_prob_
    expected = model.transition_log_prob_[order] + emissions[:, late].mean(axis=1)
    np.testing.assert_allclose(found.scores, expected)
    if order:
        start = model.transition_log_prob_[0] + emissions[:, first].mean(axis=1)
        np.testing.assert_allclose(found.start, start)
    else:
        assert np.isnan(found.start).all()


@every(GROWN)
def test_transition_scores_of_trees(name, fitted, letters, monkeypatch):
    """The trees score each context separately; scores of local models are log-probabilities."""
    model, words = fitted(name), letters[0]
    monkeypatch.setattr("treecrf.inspection.scores.MAX_BYTES", 999)  # in several parts
    found = transition_scores(model, words)
    order, backward = fitted_model(model).chain.order, fitted_model(model).chain.is_backward
    assert found.scores.shape == (3,) * (order + 1)
    sequences = fitted_model(model).predictor.read(words)[0]
    indices = np.concatenate([np.arange(n) for n in np.diff(sequences.offsets)])
    encoded = model._encoder.encode(sequences)

    def mean(labels, chosen):
        given = np.repeat(np.array(labels, np.uint8)[:, None], len(indices), axis=1)
        with Threads(None) as threads:
            scores = model._forest.scores(model._encoder, encoded, threads, given=given)[:, :, 0]
        scores = scores if isinstance(model, TreeCRF) else log_softmax(scores, axis=0)
        return scores[:, chosen].mean(axis=1)

    for context in np.ndindex(*(3,) * order):
        expected = mean(context[::-1], indices >= order)
        np.testing.assert_allclose(found.scores[context], expected, atol=1e-9)
    if order:
        np.testing.assert_allclose(found.start, mean([3] * order, indices == 0), atol=1e-9)
    assert found.backward == backward


@every(ESTIMATED)
def test_transition_scores_around_estimators(name, fitted, letters):
    """The mean of log P, which predictions show where sequences are short enough."""
    model = fitted(name)
    order = fitted_model(model).chain.order
    words = [word[: order + 1] for word in letters[0]]
    found = transition_scores(model, words)
    assert (found.scores <= 0).all()
    marginals = np.mean([p[-1 if order == 0 else 0] for p in model.predict_proba(words)], axis=0)
    assert found.scores.shape == (3,) * (order + 1)
    if order == 0:
        assert np.exp(found.scores) @ np.ones(3) <= 1 + 1e-9
        assert np.corrcoef(np.exp(found.scores), marginals)[0, 1] > 0.9


def test_impossible_transitions_are_minus_infinity():
    X = [["a", "b", "c", "a"], ["c", "a", "b", "c"]] * 3
    y = [["B-X", "I-X", "O", "B-X"], ["O", "B-X", "I-X", "O"]] * 3
    for learner in (TreeCRF, TreeMEMM, HMMClassifier):
        model = learner(transitions="bio").fit(X, y)
        found = transition_scores(model, X)
        impossible = [[u == "O" and v == "I-X" for v in found.labels] for u in found.labels]
        np.testing.assert_array_equal(np.isneginf(found.scores), impossible)
        np.testing.assert_array_equal(np.isneginf(found.start), found.labels == "I-X")


# Likelihoods


@every(GROWN)
def test_the_curve_of_the_training_data_is_that_of_training(name, fitted, letters):
    model = fitted(name)
    curve = likelihood_curve(model, *letters)
    assert curve.iterations.tolist() == list(range(model.n_iter_ + 1))
    np.testing.assert_array_equal(curve.train, model.train_score_)
    assert curve.validation is None
    np.testing.assert_allclose(curve.given, model.train_score_, atol=1e-9)


def test_curves_start_from_a_linear_model(letters):
    model = TreeCRF(init="linear", max_iter=2, **FIXED).fit(*letters)
    for some in (model, model.truncated(0)):
        curve = likelihood_curve(some, *letters)
        np.testing.assert_allclose(curve.given, some.train_score_, atol=1e-9)
        assert curve.given[0] > -np.log(3)  # that of scores of 0


@every(GROWN)
def test_the_curve_ends_with_the_value_of_the_model(name, fitted, letters):
    X, y = (part[:5] for part in letters)
    model = clone(FAMILY[name])
    if "scoring" in model.get_params():
        model.set_params(scoring="loss")
    model.fit(*letters, X, y)
    curve = likelihood_curve(model, np.array(list("".join(X))), np.array(list("".join(y))),
                             lengths=list(map(len, X)))  # fmt: skip
    assert curve.given[-1] == pytest.approx(value_of(fitted(name), X, y))
    assert len(curve.validation) == len(curve.given)
    if "beam" not in name:  # which counts labels there, not sequences
        np.testing.assert_allclose(curve.validation[1:], curve.given[1:], atol=1e-9)


# Errors


@every(COUNTED | ESTIMATED)
def test_models_without_trees_are_refused(name, fitted):
    for read in READERS.values():
        with pytest.raises(TypeError, match=r"has no boosted trees; expected a model such as Tree"):
            read(fitted(name))


def test_the_message_names_the_estimator(letters):
    model = SlidingWindowClassifier(LogisticRegression()).fit(*letters)
    with pytest.raises(TypeError, match=r"^SlidingWindowClassifier around LogisticRegression has"):
        gain_importance(model)


@pytest.mark.parametrize("reader", READERS)
def test_models_that_are_not_fitted_are_refused(reader):
    with pytest.raises(NotFittedError):
        READERS[reader](TreeCRF())
    with pytest.raises(TypeError, match="model is of type Pipeline; expected a fitted classifier"):
        READERS[reader](make_pipeline(TreeCRF()))
    with pytest.raises(TypeError, match="model is of type LogisticRegression"):
        READERS[reader](LogisticRegression())
    with pytest.raises(NotFittedError):
        transition_scores(TreeCRF(), ["ab"])


def test_unknown_iterations_and_labels_are_refused(trained, letters):
    for export in (export_text, export_graphviz):
        for wrong in (8, -9, 1.5, "1"):
            message = f"iteration={wrong!r}; expected an integer from -8 to 7"
            with pytest.raises(ValueError, match=message):
                export(trained, wrong)
        with pytest.raises(ValueError, match="label='q'; expected one of 'x', 'y', 'z'"):
            export(trained, 0, "q")
    for function, given, message in (
        (strongest_rules, {"label": "q"}, "label='q'; expected one of"),
        (strongest_rules, {"n_rules": 0}, "n_rules=0; expected a positive integer"),
        (strongest_rules, {"n_rules": 1.5}, "n_rules=1.5; expected a positive integer"),
        (strongest_rules, {"y": letters[1]}, "y is given without X"),
        (likelihood_curve, {"X": letters[0]}, "X is given without y"),
        (likelihood_curve, {"y": letters[1]}, "y is given without X"),
        (transition_scores, {"X": ["a", "b"]}, "no sequence of X has more than 1 positions"),
    ):
        with pytest.raises(ValueError, match=message):
            function(trained, **given)


def test_too_many_contexts_for_their_mean(letters):
    rng = np.random.default_rng(0)
    X = random_sequences("letters", rng, [30] * 9)
    y = [rng.integers(0, 60, 30) for _ in X]
    model = TreeCRF(order=4, beam_width=3, max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="scores per position; at most"):
        transition_scores(model, X)
