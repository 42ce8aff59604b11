"""Exported labelers return the labels and probabilities of their models, under sanitizers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from support.c_labelers import COMPILER, assert_agrees
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
    for number, code, value, other in x.tolist():
        row = {"number": number, "word": WORDS[int(abs(code) * 2) % (6 if is_new else 5)]}
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
    for number, code, value, other in x.tolist():
        row = [f"n={round(number)}", f"w={WORDS[int(abs(code) * 2) % (6 if is_new else 5)]}"]
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
