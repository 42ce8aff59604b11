"""Parts that are read one by one give the description and the values of all data."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from treecrf.encoding.sequence_keys import Content, keys_in, sequence_keys
from treecrf.inputs.dataset import RawData, as_sequences
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.inputs.large.parts import (
    describe_part,
    find_shared_group,
    group_of_hash,
    merged,
    merged_labels,
    read_part,
)
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Description
from treecrf.learners.large.partitioned import describe_parts

NAN = np.nan


def frame(numbers, words, flags, module=pd):
    return module.DataFrame({"number": numbers, "word": words, "flag": flags})


def frames(module):
    """Frames in which a part lacks categories, and a column is all missing."""
    return [
        frame([1.0, 2.0], ["b", "a"], [True, False], module),
        frame([NAN, NAN], ["c", None], [True, True], module),
        frame([3.0], [None], [False], module),
        frame([5.0, 4.0], ["a", "a"], [False, True], module),
    ]


CASES = {
    "strings": ["abca", "b", "dd", "a"],
    "integers": [[1, 2], [7, 2, 2], [3], [1]],
    "missing symbols": [["a", "b"], ["c", None], [None], ["a", "zz"]],
    "symbols all missing": [["a", "b"], [None, None], ["c"]],
    "floats": [np.array([[1.0, NAN]]), np.array([[2.0, NAN], [0.5, 3.0]]), np.array([[NAN, NAN]])],
    "integers and floats": [np.array([[1, 2]]), np.array([[0.5, NAN]]), np.array([[3, 4]])],
    "booleans": [np.array([[True, False]]), np.array([[False, False]]), np.array([[True, True]])],
    "booleans and floats": [np.array([[True]]), np.array([[2.0]]), np.array([[False]])],
    "objects": [
        np.array([["a", 1.0, True], [None, 2.0, False]], dtype=object),
        np.array([["c", None, True]], dtype=object),
        np.array([[None, 3.0, None]], dtype=object),
    ],
    "floats and objects": [
        np.array([[NAN, 1.0]]),
        np.array([["b", 2.0]], dtype=object),
        np.array([["a", NAN]], dtype=object),
    ],
    "sparse": [sparse.csr_array(np.array([[0.0, 2.0]])), sparse.csr_array(np.array([[NAN, 0.0]]))],
    "sparse booleans": [sparse.csr_array(np.eye(2, dtype=bool)), sparse.csr_array(np.eye(2) > 2)],
    "dicts": [
        [{"a": 1.5, "w": "x"}, {}],
        [{}, {}],
        [{"b": True}, {"w": "z", "a": None}],
        [{"w": "y", "b": False}],
        [{"w": None}],
    ],
    "dicts of booleans and numbers": [[{"a": True}], [{"a": 2.0}], [{"a": NAN}]],
    "strings beside numbers": [
        [{"p": ","}, {"p": None}], [{"p": False}], [{"p": "."}], [{"p:,": 0.5, "w": "a"}],
    ],
    "strings beside False": [[{"p": "a"}], [{"p": False}]],
    "nested": [[{"n": {"w": "a", "m": {"k": 1}}}], [{}], [{"n": {"w": "b"}}, {"n:w": None}]],
    "strings and sets of strings": [
        [{"w": "a"}, {"w": None}], [{"w": {"b"}}], [{"w": "b", "v": "c"}], [{"w": ["a", "a"]}],
    ],
    "chains of names": [[{"a": "b"}], [{"a:b": "c"}], [{"a:b:c": "d"}], [{"a": {"b:c:d": 1}}]],
    "nothing": [[{"a": {}}, {"b": []}], [{"a": "b"}], [[], {}], [{"c": set()}]],
    "two strings of a key": [[{"a": {"b": "x"}, "a:b": "y"}], [{"a:b": "z"}], [{"a:b": "y"}]],
    "dicts and lists": [[{"a": 1}, ["b"]], [["a", "c"], []], [{"d": "x"}]],
    "attributes": [[["x", "y"], []], [["y"]], [[], []], [["z", "x", "t"]]],
    "attributes of one length": [[["x", "y"]], [["y"], ["x"]], [["t", "x"], ["a", "b"]]],
    "sets": [[{"x", "y"}], [{"y", "z"}, {"x", "t"}]],
    "rows of strings": [[["x", "y"]], [["y", "u"], ["x", "y"]]],
    "pandas": frames(pd),
    "polars": frames(pl),
    "other order of columns": [
        frame([1.0], ["b"], [True]),
        frame([2.0], ["a"], [True])[["flag", "word", "number"]],
    ],
}  # fmt: skip


TABLE = frame([1], ["a"], [True])


def raw(X, y=None):
    return RawData(X, y or [[0] * _length(x) for x in X], Segmentation())


def _length(x):
    return x.shape[0] if hasattr(x, "shape") else len(x)


def described(raws, categorical="from_dtype"):
    raws = [replace(raw, place=f"partition {i}") for i, raw in enumerate(raws)]
    parts = [describe_part(raw, categorical) for raw in raws]
    return [part for part in parts if part is not None]


def assert_same_schema(ours, theirs):
    assert ours.form == theirs.form
    assert ours.names == theirs.names
    assert ours.kinds.tolist() == theirs.kinds.tolist()
    assert ours.kinds.dtype == theirs.kinds.dtype
    assert list(ours.categories) == list(theirs.categories)
    for values, others in zip(ours.categories.values(), theirs.categories.values(), strict=True):
        assert values.tolist() == others.tolist()
        assert values.dtype == others.dtype


@pytest.mark.filterwarnings("ignore:lists of strings are attributes")
@pytest.mark.parametrize("form", CASES)
@pytest.mark.parametrize("cut", [1, 2])
def test_parts_are_described_and_read_like_all(form, cut):
    X = CASES[form]
    whole = as_sequences(X)
    expected = Description.of(whole)
    raws = [raw(X[i : i + cut]) for i in range(0, len(X), cut)]
    raws.insert(1, raw([]))
    parts = described(raws)
    assert len(parts) == len(raws) - 1
    found = merged(parts)
    assert_same_schema(found.schema, expected.schema)
    assert found.form == expected.form
    assert found.is_boolean == expected.is_boolean
    assert (found.n_sequences, found.n_positions) == (whole.n_sequences, whole.n_positions)
    assert found.longest == expected.longest
    sequences = [read_part(part, found)[0] for i, part in enumerate(raws) if i != 1]
    keys = np.concatenate(keys_in(LocalPartitions([Content(part) for part in sequences])))
    assert keys.tolist() == sequence_keys(Content(whole)).tolist()
    assert {part.form for part in sequences} == {whole.form}


def test_columns_that_are_missing_everywhere():
    for X in (
        [pd.DataFrame({"a": [1.0], "b": [None]}), pd.DataFrame({"a": [2.0], "b": [NAN]})],
        [pd.DataFrame({"a": [1.0], "b": [None]}), pd.DataFrame({"a": [2.0], "b": [None]})],
        [[{"a": None}], [{"a": None}]],
    ):
        found = merged(described([raw([item]) for item in X]))
        assert_same_schema(found.schema, as_sequences(X).schema)


@pytest.mark.parametrize(
    ("first", "second", "error", "message"),
    [
        (["ab"], [[1, 2]], TypeError,
         "X holds strings in partition 0, but X holds integers in partition 1"),
        (["ab"], [np.eye(2)], ValueError,
         "partition 0 holds symbols, but partition 1 holds tables"),
        ([np.eye(2)], [sparse.csr_array(np.eye(2))], ValueError,
         "partition 0 holds tables, but partition 1 holds sparse tables"),
        ([np.eye(2)], [np.eye(3)], ValueError,
         "partition 0 has 2 features, but partition 1 has 3 features"),
        ([TABLE], [frame([1], [2.0], [True])], TypeError,
         "column 'word' holds categories in partition 0, but numbers in partition 1"),
        ([TABLE], [TABLE[["word", "flag"]]], ValueError,
         "partition 1 lacks the column 'number' of partition 0"),
        ([TABLE], [TABLE.set_axis(range(3), axis=1)], ValueError,
         "partition 0 has column names, but partition 1 has no column names"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(first, second, error, message):
    with pytest.raises(error, match=message):
        merged(described([raw(first), raw(second)]))


def test_categories_of_different_types():
    frames = [pd.DataFrame({"a": values}) for values in (["x"], [3])]
    message = (
        "column 'a' holds strings in partition 0, but column 'a' holds integers in partition 1"
    )
    with pytest.raises(TypeError, match=message):
        merged(described([raw([frame]) for frame in frames], ["a"]))


def test_errors_name_the_partition():
    with pytest.raises(ValueError, match=r"^partition 3: sequence 1 is empty"):
        describe_part(replace(raw(["ab", ""]), place="partition 3"), "from_dtype")
    with pytest.raises(ValueError, match=r"^partition 2: sequence 0: 1 labels for 2 positions"):
        describe_part(replace(raw(["ab"], ["x"]), place="partition 2"), "from_dtype")


def test_labels_of_parts():
    def of(*labels):
        return merged_labels(described([raw(["ab"], [some]) for some in labels]))

    assert of("ab", "cb", [None, None], [None, "d"]).tolist() == ["a", "b", "c", "d"]
    assert of([1, 2], [None, None], [0, {4, 5}]).tolist() == [0, 1, 2, 4, 5]
    assert of([True, False], [3, 3]).tolist() == [0, 1, 3]
    with pytest.raises(TypeError, match="strings in partition 0, but the labels are int"):
        of("ab", [1, 2])
    with pytest.raises(ValueError, match="only the label 'a'"):
        of("aa", "aa")
    with pytest.raises(ValueError, match="y holds no labels"):
        of([None, None])


@pytest.mark.parametrize("module", [pd, pl])
def test_groups_in_two_parts(module):
    def part(groups):
        table = module.DataFrame({"g": groups, "x": np.arange(float(len(groups)))})
        return RawData(table, [0] * len(groups), Segmentation(groups="g"))

    raws = [part(["a", "a", "b"]), part(["c"]), part(["d", "b"]), part([])]
    hashed, places = find_shared_group(described(raws))
    assert places == ["partition 0", "partition 2"]
    assert [group_of_hash(raw, hashed) for raw in raws[:3]] == ["'b'", None, "'b'"]
    assert find_shared_group(described(raws[:2])) is None
    numbers = RawData(np.eye(2), [0, 1], Segmentation(groups=[1.0, 2.0]))
    others = RawData(np.eye(2), [0, 1], Segmentation(groups=np.array([2, 3])))
    assert find_shared_group(described([numbers, others]))[1] == ["partition 0", "partition 1"]


def test_no_sequences():
    with pytest.raises(ValueError, match="no sequences in any partition"):
        describe_parts(LocalPartitions([raw([]), raw([])]), "from_dtype")
