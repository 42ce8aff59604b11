"""Labels: all forms, and errors that name the position."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fuzz.calls import check_call, garbage
from hypothesis import given
from support.family import assert_equal_arrays
from support.settings import FIXED

from treecrf import TreeCRF
from treecrf.inputs.labels import as_labels, find_classes
from treecrf.inputs.segmentation import Segmentation


def small(**parameters) -> TreeCRF:
    return TreeCRF(**{"max_iter": 3, "l2_regularization": 1.0} | FIXED | parameters)


string_dtype = pytest.mark.skipif(
    not hasattr(np.dtypes, "StringDType"), reason="NumPy has StringDType from version 2"
)

FORMS = {
    "lists of characters": list,
    "tuples": tuple,
    "arrays of strings": lambda labels: np.array(list(labels)),
    "arrays of objects": lambda labels: np.array(list(labels), dtype=object),
    "lists of NumPy strings": lambda labels: list(map(np.str_, labels)),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_strings_train_the_same_model(form, letters, trained):
    X, y = letters
    crf = TreeCRF(**trained.get_params()).fit(X, list(map(FORMS[form], y)))
    assert crf.classes_.tolist() == trained.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(crf.train_score_, trained.train_score_)
    assert_equal_arrays(crf.predict(X), trained.predict(X))


@pytest.mark.parametrize(
    "convert",
    [
        list,
        lambda codes: codes.astype(np.int8),
        lambda codes: codes.astype(">i4"),
        lambda codes: codes.astype(np.uint64),
        lambda codes: codes.astype(float),
        lambda codes: [float(code) for code in codes],
        lambda codes: list(map(int, codes)),
    ],
)
def test_forms_of_integers_train_the_same_model(convert, tables):
    X, y = tables
    expected, crf = small().fit(X, y), small().fit(X, list(map(convert, y)))
    assert crf.classes_.dtype.kind in "iu"
    assert crf.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(crf.train_score_, expected.train_score_)
    np.testing.assert_array_equal(
        crf.predict_log_likelihood(X, y), expected.predict_log_likelihood(X, y)
    )


def test_booleans_are_labels(tables):
    X, y = tables
    crf = small().fit(X, [labels > 0 for labels in y])
    assert crf.classes_.tolist() == [False, True]
    assert all(labels.dtype == bool for labels in crf.predict(X))


def test_integers_of_different_types_stay_integers(tables):
    X, y = tables
    types = [np.uint64, np.int64, np.int8, np.uint8]
    mixed = [labels.astype(types[i % 4]) for i, labels in enumerate(y)]
    crf = small().fit(X, mixed)
    assert crf.classes_.dtype.kind in "iu"
    np.testing.assert_array_equal(crf.train_score_, small().fit(X, y).train_score_)


def test_labels_may_be_long_and_of_any_sign():
    words = ["ab", "ba"] * 5
    for labels in (["begin", "a label of many words"], [-(2**62), 2**62], ["", "é\U0001f600"]):
        crf = small(max_iter=20).fit(words, [labels, labels[::-1]] * 5)
        assert [one.tolist() for one in crf.predict(["ab", "ba"])] == [labels, labels[::-1]]


def test_objects_of_numbers_are_exact():
    labels = np.array([2**53 + 1, 1.0, 2**53], dtype=object)
    assert small().fit(["abc"], [labels]).classes_.tolist() == [1, 2**53, 2**53 + 1]


def test_a_nul_within_a_label_is_kept():
    assert small().fit(["ab"], [["a\0b", "a"]]).classes_.tolist() == ["a", "a\0b"]


@string_dtype
def test_arrays_of_string_dtype(letters, trained):
    X, y = letters
    given = [np.array(list(labels), dtype=np.dtypes.StringDType()) for labels in y]
    crf = TreeCRF(**trained.get_params()).fit(X, given)
    np.testing.assert_array_equal(crf.classes_, trained.classes_)
    assert crf.score(X, given) == trained.score(X, y)
    missing = np.array(["x", None, "y"], dtype=np.dtypes.StringDType(na_object=None))
    expected = read([["x", None, "y"]])
    assert_same_labels(read([missing]), expected)


def test_classes_are_sorted_and_columns_follow_them():
    X, y = ["ab"] * 9, [["z", "a"]] * 9
    crf = small(max_iter=20).fit(X, y)
    assert crf.classes_.tolist() == ["a", "z"]
    assert crf.predict_proba(["ab"])[0].argmax(axis=1).tolist() == [1, 0]


ABC = ["ab", "abc"]
NAN = float("nan")
BAD_Y = {
    "length": (["xy", "xy"], ValueError, "sequence 1: 2 labels for 3 positions"),
    "more labels": (["xyx", "xyz"], ValueError, "sequence 0: 3 labels for 2 positions"),
    "number of sequences": (["xy"], ValueError, "X has 2 sequences, y has 1"),
    "more sequences": (["xy", "xyz", "x"], ValueError, "X has 2 sequences, y has 3"),
    "no sequences": ([], ValueError, "X has 2 sequences, y has 0"),
    "None": (None, TypeError, "y is of type NoneType; expected a list of label sequences"),
    "number": (3, TypeError, "y is of type int; expected a list of label sequences"),
    "dict": ({"xy": 1, "xyz": 2}, TypeError, "y is of type dict; expected a list of label"),
    "set": ({"xy", "xyz"}, TypeError, "y is of type set; expected a list of label sequences"),
    "single label": (["xx", "xxx"], ValueError, "y holds only the label 'x'; expected at least 2"),
    "single integer": ([[7, 7], [7, 7, 7]], ValueError, "y holds only the label 7; expected"),
    "types in a sequence": ([["x", 1], "xyz"], TypeError, "sequence 0, position 1: label 1 is of"),
    "boolean and string": ([[True, "a"], "xyz"], TypeError, "sequence 0, position 0: label True"),
    "types of sequences": (["xy", [1, 2, 3]], TypeError, "y mixes strings and numbers"),
    "no labels": ([[None, NAN], None], ValueError, "y holds no labels; expected at least 2"),
    "empty set": ([["x", set()], "xyz"], ValueError, "sequence 0, position 1: the set of labels"),
    "set with a missing label": ([["x", {None}], "xyz"], TypeError, "position 1: {None} holds"),
    "types in a set": ([["x", {"y", 1}], "xyz"], TypeError, "holds values that are not labels"),
    "fraction in a set": ([[0, {0.5}], [1, 2, 3]], TypeError, "0, position 1: {0.5} holds"),
    "set of another type": ([[0, {"x"}], [1, 2, 3]], TypeError, "position 0: label 0 is of type"),
    "types and missing labels": (["xy", [None, 1, 0]], TypeError, "y mixes strings and numbers"),
    "fraction after a missing label": ([[0, 1], [NAN, 0.5, 1]], ValueError, "1, position 1: label"),
    "length with missing labels": ([[0], [NAN, 0, 1]], ValueError, "sequence 0: 1 labels for 2"),
    "a set as a sequence": ([{"x", "y"}, "xyz"], ValueError, "sequence 0: labels have 0 dimen"),
    "fraction": ([[0, 1], [0, 0.5, 1]], ValueError, "sequence 1, position 1: label 0.5 is not a"),
    "infinity": ([[0, np.inf], [0, 0, 1]], ValueError, "sequence 0, position 1: label inf is not"),
    "large float": ([[0, 1e300], [0, 0, 1]], ValueError, "sequence 0, position 1: label 1e+300"),
    "large integer": ([[0, 2**70], [0, 0, 1]], ValueError, "sequence 0, position 1: label 1180591"),
    "2-D": ([[[0], [1]], [0, 1, 0]], ValueError, "sequence 0: labels have 2 dimensions; expect"),
    "0-D": ([0, 1], ValueError, "sequence 0: labels have 0 dimensions; expected 1"),
    "ragged": ([[0, 1], [[0], 1, 2]], TypeError, "sequence 1, position 0: label [0] is of type"),
    "bytes": ([b"xy", b"xyz"], TypeError, "sequence 0: labels are bytes; decode them to a string"),
    "array of bytes": (
        [np.array([b"x", b"y"]), "xyz"],
        TypeError,
        "sequence 0 holds labels of type |S1; expected strings or integers",
    ),
    "bytes in a list": ([[b"x", b"y"], "xyz"], TypeError, "sequence 0, position 0: label b'x' is"),
    "durations": ([np.array([1, 2], "m8[s]"), [1, 2, 3]], TypeError, "sequence 0 holds labels of"),
    "unsigned": (
        [[0, 1], np.array([0, 1, 2**64 - 1], dtype=np.uint64)],
        ValueError,
        "sequence 1, position 2: label 18446744073709551615 is outside the range of int64",
    ),
    "large and small": (
        [[-1, 2**63], [0, 0, 1]],
        ValueError,
        "sequence 0, position 1: label 9223372036854775808 is outside the range of int64",
    ),
    "NUL at the end of a string": ([["a", "b\0"], "xyz"], ValueError, "position 1: label 'b\\x00'"),
    "NUL": (["xy", "x\0z"], ValueError, "sequence 1, position 1: label '\\x00' ends with a NUL"),
    "complex": ([[1j, 2], [1, 2, 3]], TypeError, "sequence 0, position 0: label 1j is of type"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_Y)
def test_bad_labels_are_refused(case):
    y, error, message = BAD_Y[case]
    with pytest.raises(error, match=re.escape(message)) as refused:
        small().fit(ABC, y)
    assert type(refused.value) is error


def test_length_of_a_later_sequence():
    X, y = ["ab"] * 12 + ["a" * 15], ["xy"] * 12 + ["x" * 14]
    with pytest.raises(ValueError, match=r"^sequence 12: 14 labels for 15 positions$"):
        small().fit(X, y)


def test_labels_unseen_in_training(trained):
    unseen = r"sequence 1, position 2: label '\?' was not seen in training"
    with pytest.raises(ValueError, match=unseen):
        trained.predict_log_likelihood(["ab", "abc"], ["xy", "xy?"])
    with pytest.raises(ValueError, match=unseen):
        small().fit(["ab"], ["xy"], ["ab", "abc"], ["xy", "xy?"])


def test_an_unseen_label_is_reported_with_its_position(letters):
    """The number of the sequence refers to the argument, in training and validation data."""
    X, y = letters
    crf = small(warm_start=True, early_stopping=True, validation_fraction=0.5, random_state=0)
    crf.fit(X, y).set_params(max_iter=9)
    for i in (5, 6, 7, 8):
        unseen = [*y[:i], "?" + y[i][1:], *y[i + 1 :]]
        with pytest.raises(
            ValueError, match=f"^sequence {i}, position 0: label '\\?' was not seen"
        ):
            crf.fit(X, unseen)


@pytest.mark.parametrize("method", ["predict_log_likelihood", "score"])
def test_labels_of_another_type_than_in_training(method, trained):
    with pytest.raises((ValueError, TypeError), match="y holds integers, but the labels of the"):
        getattr(trained, method)(["ab"], [[0, 1]])
    numbers = small().fit(["ab"], [[0, 1]])
    with pytest.raises((ValueError, TypeError), match="y holds strings, but the labels of the"):
        getattr(numbers, method)(["ab"], ["xy"])


def test_score_counts_unseen_labels_as_wrong(trained):
    word = "abab"
    labels = "".join(trained.predict([word])[0])
    assert trained.score([word], [labels]) == 1
    assert trained.score([word], [labels[:3] + "?"]) == 0.75


# Unknown labels


def read(y, **long):
    """Read labels of any number of positions."""
    lengths = [len(item) for item in y] if not long else long["lengths"]
    offsets = np.cumsum([0, *lengths])
    return as_labels(y, offsets, Segmentation(**long))


def assert_same_labels(one, other):
    classes = find_classes(other.present())
    np.testing.assert_array_equal(find_classes(one.present()), classes)
    assert_equal_arrays(one.encoded(classes), other.encoded(classes))
    np.testing.assert_array_equal(one.known, other.known)


NUMBERS = [1, None, 0, None]
UNKNOWN_NUMBERS = {
    "NaN in a list": [1, NAN, 0, NAN],
    "NaN in floats": np.array([1, NAN, 0, NAN]),
    "NaN in objects": np.array([1, NAN, 0, None], dtype=object),
    "masked": np.ma.masked_array([1, 7, 0, 8], mask=[0, 1, 0, 1]),
    "masked constant": [1, np.ma.masked, 0, np.ma.masked],
}


@pytest.mark.parametrize("form", UNKNOWN_NUMBERS)
def test_forms_of_unknown_numbers(form):
    assert_same_labels(read([UNKNOWN_NUMBERS[form], [1]]), read([NUMBERS, [1]]))


def test_unknown_labels_of_pandas():
    pandas = pytest.importorskip("pandas")
    numbers, letters = read([NUMBERS]), read([["x", None, "y"]])
    for labels, expected in (
        (pandas.array([1, pandas.NA, 0, None], dtype="Int64"), numbers),
        (pandas.Series([1, None, 0, None]), numbers),
        (pandas.Series(["x", None, "y"], dtype="string"), letters),
        (pandas.Series(["x", None, "y"], dtype="category"), letters),
        (["x", pandas.NaT, "y"], letters),
        (np.ma.masked_array(["x", "z", "y"], mask=[0, 1, 0]), letters),
    ):
        assert_same_labels(read([labels]), expected)


def test_codes_and_candidates():
    y = [["x", None, {"z", "x"}], None, ["y", frozenset("y")]]
    labels = as_labels(y, np.array([0, 3, 4, 6]), Segmentation())
    assert find_classes(labels.present()).tolist() == ["x", "y", "z"]
    assert labels.known.tolist() == [True, False, False, False, True, True]
    codes, candidates = labels.encoded(find_classes(labels.present()))
    assert codes[labels.known].tolist() == [0, 1, 1]
    expected = [[1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 1, 0]]
    np.testing.assert_array_equal(candidates, np.array(expected, dtype=bool))
    with pytest.raises(ValueError, match=r"^sequence 0, position 1: the label is unknown"):
        labels.complete()
    with pytest.raises(ValueError, match=r"^sequence 0, position 2: label 'z' was not seen"):
        labels.encoded(np.array(["x", "y"]))


def test_sets_of_one_label_are_known():
    labels = read([[{0}, 1, frozenset([2])]])
    assert labels.are_complete
    assert labels.encoded(np.arange(3))[1] is None


def test_minus_one_is_a_label():
    assert find_classes(read([[-1, 0, 1]]).present()).tolist() == [-1, 0, 1]


def test_unknown_labels_of_a_long_table():
    long = read([1, None, {0, 2}, NAN], lengths=[3, 1])
    assert_same_labels(long, read([[1, None, {0, 2}], [None]]))
    assert long.offsets.tolist() == [0, 3, 4]


@given(garbage)
def test_garbage_works_or_raises(trained, y):
    check_call(lambda: small(max_iter=1).fit(["ab", "b"], y).predict_proba(["ab"]))
    check_call(lambda: small(max_iter=1).fit(["ab", "b"], [y, [1]]).predict_proba(["ab"]))
    check_call(lambda: trained.predict_log_likelihood(["ab", "b"], y))


@pytest.mark.parametrize(
    ("y", "place"),
    [
        ([["a", "b"], "a", "b"], "sequence 0, position 0: label ['a', 'b'] is of type list"),
        (["a", ("b", "a"), "b"], "sequence 0, position 1: label ('b', 'a') is of type tuple"),
        ([["a"], ["b"], ["a"]], "sequence 0: labels have 2 dimensions; expected 1"),
        ([[1, 2], 1, 2], "sequence 0, position 0: label [1, 2] is of type list"),
        ([None, [1, 2], 2], "sequence 0, position 1: label [1, 2] is of type list"),
    ],
)
def test_lists_of_possible_labels_are_refused_with_the_name_of_sets(y, place):
    with pytest.raises((TypeError, ValueError), match=re.escape(place)) as refused:
        small().fit([[[0.0], [1.0], [2.0]][: len(y)]], [y])
    assert re.search(r"labels, such as \{('[ab]'|[12])", str(refused.value))
