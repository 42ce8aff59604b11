"""Docstrings of parameters, the same for the same parameter, and checks of changed ones."""

import inspect
import re
from collections import defaultdict

import pytest
from sklearn.base import BaseEstimator

import treecrf

CLASSES = {
    name: kind
    for name in treecrf.__all__
    if inspect.isclass(kind := getattr(treecrf, name)) and issubclass(kind, BaseEstimator)
}
CRF, MEMM, FUTURE = "TreeCRF", "TreeMEMM", "FutureFeatureMEMM"
SLIDING, RECURRENT = "SlidingWindowClassifier", "RecurrentSlidingWindowClassifier"
LINEAR, PERCEPTRON, SVM = "LinearCRF", "StructuredPerceptron", "StructuredSVM"
BOOSTING, HMM, FLAT, FEATURES = (
    "SequenceBoostingClassifier", "HMMClassifier", "FlatModel", "FutureFeatures",
)  # fmt: skip

# Estimators for which a parameter or attribute means something else, grouped by their texts. All
# other estimators share one text.
OTHER_TEXTS = {
    "attributes": [(SVM,)],
    "average": [(SVM,)],
    "beam_width": [(FLAT,), (CRF,)],
    "class_weight": [(CRF,), (LINEAR,), (BOOSTING,), (PERCEPTRON,), (SVM,)],
    "decoding": [(FLAT,), (FUTURE, RECURRENT, MEMM), (SLIDING,), (PERCEPTRON, SVM)],
    "early_stopping": [(FUTURE,), (LINEAR,), (BOOSTING,), (PERCEPTRON,)],
    "estimator": [(FEATURES,), (RECURRENT,)],
    "l2_regularization": [(LINEAR,)],
    "max_depth": [(FUTURE,)],
    "max_features": [(SLIDING,)],
    "max_leaf_nodes": [(FUTURE,)],
    "max_iter": [(FUTURE,), (LINEAR,), (BOOSTING,), (PERCEPTRON,), (SVM,)],
    "min_samples_leaf": [(CRF,)],
    "missing": [(LINEAR, BOOSTING, PERCEPTRON, SVM)],
    "multi_strategy": [(SLIDING,)],
    "scoring": [(CRF,), (LINEAR,)],
    "n_iter_no_change": [(BOOSTING,), (PERCEPTRON,), (FUTURE, LINEAR)],
    "n_jobs": [(PERCEPTRON,), (SVM,)],
    "objective": [(LINEAR,)],
    "order": [(CRF, HMM)],
    "random_state": [(LINEAR,), (BOOSTING,), (PERCEPTRON,), (SVM,)],
    "second_order": [(CRF,)],
    "tol": [(FUTURE,), (LINEAR,), (BOOSTING,), (SVM,)],
    "transition_features": [(BOOSTING,), (SVM,)],
    "transitions": [(FLAT,), (RECURRENT,)],
    "verbose": [(CRF,)],
    "warm_start": [(LINEAR, PERCEPTRON)],
    "window": [(FUTURE,), (LINEAR, BOOSTING, PERCEPTRON), (SVM,)],
    # Attributes
    "estimator_": [(FEATURES,)],
    "feature_importances_": [(CRF,), (FUTURE,)],
    "loss_": [(LINEAR,)],
    "n_features_in_": [(HMM,)],
    "n_iter_": [(LINEAR,), (BOOSTING,), (PERCEPTRON,), (SVM,)],
    "state_weights_": [(SVM,)],
    "train_score_": [(CRF,), (LINEAR,), (BOOSTING,)],
    "validation_score_": [(CRF,), (LINEAR,), (MEMM, RECURRENT, SLIDING)],
}


def section_of(kind: type, title: str) -> list[tuple[str, str, str]]:
    """Name, type and text of each entry of a section; one for each of several names.

    Headings between the entries are left out.
    """
    text = inspect.cleandoc(kind.__doc__)
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", text, flags=re.M | re.S)
    body = found[1] + "\n" if found else ""
    entries = re.findall(r"^(\S[^\n]*)\n((?:[ ]+\S[^\n]*\n|\n)*)", body, flags=re.M)
    return [
        (name, heading.partition(" : ")[2], " ".join(body.split()))
        for heading, body in entries
        if " : " in heading
        for name in heading.partition(" : ")[0].split(", ")
    ]


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    return {n: p for n, p in inspect.signature(kind).parameters.items() if n != "self"}


@pytest.mark.parametrize("kind", CLASSES.values())
def test_every_parameter_is_documented_once(kind):
    documented = section_of(kind, "Parameters")
    assert sorted(name for name, _, _ in documented) == sorted(parameters_of(kind))
    assert all(text.endswith(".") for _, _, text in documented)


def headings_of(kind: type) -> list[str]:
    text = inspect.cleandoc(kind.__doc__).partition("Parameters\n---")[2].partition("Attributes")[0]
    return re.findall(r"^(?:-+\n|\n)([A-Z][\w ]+)\n\n(?=\w+ : )", text, flags=re.M)


def test_parameters_of_trees_stand_below_headings_in_the_same_order():
    headings = headings_of(treecrf.TreeCRF)
    assert headings[0] == "Model" and headings[-1] == "Running"
    assert len(headings) == len(set(headings)) == 11
    for kind in (treecrf.TreeMEMM, treecrf.SlidingWindowClassifier):
        assert headings_of(kind) == [name for name in headings if name != "Beam"]
    others = [name for name in headings if name not in ("Beam", "Samples of examples", "Start")]
    assert headings_of(treecrf.FutureFeatureMEMM) == ["Future features", *others]


@pytest.mark.parametrize("name", ["LinearCRF", "HMMClassifier"])
def test_parameters_without_headings_are_documented_in_the_order_of_the_signature(name):
    kind = CLASSES[name]
    documented = section_of(kind, "Parameters")
    assert [name for name, _, _ in documented] == list(parameters_of(kind))


@pytest.mark.parametrize("kind", CLASSES.values())
def test_defaults_are_those_of_the_signature(kind):
    parameters = parameters_of(kind)
    for name, description, _ in section_of(kind, "Parameters"):
        _, _, default = description.partition("default=")
        shown = repr(eval(default)) if default else None
        parameter = parameters[name]
        expected = None if parameter.default is parameter.empty else repr(parameter.default)
        assert shown == expected, f"{kind.__name__}: {name}"


@pytest.mark.parametrize("kind", CLASSES.values())
def test_attributes_end_with_an_underscore(kind):
    names = [name for name, _, _ in section_of(kind, "Attributes")]
    assert names
    assert all(name.endswith("_") for name in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("title", ["Parameters", "Attributes"])
def test_the_same_name_has_the_same_text_in_all_estimators(title):
    texts = defaultdict(lambda: defaultdict(list))
    for name, kind in CLASSES.items():
        for entry, _, text in section_of(kind, title):
            texts[entry][text].append(name)
    for entry, of_text in texts.items():
        others = OTHER_TEXTS.get(entry, [])
        rest = {name for names in of_text.values() for name in names}.difference(*others)
        groups = {frozenset(names) for names in of_text.values()}
        assert groups == {frozenset(group) for group in [*others, rest] if group}, entry


def test_no_exception_is_left_over():
    entries = {
        name
        for kind in CLASSES.values()
        for title in ("Parameters", "Attributes")
        for name, _, _ in section_of(kind, title)
    }
    assert OTHER_TEXTS.keys() <= entries


@pytest.mark.parametrize(
    ("name", "value"),
    [("decoding", "vit"), ("n_jobs", 0), ("cost_matrix", 3), ("transitions", 2.5)],
)
def test_parameters_of_predictions_are_checked_when_they_change(name, value):
    crf = treecrf.TreeCRF(max_iter=2).fit(["abab", "ba"], ["xyxy", "yx"])
    crf.predict(["ab"])
    with pytest.raises(ValueError, match=f"The '{name}' parameter of TreeCRF must be"):
        crf.set_params(**{name: value}).predict(["ab"])
