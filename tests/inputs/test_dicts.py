"""Lists of dicts as in CRFsuite: sparse columns with one name per key."""

from __future__ import annotations

import copy
import datetime
import pickle
import re

import numpy as np
import pytest
from scipy import sparse
from support.family import assert_equal_arrays
from support.inputs import small

from treecrf import LinearCRF
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER
from treecrf.learners.base.fitted import fitted_model

NAN = np.nan


def rows_of(X, **options) -> np.ndarray:
    pieces = [piece for _, _, piece in as_sequences(X, **options).pieces()]
    return sparse.vstack(pieces).toarray()


def random_dicts(n: int, rng: np.random.Generator) -> list[dict]:
    """Keys of every kind, some of them absent."""
    words = rng.choice(["the", "cat", "dog", "barks"], n)
    rows = [{"word": str(word), "length": len(word), "is_noun": word[1] in "ao"} for word in words]
    for row in rows:
        if rng.random() < 0.3:
            row["rare"] = int(rng.integers(1, 4))
        if rng.random() < 0.2:
            del row["word"]
    return rows


@pytest.fixture(scope="module")
def sentences() -> list[list[dict]]:
    rng = np.random.default_rng(0)
    return [random_dicts(n, rng) for n in (9, 1, 12, 30, 2, 17)]


@pytest.fixture(scope="module")
def labels(sentences) -> list[list[str]]:
    return [["n" if row["is_noun"] else "v" if "rare" in row else "o" for row in rows]
            for rows in sentences]  # fmt: skip


def test_types_of_values():
    X = [
        [{"w": "b", "n": 2, "f": True}, {"w": "a", "n": 0.5, "f": False}],
        [{}, {"w": None, "n": NAN, "f": None}, {"new": np.int8(-3)}, {"w": np.str_("é")}],
    ]
    sequences = as_sequences(X)
    assert sequences.form == "sparse"
    assert sequences.names == ("f", "n", "new", "w")
    assert sequences.kinds.tolist() == [BOOLEAN, NUMBER, NUMBER, CATEGORY]
    assert sequences.categories[3].tolist() == ["a", "b", "é"]
    expected = [
        [1, 2, 0, 2], [0, 0.5, 0, 1], [0, 0, 0, 0], [NAN, NAN, 0, NAN], [0, 0, -3, 0], [0, 0, 0, 3],
    ]  # fmt: skip
    np.testing.assert_array_equal(rows_of(X), expected)


def test_dicts_train_the_same_model_as_matrices(sentences, labels):
    # Class weights avoid ties, which the first column in storage would win.
    options = {"window": 0, "class_weight": {"n": 1.0, "o": 1.1, "v": 1.23}}
    crf = small(**options).fit(sentences, labels)
    words = ["barks", "cat", "dog", "the"]
    matrices = [
        sparse.csr_array([
            [row["is_noun"], row["length"], row.get("rare", 0)]
            + [row.get("word") == word for word in words]
            for row in rows
        ], dtype=float)
        for rows in sentences
    ]  # fmt: skip
    other = small(**options).fit(matrices, labels)
    np.testing.assert_allclose(
        np.concatenate(crf.predict_proba(sentences)), np.concatenate(other.predict_proba(matrices))
    )
    assert crf.feature_names_in_.tolist() == ["is_noun", "length", "rare", "word"]
    assert crf.score(sentences, labels) > 0.9


def test_flags_train_the_same_model_as_a_boolean_matrix(sentences, labels):
    flags = [[{f"word={r.get('word')}": True, f"length={r['length']}": True} for r in rows]
             for rows in sentences]  # fmt: skip
    crf = small().fit(flags, labels)
    names = crf.get_feature_names_out().tolist()
    assert names == sorted(names)
    arrays = [np.array([[name in row for name in names] for row in rows]) for rows in flags]
    matrices = [sparse.csr_array(array) for array in arrays]
    expected = small().fit(matrices, labels).predict_proba(matrices)
    np.testing.assert_array_equal(
        np.concatenate(crf.predict_proba(flags)), np.concatenate(expected)
    )


def test_unseen_keys_are_ignored_and_unseen_values_absent(sentences, labels):
    crf = small().fit(sentences, labels)
    expected = np.concatenate(crf.predict_proba(sentences))
    more = [[row | {"shape": "Xx", "unseen": 3} for row in rows] for rows in sentences]
    np.testing.assert_array_equal(np.concatenate(crf.predict_proba(more)), expected)
    new = [[row | {"word": "mews"} for row in rows] for rows in sentences]
    gone = [[{k: v for k, v in row.items() if k != "word"} for row in rows] for rows in sentences]
    assert_equal_arrays(crf.predict_proba(new), crf.predict_proba(gone))
    # Keys that are in no dict are absent.
    without = [[{k: v for k, v in row.items() if k != "rare"} for row in rows] for rows in more]
    assert np.isfinite(np.concatenate(crf.predict_proba(without))).all()
    assert np.isfinite(np.concatenate(crf.predict_proba([[{}], [{}, {}]]))).all()


def test_a_model_that_has_read_dicts_can_be_copied(sentences, labels):
    crf = small().fit(sentences, labels)
    size, expected = len(pickle.dumps(crf)), crf.predict_proba(sentences)
    assert len(pickle.dumps(crf)) - size < 100  # codes of strings are not part of a copy
    for again in (pickle.loads(pickle.dumps(crf)), copy.deepcopy(crf)):
        np.testing.assert_array_equal(
            np.concatenate(again.predict_proba(sentences)), np.concatenate(expected)
        )


def test_categorical_features_are_keys(sentences, labels):
    crf = small(categorical_features=["word", "length"]).fit(sentences, labels)
    assert fitted_model(crf).chain.schema.categories[1].tolist() == [3, 5]
    rows = rows_of([[{"a": 0, "b": "x"}, {"a": 7}, {}]], categorical_features=["a", "b"])
    np.testing.assert_array_equal(rows, [[1, 1], [2, 0], [0, 0]])  # 0 is given, {} is absent
    with pytest.raises(TypeError, match="column 'word': 'barks' is a string; the column is not in"):
        small(categorical_features=["length"]).fit([[{"word": "barks", "length": 5}]], ["x"])


def test_a_frame_and_its_rows_as_dicts_train_the_same_model(sentences, labels):
    pandas = pytest.importorskip("pandas")
    full = [[{"word": row.get("word", "-"), "length": row["length"]} for row in rows]
            for rows in sentences]  # fmt: skip
    frames = [pandas.DataFrame(rows) for rows in full]
    for crf in (small().fit(full, labels), small().fit(frames, labels)):
        assert_equal_arrays(crf.predict_proba(full), crf.predict_proba(frames))


BAD = {
    "infinite": (
        [[{"a": 1}], [{}, {"a": -np.inf}]],
        ValueError,
        "sequence 1, position 1, column 'a': -inf is infinite",
    ),
    "sets": (
        [[{"a": {1}}]],
        TypeError,
        "sequence 0, position 0 has a set with a value of type int; expected strings only",
    ),
    "lists with None": (
        [[{"a": ["x", None]}]],
        TypeError,
        "position 0 has a list with a value of type NoneType; expected strings only",
    ),
    "bytes": ([[{"a": b"\xff"}]], ValueError, r"has bytes that are not UTF-8: b'\xff'"),
    "nested keys that are no strings": (
        [[{}], [{"a": {3: "x"}}]],
        TypeError,
        "sequence 1, position 0: the key 3 is of type int; expected strings",
    ),
    "values that do not add up": (
        [[{"a": {"b": 1}, "a:b": np.datetime64("2004-01-01")}]],
        ValueError,
        "position 0 has the key 'a:b' twice, with values that do not add up",
    ),
    "dates": (
        [[{"a": np.datetime64("2004-01-01")}]],
        TypeError,
        "sequence 0, position 0, column 'a': datetime.date(2004, 1, 1) is of type datetime64; add",
    ),
    "keys that are no strings": ([[{3: "x"}]], TypeError, "the key 3 is of type int; expected str"),
    "something else among dicts": (
        [[{"a": 1}], [{"a": 1}, "b"]],
        TypeError,
        "sequence 1, position 1 is of type str; expected a dict or a list of strings, as at",
    ),
    "a dict as a sequence": ([{"a": 1}, {"a": 2}], TypeError, "sequence 0 is a dict; expected"),
    "a dict as X": ({"a": 1}, TypeError, "X is of type dict; expected a list of sequences"),
    "no keys": ([[{}, {}]], ValueError, "the sequences have 0 features: all positions are empty"),
    "an empty sequence": ([[{"a": 1}], []], ValueError, "sequence 1 is empty"),
    "arrays among dicts": (
        [[{"a": 1}], np.zeros((2, 1))],
        ValueError,
        "sequence 1 is a 2-D array of float64, sequence 0 is a list of dicts",
    ),
    "numbers beyond float64": ([[{"a": 10**400}]], ValueError, "... is outside the range of"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_dicts_are_refused(case):
    X, error, message = BAD[case]
    with pytest.raises(error, match=re.escape(message)) as refused:
        small().fit(X, [[0], [1]])
    assert type(refused.value) is error


@pytest.mark.filterwarnings("ignore:nothing in a sequence is known")
def test_values_of_another_kind_are_ignored_with_a_warning(sentences, labels):
    crf = small().fit(sentences, labels)
    for row in [{"length": "long"}, {"word": 5}, {"word": True}]:
        with pytest.warns(UserWarning, match="some keys of X have strings where the training"):
            found = crf.predict_proba([[{"is_noun": True} | row], [row]])
        assert_equal_arrays(found, crf.predict_proba([[{"is_noun": True}], [{}]]))
    with pytest.raises(TypeError, match=r"column 'word': .* is of type date"):
        crf.predict([[{}, {"word": datetime.date(2004, 1, 1)}]])
    plain = small().fit([np.eye(2)], ["xy"])
    with pytest.raises(ValueError, match="X holds dicts, but the columns of the training data"):
        plain.predict([[{"a": 1}]])


def test_models_of_data_frames_refuse_values_of_another_kind():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"word": ["a", "b"], "length": [1, 2], "flag": [True, False]})
    crf = small().fit([frame], ["xy"])
    full = {"word": "a", "length": 1, "flag": True}
    for key, value, message in [
        ("length", "long", "sequence 0, position 1, column 'length': 'long' is a string, but 1"),
        ("word", 5, "sequence 0, position 1, column 'word': 5 is a number, but 'a'"),
        ("flag", 2, r"column 'flag': 2.0 is neither 0 nor 1; in training the column held booleans"),
        ("word", {"a"}, "column 'word': {'a'} is of type set; expected strings"),
    ]:
        with pytest.raises(TypeError, match=message):
            crf.predict([[full, full | {key: value}]])


def test_weights_of_booleans():
    X, y = [[{"a": True}, {}, {"b": True}], [{"b": True}, {"a": True}]], [[1, 0, 0], [0, 1]]
    crf = LinearCRF().fit(X, y)
    weights = crf.decision_function([[{"a": 1}], [{"a": 2}], [{"a": 0.5}], [{}]])
    one, two, half, none = (scores.ravel() for scores in weights)
    np.testing.assert_allclose([two - none, half - none], [2 * (one - none), (one - none) / 2])
    trees = small().fit(X, y)
    one, two, negative, none = trees.predict_proba([[{"a": v}] for v in (1, 2, -1, 0)])
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(negative, none)
