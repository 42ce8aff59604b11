"""Exported labelers return the labels and probabilities of their models, under sanitizers."""

from __future__ import annotations

import copy
import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from support.c_labelers import COMPILER, CLabeler, assert_agrees, number, text
from support.settings import FIXED
from support.sweeps import pairs

from treecrf import (
    HMMClassifier,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
    export_c,
    flatten,
    load,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

SMALL = FIXED | {"max_iter": 6, "l2_regularization": 1.0, "max_leaf_nodes": 8}
LABELS = "abc"
WORDS = ["u", "v", "w", "x", "é?", 'q"\\']
# Labels that may follow each other, and a label that nothing else comes before.
CHANGES = ~np.eye(3, dtype=bool)

MODELS = {
    "CRF": TreeCRF(init="zero", window=(2, 1), **SMALL),
    "CRF from a linear model": TreeCRF(init="linear", window=1, **SMALL),
    "CRF from transitions": TreeCRF(init="transitions", window=1, **SMALL),
    "CRF of order 2": TreeCRF(init="zero", order=2, window=1, **SMALL),
    "CRF of order 2 from a linear model": TreeCRF(init="linear", order=2, **SMALL),
    "CRF of order 0": TreeCRF(order=0, window=1, **SMALL),
    "CRF of order 0, all labels at once": TreeCRF(
        order=0, window=1, multi_strategy="multi_output_tree", **SMALL
    ),
    "constant transitions": TreeCRF(
        init="linear", constant_transitions=True, window=1, **SMALL
    ),
    "constant transitions of order 2": TreeCRF(
        init="zero", constant_transitions=True, order=2, window=1, **SMALL
    ),
    "multi-output trees": TreeCRF(
        constant_transitions=True, multi_strategy="multi_output_tree", init="linear", window=1,
        **SMALL,
    ),
    "surrogates": TreeCRF(init="zero", window=1, missing="surrogate", **SMALL),
    "weighting only": TreeCRF(init="zero", window=1, missing="weighting-only", **SMALL),
    "imputation": TreeCRF(init="zero", window=1, missing="impute", **SMALL),
    "indicators": TreeCRF(init="linear", window=1, missing="indicator", **SMALL),
    "Viterbi": TreeCRF(init="zero", window=1, decoding="viterbi", **SMALL),
    "minimum risk": TreeCRF(
        init="zero", decoding="minimum_risk", cost_matrix={("a", "b"): 9.0, ("c", "a"): 0.2},
        **SMALL,
    ),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "MEMM of order 2": TreeMEMM(order=2, **SMALL),
    "greedy MEMM": TreeMEMM(window=1, decoding="greedy", **SMALL),
    "window": SlidingWindowClassifier(window=2, **SMALL),
    "window, all labels at once": SlidingWindowClassifier(
        window=1, multi_strategy="multi_output_tree", **SMALL
    ),
    "recurrent": RecurrentSlidingWindowClassifier(window=(2, 0), **SMALL),
    "recurrent, backward": RecurrentSlidingWindowClassifier(
        window=(2, 0), direction="right-to-left", decoding="marginal", **SMALL
    ),
    "linear": LinearCRF(window=(2, 1)),
    "sparse linear": LinearCRF(window=1, l1_regularization=0.5),
    "imputed linear": LinearCRF(window=1, missing="impute"),
    "not standardized": LinearCRF(standardize=False),
    "perceptron": StructuredPerceptron(window=1, max_iter=3),
    "support vectors": StructuredSVM(window=1, max_iter=5),
    "boosted features": SequenceBoostingClassifier(window=1, max_iter=5),
    "hidden Markov": HMMClassifier(),
    "hidden Markov of order 2": HMMClassifier(order=2),
    "hidden Markov of order 0": HMMClassifier(order=0),
}  # fmt: skip


# Inputs


def table(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.round(rng.normal(size=(n, 4)), 1)


def labels_of(x: np.ndarray) -> list[str]:
    rule = np.where(x[:, 2] > 0, "a", "b")
    return np.where(x[:, 0] > np.roll(x[:, 1], 1), rule, "c").tolist()


def numbers(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> np.ndarray:
    x = x * [1.0, 100.0, -1e-3, 1.0] + [0.0, 50.0, 0.0, 3.0]
    x[:, 3] = np.rint(x[:, 3])
    if is_new:
        x *= rng.choice([0.0, 1.0, 30.0], x.shape, p=[0.1, 0.8, 0.1])
    x[rng.random(x.shape) < rate] = np.nan
    return x


def booleans(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> np.ndarray:
    return x > (0.5 if is_new else 0)


def words(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> list:
    found = [WORDS[int(abs(value) * 2) % (6 if is_new else 5)] for value in x[:, 0]]
    return [None if rng.random() < rate else word for word in found]


def integers(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> list:
    return [int(value * (3 if is_new else 2)) for value in x[:, 0]]


def dicts(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> list[dict]:
    """Return numbers, words, booleans and attributes; some keys are absent, and some are new."""
    rows = []
    for first, code, value, other in x.tolist():
        row = {"number": first, "word": WORDS[int(abs(code) * 2) % (6 if is_new else 5)]}
        row |= {f"is {int(value)}": True, "is": other > 0, "negative": -abs(round(value))}
        if is_new:
            row |= {"unknown": True, "never": "u"}
        rows.append({k: None if rng.random() < rate else v for k, v in row.items()})
        for key in list(rows[-1]):
            if rng.random() < 0.2:
                del rows[-1][key]
    return rows


def attributes(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> list:
    rows = []
    for first, code, value, other in x.tolist():
        row = [f"n={round(first)}", f"w={WORDS[int(abs(code) * 2) % (6 if is_new else 5)]}"]
        row += ["high"] * (value > 0) + ["other"] * (other > 0) + ["unknown"] * is_new
        rows.append(row)
    return rows


def frames(x: np.ndarray, rng: np.random.Generator, rate: float, is_new: bool) -> pd.DataFrame:
    columns = {"number": x[:, 0], "whole": np.rint(x[:, 1] * 3), "is": x[:, 3] > 0}
    frame = pd.DataFrame(columns | {"word": words(x, rng, rate, is_new)})
    frame.loc[rng.random(len(x)) < rate, "number"] = np.nan
    return frame


FORMS = {
    "numbers": numbers,
    "booleans": booleans,
    "words": words,
    "integers": integers,
    "dicts": dicts,
    "attributes": attributes,
    "frames": frames,
}
SYMBOLS = ("words", "integers")
# Which pairs run in the fast tests: each model and each form a few times.
FAST = {
    (name, form)
    for k, name in enumerate(MODELS)
    for i, form in enumerate(FORMS)
    if k % len(FORMS) == i or (name.startswith("hidden") and form == "words")
}
# Sets of missing values that some learners do not support.
WITHOUT_MISSING = ("perceptron", "support vectors", "boosted features")


def data(form: str, rate: float, seed: int = 0) -> tuple[list, list, list]:
    """Return training sequences, their labels, and new sequences of 1 and more positions."""
    rng = np.random.default_rng(seed)
    tables = [table(n, rng) for n in rng.integers(1, 14, 40)]
    new = [table(n, rng) for n in (1, 1, 2, 3, 9, 64, 65, 130)]
    X = [FORMS[form](x, rng, rate, False) for x in tables]
    X_new = [FORMS[form](x, rng, rate, True) for x in new]
    return X, list(map(labels_of, tables)), X_new


def fitted(name: str, form: str, rate: float = 0.1):
    X, y, X_new = data(form, rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name].fit(X, y), X_new


@pytest.mark.parametrize(
    "name, form",
    pairs(
        ((name, form) for name in MODELS for form in FORMS
         if form in SYMBOLS or not name.startswith("hidden")),
        lambda name, form: (name, form) in FAST,
    ),
)  # fmt: skip
def test_labels_and_probabilities(name, form, tmp_path):
    model, X = fitted(name, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_agrees(model, X, tmp_path)


# Other settings


def of_numbers(model, X_new=None, rate=0.1):
    """Return a model fitted to numbers, and new sequences."""
    X, y, X_of_form = data("numbers", rate)
    return model.fit(X, y), X_of_form if X_new is None else X_new


@pytest.mark.parametrize("transitions", [CHANGES, {"a": "ab", "b": "bc", None: "ab"}])
@pytest.mark.parametrize(
    "name",
    ["CRF", "CRF of order 2 from a linear model", "constant transitions", "MEMM", "greedy MEMM",
     "recurrent, backward", "linear", "perceptron"],
)  # fmt: skip
def test_rules_of_transitions(name, transitions, tmp_path):
    model, X = fitted(name, "numbers", rate=0.0)
    if isinstance(transitions, dict):
        transitions = {k: set(v) for k, v in transitions.items()}
    assert_agrees(model.set_params(transitions=transitions), X, tmp_path)
    model.set_params(transitions=None)


def tagged(rng):
    tags = ["B-x", "I-x", "O"]
    y = [["O", "B-x", "I-x", "O", "B-x"][: int(n)] for n in rng.integers(1, 6, 30)]
    return [rng.normal(size=(len(labels), 2)) + [[tags.index(v), 0] for v in labels]
            for labels in y], y  # fmt: skip


def test_rules_of_a_scheme_that_has_ends(tmp_path):
    X, y = tagged(np.random.default_rng(0))
    scheme = [["S-x" if tag == "B-x" else "O" for tag in labels] for labels in y]
    model = TreeCRF(init="zero", transitions="bioes", **SMALL).fit(X, scheme)
    assert_agrees(model, X[:5], tmp_path)
    model = LinearCRF(transitions="bio").fit(X, y)
    assert_agrees(model, X[:9], tmp_path)


def test_no_label_sequence_is_possible(tmp_path):
    X, y, _ = data("numbers", 0.0)
    model = LinearCRF().fit(X, y)
    # After the first label there is none.
    model.set_params(transitions=np.zeros((3, 3), dtype=bool))
    labeler = CLabeler(model, tmp_path)
    one, two = labeler.results([np.zeros((1, 4)), np.zeros((2, 4))])
    assert one.errors == []
    assert two.errors == [-6, -6, -6]


@pytest.mark.parametrize("factor", [30.0, 1000.0])
@pytest.mark.parametrize("name", ["CRF", "CRF of order 2", "constant transitions", "MEMM"])
def test_large_scores_of_trees(name, factor, tmp_path):
    model, X = fitted(name, "numbers")
    model = copy.deepcopy(model)
    model._forest = model._forest.divided(1 / factor)
    scores = model.decision_function(X)
    assert max(np.abs(table).max() for table in scores) > 10 * factor / 30
    assert_agrees(model, X, tmp_path)


@pytest.mark.parametrize("factor", [100.0, 1e4])
def test_large_scores_of_a_linear_model(factor, tmp_path):
    model, X = of_numbers(LinearCRF(window=1))
    model._weights.vector[:] *= factor
    model._kept_predictor = None
    X = [x for x in X if len(x) < 20]
    for found, p in zip(CLabeler(model, tmp_path).results(X), model.predict_proba(X), strict=True):
        assert np.abs(found.marginals - p).max() < 1e-9
        assert found.labels.tolist() == model.classes_[p.argmax(axis=1)].tolist()


@pytest.mark.parametrize("name", ["CRF", "constant transitions", "MEMM", "linear", "window"])
def test_ten_thousand_positions(name, tmp_path):
    rng = np.random.default_rng(5)
    X = [numbers(table(10_000, rng), rng, 0.05, True)]
    model, _ = fitted(name, "numbers")
    assert_agrees(model, X, tmp_path)


def test_many_labels_and_categories(tmp_path):
    rng = np.random.default_rng(3)
    words_of = [[f"word {i}" for i in rng.zipf(1.5, n) % 3000] for n in rng.integers(1, 30, 60)]
    X = [[{"w": w, "n": len(w)} for w in words] for words in words_of]
    y = [[f"label {len(w) * (1 + (i > 2)) + hash_of(w) % 5:02}" for i, w in enumerate(words)]
         for words in words_of]  # fmt: skip
    for model in (
        TreeCRF(init="linear", window=1, **SMALL | {"max_leaf_nodes": 30}),
        LinearCRF(window=1),
        TreeMEMM(window=1, **SMALL),
    ):
        assert_agrees(model.fit(X, y), X[:5], tmp_path)


def hash_of(word: str) -> int:
    return sum(map(ord, word))


def test_names_and_categories_of_any_characters(tmp_path):
    names = [
        '"',
        "\\",
        "??=",
        "/*",
        "*/",
        "é\u4e2d",
        "%s",
        "\n\t",
        "labeler_x",
        "LABELER_H",
        "a" * 5000,
    ]
    values = [f"{name}{i}" for i, name in enumerate(names)] + ["", "\ud800", "\x01\x7f"]
    rng = np.random.default_rng(0)
    X = [[{name: str(rng.choice(values)) for name in names} for _ in range(4)] for _ in range(30)]
    y = [[str(len(row['"']) % 3) for row in rows] for rows in X]
    assert_agrees(LinearCRF(window=1).fit(X, y), X[:4], tmp_path)
    assert_agrees(TreeCRF(init="zero", **SMALL).fit(X, y), X[:4], tmp_path)


def test_labels_of_integers_and_booleans(tmp_path):
    X, y, X_new = data("numbers", 0.1)
    for labels in ([["abc".index(v) for v in x] for x in y], [[v == "a" for v in x] for x in y]):
        assert_agrees(LinearCRF().fit(X, labels), X_new[:3], tmp_path)
    text = (tmp_path / "labeler.c").read_text()
    assert '"False", "True"' in text


@pytest.mark.parametrize(
    "name", ["CRF from a linear model", "MEMM of order 2", "multi-output trees"]
)
def test_without_iterations(name, tmp_path):
    model, X = fitted(name, "dicts")
    assert_agrees(model.truncated(0), X, tmp_path)


def test_a_calibrated_model(tmp_path):
    settings = SMALL | {"early_stopping": "auto", "max_iter": 10}
    model, X = of_numbers(TreeCRF(calibration="auto", init="linear", **settings))
    model = model if model.temperature_ != 1 else model.set_params()
    assert_agrees(model, X, tmp_path)


def test_a_flat_model(tmp_path):
    model, X = fitted("CRF", "dicts")
    assert_agrees(flatten(model), X, tmp_path)


def test_a_loaded_model_has_the_same_code(tmp_path):
    for name, form in (("CRF from a linear model", "dicts"), ("linear", "attributes")):
        model, _ = fitted(name, form)
        model.save(tmp_path / "m")
        codes = []
        for i, other in enumerate((model, model, load(tmp_path / "m"), copy.deepcopy(model))):
            export_c(other, tmp_path / f"{i}.c", name="labeler")
            codes.append((tmp_path / f"{i}.c").read_text().replace(f'"{i}.h"', ""))
        assert len(set(codes)) == 1


# The functions of C


@pytest.fixture(scope="module")
def of_frames(tmp_path_factory):
    model, X = fitted("CRF from a linear model", "frames")
    return model, X, CLabeler(model, tmp_path_factory.mktemp("frames"))


@pytest.fixture(scope="module")
def of_dicts(tmp_path_factory):
    model, X = fitted("linear", "dicts")
    return model, X, CLabeler(model, tmp_path_factory.mktemp("dicts"))


def names(*strings: str) -> str:
    return " ".join(map(text, strings))


def test_rows_hold_codes_of_categories(of_frames):
    _, X, labeler = of_frames
    x = X[4].assign(**{"is": X[4]["is"].astype(float)})
    column = list(x.columns).index("word")
    words_of_x = [None if word != word else word for word in x["word"]]
    codes = labeler.run([f"c {column} {text(word)}" for word in words_of_x])
    pairs_of_x = zip(words_of_x, codes, strict=True)
    rows = x.assign(word=[np.nan if word is None else float(code) for word, code in pairs_of_x])
    commands = [f"r {t} {' '.join(map(number, row))}" for t, row in enumerate(rows.values.tolist())]
    lines = labeler.run([f"b {len(x)} {4 * len(x)}", *commands, "p"])
    assert lines == labeler.run([f"b {len(x)} {4 * len(x)}", *labeler.commands(X[4]), "p"])


def test_nested_keys_are_joined_by_colons(tmp_path):
    nested = [
        [{"w": "a", "next": {"w": "b"}, "p": ","}, {"w": "b", "p": False}],
        [{"w": "b", "next": {"w": "a"}, "p": "."}, {"w": "a", "p": False, "tags": {"x", "y"}}],
    ]
    flat = [
        [{"w": "a", "next:w": "b", "p:,": True}, {"w": "b", "p": False}],
        [{"w": "b", "next:w": "a", "p:.": True}, {"w": "a", "tags:x": True, "tags:y": True}],
    ]
    model = LinearCRF().fit(nested * 3, ["xy", "yx"] * 3)
    found = CLabeler(model, tmp_path).results(flat)
    for results, p in zip(found, model.predict_proba(nested), strict=True):
        assert results.errors == []
        assert np.abs(results.marginals - p).max() < 1e-12


def test_values_replace_each_other_in_any_order(of_dicts):
    _, X, labeler = of_dicts
    x = X[4]
    commands = labeler.commands(x)
    expected = labeler.run([f"b {len(x)} {len(commands)}", *commands, "p"])
    noise = [f"a {t} {text('number')} 77" for t in range(len(x)) if "number" in x[t]]
    shuffled = np.random.default_rng(0).permutation(commands).tolist()
    lines = labeler.run([f"b {len(x)} {len(commands)}", *noise, *shuffled, "p"])
    assert lines[:2] == expected[:2]


def test_unknown_names_are_ignored_after_dicts(of_dicts):
    labeler = of_dicts[2]
    unknown = [f"a 0 {names('new')} 1", f"s 0 {names('new', 'u')}", "n 0 -1 5", "k 0 -1 -"]
    assert labeler.run(["b 1 0", *unknown, "p"]) == labeler.run(["b 1 0", "p"])


ERRORS = {
    "b 0 0": -2,
    f"b {2**40} 1": -2,
    "n 2 0 1": -2,
    "n 0 99 1": -3,
    "n 0 -1 1": -3,
    "k 0 0 61": -4,
    "n 0 3 1": -4,
    "n 0 0 inf": -5,
    "n 0 2 0.5": -5,
    "r 0 1 2 1 99": -5,
    "r 0 1 2 1 0.5": -5,
    "r 0 1 2 inf 0": -5,
    "b 2 1\nn 1 1 1\nn 1 0 1": -1,
}


@pytest.mark.parametrize("command", ERRORS)
def test_errors(command, of_frames):
    labeler = of_frames[2]
    lines = labeler.run([command] if command.startswith("b") else ["b 2 8", command])
    assert lines == [f"error {ERRORS[command]}"]


def test_code_in_a_program_of_cpp(of_dicts, tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = of_dicts[2].program.parent
    program = tmp_path / "main.cpp"
    program.write_text(PROGRAM)
    subprocess.run([COMPILER, "-std=c99", "-c", folder / "labeler.c"], cwd=tmp_path, check=True)
    options = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", folder]
    command = [compiler, *options, program, "labeler.o", "-lm", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == "a 3\n"


PROGRAM = """
#include "labeler.h"
#include <cstdio>
#include <vector>

int main()
{
    std::vector<char> memory(labeler_workspace_size(2, 1));
    std::vector<double> p(2 * LABELER_N_LABELS);
    if (labeler_begin(memory.data(), memory.size(), 2) != 0)
        return 1;
    labeler_add_attribute(memory.data(), 0, "number", 1.0);
    double sum = labeler_marginals(memory.data(), p.data());
    for (double x : p)
        sum += x;
    std::printf("%s %.0f\\n", labeler_label(0), sum + LABELER_ORDER);
}
"""
