"""Spans of labels and their probabilities, against the enumeration of all label sequences."""

from itertools import groupby, product

import numpy as np
import pytest
from sklearn.base import clone
from support.family import CORE, FAMILY, PREDICTING, every

from treecrf import LinearCRF
from treecrf.inspection import Span, find_spans

TAGS = {"x": "B-P", "y": "I-P", "z": "O", "w": "I-Q"}
SEQUENCES = ["abca", "d", "bbadc"]


def runs_of(labels):
    """(start, end, label) of each run of equal labels."""
    start, found = 0, []
    for label, run in groupby(labels):
        end = start + len([*run])
        found.append((start, end, label))
        start = end
    return found


def chunks_of(labels):
    """(start, end, type) of each chunk, as seqeval reads them."""
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    return [(a, b + 1, kind) for kind, a, b in sequence_labeling.get_entities([*labels])]


def check(model, X, y, found, read, alphabet):
    """Compare spans of labels with those of all label sequences, weighted by probability."""
    expected = []
    for i, (x, labels) in enumerate(zip(X, y, strict=True)):
        every_y = [*product(alphabet, repeat=len(x))]
        p = np.exp(model.predict_log_likelihood([x] * len(every_y), [list(y) for y in every_y]))
        marginals = [sum(p[k] for k, y in enumerate(every_y) if y[t] == label)
                     for t, label in enumerate(labels)]  # fmt: skip
        for start, end, name in read(labels):
            is_in = np.array([(start, end, name) in read(y) for y in every_y])
            is_equal = [[*y[start:end]] == [*labels[start:end]] for y in every_y]
            of_labels = p[is_in & is_equal].sum()
            mean = np.mean(marginals[start:end])
            expected.append((i, start, end, name, p[is_in].sum(), mean, of_labels))
    assert [span[:4] for span in found] == [span[:4] for span in expected]
    for span, other in zip(found, expected, strict=True):
        values = span.probability, span.mean_probability, span.labels_probability
        assert values == pytest.approx(other[4:], abs=1e-9)


@every(PREDICTING)
def test_runs(name, fitted):
    model = fitted(name)
    X = SEQUENCES
    predicted = [labels.tolist() for labels in model.predict(X)]
    check(model, X, predicted, find_spans(model, X), runs_of, "xyz")
    given = [["x", "z", "y", "y", "y"][: len(x)] for x in X]
    check(model, X, given, find_spans(model, X, given), runs_of, "xyz")


@every(FAMILY, CORE)
def test_chunks(name, letters):
    X, y = letters
    kinds = np.random.default_rng(0).choice(list("zw"), (len(y), 100))
    tags = [[TAGS[kinds[i, t] if label == "z" else label] for t, label in enumerate(labels)]
            for i, labels in enumerate(y)]  # fmt: skip
    model = clone(FAMILY[name]).fit(X, tags)
    given = [["I-P", "I-P", "I-Q", "B-P"], ["O"], ["B-P", "I-P", "O", "O", "I-Q"]]
    found = find_spans(model, SEQUENCES, given)
    check(model, SEQUENCES, given, found, chunks_of, list(TAGS.values()))
    found = find_spans(model, SEQUENCES, given, prefixes=False)
    assert [span[1:4] for span in found] == [s for labels in given for s in runs_of(labels)]


def test_prefixes_of_all_schemes():
    """Last and single labels end a span; labels may have no type."""
    labels = [
        ["B-X", "I-X", "L-X", "U-X", "O", "B-Y"], ["B-X", "E-X", "I-X", "S-X", "I-X", "I-Y"],
    ]  # fmt: skip
    model = LinearCRF().fit(["abcdea", "abcdea"], labels)
    spans = find_spans(model, ["abcdea", "abcdea"], labels)
    expected = [(0, 3, "X"), (3, 4, "X"), (5, 6, "Y")]
    assert [span[1:4] for span in spans if span.sequence == 0] == expected
    expected = [(0, 2, "X"), (2, 3, "X"), (3, 4, "X"), (4, 5, "X"), (5, 6, "Y")]
    assert [span[1:4] for span in spans if span.sequence == 1] == expected
    bare = LinearCRF().fit(["abca"], ["BIOI"])
    spans = find_spans(bare, ["abca"], ["BIOI"], prefixes=True)
    assert [span[1:4] for span in spans] == [(0, 2, ""), (3, 4, "")]
    assert len(find_spans(bare, ["abca"], ["BIOI"])) == 4


def test_impossible_spans():
    model = LinearCRF(transitions="bio").fit(["abc"], [["B-X", "I-X", "O"]])
    found = find_spans(model, ["abc"], [["O", "I-X", "O"]])
    assert [(span.label, span.labels_probability) for span in found] == [("X", 0)]
    # A span from B-X is possible there.
    [expected] = find_spans(model, ["abc"], [["O", "B-X", "O"]])
    assert found[0].probability == expected.probability == expected.labels_probability > 0


def test_long_sequences_take_little_memory(fitted, monkeypatch):
    from treecrf.inspection import spans

    model, X = fitted("HMM of order 2"), ["abcd" * 20]
    expected = find_spans(model, X)
    monkeypatch.setattr(spans, "MAX_BYTES", 1)
    assert find_spans(model, X) == expected


class TestFrames:
    """Spans of data frames have times, and names of groups."""

    @pytest.fixture
    def table(self):
        pandas = pytest.importorskip("pandas")
        times = pandas.date_range("2024-05-01", periods=6, freq="h")
        values = {"load": [0.0, 0.0, 5.0, 5.0, 0.0, 5.0], "day": list("aaaabb")}
        return pandas.DataFrame(values | {"busy": [False, False, True, True, False, True]}, times)

    def test_index(self, table):
        model = LinearCRF(l2_regularization=0.01).fit(table, "busy", groups="day")
        spans = find_spans(model, table)
        assert [span[:4] for span in spans] == [
            ("a", 0, 2, False), ("a", 2, 4, True), ("b", 0, 1, False), ("b", 1, 2, True),
        ]  # fmt: skip
        at = table.index
        assert [span[6:8] for span in spans] == [
            (at[0], at[1]), (at[2], at[3]), (at[4], at[4]), (at[5], at[5]),
        ]  # fmt: skip
        again = find_spans(model, table, "busy", groups="day")
        assert again == spans
        for days in (table.groupby("day"), [day for _, day in table.groupby("day")]):
            assert [span[1:] for span in find_spans(model, days)] == [span[1:] for span in spans]

    @pytest.mark.parametrize("is_long", [True, False])
    def test_column_of_times(self, table, is_long):
        polars = pytest.importorskip("polars")
        frame = polars.from_pandas(table.reset_index(names="at"))
        model = LinearCRF(l2_regularization=0.01).fit(frame.drop("at"), "busy", groups="day")
        cuts = {"groups": "day"} if is_long else {}
        X = frame if is_long else [frame]
        spans = find_spans(model, X, times="at", **cuts)
        assert [span.first for span in spans] == table.index[[0, 2, 4, 5]].tolist()
        given = list("uvwxyz")
        X = frame.drop("at") if is_long else [frame.drop("at")]
        spans = find_spans(model, X, times=given if is_long else [given], **cuts)
        assert spans[0].first == "u"
        assert spans[-1].last == "z"
        with pytest.raises(
            ValueError, match=r"^times='At' is not a column of .*; expected one of 'load'"
        ):
            find_spans(model, X, times="At", **cuts)

    def test_rows_of_a_long_table(self, fitted):
        spans = find_spans(fitted("linear CRF"), list("abcabc"), lengths=[4, 2])
        rows = [(span.sequence, span.first, span.last) for span in spans]
        assert [(i, a, b) for i, a, b in rows] == [
            (span.sequence, span.start + 4 * span.sequence, span.end - 1 + 4 * span.sequence)
            for span in spans
        ]


def test_empty_sequences(fitted):
    model = fitted("linear CRF")
    assert find_spans(model, []) == find_spans(model, [""]) == []
    assert {span.sequence for span in find_spans(model, ["", "ab", ""])} == {1}
    assert isinstance(find_spans(model, ["a"])[0], Span)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prefixes": True}, r"^prefixes=True: the label 'x' is neither O nor one of the prefixes"),
        ({"times": [[0]]}, r"^sequence 0: 2 positions in X, 1 in times$"),
        ({"labels": [["x"]]}, r"^sequence 0: .*1"),
    ],
)
def test_errors(arguments, message, fitted):
    with pytest.raises(ValueError, match=message):
        find_spans(fitted("linear CRF"), ["ab"], **arguments)
