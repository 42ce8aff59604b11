"""The strongest weights of linear models, and those of transitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from support.family import COUNTED, ESTIMATED, GROWN, KERNEL, TREES, WEIGHTED, every

from treecrf import LinearCRF, TreeCRF, TreeMEMM, flatten
from treecrf.inspection import Weight, strongest_weights, transition_scores, transition_weights


def all_weights(model):
    """All weights as (label, value, attribute, labels before)."""
    labels, names = model.classes_.tolist(), model.get_attribute_names().tolist()
    found = [
        (label, model.state_weights_[a, v], name, None)
        for a, name in enumerate(names)
        for v, label in enumerate(labels)
    ]
    if model.transition_feature_weights_.size:
        found += [
            (label, model.transition_feature_weights_[a, u, v], name, (before,))
            for a, name in enumerate(names)
            for u, before in enumerate(labels)
            for v, label in enumerate(labels)
        ]
    for v, label in enumerate(labels):
        found.append((label, model.start_weights_[v], None, (None,)))
        found += [
            (label, model.transition_weights_[u, v], None, (before,))
            for u, before in enumerate(labels)
        ]
    return [weight for weight in found if weight[1]]


@every(WEIGHTED)
def test_the_strongest_weights(name, fitted):
    model = fitted(name)
    expected = all_weights(model)
    found = strongest_weights(model, 10**6)
    ours = [(w.label, w.value, w.attribute, w.labels_before[0]) for w in found]
    assert sorted(ours, key=repr) == sorted(expected, key=repr)
    sizes = [abs(weight.value) for weight in found]
    assert sizes == sorted(sizes, reverse=True)
    assert [w.value for w in strongest_weights(model, 3)] == [w.value for w in found[:3]]
    of_label = strongest_weights(model, 10**6, label="y")
    assert {weight.label for weight in of_label} == {"y"}
    assert len(of_label) == sum(weight[0] == "y" for weight in expected)


def test_descriptions(fitted):
    found = strongest_weights(fitted("linear CRF with transition features"), 10**6)
    described = {(w.attribute, w.labels_before[0]): w.condition for w in found}
    assert described[("symbol[-1] is 'a'", None)] == "symbol[-1] is 'a'"
    both = "label[-1] is 'y' and symbol[-1] is 'a'"
    assert described[("symbol[-1] is 'a'", ("y",))] == both
    assert described[(None, ("x",))] == "label[-1] is 'x'"
    assert described[(None, (None,))] == "label[-1] is none"
    assert str(Weight("x", 0.5, "heat[0]", "heat[0]", (None,))) == "+0.500 for 'x': heat[0]"


def test_labels_that_are_numbers_and_conjunctions(tables, trained, letters):
    model = LinearCRF().fit(*tables)
    assert {type(weight.label) for weight in strongest_weights(model, label=1)} == {int}
    conjunctions = LinearCRF(attributes=flatten(trained)).fit(*letters)
    names = set(conjunctions.get_attribute_names())
    assert {w.attribute for w in strongest_weights(conjunctions, 5)} <= names | {None}


# Transitions


@every(WEIGHTED)
def test_transition_weights_of_linear_models(name, fitted):
    model = fitted(name)
    if model.transition_feature_weights_.size:
        with pytest.raises(TypeError, match="depend on the input; expected a linear model"):
            transition_weights(model)
        return
    found = transition_weights(model)
    np.testing.assert_array_equal(found.scores, model.transition_weights_)
    np.testing.assert_array_equal(found.start, model.start_weights_)
    assert found.labels.tolist() == list("xyz")
    assert not found.backward


@pytest.mark.parametrize("init", ["zero", "linear"])
@pytest.mark.parametrize("order", [1, 2])
def test_constant_transitions(order, init, letters):
    """Scores differ from them by those of the input alone."""
    model = TreeCRF(order=order, init=init, constant_transitions=True, **TREES).fit(*letters)
    found, means = transition_weights(model), transition_scores(model, letters[0])
    of_labels = means.scores - found.scores
    np.testing.assert_allclose(
        of_labels, np.broadcast_to(of_labels[(0,) * order], of_labels.shape), atol=1e-9
    )
    one = transition_scores(model, ["a" * (order + 1)]).start - found.start
    other = transition_scores(model, ["a" * (order + 2)]).start - found.start
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_impossible_transitions_are_minus_infinity():
    X, y = [["a", "b", "c"]] * 3, [["O", "B-X", "I-X"]] * 3
    model = LinearCRF(transitions="bio").fit(X, y)
    found = transition_weights(model)
    impossible = [[u == "O" and v == "I-X" for v in found.labels] for u in found.labels]
    np.testing.assert_array_equal(np.isneginf(found.scores), impossible)
    np.testing.assert_array_equal(np.isneginf(found.start), found.labels == "I-X")


# Errors


@every(COUNTED | ESTIMATED | GROWN)
def test_models_without_weights_are_refused(name, fitted):
    with pytest.raises(TypeError, match="is not a linear model; expected a model such as Lin"):
        strongest_weights(fitted(name))
    with pytest.raises(TypeError, match="depend on the input; expected a linear model without"):
        transition_weights(fitted(name))


def test_wrong_arguments(fitted):
    model = fitted("linear CRF")
    for n in (0, 1.5, "3"):
        with pytest.raises(ValueError, match="expected a positive integer"):
            strongest_weights(model, n)
    with pytest.raises(ValueError, match="label='q'"):
        strongest_weights(model, label="q")
    with pytest.raises(TypeError, match="kernel='rbf'; expected kernel='linear'"):
        strongest_weights(fitted(KERNEL))
    with pytest.raises(NotFittedError):
        transition_weights(TreeMEMM())
