import math
import sys
from collections import Counter, deque
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import cross_val_score

import treecrf
from treecrf import metrics
from treecrf.chains.transitions import as_transitions

OF_TOKENS = (
    metrics.token_accuracy_score, metrics.token_precision_score, metrics.token_recall_score,
    metrics.token_f1_score,
)  # fmt: skip
OF_SPANS = metrics.span_precision_score, metrics.span_recall_score, metrics.span_f1_score
SHAPES = (np.array, list, tuple)
STR_LABELS = ("a", "bb", "ccc")
INT_LABELS = (-1, 0, 7)
BOOL_LABELS = (False, True)


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip("seqeval")


@st.composite
def label_pairs(draw):
    """Ragged true and predicted labels of one kind, at least one label in all."""
    labels = st.sampled_from(draw(st.sampled_from([STR_LABELS, INT_LABELS, BOOL_LABELS])))
    pairs = st.lists(st.lists(st.tuples(labels, labels), max_size=6), min_size=1, max_size=6)
    sequences = draw(pairs.filter(any))
    make = draw(st.sampled_from(SHAPES))
    return tuple([make([pair[k] for pair in s]) for s in sequences] for k in (0, 1))


def flatten(sequences):
    return [label for labels in sequences for label in np.asarray(labels).tolist()]


# Token metrics against scikit-learn on flat labels


AVERAGES = [{"average": average} for average in (None, "macro", "micro", "weighted")]
NORMALIZED = [{"normalize": normalize} for normalize in (None, "true", "all")]
REPORTS = [{"digits": 3, "output_dict": output_dict} for output_dict in (False, True)]


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize(
    ("function", "of_sklearn", "options"),
    [
        (metrics.token_accuracy_score, "accuracy_score", [{}]),
        (metrics.token_precision_recall_fscore, "precision_recall_fscore_support", AVERAGES),
        (metrics.token_precision_score, "precision_score", AVERAGES[-1:]),
        (metrics.token_recall_score, "recall_score", AVERAGES[-1:]),
        (metrics.token_f1_score, "f1_score", AVERAGES[-1:]),
        (metrics.token_classification_report, "classification_report", REPORTS),
        (metrics.token_confusion_matrix, "confusion_matrix", NORMALIZED),
    ],
)
@given(pair=label_pairs(), zero_division=st.sampled_from([0.0, 1.0]))
def test_token_metrics_are_those_of_flat_labels(function, of_sklearn, options, pair, zero_division):
    flat = [flatten(sequences) for sequences in pair]
    for keywords in options:
        if "average" in keywords or "digits" in keywords:
            keywords = keywords | {"zero_division": zero_division}
        expected = getattr(sklearn.metrics, of_sklearn)(*flat, **keywords)
        for labels in (pair, map(np.array, flat)):
            np.testing.assert_equal(function(*labels, **keywords), expected)


@given(label_pairs())
def test_sequence_accuracy_counts_equal_sequences(pair):
    right = [list(a) == list(b) for a, b in zip(*pair, strict=True)]
    assert metrics.sequence_accuracy_score(*pair) == sum(right) / len(right)


def test_labels_choose_and_order():
    y_true, y_pred = list("aabcc"), list("abbca")
    recall = metrics.token_recall_score(y_true, y_pred, labels=["c", "a"], average=None)
    np.testing.assert_array_equal(recall, [1 / 2, 1 / 2])
    matrix = metrics.token_confusion_matrix(y_true, y_pred, labels=["c", "a"])
    np.testing.assert_array_equal(matrix, [[1, 1], [0, 1]])
    report = metrics.token_classification_report(y_true, y_pred, labels=["c"], output_dict=True)
    assert "a" not in report
    assert report["c"]["support"] == 2


@pytest.mark.parametrize("function", [metrics.sequence_accuracy_score, *OF_TOKENS, *OF_SPANS])
def test_scores_are_plain_floats(function, seqeval):
    assert type(function([["B-X", "O"]], [["B-X", "O"]])) is float


# Forms of labels


def forms_of_labels():
    """True and predicted labels in many forms, and the fraction that agree."""
    pandas = pytest.importorskip("pandas")
    words, wide = pandas.Series(["a", "b"]), np.dtypes.StringDType()
    for y_true in (
        ["ab", "a"],
        [["a", "b"], ["a"]],
        (("a", "b"), np.array(["a"])),
        [np.array(["a", "b"], dtype=object), "a"],
        [list("ab"), "", "a", []],
    ):
        yield y_true, [["b"] * len(labels) for labels in y_true], 1 / 3
    integers = [[1, 0], np.array([True, False]), np.array([1], dtype=np.uint8)]
    yield integers, [[True, np.int64(1)], [1, 0], np.array([0], dtype=object)], 3 / 5
    yield [[1.0, 2], np.array([3.0])], [[1, 1], [3]], 2 / 3
    yield [words, words.astype("category")], [["a", "b"], ["b", "b"]], 3 / 4
    yield [np.array(["a", "b"], wide), np.array(["ccc"], wide)], [["a", "a"], ["ccc"]], 2 / 3
    yield [["ab"], ["abc"]], [["a"], ["ab"]], 0  # not cut


def test_forms_of_labels():
    for y_true, y_pred, accuracy in forms_of_labels():
        assert metrics.token_accuracy_score(y_true, y_pred) == accuracy
        assert metrics.token_accuracy_score(iter(y_true), iter(y_pred)) == accuracy


def test_empty_sequence_counts_as_right():
    assert metrics.sequence_accuracy_score([[], [1, 0]], [[], [1, 1]]) == 1 / 2


# Errors


SIZES = [
    (["a"] * 3, [["a"]] * 2, r"^y_true has 3 sequences, y_pred has 2; each string"),
    ([["a"]] * 3, [["a"]] * 2, r"^y_true has 3 sequences, y_pred has 2$"),
    ([["a"], ["a"] * 14], [["a"], ["a"] * 15], r"^sequence 1: 14 labels in y_true, 15 in y_pred$"),
    (["ab"], [["ab"]], r"^sequence 0: 2 labels in y_true, 1 in y_pred; each string"),
    ([], [], r"^y_true and y_pred are empty; expected at least one label$"),
    (["", []], [[], ""], r"^no labels: all 2 sequences are empty$"),
]
# All errors of single labels are those of `fit`.
VALUES = [([[0, 1.5]], [[0, 1]], r"^sequence 0 of y_true, position 1: label 1.5 is not a")]
TYPES = [
    (["a"], [[None]], r"^sequence 0 of y_pred, position 0: label None is of"),
    (["", "a"], [[], [0]], r"^mixed label types: str in sequence 1 of y_true, number in seq"),
    (["a", [1]], ["a", [1]], r"^mixed label types: str in sequence 0 of y_true, number in seq"),
    ("ab", ["ab"], r"^y_true is a string; expected a list of label sequences$"),
    (["ab"], 1, r"^y_pred is of type int; expected a list of label"),
]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message", "error"),
    [(*case, ValueError) for case in SIZES + VALUES] + [(*case, TypeError) for case in TYPES],
)
@pytest.mark.parametrize(
    "function",
    [metrics.token_accuracy_score, metrics.sequence_accuracy_score, metrics.span_f1_score],
)
def test_errors_name_the_problem_and_the_position(
    function, y_true, y_pred, error, message, seqeval
):
    with pytest.raises(error, match=message):
        function(y_true, y_pred)


# Labels of all positions in one list, array or column


NEED_SEQUENCES = [metrics.sequence_accuracy_score, *OF_SPANS, metrics.span_classification_report]
FLAT_TRUE, FLAT_PRED = ["rest", "walk", "run"], ["rest", "wolk", "run"]


def columns(labels):
    """The same labels in all forms that hold one label per position."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    is_string = isinstance(labels[0], str)
    return [
        labels,
        tuple(labels),
        np.array(labels),
        np.array(labels, dtype=object),
        pandas.Series(labels),
        pandas.Series(labels, dtype=object, index=range(5, 5 + len(labels))),
        pandas.Series(labels).astype("category"),
        pandas.Index(labels),
        polars.Series(labels),
        polars.Series(labels).cast(polars.Categorical if is_string else polars.Int8),
        pyarrow.array(labels),
        pyarrow.array(labels).dictionary_encode(),
        pyarrow.chunked_array([labels[:1], labels[1:]]),
        iter(labels),
    ]


def test_strings_of_columns_are_labels_and_not_sequences_of_characters():
    for y_true in columns(FLAT_TRUE):
        for y_pred in columns(FLAT_PRED):
            y_true = list(y_true) if isinstance(y_true, Iterator) else y_true
            if hasattr(y_true, "__array__") or hasattr(y_pred, "__array__"):
                assert metrics.token_accuracy_score(y_true, y_pred) == 2 / 3
    flat = np.array(FLAT_TRUE), FLAT_PRED
    report = metrics.token_classification_report(*flat, output_dict=True)
    assert {"rest", "run", "walk", "wolk"} <= report.keys()
    assert "e" not in report
    matrix = metrics.token_confusion_matrix(*flat, labels=["walk", "wolk"])
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 0]])


OF_PAIRS = [
    metrics.token_accuracy_score, metrics.sequence_accuracy_score,
    metrics.token_precision_recall_fscore, metrics.token_precision_score,
    metrics.token_recall_score, metrics.token_f1_score, metrics.token_classification_report,
    metrics.token_confusion_matrix, *OF_SPANS, metrics.span_classification_report,
    lambda y_true, y_pred: metrics.mcnemar_test(y_true, y_pred, y_true),
    lambda y_true, y_pred: metrics.paired_bootstrap(y_true, y_pred, y_true),
]  # fmt: skip
LISTS_OF_STRINGS = [list, tuple, iter, deque]


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [
        (["BIOO", "BOBO"], ["BIOB", "BOBO"]),
        (["BIO", "B"], ["BII", "O"]),
        (["BIO", "B"], ["BI", "O"]),
        (["rest", "run"], ["run", "rest"]),
        (["", "BIO"], ["", "BIO"]),
    ],
)
def test_two_lists_of_strings_are_refused(y_true, y_pred, seqeval):
    """They would be sequences in `fit`, and labels of positions in scikit-learn."""
    message = r"^y_true and y_pred\w* are lists of strings such as '\w*', each of which may be.*np"
    for function, form in product(OF_PAIRS, LISTS_OF_STRINGS):
        with pytest.raises(ValueError, match=message):
            function(form(y_true), form(y_pred))


def test_strings_beside_sequences_are_sequences(seqeval):
    strings, wrong = ["BIOO", "BOBO", "", "B"], ["BIOB", "BOBO", "", "B"]
    listed, wrong_listed = ([list(labels) for labels in form] for form in (strings, wrong))
    for function in OF_PAIRS[:-2]:
        expected = function(listed, wrong_listed)
        np.testing.assert_equal(function(strings, wrong_listed), expected)
        np.testing.assert_equal(function(listed, wrong), expected)
    expected = metrics.mcnemar_test(listed, wrong_listed, listed).table
    found = metrics.mcnemar_test(strings, wrong_listed, listed).table
    np.testing.assert_array_equal(found, expected)
    # A third argument does not say what the strings of two others are.
    with pytest.raises(ValueError, match=r"^y_true and y_pred_b are lists of strings such as 'BI"):
        metrics.mcnemar_test(strings, wrong_listed, wrong)
    # Beside an array they are labels, beside a list of sequences they are sequences.
    for a, b in ((np.array(strings), listed), (listed, np.array(strings))):
        with pytest.raises(TypeError, match=r"^the strings in y_true are \d labels beside"):
            metrics.mcnemar_test(strings, a, b)


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [(["B-NP", "O"], ["B-VP", "O"]), (["O", "B"], ["I", "B"]), (["U-A", "L-B-C"], ["O", "L-B-C"])],
)
@pytest.mark.parametrize("form", LISTS_OF_STRINGS)
def test_tags_and_single_characters_in_lists_are_labels(y_true, y_pred, form):
    assert metrics.token_accuracy_score(form(y_true), form(y_pred)) == 1 / 2
    assert metrics.mcnemar_test(*map(form, (y_true, y_pred, y_true))).table.sum() == 2


def test_predicted_b_of_iob1_that_separates_nothing_is_no_part_of_a_span(seqeval):
    y_true, y_pred = [["O", "I-A", "I-A", "O"]], [["B-A", "I-A", "I-A", "B-A"]]
    assert metrics.span_f1_score(y_true, y_pred, scheme="iob1") == 2 / 3
    assert metrics.span_recall_score(y_true, y_pred, scheme="iob1") == 1
    assert metrics.span_f1_score(y_true, [["B-A", "I-A", "I-A", "O"]], scheme="iob1") == 1


def test_strings_with_boundaries_are_labels():
    cuts = {"lengths": [2, 1]}
    found = metrics.sequence_accuracy_score(FLAT_TRUE, FLAT_PRED, **cuts)
    assert found == 1 / 2
    flat = FLAT_TRUE, FLAT_TRUE, FLAT_PRED
    assert metrics.paired_bootstrap(*flat, n_resamples=5, **cuts).scores.tolist() == [1, 2 / 3]


@given(label_pairs(), st.booleans())
def test_sequences_of_flat_labels(pair, by_groups):
    lengths = [len(labels) for labels in pair[0]]
    kept = [i for i, length in enumerate(lengths) if length]
    pair = [[sequences[i] for i in kept] for sequences in pair]
    lengths = [lengths[i] for i in kept]
    cuts = {"lengths": lengths}
    if by_groups:
        cuts = {"groups": np.repeat([f"g{i}" for i in kept], lengths)}
    flat = [flatten(sequences) for sequences in pair]
    found = metrics.sequence_accuracy_score(*flat, **cuts)
    assert found == metrics.sequence_accuracy_score(*pair)


def test_spans_of_flat_labels(seqeval):
    y_true, y_pred = (np.concatenate(sequences) for sequences in (Y_TRUE, Y_PRED))
    for cuts in ({"lengths": [4, 2]}, {"groups": list("aaaabb")}):
        for function in NEED_SEQUENCES[1:]:
            assert function(y_true, y_pred, **cuts) == function(Y_TRUE, Y_PRED)
    # A span that continues in the next sequence is another one.
    labels, cut = ["B-X", "I-X", "I-X"], ["B-X", "I-X", "B-X"]
    assert metrics.span_f1_score(labels, cut, lengths=[2, 1]) == 1
    assert metrics.span_f1_score(labels, cut, lengths=[3]) == 0


@pytest.mark.parametrize("function", NEED_SEQUENCES)
def test_metrics_of_sequences_refuse_flat_labels_without_boundaries(function, seqeval):
    for y_true in columns(["B-X", "O", "O"]):
        message = r"^y_true and y_pred hold one label per position.*pass lengths= or groups="
        with pytest.raises(TypeError, match=message):
            function(y_true, ["B-X", "O", "I-X"])


@pytest.mark.parametrize("function", NEED_SEQUENCES)
@pytest.mark.parametrize(
    ("y_true", "y_pred", "cuts", "error", "message"),
    [
        ([["O"]], [["O"]], {"lengths": [1]}, TypeError, r"^y_true and y_pred are lists of lab"),
        (["O"] * 3, ["O"] * 3, {"lengths": [2]}, ValueError, r"^lengths add up to 2, but y_true"),
        (["O"] * 3, ["O"] * 3, {"groups": "a"}, ValueError, r"^groups='a' names a column, but y_"),
        (["O"] * 3, ["O"] * 3, {"groups": [1, 2]}, ValueError, r"^y_true has 3 positions, gro"),
        (["O"] * 3, ["O"] * 3, {"groups": [1, 2, 1]}, ValueError, r"^group 1 is at positions 0 to"),
        (
            ["O"], ["O"], {"groups": [1], "lengths": [1]}, ValueError,
            r"^pass either lengths or groups, not both$",
        ),
    ],
)  # fmt: skip
def test_boundaries_that_do_not_fit(function, y_true, y_pred, cuts, error, message, seqeval):
    with pytest.raises(error, match=message):
        function(y_true, y_pred, **cuts)


@pytest.mark.parametrize(
    "function", [metrics.token_accuracy_score, metrics.token_f1_score, metrics.span_f1_score]
)
@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "message"),
    [
        ([["O"] * 2], ["O"] * 2, ValueError, r"^y_true has 1 sequences, y_pred has 2; each string"),
        ([["O"] * 2], np.array(["O"] * 2), ValueError, r"^y_true has 1 sequences, y_pred has 2; e"),
        ([0, 1], [[0], [1]], TypeError, r"^y_true holds one label per position, y_pred is a list"),
        (np.array([0, 1]), [[0], [1]], TypeError, r"^y_true holds one label per position, y_pred"),
        ([[0, 1]], np.array([0, 1]), TypeError, r"^y_pred holds one label per position, y_true is"),
        (
            np.array(["O"] * 3),
            [["O"] * 3],
            ValueError,
            r"^y_true has 3 sequences, y_pred has 1; ea",
        ),
    ],
)
def test_flat_labels_and_sequences_do_not_mix(function, y_true, y_pred, error, message, seqeval):
    with pytest.raises(error, match=message):
        function(y_true, y_pred)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "message"),
    [
        (["a"] * 3, ["a"] * 2, ValueError, r"^y_true has 3 labels, y_pred has 2$"),
        (["a", "b"], [], ValueError, r"^y_true has 2 labels, y_pred has 0$"),
        (["a", "b"], [0, 1], TypeError, r"^mixed label types: str in y_true, number in y_pred;"),
        (["a", 1], ["a", "b"], TypeError, r"^y_true, position 1: label 1 is of type int; expect"),
        ([0, 1], [0, 1.5], ValueError, r"^y_pred, position 1: label 1.5 is not a whole number"),
    ],
)
def test_errors_in_flat_labels_name_the_position(y_true, y_pred, error, message):
    for form in (list, lambda labels: np.array(labels, dtype=object)):
        with pytest.raises(error, match=message):
            metrics.token_accuracy_score(form(y_true), form(y_pred))


def test_frames_are_not_labels():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (pandas.DataFrame({"y": [0, 1]}), polars.DataFrame({"y": [0, 1]})):
        with pytest.raises(TypeError, match=r"^y_pred is a data frame; expected its column of lab"):
            metrics.token_accuracy_score([0, 1], frame)


@pytest.mark.parametrize("average", ["binary", "samples", 1])
@pytest.mark.parametrize("function", [metrics.token_f1_score, metrics.span_f1_score])
def test_unknown_average(function, average):
    with pytest.raises(ValueError, match=r"^average=.*; expected one of "):
        function(["B"], ["B"], average=average)


# Span metrics

ALPHABETS = {
    "iob1": "BI", "iob2": "BI", "bio": "BI", "bio2": "BI", "bio1": "BI", "ioe2": "IE",
    "iobes": "BIES", "bioes": "BIES", "bilou": "BILU", "biluo": "BILU", "bioul": "BILU",
}  # fmt: skip
SEQEVAL_NAMES = {
    "bio": "IOB2", "bio2": "IOB2", "bio1": "IOB1", "bioes": "IOBES", "biluo": "BILOU",
    "bioul": "BILOU",
}  # fmt: skip

# Three true spans (PER, LOC, PER), three predicted (PER, ORG, PER); the PER spans agree at 2 of 2.
Y_TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-PER"]]
Y_PRED = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-PER"]]


def all_in_spans(labels, scheme):
    """Whether each label but O belongs to a span that seqeval finds in a scheme."""
    from seqeval.scheme import Tokens

    found = Tokens(list(labels), scheme).entities
    inside = {t for span in found for t in range(span.start, span.end)}
    return all((t in inside) == (label != "O") for t, label in enumerate(labels))


# True labels that break the rules of a scheme, and the position and the label that the error names.
BROKEN = [
    ("bilou", ["B-X", "L-X", "O", "B-Y"], 3, "'B-Y' at the end"),
    ("biluo", ["O", "B-X", "O"], 2, "'O' after 'B-X'"),
    ("IOBES", ["B-X", "E-Y"], 1, "'E-Y' after 'B-X'"),
    ("bio", ["I-X", "O"], 0, "'I-X' at the start"),
    ("BIO2", ["B-X", "I-Y"], 1, "'I-Y' after 'B-X'"),
    ("iob1", ["O", "B-X"], 1, "'B-X' after 'O'"),
    ("iob1", ["I-Y", "B-X"], 1, "'B-X' after 'I-Y'"),
    ("ioe2", ["E", "I", "O"], 2, "'O' after 'I'"),
]


@pytest.mark.usefixtures("seqeval")
class TestSpans:
    @pytest.mark.parametrize(("scheme", "labels", "position", "what"), BROKEN)
    def test_true_labels_that_break_the_scheme(self, scheme, labels, position, what):
        """The error is that of `fit`; seqeval alone would count fewer spans."""
        y_true, y_pred = [["O"], [], labels, labels], [["O"], [], labels, ["O"] * len(labels)]
        message = (
            rf"^sequence 2 of y_true, position {position}: {what} is forbidden by scheme='{scheme}'"
        )
        for function in (*OF_SPANS, metrics.span_classification_report):
            with pytest.raises(ValueError, match=message):
                function(y_true, y_pred, scheme=scheme)
            lengths = [len(part) for part in y_true if part]
            with pytest.raises(ValueError, match=message.replace("sequence 2", "sequence 1")):
                flat = np.concatenate(y_true), np.concatenate(y_pred)
                function(*flat, scheme=scheme, lengths=lengths)
        scorer = metrics.make_scorer(metrics.span_f1_score, scheme=scheme)
        with pytest.raises(ValueError, match=message):
            scorer.score_labels(y_true, y_pred)
        options = {"scheme": scheme, "n_resamples": 2}
        with pytest.raises(ValueError, match=message.replace("sequence 2", r"sequence \d")):
            metrics.paired_bootstrap(y_true, y_pred, y_pred, metrics.span_f1_score, **options)
        # Predictions may break it.
        assert metrics.span_f1_score([["O"] * len(labels)], [labels], scheme=scheme) == 0

    def test_by_hand(self):
        assert metrics.span_precision_score(Y_TRUE, Y_PRED) == pytest.approx(2 / 3)
        assert metrics.span_recall_score(Y_TRUE, [*Y_PRED[:1], ["O", "O"]]) == pytest.approx(1 / 3)
        assert metrics.span_precision_score(Y_TRUE, [*Y_PRED[:1], ["O", "O"]]) == 1 / 2
        assert metrics.span_f1_score(Y_TRUE, [*Y_PRED[:1], ["O", "O"]]) == pytest.approx(2 / 5)

    def test_averages_by_hand(self):
        def f1(average):
            return metrics.span_f1_score(Y_TRUE, Y_PRED, average=average)

        np.testing.assert_array_equal(f1(None), [0, 0, 1])  # LOC, ORG, PER
        assert f1("macro") == pytest.approx(1 / 3)
        assert f1("micro") == f1("weighted") == pytest.approx(2 / 3)

    def test_spans_end_with_their_sequence(self):
        assert metrics.span_f1_score([["B-X"], ["I-X"]], [["B-X"], ["B-X"]]) == 1
        assert metrics.span_f1_score([["B-X", "I-X"]], [["B-X", "B-X"]]) == 0

    @given(st.data(), st.sampled_from(sorted(ALPHABETS)))
    def test_schemes_by_name(self, data, name):
        """Spans of any labels, valid or not, are those that seqeval finds in the scheme."""
        from seqeval import metrics as oracle
        from seqeval import scheme as schemes

        labels = [f"{x}-{kind}" for x in ALPHABETS[name] for kind in "XY"] + ["O"]
        length = data.draw(st.integers(1, 8))
        sequences = st.lists(st.sampled_from(labels), min_size=length, max_size=length)
        true, pred = [data.draw(sequences)], [data.draw(sequences)]
        scheme = getattr(schemes, SEQEVAL_NAMES.get(name, name.upper()))
        options = {"scheme": scheme, "mode": "strict", "zero_division": 0}
        for spelled in (name, name.upper()):
            if not all_in_spans(true[0], scheme):
                with pytest.raises(
                    ValueError, match=r"^sequence 0 of y_true, position \d: '[A-Z-]+"
                ):
                    metrics.span_f1_score(true, pred, scheme=spelled)
                continue
            found = metrics.span_f1_score(true, pred, scheme=spelled)
            assert found == oracle.f1_score(true, pred, **options)

    @given(st.lists(st.sampled_from(["B-X", "I-X", "B-Y", "I-Y", "O"]), min_size=1, max_size=6))
    def test_transitions_of_iob1_are_those_of_its_spans(self, labels):
        """A sequence follows the rules if the labels of its spans, read leniently, are the same."""
        from seqeval.metrics.sequence_labeling import get_entities

        again = ["O"] * len(labels)
        before = None
        for kind, first, last in get_entities(labels):
            again[first : last + 1] = [f"I-{kind}"] * (last + 1 - first)
            if before == (kind, first - 1):
                again[first] = f"B-{kind}"
            before = kind, last
        classes = np.unique([*labels, "B-X", "I-X", "B-Y", "I-Y", "O"])
        rules = as_transitions("iob1", classes, 1)
        codes = np.searchsorted(classes, labels)
        follows = rules.follows[np.append(len(classes), codes[:-1]), codes]
        assert follows.all() == (again == labels)
        assert rules.ends.all()

    def test_nothing_to_report(self):
        with pytest.raises(ValueError, match=r"^nothing to report: no span in y_true or y_pred$"):
            metrics.span_classification_report([["O"]], [["O"]])

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
    @pytest.mark.parametrize("zero_division", [0, 1])
    def test_without_spans(self, average, zero_division):
        options = {"average": average, "zero_division": zero_division}
        assert metrics.span_f1_score([["O"]], [["O"]], **options) == zero_division

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mode": "lenient"}, r"^mode='lenient'; expected None or 'strict'$"),
            ({"scheme": "IOE1", "mode": "strict"}, r"^scheme='IOE1'; expected None or one of "),
            ({"scheme": 2}, r"^scheme=2; expected None or one of \('iob1', 'iob2', 'ioe2', "),
            ({"mode": "strict"}, r"^mode='strict' without a scheme; expected one of \('iob1'"),
            ({"zero_division": math.nan}, r"^zero_division=nan; expected 0 or 1$"),
        ],
    )
    def test_wrong_options(self, options, message):
        for function in (metrics.span_f1_score, metrics.span_classification_report):
            with pytest.raises(ValueError, match=message):
                function(Y_TRUE, Y_PRED, **options)

    @pytest.mark.parametrize(
        ("label", "options"),
        [
            ("U-X", {}),
            ("ORG", {}),
            ("", {}),
            ("B_X", {}),
            ("O-X", {}),
            ("1-X", {"scheme": "IOB1", "mode": "strict"}),
            ("S-X", {"scheme": "IOB2", "mode": "strict"}),
        ],
    )
    def test_labels_that_are_not_span_labels(self, label, options):
        message = rf"^sequence 1 of y_pred, position 2: label '{label}'; expected 'O', or one of B,"
        with pytest.raises(ValueError, match=message):
            metrics.span_f1_score([["O"], ["O"] * 3], [["O"], ["O", "O", label]], **options)

    def test_int_labels(self):
        with pytest.raises(TypeError, match=r"^y_true: labels are numbers; spans need str"):
            metrics.span_f1_score([[0, 1]], [[0, 1]])


def test_missing_seqeval_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    for function in (metrics.span_f1_score, metrics.span_classification_report):
        with pytest.raises(ImportError, match=r'pip install "treecrf\[spans\]"'):
            function(Y_TRUE, Y_PRED)


# Scorers


class Lookup(BaseEstimator):
    """Predict each symbol's most frequent label, or `constant` where given."""

    def __init__(self, constant=None):
        self.constant = constant

    def fit(self, X, y):
        counts = Counter(
            pair for s, labels in zip(X, y, strict=True) for pair in zip(s, labels, strict=True)
        )
        self.table_ = {symbol: label for (symbol, label), _ in reversed(counts.most_common())}
        self.classes_ = np.unique(np.concatenate([np.asarray(labels) for labels in y]))
        return self

    def predict(self, X):
        choose = self.table_.get if self.constant is None else lambda _: self.constant
        return [np.array([choose(symbol) for symbol in sequence]) for sequence in X]

    def predict_log_likelihood(self, X, y):
        return np.array([-1.0 * len(labels) ** 2 for labels in y])


X = ["ab", "bba", "a", "abab", "bb", "aabba"]
Y = [[{"a": "O", "b": "B-X"}[symbol] for symbol in sequence] for sequence in X]


@pytest.fixture(params=sorted(metrics.SCORERS))
def name(request):
    if request.param.startswith("span"):
        pytest.importorskip("seqeval")
    return request.param


def test_scorers_are_module_attributes(name):
    assert getattr(metrics, name) is metrics.SCORERS[name]
    assert name in metrics.__all__


def test_scorers_in_cross_validation(name):
    # A symbol determines its label, so every score of predictions is perfect.
    scores = cross_val_score(Lookup(), X, Y, scoring=metrics.get_scorer(name), cv=3)
    expected = [1, 1, 1]
    if name == "log_likelihood":
        expected = [-13 / 5, -17 / 5, -29 / 7]
    np.testing.assert_allclose(scores, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # All labels predicted O: right at 8 of 17 positions, in 1 of 6 sequences.
        ("token_accuracy", 8 / 17),
        ("sequence_accuracy", 1 / 6),
        ("token_precision_macro", 8 / 17 / 2),
        ("token_recall_macro", 1 / 2),
        ("token_f1_macro", 16 / 25 / 2),
        ("token_f1_weighted", 16 / 25 * 8 / 17),
        ("log_likelihood", -(4 + 9 + 1 + 16 + 4 + 25) / 17),
    ],
)
def test_scores_by_hand(name, expected):
    score = metrics.get_scorer(name)(Lookup("O").fit(X, Y), X, Y)
    assert score == pytest.approx(expected)


def test_span_scores_by_hand(seqeval):
    # Predicting B-X everywhere finds all 9 spans among 17.
    fitted = Lookup("B-X").fit(X, Y)
    assert metrics.span_precision(fitted, X, Y) == pytest.approx(9 / 17)
    assert metrics.span_recall(fitted, X, Y) == 1
    assert metrics.span_f1(fitted, X, Y) == pytest.approx(18 / 26)


def test_unknown_scorer():
    with pytest.raises(ValueError, match=r"^unknown scorer 'f1'; expected one of token_accuracy, "):
        metrics.get_scorer("f1")


@pytest.mark.parametrize("y", [[], ["", []]])
def test_log_likelihood_without_labels(y):
    with pytest.raises(ValueError, match=r"^y holds no known labels$"):
        metrics.log_likelihood(Lookup(), [], y)


@pytest.mark.parametrize("name", ["token_accuracy", "span_f1", "log_likelihood"])
def test_scorers_take_the_name_of_a_column_of_labels(name):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"doc": [1, 1, 1, 2, 2], "x": list("uvuvv"), "tag": list("OBIOB")})
    y, scorer = frame["tag"].tolist(), metrics.get_scorer(name)
    crf = treecrf.TreeCRF(max_iter=5).fit(frame, "tag", groups="doc")
    expected = scorer(crf, frame, y)
    assert scorer(crf, frame, "tag") == expected
    parts = [part.drop(columns="doc") for _, part in frame.groupby("doc")]
    assert scorer(crf, parts, "tag") == expected
