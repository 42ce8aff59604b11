"""Model files: loaded models predict the same to the last bit; other files are refused."""

from __future__ import annotations

import json
import os
import pickle
import stat
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cases import STORAGES, random_sequences
from support.family import assert_close_arrays, assert_predicts_the_same
from support.model_files import npy, read, sealed, sealed_archive, zipped

import treecrf
from treecrf import ModelFileError, TreeCRF
from treecrf.utils.model_file import MAGIC, VERSION

MODELS = Path(__file__).parent / "models"
DAMAGED = r"not a treecrf model|the file is damaged or incomplete"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.treecrf"


@pytest.fixture(scope="module")
def saved(letters, tmp_path_factory) -> Path:
    """File of a small model."""
    path = tmp_path_factory.mktemp("saved") / "model.treecrf"
    TreeCRF(window=1, max_iter=2, max_leaf_nodes=4).fit(*letters).save(path)
    return path


def refused(path: Path, values: object, arrays: dict, match: str | None = None) -> None:
    """Check that a file with these contents is not loaded."""
    path.write_bytes(sealed(values, arrays))
    with pytest.raises(ModelFileError, match=match):
        treecrf.load(path)


# Saving and loading


LABELS = [["x", "longer"], [3, -7, 2**60], [False, True]]


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        pytest.param(kind, labels, marks=() if i % 3 == j else pytest.mark.exhaustive)
        for i, kind in enumerate(STORAGES)
        for j, labels in enumerate(LABELS)
    ],
)
def test_every_form_of_input_and_label(kind, labels, path):
    rng = np.random.default_rng(0)
    lengths = [30, 1, 25, 60]
    X = random_sequences(kind, rng, lengths)
    y = [rng.choice(labels, n) for n in lengths]
    # A linear start would refuse the largest numbers.
    crf = TreeCRF(window=(2, 1), max_iter=5, l2_regularization=1.0, init="zero")
    crf = crf.fit(X, y, X[:1], y[:1])
    crf.save(path)
    again = treecrf.load(path)
    assert_predicts_the_same(crf, again, [*X, *random_sequences(kind, rng, [40, 2], new=True)])
    for name in ("classes_", "train_score_", "validation_score_", "feature_importances_"):
        np.testing.assert_array_equal(getattr(crf, name), getattr(again, name))
        assert getattr(crf, name).dtype == getattr(again, name).dtype
    assert (again.n_iter_, again.n_features_in_) == (crf.n_iter_, crf.n_features_in_)
    assert len(list(again.staged_predict_proba(X))) == crf.n_iter_


@pytest.mark.parametrize("parameters", [
    {"order": 0}, {"order": 2, "second_order": True}, {"window": [1, 2]},
    {"window": (np.int64(1), 0)}, {"class_weight": "balanced"}, {"init": "pseudo_likelihood"},
    {"class_weight": {"x": 2.0, "y": np.float32(0.5)}}, {"decoding": "viterbi", "n_jobs": 2},
    {"random_state": 7, "subsample": 0.5, "max_features": 0.5}, {"early_stopping": True},
    {"max_leaf_nodes": 2, "min_gain": 0.1, "tol": 1e-300, "learning_rate": 1 / 3},
    {"max_iter": 1, "l2_regularization": 0, "warm_start": True, "verbose": 0},
])  # fmt: skip
def test_every_kind_of_parameter(parameters, letters, path):
    X, y = letters
    crf = TreeCRF(**{"max_iter": 3} | parameters).fit(X, y)
    crf.save(path)
    again = treecrf.load(path)
    window = crf.window if isinstance(crf.window, int | str) else tuple(crf.window)
    assert again.get_params() == crf.get_params() | {"window": window}
    assert_predicts_the_same(crf, again, X)


def test_a_random_generator_is_not_saved(letters, path):
    TreeCRF(max_iter=1, random_state=np.random.RandomState(0)).fit(*letters).save(path)
    assert treecrf.load(path).random_state is None


def test_the_same_model_makes_the_same_file(trained, saved, path):
    treecrf.load(saved).save(path)
    assert path.read_bytes() == saved.read_bytes()


def test_paths_may_be_strings(trained, tmp_path, letters):
    name = os.fspath(tmp_path / "a name without an ending")
    trained.save(name)
    assert_predicts_the_same(trained, treecrf.load(name), letters[0])
    assert os.listdir(tmp_path) == ["a name without an ending"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_saved_model_is_readable_as_any_new_file(trained, path):
    trained.save(path)
    other = path.with_name("other")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


@pytest.mark.parametrize("parameters", [{"max_iter": -1}, {"decoding": "best"}, {"window": "wide"}])
def test_a_model_that_would_not_load_is_not_saved(parameters, letters, path, saved):
    path.write_bytes(saved.read_bytes())
    crf = TreeCRF(max_iter=1).fit(*letters).set_params(**parameters)
    with pytest.raises(ValueError, match=f"the model cannot be saved: .*{next(iter(parameters))}"):
        crf.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert os.listdir(path.parent) == [path.name]


def test_a_class_of_others_is_not_saved(letters, path):
    class MyCRF(TreeCRF):
        pass

    with pytest.raises(TypeError, match=r"test_model_file\.MyCRF; expected a class of treecrf"):
        MyCRF(max_iter=1).fit(*letters).save(path)
    assert not path.exists()


def test_folders_and_missing_files(trained, tmp_path):
    with pytest.raises(OSError, match="missing"):
        treecrf.load(tmp_path / "missing")
    with pytest.raises(OSError, match="missing"):
        trained.save(tmp_path / "missing" / "model")
    with pytest.raises(OSError):
        treecrf.load(tmp_path)
    with pytest.raises(OSError):
        trained.save(tmp_path)
    assert os.listdir(tmp_path) == []


# Files that are refused


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"treecrf", b"a,b\n1,2\n", MAGIC[:-1], b"\x93NUMPY", b"PK\x03\x04" + bytes(50)],
)
def test_files_of_other_kinds(content, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.treecrf: not a treecrf model"):
        treecrf.load(path)


@pytest.mark.skipif(os.name != "posix", reason="files with holes")
def test_a_file_of_another_kind_is_not_read_into_memory(path):
    path.touch()
    os.truncate(path, 1 << 43)
    with pytest.raises(ModelFileError, match="not a treecrf model"):
        treecrf.load(path)


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_truncated_files(saved, path, step):
    path.write_bytes(saved.read_bytes())
    for size in reversed(range(0, path.stat().st_size, step)):
        os.truncate(path, size)
        with pytest.raises(ModelFileError, match=DAMAGED):
            treecrf.load(path)


@settings(
    max_examples=3 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.floats(0, 1, exclude_max=True), change=st.sampled_from("xid"),
       byte=st.integers(1, 255), data=st.binary(min_size=1, max_size=9))  # fmt: skip
def test_altered_files(saved, path, place, change, byte, data):
    content = saved.read_bytes()
    at = int(place * len(content))
    path.write_bytes({
        "x": content[:at] + bytes([content[at] ^ byte]) + content[at + 1 :],
        "i": content[:at] + data + content[at:],
        "d": content[:at] + content[at + 1 :],
    }[change])  # fmt: skip
    if path.read_bytes() != content:
        with pytest.raises(ModelFileError, match=DAMAGED):
            treecrf.load(path)


def test_a_newer_version(saved, path):
    path.write_bytes(sealed(*read(saved), version=VERSION + 1))
    with pytest.raises(ModelFileError, match=f"format {VERSION + 1}; .* up to {VERSION}"):
        treecrf.load(path)


def test_an_unknown_class(saved, path):
    values, arrays = read(saved)
    refused(path, values | {"class": "TreeHMM"}, arrays, "unknown class 'TreeHMM'")


class Trap:
    """An object whose unpickling leaves a trace."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (os.fspath(self.trace),)


@pytest.mark.parametrize("name", ["json.npy", "json", "classes.npy"])
@pytest.mark.parametrize("dump", [pickle.dumps, lambda trap: npy(np.array([trap]))])
def test_nothing_in_a_file_is_executed(name, dump, path, tmp_path):
    trap = Trap(tmp_path / "trace")
    pickled = dump(trap)
    for content in (pickled, sealed_archive(pickled), sealed_archive(zipped([(name, pickled)]))):
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            treecrf.load(path)
    assert not trap.trace.exists()


# The names are the same in all processes that run tests; those of bytes would contain the time.


# The names are the same in all processes that run tests; those of bytes would contain the time.
@pytest.mark.parametrize(
    "archive",
    [b"", b"text", npy(np.array([None])), zipped([("json.npy", b"")])],
    ids=["nothing", "text", "objects", "empty member"],
)
def test_archives_of_other_kinds(archive, path):
    path.write_bytes(sealed_archive(archive))
    with pytest.raises(ModelFileError):
        treecrf.load(path)


@pytest.mark.parametrize("values", [[], "text", 3, None, {"class": ["TreeCRF"]}, {"class": None}])
def test_contents_of_the_wrong_type(values, saved, path):
    refused(path, values, read(saved)[1])


OUTSIDE = {
    "forest.true_child": (10**6, 0), "forest.false_child": (2 * 10**9, -7),
    "forest.column": (10**6, -3), "forest.offset": (10**6,), "forest.value": (10**6, -1),
    "forest.starts": (-1, 10**6), "columns.kinds": (9,), "columns.sizes": (10**6,),
    "plan.storage": (9,), "plan.slots": (10**6, -1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OUTSIDE.items() for value in values]
)
def test_numbers_that_lead_outside_the_model(name, value, saved, path):
    """A wrong number must not let a prediction read memory that is not the model's."""
    values, arrays = read(saved)
    arrays[name] = arrays[name].copy()
    inner = int(np.flatnonzero(arrays["forest.true_child"] >= 0)[0])
    arrays[name][inner if "forest" in name else 0] = value
    refused(path, values, arrays)


@pytest.mark.parametrize(("name", "value"), [("column", -2), ("offset", 1), ("value", 1)])
def test_leaves_without_tests(name, value, saved, path):
    """A leaf that tests a previous label let a prediction write outside of its arrays."""
    values, arrays = read(saved)
    array = arrays[f"forest.{name}"].copy()
    array[np.flatnonzero(arrays["forest.true_child"] < 0)[0]] = value
    refused(path, values, arrays | {f"forest.{name}": array})


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(
            [f"forest.{name}" for name in ("leaf", "starts", "true_child", "column", "value")],
            [np.float32, np.uint8, bool, "U9"],
        ),
        ("plan.slots", np.int64), ("plan.zeros", np.int8), ("columns.thresholds", np.float16),
        ("columns.sizes", np.int32), ("feature_importances", np.int64),
    ],
)  # fmt: skip
def test_numbers_of_another_type(name, dtype, saved_table, path):
    values, arrays = read(saved_table)
    refused(path, values, arrays | {name: arrays[name].astype(dtype)})


@pytest.mark.parametrize(
    ("name", "value"), [("order", -1), ("order", 60), ("n_iter", -1), ("n_iter", 3), ("seed", "a")]
)
def test_values_out_of_range(name, value, letters, path):
    # Without tests on labels, the value itself is the only sign of a wrong order.
    TreeCRF(window=1, max_iter=2, order=0).fit(*letters).save(path)
    values, arrays = read(path)
    refused(path, values | {name: value}, arrays)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(["n_ids", "n_bits"], [1, 10**8, 2**31 - 1]),  # to be added
        *product(["window"], [[10**6, 0], [0, 2**31 - 1], [1], [0, -1]]),
    ],
)
def test_no_more_memory_than_the_columns_need(name, value, saved_table, path):
    values, arrays = read(saved_table)
    values["encoder"][name] = value if name == "window" else values["encoder"][name] + value
    refused(path, values, arrays, "invalid")


@pytest.fixture(scope="module")
def saved_table(tmp_path_factory) -> Path:
    """File of a small model of categories, numbers and booleans with names."""
    rng = np.random.default_rng(0)
    n = 60
    rows = [{"room": str(rng.choice(["attic", "bath", "cellar"])), "heat": float(rng.normal()),
             "code": int(rng.integers(3)), "open": bool(rng.random() < 0.5)}
            for _ in range(n)]  # fmt: skip
    y = ["x" if row["room"] == "bath" or row["code"] == 2 else "y" for row in rows]
    path = tmp_path_factory.mktemp("saved") / "table.treecrf"
    crf = TreeCRF(window=1, max_iter=3, max_leaf_nodes=4, categorical_features=["room", "code"])
    crf.fit(rows, y, lengths=[n]).save(path)
    again = treecrf.load(path)
    assert_predicts_the_same(crf, again, [rows])
    assert again.feature_names_in_.tolist() == ["code", "heat", "open", "room"]
    assert again.categorical_features == ("room", "code")
    return path


CHANGES = {
    "columns.categories.3": [
        lambda v: v[::-1], lambda v: v[:2], lambda v: np.append(v, "z"), lambda v: v[[0, 0, 1]],
        lambda v: v.astype("S9"), lambda v: v[:, np.newaxis], lambda v: None,
    ],
    "columns.categories.0": [lambda v: v.astype(float)],
    "columns.kinds": [lambda v: v[::-1], lambda v: v * 0 + 1, lambda v: v * 0 + 2],
    "columns.sizes": [lambda v: v + 1],
    "plan.first_codes": [lambda v: 1 - v],
    "plan.has_missing": [lambda v: v[:2]],
    "names": [lambda v: v[:3], lambda v: [*v[:3], v[0]], lambda v: [*v[:3], 7]],
    "form": [lambda v: "symbols"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, some in CHANGES.items() for change in some]
)
def test_columns_that_do_not_fit_are_refused(name, change, saved_table, path):
    values, arrays = read(saved_table)
    part = values["encoder"] if name in values["encoder"] else arrays
    changed = change(part.pop(name))
    part |= {} if changed is None else {name: changed}
    refused(path, values, arrays)


# Older versions


def test_there_are_files_of_every_version():
    found = {path.stem.split("-")[0] for path in MODELS.glob("*.treecrf")}
    assert found == {f"format{version}" for version in range(1, VERSION + 1)}


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.treecrf")))
def test_files_of_every_version_are_read(name):
    stem = MODELS / name
    expected = json.loads(stem.with_suffix(".json").read_text())
    crf = treecrf.load(stem.with_suffix(".treecrf"))
    # JSON has lists and names only.
    given = {n: v for n, v in crf.get_params(deep=False).items() if n != "attributes"}
    parameters = json.loads(json.dumps(given))
    assert {n: parameters[n] for n in expected["parameters"]} == expected["parameters"]
    assert [labels.tolist() for labels in crf.predict(expected["X"])] == expected["labels"]
    assert_close_arrays(crf.predict_proba(expected["X"]), expected["probabilities"], rtol=1e-9)
    if "train_score" in expected:
        np.testing.assert_allclose(crf.train_score_, expected["train_score"])
