"""The runtime labels like the estimators, to the last bit, and without scikit-learn and scipy."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from support.family import assert_equal_arrays
from support.model_files import read, sealed
from support.settings import FIXED

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    HMMClassifier,
    LinearCRF,
    ModelFileError,
    RecurrentSlidingWindowClassifier,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
    flatten,
    runtime,
)

SMALL = FIXED | {"max_iter": 4, "l2_regularization": 1.0, "max_leaf_nodes": 8}
SCHEME = {"transitions": {"a": ["a", "b"], "b": ["a", "c"]}}
MODELS = {
    "linear": LinearCRF(window=(1, 2)),
    "transition features": LinearCRF(transition_features=True),
    "Viterbi": LinearCRF(decoding="viterbi", **SCHEME),
    "perceptron": StructuredPerceptron(window=1, random_state=0),
    "SVM": StructuredSVM(window=1, max_iter=20, random_state=0),
    "boosting": SequenceBoostingClassifier(max_iter=20),
    "trees": TreeCRF(window=(2, 1), **SMALL),
    "trees and rules": TreeCRF(window=1, **SMALL, **SCHEME),
    "linear start": TreeCRF(init="linear", window=1, **SMALL),
    "transitions as start": TreeCRF(init="transitions", **SMALL),
    "constant transitions": TreeCRF(constant_transitions=True, window=1, **SMALL),
    "a tree for all labels": TreeCRF(multi_strategy="multi_output_tree", **SMALL),
    "order 2": TreeCRF(order=2, decoding="viterbi", **SMALL),
    "order 0": TreeCRF(order=0, window=1, **SMALL),
    "costs": TreeCRF(decoding="minimum_risk", cost_matrix={("a", "c"): 3.0}, **SMALL),
    "beam": TreeCRF(beam_width=2, **SMALL),
    "imputed": TreeCRF(missing="impute", **SMALL),
    "surrogates": TreeCRF(missing="surrogate", **SMALL),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "greedy": TreeMEMM(decoding="greedy", **SMALL),
    "beam search": TreeMEMM(decoding="beam", beam_width=2, order=2, **SMALL),
    "sliding window": SlidingWindowClassifier(window=2, **SMALL),
    "backward": RecurrentSlidingWindowClassifier(direction="right-to-left", **SMALL),
}
FORMS = ["array", "missing", "dicts", "attributes", "string"]
RNG = np.random.default_rng(0)
LENGTHS = [5, 1, 80, *RNG.integers(2, 12, 30).tolist()]
NUMBERS = [np.round(RNG.normal(size=(n, 3)), 1) for n in LENGTHS]
LABELS = [np.where(x[:, 0] > 0, np.where(x[:, 1] > 0, "a", "b"), "c") for x in NUMBERS]


def sequence(x: np.ndarray, form: str) -> object:
    """Return numbers as a sequence of another form."""
    if form == "array":
        return x
    if form == "missing":
        return np.where(x > 1.5, np.nan, x)
    words = [f"w{int(value * 2)}" for value in x[:, 0]]
    if form == "dicts":
        return [
            {"word": word, "high": bool(a > 0), "number": float(b)}
            for word, (a, b, _) in zip(words, x, strict=True)
        ]
    if form == "attributes":
        return [
            [word, f"high{a > 0}"][: 1 + (b > 0)] for word, (a, b, _) in zip(words, x, strict=True)
        ]
    return "".join(word[-1] for word in words)


def inputs(form: str) -> list:
    """Return all sequences in a form."""
    return [sequence(x, form) for x in NUMBERS]


def labels_for(model: object) -> list:
    """Return label sequences that the rules of a model allow."""
    if getattr(model, "transitions", None) is None:
        return LABELS
    return [np.array(list("abc"))[np.arange(len(y)) % 3] for y in LABELS]


def saved(model: object, path: Path, form: str = "array") -> tuple[object, runtime.Labeler]:
    """Fit and save a model; return the loaded estimator and the labeler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        treecrf_model = model.fit(inputs(form), labels_for(model))
    treecrf_model.save(path)
    return treecrf.load(path), runtime.load(path)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.treecrf"


def assert_same(result: object, expected: object) -> None:
    """Check that results are equal, with their types."""
    assert type(result) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert_equal_arrays(result, expected)
    else:
        assert result == expected


def streamed(model: object, x: object, lag: int) -> list:
    """Return the results of a stream."""
    stream = model.stream(lag)
    return [*(stream.push(row) for row in x), *stream.finish()]


# Results


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_a_labeler_has_the_results_of_the_estimator(name, form, path):
    estimator, labeler = saved(MODELS[name], path, form)
    assert_equal_arrays(labeler.classes_, estimator.classes_)
    assert labeler.n_features_in_ == estimator.n_features_in_
    assert labeler.decoding == estimator.decoding
    X = inputs(form)
    for batch in (X[:1], X[3:9], X):
        assert_same(labeler.predict(batch), estimator.predict(batch))
        assert_same(labeler.predict_proba(batch), estimator.predict_proba(batch))
        assert_same(labeler.decode(batch), estimator.decode(batch))
    if estimator.decoding not in ("greedy", "beam"):
        assert_same(labeler.decode(X[:3], n_best=2), estimator.decode(X[:3], n_best=2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["linear", "trees", "linear start", "MEMM", "trees and rules"])
def test_streams_and_masks_are_the_same(name, form, path):
    estimator, labeler = saved(MODELS[name], path, form)
    x = sequence(NUMBERS[0], form)
    for lag in (0, 2):
        assert_same(streamed(labeler, x, lag), streamed(estimator, x, lag))
    known = [["a", *[None] * 4]]
    allowed = [[{"a", "b"}, *[None] * 4]]
    for method in ("predict", "predict_proba", "decode"):
        for masks in ({"known": known}, {"allowed": allowed}):
            result = getattr(labeler, method)([x], **masks)
            assert_same(result, getattr(estimator, method)([x], **masks))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_hidden_markov_models(order, path):
    HMMClassifier(order=order, decoding="viterbi").fit(["aab", "bbba"], ["xxy", "yyyx"]).save(path)
    estimator = treecrf.load(path)
    labeler = runtime.load(path)
    X = ["abb", "a", "", "bz"]
    assert_same(labeler.predict(X), estimator.predict(X))
    assert_same(labeler.predict_proba(X), estimator.predict_proba(X))
    assert_same(labeler.decode(X, 2), estimator.decode(X, 2))


def test_averages_and_temperatures(path):
    models = [
        TreeCRF(**SMALL | {"random_state": seed, "max_features": 0.5}).fit(NUMBERS, LABELS)
        for seed in range(2)
    ]
    treecrf.average(models).save(path)
    assert_same(
        runtime.load(path).predict_proba(NUMBERS), treecrf.load(path).predict_proba(NUMBERS)
    )
    model = TreeCRF(calibration="auto", early_stopping="auto", max_iter=10)
    model.fit(NUMBERS, LABELS).save(path)
    assert_same(runtime.load(path).predict_proba(NUMBERS), model.predict_proba(NUMBERS))


def test_long_tables_and_empty_sequences(path):
    estimator, labeler = saved(LinearCRF(), path)
    table = np.concatenate(NUMBERS)
    groups = np.repeat(np.arange(len(NUMBERS)), LENGTHS)
    for cut in ({"lengths": LENGTHS}, {"groups": groups}):
        assert_same(labeler.predict(table, **cut), estimator.predict(table, **cut))
        assert_same(labeler.decode(table, **cut), estimator.decode(table, **cut))
    X = [NUMBERS[0], np.zeros((0, 3))]
    assert_same(labeler.predict(X), estimator.predict(X))
    assert_same(labeler.predict([]), estimator.predict([]))
    assert_same(labeler.predict(tuple(NUMBERS)), estimator.predict(tuple(NUMBERS)))
    assert_same(labeler.decode(x for x in NUMBERS), estimator.decode(x for x in NUMBERS))


def test_frames_have_the_columns_of_training(path):
    import pandas as pd

    frame = pd.DataFrame(np.concatenate(NUMBERS), columns=list("uvw"))
    frame["group"] = np.repeat(np.arange(len(NUMBERS)), LENGTHS)
    frame["label"] = np.concatenate(LABELS)
    TreeCRF(**SMALL).fit(frame, "label", groups="group").save(path)
    assert_same(runtime.load(path).predict(frame), treecrf.load(path).predict(frame))


def test_warnings_and_errors_are_those_of_the_estimator(path):
    estimator, labeler = saved(MODELS["trees"], path)
    for X in ([np.zeros((2, 5))], ["ab"], [[{"u": 1}]], 3):
        with pytest.raises((ValueError, TypeError)) as expected:
            estimator.predict(X)
        with pytest.raises(type(expected.value)) as found:
            labeler.predict(X)
        assert str(found.value) == str(expected.value)
    estimator, labeler = saved(MODELS["linear"], path, "dicts")
    unknown = [[{"other": 1.0}]]
    with pytest.warns(UserWarning) as expected:
        estimator.predict(unknown)
    with pytest.warns(UserWarning) as found:
        labeler.predict(unknown)
    assert [str(each.message) for each in found] == [str(each.message) for each in expected]


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_threads_share_a_labeler(name, path):
    estimator, labeler = saved(MODELS[name], path)
    expected = estimator.predict(NUMBERS)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: labeler.predict([x])[0], NUMBERS * 5))
    assert_same(results, expected * 5)


def test_a_labeler_can_be_pickled(path):
    _, labeler = saved(MODELS["linear start"], path)
    expected = labeler.predict(NUMBERS[:2])
    assert_same(pickle.loads(pickle.dumps(labeler)).predict(NUMBERS[:2]), expected)
    assert repr(labeler) == "<Labeler of a TreeCRF with 3 labels>"


# Parameters


def test_parameters_replace_those_of_the_file(path):
    estimator, _ = saved(MODELS["MEMM"], path)
    for decoding in runtime.LOCAL_DECODINGS:
        labeler = runtime.load(path, decoding=decoding, n_jobs=2)
        assert labeler.decoding == decoding
        expected = estimator.set_params(decoding=decoding).predict(NUMBERS)
        assert_same(labeler.predict(NUMBERS), expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decoding": "greedy"}, "decoding='greedy'; expected one of 'marginal', 'viterbi'"),
        ({"n_jobs": 0}, "n_jobs=0; expected a number of threads, or -1"),
        ({"n_jobs": True}, "n_jobs=True; expected a number of threads"),
    ],
)
def test_other_parameters_are_refused(parameters, message, path):
    saved(MODELS["trees"], path)
    with pytest.raises(ValueError, match=message):
        runtime.load(path, **parameters)


# Files


@pytest.mark.filterwarnings("ignore")
def test_models_without_a_chain_of_their_own_are_refused(path):
    flatten(TreeMEMM(**SMALL).fit(NUMBERS, LABELS)).save(path)
    with pytest.raises(TypeError, match="the model is a FlatModel, which only"):
        runtime.load(path)
    StructuredSVM(kernel="rbf", max_iter=2).fit(NUMBERS, LABELS).save(path)
    with pytest.raises(TypeError, match="it has a kernel, which only"):
        runtime.load(path)
    flat = flatten(TreeMEMM(**SMALL).fit(NUMBERS, LABELS))
    LinearCRF(attributes=flat).fit(NUMBERS, LABELS).save(path)
    with pytest.raises(TypeError, match="its attributes are conjunctions"):
        runtime.load(path)


def test_discovered_features_are_refused(path):
    model = FutureFeatureMEMM(order=0, bag_size=2, max_iter=3, max_future_features=1)
    model.fit(["abab", "ba"] * 5, ["xyxy", "yx"] * 5).save(path)
    with pytest.raises(TypeError, match="the model is a FutureFeatureMEMM"):
        runtime.load(path)


def test_damaged_files_are_refused(path):
    saved(MODELS["trees"], path)
    content = path.read_bytes()
    for damaged in (content[:-5], content[:40], b"", pickle.dumps(3), content + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            runtime.load(path)
    path.write_bytes(pickle.dumps(DecisionTreeClassifier()))
    with pytest.raises(ModelFileError, match="not a treecrf model"):
        runtime.load(path)
    with pytest.raises(FileNotFoundError):
        runtime.load(path.with_name("missing"))


@pytest.mark.parametrize("name", ["trees", "linear", "backward", "beam", "linear start"])
def test_forged_files_are_refused_like_by_load(name, path):
    """Files with a right checksum, in which one value or array is another."""
    saved(MODELS[name], path)
    values, arrays = read(path)
    forged = [({**values, "class": other}, arrays) for other in ("Other", "LinearCRF", 3, None)]
    forged += [({**values, key: None}, arrays) for key in values if key != "columns"]
    for key in arrays:
        array = arrays[key]
        forged.append((values, {k: v for k, v in arrays.items() if k != key}))
        forged.append((values, {**arrays, key: array[:-1] if array.ndim else array}))
    for decoding in ("other", 3, None):
        parameters = {**values["parameters"], "decoding": decoding}
        forged.append(({**values, "parameters": parameters}, arrays))
    n_refused = 0
    for contents in forged:
        path.write_bytes(sealed(*contents))
        if is_refused(treecrf.load, path):
            n_refused += 1
            # What does not concern predictions is not read.
            if not is_refused(runtime.load, path):
                runtime.load(path).predict(NUMBERS)
        else:
            assert not is_refused(runtime.load, path)
    assert n_refused > 10


def is_refused(load: object, path: Path) -> bool:
    try:
        load(path)
    except (ModelFileError, TypeError):
        return True
    return False


# Imports


SCRIPT = """
import sys

HEAVY = ("sklearn", "scipy", "pandas", "joblib", "polars", "pyarrow")


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"import of {name}", name=name)


sys.meta_path.insert(0, Refuse())
import numpy as np
from treecrf import runtime

for path in sys.argv[2:]:
    labeler = runtime.load(path)
    for x in eval(sys.argv[1]):
        assert len(labeler.predict([x])[0]) == len(x)
        assert len(labeler.predict_proba([x])[0]) == len(x)
        assert len(labeler.decode([x])[0][0]) == len(x)
        assert len(labeler.decode([x], 2)[0][0][0]) == len(x)
        stream = labeler.stream(1)
        assert sum(stream.push(row) is not None for row in x) + len(stream.finish()) == len(x)
found = [name for name in sys.modules if name.partition(".")[0] in HEAVY]
assert not found, found
"""
TREES = ["trees", "trees and rules", "constant transitions", "order 2", "MEMM"]
NAMES_BY_FORM = {
    "array": [*TREES, "linear", "linear start"],
    "string": [*TREES, "linear", "linear start"],
    "dicts": [*TREES, "linear", "linear start"],
    "attributes": [*TREES, "linear", "linear start"],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", NAMES_BY_FORM)
def test_nothing_but_numpy_is_needed(form, tmp_path):
    paths = []
    for name in NAMES_BY_FORM[form]:
        paths.append(str(tmp_path / f"{name}.treecrf"))
        saved(MODELS[name], Path(paths[-1]), form)
    # Few and many positions.
    items = [sequence(NUMBERS[i], form) for i in (0, 2)]
    with np.printoptions(threshold=sys.maxsize):
        text = repr(items).replace("array(", "np.array(")
    command = [sys.executable, "-c", SCRIPT, text, *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_the_package_and_load_are_attributes_that_import_little():
    code = (
        "import sys, treecrf; treecrf.runtime; "
        "assert not {'sklearn', 'scipy'} & set(sys.modules); treecrf.load, treecrf.TreeCRF"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
