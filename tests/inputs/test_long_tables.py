"""One long table instead of a list of sequences, with lengths or groups."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from support.family import assert_equal_arrays
from support.inputs import small

from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.segmentation import Segmentation

LENGTHS = [3, 1, 4, 2]
GROUPS = np.repeat(["b", "a", "d", "c"], LENGTHS)
N = sum(LENGTHS)


def cut(items) -> list:
    return [items[a:b] for a, b in zip([0, 3, 4, 8], [3, 4, 8, 10], strict=True)]


RNG = np.random.default_rng(0)
TABLE = RNG.integers(-2, 4, (N, 3)) * 1.0
TABLE[RNG.random((N, 3)) < 0.2] = np.nan
Y = np.array(list("xyyxxyxyyx"))
WORDS = ["the", "cat", None, "the", "dog", "cat", "the", None, "cat", "dog"]
LONG = {
    "array": TABLE,
    "list of lists": TABLE.tolist(),
    "integers": np.nan_to_num(TABLE).astype(int),
    "objects": np.column_stack([TABLE.astype(object), WORDS]),
    "sparse": sparse.csc_array(TABLE),
    "string": "abbacabcab",
    "list of symbols": ["the", "cat", "a", "the", "dog", "cat", "the", "a", "cat", "dog"],
    "symbols with missing values": WORDS,
    "array of integers": np.arange(N) % 3,
    "dicts": [{"word": word, "odd": bool(i % 2)} for i, word in enumerate(WORDS)],
}


def parts_of(name: str) -> list:
    table = LONG[name]
    return cut(table.tocsr() if sparse.issparse(table) else table)


every_form = pytest.mark.parametrize("name", LONG)


@every_form
def test_pieces_are_those_of_a_list(name):
    listed, long = (
        as_sequences(parts_of(name)),
        as_sequences(LONG[name], segmentation=Segmentation(LENGTHS)),
    )
    assert (long.form, long.names, long.n_features) == (
        listed.form,
        listed.names,
        listed.n_features,
    )
    np.testing.assert_array_equal(long.offsets, listed.offsets)
    orders = ([0, 1, 2, 3], [3, 0], [1, 2], [2])
    for ours, theirs in zip(
        [long, long.reversed(), *(long.take(np.array(order)) for order in orders)],
        [listed, listed.reversed(), *(listed.take(np.array(order)) for order in orders)],
        strict=True,
    ):
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
        for one, other in zip(ours.pieces(), theirs.pieces(), strict=True):
            assert one[:2] == other[:2]
            values = [p[2].toarray() if sparse.issparse(p[2]) else p[2] for p in (one, other)]
            np.testing.assert_array_equal(*values)


SEGMENTATIONS = [
    {"lengths": LENGTHS}, {"groups": GROUPS}, {"lengths": np.array(LENGTHS, np.uint8)},
    {"lengths": tuple(LENGTHS)}, {"groups": GROUPS.tolist()},
    {"groups": np.repeat([2, 0, 7, -1], LENGTHS)},
    {"groups": np.repeat([0.5, 1.5, 2.5, 3.5], LENGTHS)},
    {"groups": np.repeat(np.arange(4).astype("M8[D]"), LENGTHS)},
]  # fmt: skip


@pytest.mark.parametrize("given", SEGMENTATIONS)
def test_lengths_and_groups_give_the_same_offsets(given):
    assert Segmentation(**given).offsets(N).tolist() == [0, 3, 4, 8, 10]


@every_form
@pytest.mark.parametrize(
    "given",
    [
        *SEGMENTATIONS[:2],
        *(pytest.param(given, marks=pytest.mark.exhaustive) for given in SEGMENTATIONS[2:]),
    ],
)
def test_a_long_table_is_a_list_of_its_parts(name, given):
    X, y = parts_of(name), cut(Y)
    listed = small(early_stopping=True, random_state=0).fit(X, y)
    long = small(early_stopping=True, random_state=0).fit(LONG[name], Y, **given)
    np.testing.assert_array_equal(long.train_score_, listed.train_score_)
    np.testing.assert_array_equal(long.validation_score_, listed.validation_score_)
    long, listed = (model.set_params(warm_start=True, max_iter=5) for model in (long, listed))
    long.fit(LONG[name], Y, **given)
    listed.fit(X, y)
    assert_same_results(long, LONG[name], Y, listed, X, y, given)


def assert_same_results(long, table, labels, listed, X, y, given) -> None:
    """Check that all methods return the same results for a long table and its parts."""
    for name in ("predict", "predict_proba"):
        result = getattr(long, name)(table, **given)
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, np.concatenate(getattr(listed, name)(X)))
    for found, expected in zip(
        long.staged_predict_proba(table, **given), listed.staged_predict_proba(X), strict=True
    ):
        np.testing.assert_array_equal(found, np.concatenate(expected))
    found, log_p = long.decode(table, **given)
    expected, log_q = listed.decode(X)
    np.testing.assert_array_equal(found, np.concatenate(expected))
    np.testing.assert_array_equal(log_p, log_q)
    found, expected = long.decode(table, 2, **given), listed.decode(X, 2)
    assert_equal_arrays(found[0], expected[0])
    assert_equal_arrays(
        long.predict_pairwise_proba(table, **given), listed.predict_pairwise_proba(X)
    )
    np.testing.assert_array_equal(
        long.predict_log_likelihood(table, labels, **given), listed.predict_log_likelihood(X, y)
    )
    assert long.score(table, labels, **given) == listed.score(X, y)


def test_forms_of_long_labels():
    pandas = pytest.importorskip("pandas")
    expected = small().fit(cut(TABLE), cut(Y)).train_score_
    for same in (Y.tolist(), "".join(Y), tuple(Y), Y.astype(object), pandas.Series(Y),
                 pandas.Categorical(Y), pandas.Series(Y, index=np.arange(N)[::-1])):  # fmt: skip
        crf = small().fit(TABLE, same, lengths=LENGTHS)
        np.testing.assert_array_equal(crf.train_score_, expected)
        assert crf.score(TABLE, same, lengths=LENGTHS) == crf.score(cut(TABLE), cut(Y))
    numbers = small().fit(TABLE, (Y == "y").astype(int), groups=GROUPS)
    assert numbers.predict(TABLE, groups=GROUPS).dtype.kind == "i"


def test_validation_data_have_separate_lengths():
    X, y = cut(TABLE), cut(Y)
    expected = small().fit(X[:3], y[:3], X[1:], y[1:])
    for arguments in (
        {"lengths": LENGTHS[:3], "lengths_val": LENGTHS[1:]},
        {"groups": GROUPS[:8], "groups_val": GROUPS[3:]},
        {"groups": GROUPS[:8], "lengths_val": LENGTHS[1:]},
    ):
        crf = small().fit(TABLE[:8], Y[:8], TABLE[3:], Y[3:], **arguments)
        np.testing.assert_array_equal(crf.validation_score_, expected.validation_score_)
    listed = small().fit(TABLE[:8], Y[:8], X[1:], y[1:], lengths=LENGTHS[:3])
    np.testing.assert_array_equal(listed.validation_score_, expected.validation_score_)
    with pytest.raises(
        ValueError, match=r"^validation data: lengths add up to 3, but X has 7 positions"
    ):
        small().fit(TABLE[:8], Y[:8], TABLE[3:], Y[3:], lengths=LENGTHS[:3], lengths_val=[3])


def test_masks_and_known_labels_are_long_too():
    crf = small().fit(TABLE, Y, lengths=LENGTHS)
    rng = np.random.default_rng(1)
    allowed = rng.random((N, 2)) < 0.6
    allowed[~allowed.any(axis=1)] = True
    known = [label if rng.random() < 0.3 else None for label in Y]
    for long, listed in (
        ({"allowed": allowed}, {"allowed": cut(allowed)}),
        ({"allowed": allowed.tolist()}, {"allowed": cut(allowed)}),
        ({"known": known}, {"known": cut(known)}),
    ):
        np.testing.assert_array_equal(
            crf.predict_proba(TABLE, lengths=LENGTHS, **long),
            np.concatenate(crf.predict_proba(cut(TABLE), **listed)),
        )
    masks = np.column_stack([Y == "x", Y == "y"]) | (rng.random((N, 2)) < 0.3)
    np.testing.assert_array_equal(
        small().fit(TABLE, Y, lengths=LENGTHS, allowed=masks).train_score_,
        small().fit(cut(TABLE), cut(Y), allowed=cut(masks)).train_score_,
    )
    with pytest.raises(ValueError, match="X has 10 positions, allowed has 9"):
        crf.predict(TABLE, lengths=LENGTHS, allowed=allowed[:9])
    with pytest.raises(TypeError, match="known is a string; expected a list of label sequences"):
        crf.predict(TABLE, lengths=LENGTHS, known="xyxyxyxyxy")


# Data frames


LIBRARIES = ("pandas.DataFrame", "polars.DataFrame", "pyarrow.table")


def frame_of(library: str, **columns):
    package, make = library.split(".")
    return getattr(pytest.importorskip(package), make)(columns)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("groups", [GROUPS, np.repeat([7, 3, 5, 4], LENGTHS)])
def test_a_column_of_a_frame_can_be_the_groups(library, groups):
    columns = {f"n{j}": TABLE[:, j] for j in range(3)} | {"word": WORDS}
    frame = frame_of(library, id=groups, **columns)
    crf = small().fit(frame, Y, groups="id")
    assert crf.feature_names_in_.tolist() == ["n0", "n1", "n2", "word"]
    listed = [frame_of(library, **{n: v[a:b] for n, v in columns.items()})
              for a, b in zip([0, 3, 4, 8], [3, 4, 8, 10], strict=True)]  # fmt: skip
    expected = small().fit(listed, cut(Y))
    np.testing.assert_array_equal(crf.train_score_, expected.train_score_)
    assert_same_results(crf, frame, Y, expected, listed, cut(Y), {"groups": "id"})
    # The same model accepts other segmentations.
    features = frame_of(library, **columns)
    by_column = crf.predict_proba(frame, groups="id")
    for arguments in ({"groups": groups}, {"lengths": LENGTHS}):
        np.testing.assert_array_equal(crf.predict_proba(features, **arguments), by_column)
    # The column is left out, too.
    np.testing.assert_array_equal(crf.predict_proba(frame, lengths=LENGTHS), by_column)
    with pytest.raises(ValueError, match="groups='name' is not a column of X"):
        crf.predict(frame, groups="name")
    with pytest.raises(ValueError, match="y and groups both name the column 'id'"):
        crf.fit(frame, "id", groups="id")


def test_columns_of_categories_and_dates_are_groups():
    pandas = pytest.importorskip("pandas")
    for ids in (
        pandas.Categorical(GROUPS),
        pandas.to_datetime(["2004-01-01", "2003-01-01", "2004-06-01", "2001-01-01"]).repeat(
            LENGTHS
        ),
    ):
        frame = pandas.DataFrame({"n": TABLE[:, 0], "id": ids})
        sequences = as_sequences(frame, segmentation=Segmentation(groups="id"))
        assert np.diff(sequences.offsets).tolist() == LENGTHS
    frame["id"] = frame["id"].where(frame["n"] > -9)
    gap = int(np.argmax(np.isnan(TABLE[:, 0])))
    with pytest.raises(ValueError, match=f"groups is missing .* at position {gap}"):
        as_sequences(frame, segmentation=Segmentation(groups="id"))


# Invalid input


BAD = {
    "too short": ({"lengths": [3, 1, 4]}, ValueError, "lengths add up to 8, but X has 10"),
    "too long": ({"lengths": [3, 1, 4, 9]}, ValueError, "lengths add up to 17, but X has 10"),
    "a length of 0": ({"lengths": [3, 0, 7]}, ValueError, "sequence 1 has length 0; expected"),
    "a negative length": ({"lengths": [13, -3]}, ValueError, "sequence 1 has length -3; expected"),
    "no lengths": ({"lengths": []}, ValueError, "lengths add up to 0, but X has 10 positions"),
    "huge lengths": ({"lengths": [2**62] * 4}, ValueError, "lengths add up to 1844674407370955161"),
    "floats": ({"lengths": [3.0, 7.0]}, TypeError, "lengths=[3.0, 7.0]; expected a list of inte"),
    "no strings": ({"lengths": np.array([], dtype=str)}, TypeError, "expected a list of integers"),
    "one number": ({"lengths": 10}, TypeError, "lengths=10; expected a list of integers"),
    "strings": ({"lengths": ["3", "7"]}, TypeError, "lengths=['3', '7']; expected a list of integ"),
    "ragged": ({"lengths": [[3], [1, 6]]}, TypeError, "lengths=[[3], [1, 6]]; expected a list of"),
    "too few groups": ({"groups": GROUPS[:9]}, ValueError, "X has 10 positions, groups has 9"),
    "a group in two parts": (
        {"groups": list("aabbbcaacd")},
        ValueError,
        "group 'a' is at positions 0 to 1 and again at 6: the positions of a group must be",
    ),
    "a group in two parts, alone": (
        {"groups": [7, 5, 5, 5, 5, 5, 5, 5, 5, 7]},
        ValueError,
        "group 7 is at positions 0 to 0 and again at 9",
    ),
    "None": ({"groups": ["a"] * 9 + [None]}, ValueError, "groups is missing (None) at position 9"),
    "NaN": ({"groups": [np.nan] + [1.0] * 9}, ValueError, "groups is missing (NaN) at position 0"),
    "2-D groups": ({"groups": np.zeros((10, 1))}, TypeError, "groups has 2 dimensions; expected"),
    "lists as groups": (
        {"groups": [[1], [2, 3]] * 5},
        TypeError,
        "groups holds values that cannot be hashed, such as lists",
    ),
    "a number as groups": ({"groups": 3}, TypeError, "groups has 0 dimensions; expected"),
    "a name without a frame": (
        {"groups": "id"},
        ValueError,
        "groups='id' names a column, but X is not a data frame",
    ),
    "both": ({"lengths": LENGTHS, "groups": GROUPS}, ValueError, "pass either lengths or groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_lengths_and_groups_are_refused(case):
    given, error, message = BAD[case]
    with pytest.raises(error, match=re.escape(message)):
        small().fit(TABLE, Y, **given)
    if case == "a length of 0":  # valid in predictions
        return
    fitted = small().fit(TABLE, Y, lengths=LENGTHS)
    with pytest.raises(error, match=re.escape(message)):
        fitted.predict(TABLE, **given)


def test_bad_long_labels_are_refused():
    with pytest.raises(ValueError, match="X has 10 positions, y has 9"):
        small().fit(TABLE, Y[:9], lengths=LENGTHS)
    with pytest.raises(ValueError, match="y: labels have 2 dimensions; expected 1"):
        small().fit(TABLE, Y[:, np.newaxis], lengths=LENGTHS)
    with pytest.raises(TypeError, match="y, position 3: label 3 is of type int"):
        small().fit(TABLE, ["x", "y", "x", 3] + ["y"] * 6, lengths=LENGTHS)
    with pytest.raises(TypeError, match=r"y, position 0: label \['x', 'y', 'y'\] is of type list"):
        small().fit(TABLE, cut(Y.tolist()), lengths=LENGTHS)
    crf = small().fit(TABLE, Y, lengths=LENGTHS)
    with pytest.raises(ValueError, match="sequence 2, position 1: label 'z' was not seen in train"):
        crf.predict_log_likelihood(TABLE, ["x"] * 5 + ["z"] * 5, lengths=LENGTHS)


def test_a_long_table_without_lengths_is_refused():
    crf = small().fit(TABLE, Y, lengths=LENGTHS)
    with pytest.raises(TypeError, match="or lengths= or groups= for a long table"):
        crf.predict(TABLE)
    for X in (np.zeros((0, 3)), sparse.csr_array((0, 3)), [], ""):
        with pytest.raises(ValueError, match=r"X holds no positions"):
            small().fit(X, [], lengths=[])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_allowed_labels_of_long_tables_are_no_data_frame(library):
    """The items of a data frame are its columns, which are no positions."""
    frames = pytest.importorskip(library)
    allowed = frames.DataFrame({"x": [True] * N, "y": [True] * N})
    message = r"^allowed is a data frame, .* pass a NumPy array$"
    with pytest.raises(ValueError, match=message):
        small().fit(TABLE, Y, lengths=LENGTHS, allowed=allowed)
    model = small().fit(TABLE, Y, lengths=LENGTHS, allowed=allowed.to_numpy())
    with pytest.raises(ValueError, match=message):
        model.predict(TABLE, lengths=LENGTHS, allowed=allowed)
