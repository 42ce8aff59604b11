"""Warnings about valid inputs that are probably not meant, and none about others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from treecrf import HMMClassifier, LinearCRF, TreeCRF

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 300


def small(**parameters) -> TreeCRF:
    settings = {"max_iter": 1, "early_stopping": False, "init": "zero"}
    return TreeCRF(**settings | parameters)


@pytest.fixture(scope="module")
def frame():
    heat = np.random.default_rng(0).normal(size=N)
    return pd.DataFrame({"heat": heat, "day": np.repeat([0, 1, 2], N // 3)})


@pytest.fixture(scope="module")
def y(frame):
    return pd.Series(np.where(frame.heat > 0, "on", "off"))


def shuffled(rows):
    return rows.sample(frac=1, random_state=0)


def warned(fit) -> list[str]:
    """Return the messages of the warnings, which name this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit()
    assert all(warning.filename == __file__ for warning in found)
    assert all(warning.category is UserWarning for warning in found)
    return [str(warning.message) for warning in found]


def only(messages: list[str]) -> str:
    assert len(messages) == 1, messages
    return messages[0]


# Columns of strings


def strings(values) -> list[str]:
    return [str(value) for value in values]


HEAT = np.random.default_rng(1).normal(size=N)
TIMES = pd.date_range("2015-02-04 17:51", periods=N, freq="h")
DOUBTFUL = {
    "numbers": (strings(HEAT.round(3)), "different strings that are numbers, such as"),
    "few numbers": (strings(HEAT.round(0)), "strings that are numbers, .*pandas.to_numeric"),
    "decimal commas": (
        [f"{x:.1f}".replace(".", ",") for x in HEAT],
        "numbers, .* replace the decimal commas",
    ),
    "many whole numbers": (strings(range(N)), "holds 300 different strings that are numbers"),
    "some that are not numbers": (
        ["#VALUE!", *strings(HEAT[1:])],
        "strings that are numbers, such as '.*', but not '#VALUE!', .* if the last one marks a mis",
    ),
    "a word that names another doubt": (
        ["dates", *strings(HEAT[1:])],
        "but not 'dates', .* if the last one marks a missing value",
    ),
    "times of a day": ([f"{i % 24:02}:30" for i in range(N)], "holds times as strings, .* hour"),
    "times": (strings(TIMES), "holds dates as strings, such as '2015-.* add the parts"),
    "few dates": (strings(TIMES.date), "holds dates as strings, such as '2015-"),
    "American dates": ([f"{t.month}/{t.day}/{t.year}" for t in TIMES], "holds dates as strings"),
    "names": ([f"id{i}" for i in range(N)], "has 300 distinct values at 300 positions"),
}
PLAIN = {
    "few whole numbers": strings(np.arange(N) % 24),
    "whole numbers with signs": strings(np.arange(N) % 9 - 4),
    "words": ["abcdefg"[i % 7] for i in range(N)],
    "words and numbers": [f"{i % 7}" if i % 2 else "abcdefg"[i % 7] for i in range(N)],
    "missing": [None] * N,
    "few positions": [f"id{i}" if i < 100 else "id0" for i in range(N)],
}


@pytest.mark.parametrize(("values", "message"), DOUBTFUL.values(), ids=DOUBTFUL)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_doubtful_columns_cause_a_warning(values, message, library, y):
    X = library({"heat": HEAT, "c": values})
    with pytest.warns(UserWarning, match=f"column 'c' .*{message}"):
        small().fit([X], [y])


@pytest.mark.parametrize("values", [*PLAIN.values()], ids=PLAIN)
def test_other_columns_cause_no_warning(values, y):
    small().fit([pd.DataFrame({"heat": HEAT, "c": values})], [y])


def test_columns_that_the_user_has_chosen_cause_no_warning(y):
    X = pd.DataFrame({"heat": HEAT, "c": strings(HEAT)})
    small(categorical_features=["c"]).fit([X], [y])


def test_columns_of_arrays_and_dicts_cause_a_warning(y):
    array = np.array([[x, f"id{i}"] for i, x in enumerate(HEAT)], dtype=object)
    dicts = [{"c": f"{x:.2f}"} for x in HEAT]
    assert "feature 1 has 300 distinct values" in only(warned(lambda: small().fit([array], [y])))
    message = only(warned(lambda: small().fit([dicts], [y])))
    assert "column 'c' holds" in message
    words = [{"word": f"word{i}"} for i in range(N)]  # as in text
    assert warned(lambda: small().fit([words], [y])) == []


def test_symbols_cause_no_warning(y):
    symbols = [strings(range(N))]
    assert warned(lambda: HMMClassifier().fit(symbols, [y])) == []
    assert warned(lambda: small().fit(symbols, [y])) == []


def test_prediction_causes_no_warning(y):
    X = [pd.DataFrame({"heat": HEAT, "c": strings(HEAT)})]
    model = small(categorical_features=["c"]).fit(X, [y])
    model.set_params(categorical_features="from_dtype")
    model.predict(X)
    model.score(X, [y])


# Order of the rows


def test_labels_in_another_order_cause_a_warning(frame, y):
    X = frame[["heat"]]
    for fit in (
        lambda: small().fit(X, shuffled(y), groups=frame.day),
        lambda: small().fit(frame, shuffled(y), groups="day"),
        lambda: small().fit(frame.iloc[100:200], y.iloc[150:250], groups="day"),
        lambda: small().fit(shuffled(X), y, lengths=[N]),
    ):
        assert only(warned(fit)).startswith("the index of y differs from that of X, but rows are")
    model = small().fit(X, y, lengths=[N])
    message = only(warned(lambda: model.score(X, shuffled(y), lengths=[N])))
    assert "the index of y differs" in message
    days = shuffled(frame.day).sort_values()
    message = only(warned(lambda: small().fit(X, y, groups=days)))
    assert "the index of groups differs" in message


def test_labels_of_a_sequence_in_another_order_cause_a_warning(frame, y):
    X = [frame[["heat"]][frame.day == day] for day in (0, 1, 2)]
    parts = [y[frame.day == day] for day in (0, 1, 2)]
    small().fit(X, parts)
    message = only(warned(lambda: small().fit(X, [*parts[:2], shuffled(parts[2])])))
    assert message.startswith("sequence 2: the index of y differs from that of X")


def test_indices_that_count_rows_do_not_matter(frame, y):
    day = frame[frame.day == 1]
    small().fit(day, y[frame.day == 1].reset_index(drop=True), groups="day")
    small().fit(frame.set_index(TIMES), y, groups="day")
    small().fit(day.reset_index(drop=True), y[frame.day == 1], groups="day")
    small().fit(frame, y.to_numpy(), groups="day")
    small().fit(shuffled(frame), shuffled(y), lengths=[N])


def test_time_that_goes_back_causes_a_warning(frame, y):
    timed = frame.set_index(TIMES)
    swapped = timed.iloc[[*range(150), 151, 150, *range(152, N)]]
    message = "sequence 1, position 51: the time in the index of X goes back"
    assert only(warned(lambda: small().fit(swapped, y, groups="day"))).startswith(message)
    parts = [swapped[swapped.day == day][["heat"]] for day in (0, 1, 2)]
    assert only(warned(lambda: small().fit(parts, [y[:100]] * 3))).startswith(message)
    model = small().fit(timed, y, groups="day")
    assert only(warned(lambda: model.predict(swapped, groups="day"))).startswith(message)
    # Groups and sequences may be in any order, and times may be equal or missing.
    later = [*range(200, N), *range(200)]
    assert warned(lambda: small().fit(timed.iloc[later], y.to_numpy(), groups="day")) == []
    frames = [timed[timed.day == day][["heat"]] for day in (2, 0, 1)]
    assert warned(lambda: small().fit(frames, [y[:100]] * 3)) == []
    equal = frame.set_index(pd.DatetimeIndex([*TIMES[:5], pd.NaT] * 50).sort_values())
    assert warned(lambda: small().fit(equal, y, groups="day")) == []


# Groups and labels


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_groups_that_are_a_feature_as_well_cause_a_warning(library, frame, y):
    X = library(frame.to_dict("list"))
    message = only(warned(lambda: small().fit(X, y.to_numpy(), groups=X["day"])))
    assert message.startswith("groups has the name of the column 'day' of X")
    assert "pass groups='day'" in message
    assert warned(lambda: small().fit(X, y.to_numpy(), groups="day")) == []
    assert warned(lambda: small().fit(X[["heat"]], y.to_numpy(), groups=X["day"])) == []


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_labels_that_are_a_feature_as_well_cause_a_warning(library, frame, y):
    X = library(frame.assign(state=y).to_dict("list"))
    message = only(warned(lambda: small().fit(X, X["state"], groups="day")))
    assert message.startswith("y has the name of the column 'state' of X, which is used as a fea")
    assert warned(lambda: small().fit(X, "state", groups="day")) == []
    assert warned(lambda: small().fit(X[["heat", "day"]], X["state"], groups="day")) == []


# The time in an index

HOURS = pd.date_range("2026-01-01", periods=8, freq="h")
TIMES_OF_ROWS = {
    "timestamps": HOURS,
    "time zone": HOURS.tz_localize("Europe/Vienna"),
    "periods": HOURS.to_period("h"),
    "timedeltas": HOURS - HOURS[0],
    "integers": pd.Index(range(8)),
    "nullable integers": pd.Index(pd.array(range(8), dtype="Int64")),
    "Arrow integers": pd.Index(pd.array(range(8), dtype="int64[pyarrow]")),
    "floats": pd.Index(np.linspace(0, 1, 8)),
    "texts": HOURS.strftime("%Y-%m-%d %H:%M"),
    "ISO texts": HOURS.strftime("%Y-%m-%dT%H:%M:%S"),
    "Arrow texts": HOURS.strftime("%Y-%m-%d %H:%M").astype("string[pyarrow]"),
    "clock": HOURS.strftime("%H:%M"),
    "numerals": pd.Index(list(map(str, range(4, 12)))),
    "dates": pd.Index(pd.date_range("2026-01-01", periods=8).date),
    "categories": pd.CategoricalIndex(HOURS.strftime("%Y-%m-%d %H:%M")),
}
of_times = pytest.mark.parametrize("times", TIMES_OF_ROWS.values(), ids=TIMES_OF_ROWS.keys())
PANEL_LABELS = [0, 1] * 8
GOES_BACK = "the time in the index of X goes back"


def panel_of(first, second):
    """Make a panel of two sequences, whose times are the last level of the index."""
    keys = np.repeat(["b", "a"], 8)  # which need not be sorted
    values = pd.Index([*first, *second])
    index = pd.MultiIndex.from_arrays([keys, values], names=["id", "time"])
    return pd.DataFrame({"x": np.arange(16.0)}, index=index)


@of_times
def test_a_panel_whose_time_goes_back_causes_a_warning(times):
    model = small().fit(panel_of(times, times), PANEL_LABELS)
    back = panel_of(times, times[[0, 1, 3, 2, 4, 5, 6, 7]])
    for use in (
        lambda: small().fit(back, PANEL_LABELS),
        lambda: model.predict(back),
        lambda: model.score(back, PANEL_LABELS),
        lambda: model.predict([back.loc["a"].rename_axis("time")]),
    ):
        assert GOES_BACK in only(warned(use))
    assert "sequence 1, position 3" in only(warned(lambda: model.predict(back)))


@of_times
def test_a_named_index_whose_time_goes_back_causes_a_warning(times):
    index = times[::-1].rename("time")
    frame = pd.DataFrame({"x": np.arange(8.0)}, index=index)
    assert GOES_BACK in only(warned(lambda: small().fit([frame], [PANEL_LABELS[:8]])))
    small().fit([frame[::-1]], [PANEL_LABELS[:8]])


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([3, 2, 1, 0]),  # rows of a table that has been sorted
        pd.Index(list("dcba"), name="word"),
        pd.Index(["31.12.2026", "01.01.2027", "02.01.2027", "03.01.2027"], name="day"),
        pd.MultiIndex.from_arrays([[0, 0, 1, 1], ["e", "d", "c", "b"]]),
        pd.MultiIndex.from_arrays([[0, 0, 1, 1], [5, 6, 1, 2]]),
        pd.MultiIndex.from_arrays([[0, 0, 1, 1], [5, 5, None, 2]]),
    ],
)
def test_an_index_without_times_that_go_back_causes_no_warning(index):
    frame = pd.DataFrame({"x": np.arange(4.0)}, index=index)
    small().fit([frame], [[0, 1, 0, 1]])


# Groups without a key


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_rows_that_pandas_leaves_out_of_groups_cause_a_warning(missing):
    keys = [0, 0, missing, missing, 1, 1]
    frame = pd.DataFrame({"id": pd.array(keys, dtype=object), "x": np.arange(6.0)})
    groups = frame.groupby("id")
    message = only(warned(lambda: small().fit(groups, [[0, 1]] * 2)))
    assert message.startswith("X is grouped without 2 of 6 rows, whose key is missing")
    model = small().fit(frame.groupby("id", dropna=False), [[0, 1]] * 3)
    assert "without 2 of 6" in only(warned(lambda: model.predict(groups)))
    full = frame.assign(id=[0, 0, 1, 1, 2, 2], y=[0, 1] * 3)
    small().fit(full.groupby("id")[["x"]], full.groupby("id")["y"])


# Labels

TEXT = ["ab", "abc", "abcd"]


@pytest.mark.parametrize(
    "y",
    [
        [[0, 1], [0, -100, 1], [0, 1, 1, -100]],
        [[0, -1], [0, 1, -1], [0, 1, 1, -1]],
        [[0, 1], [0, 1, 2], [2, 1, -1, -1]],
        [[0, 1], [0, None, -1], [2, 1, -1, -1]],
        [["A", "B"], ["A", "B", "<PAD>"], ["B", "A", "<PAD>", "<PAD>"]],
        [["A", "B"], ["A", "B", "B"], ["B", "A", "[PAD]", "[PAD]"]],
        [["A", "pad"], ["A", "B", "pad"], ["B", "A", "pad", "pad"]],
    ],
)
@pytest.mark.parametrize("model", [small(), HMMClassifier(), LinearCRF()], ids=str)
def test_labels_that_are_padding_cause_a_warning(y, model):
    if any(None in labels for labels in y) and isinstance(model, HMMClassifier):
        y = [[0 if label is None else label for label in labels] for labels in y]
    message = only(warned(lambda: model.fit(TEXT, y)))
    assert "looks like padding and is learned like all other labels" in message


@pytest.mark.parametrize(
    "y",
    [
        [[0, 1], [0, 1, 1], [0, 1, 1, 0]],
        [[0, 1], [0, -1, 1], [0, 1, -1, -1]],
        [[-1, -2], [-1, 0, -2], [1, 0, -1, -1]],
        [["A", "<PAD>"], ["<PAD>", "A", "A"], ["A", "A", "A", "A"]],
    ],
)
def test_other_labels_cause_no_warning(y):
    small().fit(TEXT, y)


@pytest.mark.parametrize(
    ("one", "other"),
    [("O", "O "), ("B-NP", "B-NP\xa0"), ("\tA", "A"), ("caf\xe9", "cafe\u0301"), ("a b", "ab")],
)
def test_labels_that_look_alike_cause_a_warning(one, other):
    y = [[one, "X"], [other, "X", one], [one, other, "X", "X"]]
    for model in (small(), HMMClassifier(), LinearCRF()):
        message = only(warned(lambda model=model: model.fit(TEXT, y)))
        assert "differ only in blanks or in the composition of characters" in message
        assert all(ascii(label) in message for label in (one, other))


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("nan", "ab"),
        ("<NA>", "ab"),
        ("NaT", "12"),
        ("NA", "12"),
        ("None", ["1.0", "-2"]),
        ("?", ["True", "false"]),
    ],
)
def test_labels_that_stand_for_unknown_ones_cause_a_warning(word, others):
    one, other = others
    y = [[one, other], [other, one, word], [one, other, one, word]]
    for model in (small(), HMMClassifier(), LinearCRF()):
        message = only(warned(lambda model=model: model.fit(TEXT, y)))
        assert message.startswith(f"y holds {word!r}, which is learned like all other labels")


@pytest.mark.parametrize(
    "labels", ["abc", ["NA", "None", "?"], ["NA", "DE", "12"], ["1", "2", "x"]]
)
def test_other_words_among_labels_cause_no_warning(labels):
    one, other, third = labels
    small().fit(TEXT, [[one, other], [other, one, third], [one, other, one, third]])


def test_labels_that_are_blanks_or_differ_in_case_cause_no_warning():
    small().fit(TEXT, [[" ", "\t"], ["a", "A", ""], ["\n", "a", "b", "c"]])
