"""Items: the attributes that CRFsuite makes of dicts, lists and sets."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf.crfsuite import ItemSequence

FORMS = {
    "attributes": (["a", "b"], {"a": 1.0, "b": 1.0}),
    "set": ({"a"}, {"a": 1.0}),
    "keys": ({"a": 3}.keys(), {"a": 1.0}),
    "numbers": ({"a": 2, "b": 0.5, "c": np.float32(0.25)}, {"a": 2.0, "b": 0.5, "c": 0.25}),
    "booleans": ({"a": True, "b": False, "c": np.True_}, {"a": 1.0, "b": 0.0, "c": 1.0}),
    "strings": ({"a": "x", "b": np.str_("y"), "c": ""}, {"a:x": 1.0, "b:y": 1.0, "c:": 1.0}),
    "bytes": ({b"k": "é".encode()}, {"k:é": 1.0}),
    "nested": (
        {"next": {"word": "b", "title": True, "more": {"x": ["p", "q"]}}},
        {"next:word:b": 1.0, "next:title": 1.0, "next:more:x:p": 1.0, "next:more:x:q": 1.0},
    ),
    "sets in dicts": (
        {"a": {"x"}, "b": frozenset({"y"}), "c": ("z",)},
        {"a:x": 1, "b:y": 1, "c:z": 1},
    ),
    "twice": (["a", "a", "b"], {"a": 2.0, "b": 1.0}),
    "twice by different ways": ({"a": "b", "a:b": 0.5}, {"a:b": 1.5}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_items(name):
    item, attributes = FORMS[name]
    sequence = ItemSequence(iter([item]))
    assert sequence.items() == [attributes]
    assert ItemSequence(sequence.items()).items() == [attributes]


@pytest.mark.parametrize("name", [name for name in FORMS if not name.startswith("twice")])
def test_forms_are_those_of_python_crfsuite(name):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    item, _ = FORMS[name]
    if name == "sets in dicts":
        item = {"a": {"x"}}  # the only collections it takes there are dicts, lists and sets
    assert ItemSequence([item]).items() == pycrfsuite.ItemSequence([item]).items()


def test_sequences_have_a_length_and_a_representation():
    sequence = ItemSequence([["a"], {}])
    assert len(sequence) == 2
    assert repr(sequence) == "<ItemSequence of size 2>"


def test_items_returns_copies():
    sequence = ItemSequence([["a"]])
    sequence.items()[0]["b"] = 1.0
    assert sequence.items() == [{"a": 1.0}]


@pytest.mark.parametrize(
    ("sequence", "error", "message"),
    [
        ("ab", TypeError, "the sequence is a str"),
        (["ab"], TypeError, "position 0: the item is a str"),
        ([["a"], [{"b": 1}]], TypeError, "position 1: the name {'b': 1} is of type dict"),
        ([{"a": None}], TypeError, "position 0: attribute 'a' has a value of type NoneType"),
        ([{"a": {"b": object}}], TypeError, "attribute 'a:b' has a value of type type"),
        ([{1: "a"}], TypeError, "the name 1 is of type int; expected a string"),
        ([{b"\xff": 1}], ValueError, "is not UTF-8"),
    ],
)
def test_other_forms_are_refused(sequence, error, message):
    with pytest.raises(error, match=message):
        ItemSequence(sequence)


def test_a_dict_within_itself_is_refused():
    item: dict = {}
    item["a"] = item
    with pytest.raises(ValueError, match="more than 100 dicts"):
        ItemSequence([item])
