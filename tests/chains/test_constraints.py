"""Constraints: rules for transitions, masks, known labels, and their effect on scores."""

from __future__ import annotations

import re
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from support.oracles import context_at
from support.sweeps import sweep

from treecrf import TreeCRF
from treecrf.chains.constraints import Constraints, Transitions, check_allowed
from treecrf.chains.contexts import previous_labels
from treecrf.chains.masks import as_allowed
from treecrf.chains.transitions import as_transitions
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.segmentation import Segmentation

XYZ = np.array(["x", "y", "z"])
# z is always last, x never first, and y may not follow itself.
FOLLOWS = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=bool)


def random_transitions(rng, n_labels) -> Transitions:
    return Transitions(rng.random((n_labels + 1, n_labels)) < 0.6, rng.random(n_labels) < 0.7)


def is_possible(labels, transitions, allowed=None) -> bool:
    before = [len(transitions.ends), *labels[:-1]]
    steps = all(transitions.follows[u, v] for u, v in zip(before, labels, strict=True))
    masks = allowed is None or all(allowed[t, v] for t, v in enumerate(labels))
    return steps and masks and bool(transitions.ends[labels[-1]])


# Rules


def test_matrices_with_and_without_a_row_for_the_start():
    for table in (FOLLOWS, FOLLOWS.tolist(), FOLLOWS.astype(float), FOLLOWS.astype(np.int8)):
        found = as_transitions(table, XYZ, 1)
        np.testing.assert_array_equal(found.follows, FOLLOWS)
        assert found.ends.all()
    found = as_transitions(FOLLOWS[:3], XYZ, 2)
    np.testing.assert_array_equal(found.follows, np.vstack([FOLLOWS[:3], [[True] * 3]]))
    assert as_transitions(None, XYZ, 0) is None


@pytest.mark.parametrize(
    "table",
    [
        {"x": ["x", "y", "z"], "y": ["x", "z"], "z": [], None: ["y", "z"]},
        {"y": {"x", "z"}, "z": (), None: np.array(["y", "z"])},
        {None: ["z", "y", "z"], "z": set(), "y": ["z", "x"]},
    ],
)
def test_dicts_of_the_labels_that_may_follow(table):
    found = as_transitions(table, XYZ, 1)
    np.testing.assert_array_equal(found.follows, FOLLOWS)
    assert found.ends.all()
    numbers = {None if key is None else "xyz".index(key): ["xyz".index(v) for v in after]
               for key, after in table.items()}  # fmt: skip
    np.testing.assert_array_equal(as_transitions(numbers, np.arange(3), 1).follows, FOLLOWS)


@pytest.mark.parametrize(
    ("spelled", "scheme"),
    [("BIO", "iob2"), ("bio2", "iob2"), ("BIO1", "iob1"), ("IOB1", "iob1"), ("Ioe2", "ioe2"),
     ("BIOES", "iobes"), ("biluo", "bilou"), ("BILUO", "bilou"), ("BIOUL", "bilou")],
)  # fmt: skip
def test_names_of_schemes(spelled, scheme):
    letters = {"iob1": "BI", "iob2": "BI", "ioe2": "IE", "iobes": "BIES", "bilou": "BILU"}[scheme]
    classes = np.array([*(f"{letter}-{kind}" for letter in letters for kind in "ab"), "O"])
    found, expected = (as_transitions(name, classes, 1) for name in (spelled, scheme))
    np.testing.assert_array_equal(found.follows, expected.follows)
    np.testing.assert_array_equal(found.ends, expected.ends)
    X, y = [["u", "v", "u"]] * 3, [["O", f"{'I' if scheme == 'iob1' else letters[-1]}-a", "O"]] * 3
    if scheme == "ioe2" or letters[-1] in "SU" or scheme == "iob1":
        assert TreeCRF(transitions=spelled, max_iter=2).fit(X, y).transitions == spelled


BIO = ["B-a", "B-b", "I-a", "I-b", "O"]
BIOES = [f"{letter}-{kind}" for letter in "BEIS" for kind in "ab"] + ["O"]


def bio_follows(before, tag) -> bool:
    """I-X only after B-X or I-X."""
    return not tag.startswith("I") or before in ("B" + tag[1:], "I" + tag[1:])


def bioes_follows(before, tag) -> bool:
    """I-X and E-X are allowed exactly after B-X and I-X."""
    if before[0] in "BI":
        return tag in ("I" + before[1:], "E" + before[1:])
    return tag[0] not in "IE"


def iob1_follows(before, tag) -> bool:
    """B-X only after B-X or I-X."""
    return not tag.startswith("B") or before in ("B" + tag[1:], "I" + tag[1:])


def ioe2_follows(before, tag) -> bool:
    """I-X is followed by I-X or E-X."""
    return not before.startswith("I") or tag in ("I" + before[1:], "E" + before[1:])


def bilou_follows(before, tag) -> bool:
    return bioes_follows(before, tag.translate(str.maketrans("LU", "ES")))


IOE = ["E-a", "E-b", "I-a", "I-b", "O"]
BILOU = [f"{letter}-{kind}" for letter in "BILU" for kind in "ab"] + ["O"]


@pytest.mark.parametrize(
    ("rules", "tags", "follows"),
    [
        ("bio", BIO, bio_follows),
        ("iob2", BIO, bio_follows),
        ("iob1", BIO, iob1_follows),
        ("ioe2", IOE, ioe2_follows),
        ("bioes", BIOES, bioes_follows),
        ("iobes", BIOES, bioes_follows),
        ("bilou", BILOU, bilou_follows),
    ],
)
@pytest.mark.parametrize("typed", [True, False])
def test_rules_for_chunks(rules, tags, follows, typed):
    tags = sorted(tags if typed else {tag[0] for tag in tags})
    found = as_transitions(rules, np.array(tags), 1)
    for row, before in zip(found.follows, [*tags, "O"], strict=True):
        assert row.tolist() == [follows(before, tag) for tag in tags]
    assert found.ends.tolist() == [follows(tag, "O") for tag in tags]


def test_rules_for_some_of_the_tags():
    found = as_transitions("bio", np.array(["I-a", "O"]), 1)
    assert found.follows.tolist() == [[True, True], [False, True], [False, True]]


@pytest.mark.parametrize(
    ("transitions", "classes", "order", "message"),
    [
        (FOLLOWS, XYZ, 0, "transitions with order=0; expected order 1 or higher"),
        ("bio", XYZ, 0, "transitions with order=0; expected order 1 or higher"),
        (np.ones((2, 3)), XYZ, 1, "transitions has the shape (2, 3); expected (3, 3) or (4, 3): a"),
        (np.ones(3), XYZ, 1, "transitions has the shape (3,); expected (3, 3) or (4, 3)"),
        (FOLLOWS * 2, XYZ, 1, "transitions has other values than True and False"),
        (FOLLOWS * np.nan, XYZ, 1, "transitions has other values than True and False"),
        ([["a"] * 3] * 3, XYZ, 1, "transitions has other values than True and False"),
        ("bio", XYZ, 1, "transitions=\"bio\": the label 'x' is neither O nor of the form B-X, I-X"),
        ("bioes", ["O", "X-a"], 1, "'X-a' is neither O nor of the form B-X, I-X, E-X, S-X"),
        ("bio", ["E-a", "O"], 1, "the label 'E-a' is neither O nor of the form B-X, I-X"),
        ("bio", ["B-", "O"], 1, "the label 'B-' is neither O nor"),
        ("bio", ["O", "O-a"], 1, "the label 'O-a' is neither O nor"),
        ("bio", ["-a", "O"], 1, "the label '-a' is neither O nor"),
        ("bio", [0, 1], 1, "the label 0 is neither O nor"),
        ({"q": ["x"]}, XYZ, 1, "transitions has the key 'q'; expected one of the labels ['x', 'y'"),
        ({"x": ["y", "q"]}, XYZ, 1, "transitions: 'x' is followed by 'q'; expected a list of la"),
        ({"x": "y"}, XYZ, 1, "transitions: 'x' is followed by 'y'; expected a list of labels in"),
        ({"x": 1}, XYZ, 1, "transitions: 'x' is followed by 1; expected a list of labels in ['x'"),
        ({None: [None]}, XYZ, 1, "transitions: None is followed by None; expected a list of lab"),
        ({"x": ["x"]}, XYZ, 0, "transitions with order=0; expected order 1 or higher"),
    ],
)
def test_invalid_rules_raise(transitions, classes, order, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        as_transitions(transitions, np.array(classes), order)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["yx", "yxy", "y"], None),
        (["yx", "xyz"], "sequence 1, position 0: 'x' at the start is forbidden by transitions"),
        (["yxz", "yxzy"], "sequence 1, position 3: 'y' after 'z' is forbidden by transitions"),
        (["y", "yx", "yy"], "sequence 2, position 1: 'y' after 'y' is forbidden by transitions"),
    ],
)
def test_labels_that_break_rules_raise(labels, message):
    codes = np.array([["x", "y", "z"].index(v) for v in "".join(labels)])
    offsets = offsets_of([len(one) for one in labels])
    transitions = as_transitions(FOLLOWS, XYZ, 1)
    if message is None:
        transitions.check(codes, offsets, XYZ)
        return
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        transitions.check(codes, offsets, XYZ)


def test_chunks_that_do_not_end_raise():
    classes = np.array(["B", "E", "I", "O"])
    rules = as_transitions("bioes", classes, 1)
    with pytest.raises(ValueError, match=r"^sequence 1, position 1: 'I' at the end is forbidden"):
        rules.check(np.array([0, 1, 3, 0, 2]), np.array([0, 3, 5]), classes)


@pytest.mark.parametrize("seed", range(10))
def test_reversed_rules_are_those_of_reversed_sequences(seed):
    transitions = random_transitions(np.random.default_rng(seed), 3)
    for n in (1, 2, 4):
        for labels in product(range(3), repeat=n):
            backward = is_possible(labels[::-1], transitions.reversed())
            assert backward == is_possible(labels, transitions)


# Scores


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_scores_of_forbidden_labels_alone_become_minus_infinity(order, masked, seed):
    rng = np.random.default_rng(seed)
    offsets = offsets_of([1, 3, 4])
    transitions = random_transitions(rng, 3)
    transitions.follows[:, 0] = transitions.ends[0] = True
    allowed = rng.random((8, 3)) < 0.7 if masked else None
    if masked:
        allowed[:, 0] = True
    constraints = Constraints.of(transitions, XYZ, offsets, allowed)
    scores = rng.normal(size=(3, 8, 3**order))
    kept = scores.copy()
    constraints.forbid(scores, offsets)
    np.testing.assert_array_equal(scores[np.isfinite(scores)], kept[np.isfinite(scores)])
    for i, (start, stop) in enumerate(pairwise(offsets.tolist())):
        mask = None if allowed is None else allowed[start:stop]
        for labels in product(range(3), repeat=int([1, 3, 4][i])):
            path = [
                scores[v, start + t, context_at(labels, t, 3, order)] for t, v in enumerate(labels)
            ]
            assert np.isfinite(path).all() == is_possible(labels, transitions, mask)
            codes = np.zeros(8, dtype=np.int32)
            codes[start:stop] = labels
            given = previous_labels(codes, offsets, 3, order)
            alone = np.zeros((3, 8, 1))
            constraints.forbid_given(alone, given)
            found = alone[codes[start:stop], np.arange(start, stop), 0]
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(path))
            some = np.zeros((3, 1, 1))
            constraints.forbid_given(some, given[:, start : start + 1], np.array([start]))
            np.testing.assert_array_equal(some[:, 0], alone[:, start])


def first_impossible(transitions, n, allowed):
    """The error for the first position that no beginning reaches, by enumeration."""
    masks = np.ones((n, 3), dtype=bool) if allowed is None else allowed

    def beginnings(t):
        unending = Transitions(transitions.follows, np.ones(3, dtype=bool))
        paths = product(range(3), repeat=t)
        return [p for p in paths if is_possible(p, unending, masks[:t])]

    def names(codes):
        found = [repr(label) for label in "xyz" if "xyz".index(label) in codes]
        return "any label" if len(found) == 3 else " or ".join(found)

    t = next((t for t in range(n) if not beginnings(t + 1)), None)
    if t is None:
        place, labels, where = n - 1, {path[-1] for path in beginnings(n)}, "at the end"
    else:
        place, labels = t, set(np.flatnonzero(masks[t]))
        where = f"after {names({path[-1] for path in beginnings(t)})}" if t else "at the start"
    return f"sequence 0, position {place}: {names(labels)} {where} is forbidden by transitions"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", sweep(range(30), 10))
def test_every_allowed_beginning_can_be_completed(masked, seed):
    rng = np.random.default_rng(seed)
    transitions = random_transitions(rng, 3)
    n = int(rng.integers(1, 6))
    allowed = rng.random((n, 3)) < 0.6 if masked else None
    possible = [
        labels
        for labels in product(range(3), repeat=n)
        if is_possible(labels, transitions, allowed)
    ]
    offsets = np.array([0, n])
    if not possible:
        expected = first_impossible(transitions, n, allowed)
        for backward in (False, True):
            masks = allowed[::-1] if masked and backward else allowed
            with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
                Constraints.of(transitions, XYZ, offsets, masks, backward)
        return
    constraints = Constraints.of(transitions, XYZ, offsets, allowed)
    for t in range(n):
        for before in {labels[:t] for labels in possible}:
            scores = np.zeros((3, 1, 1))
            given = np.array([[before[-1] if t else 3]], dtype=np.uint8)
            constraints.forbid_given(scores, given, np.array([t]))
            goes_on = {labels[t] for labels in possible if labels[:t] == before}
            assert set(np.flatnonzero(np.isfinite(scores[:, 0, 0]))) == goes_on


def test_rules_without_dead_ends_need_no_masks():
    free = Transitions(np.ones((4, 3), dtype=bool), np.ones(3, dtype=bool))
    assert Constraints.of(free, XYZ, np.array([0, 9])).allowed is None
    assert vars(Constraints.of(None, XYZ, np.array([0, 9]))) == vars(Constraints(XYZ))
    z_is_last = Constraints.of(as_transitions(FOLLOWS, XYZ, 1), XYZ, np.array([0, 3, 4]))
    assert z_is_last.allowed[:, 2].tolist() == [False, False, True, True]


def test_alternating_labels_reach_the_end_of_long_sequences():
    turns = Transitions(np.array([[0, 1], [1, 0], [1, 1]], dtype=bool), np.array([True, False]))
    allowed = Constraints.of(turns, np.arange(2), np.array([0, 9, 10, 20])).allowed
    np.testing.assert_array_equal(allowed[9], [True, False])
    np.testing.assert_array_equal(allowed[:9, 0], np.arange(9) % 2 == 0)
    np.testing.assert_array_equal(allowed[10:, 0], np.arange(10) % 2 == 1)


def test_sequences_without_an_allowed_label_sequence_raise():
    transitions = as_transitions(FOLLOWS, XYZ, 1)
    allowed = np.ones((5, 3), dtype=bool)
    allowed[3:] = [0, 1, 0]
    with pytest.raises(ValueError, match=r"^sequence 1, position 1: 'y' after 'y' is forbidden by"):
        Constraints.of(transitions, XYZ, np.array([0, 3, 5]), allowed)


def test_a_long_sequence():
    n = 20_000
    crf = TreeCRF(transitions=FOLLOWS[:3], max_iter=1).fit(["abc"], ["xyz"])
    known = [None] * n
    known[n // 2] = "y"
    labels = crf.predict(["a" * n], known=[known])[0]
    assert labels[n // 2] == "y"
    assert labels[n // 2 - 1] != "y" != labels[n // 2 + 1]


# Masks and known labels


def test_masks_and_known_labels_are_combined():
    offsets = np.array([0, 2, 3, 5])
    assert as_allowed(None, None, XYZ, offsets) is None
    mask = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    known = ([None, "z"], None, "xy")
    found = as_allowed([mask, None, None], known, XYZ, offsets)
    expected = [[1, 1, 0], [0, 0, 1], [1, 1, 1], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(found, np.array(expected, dtype=bool))
    assert mask.sum() == 4
    assert as_allowed([None] * 3, None, XYZ, offsets).all()


@pytest.mark.parametrize(
    ("classes", "known"),
    [
        ([0, 1, 5], [5, None, np.int8(0)]),
        ([0, 1, 5], [5.0, None, False]),
        ([0, 1, 5], np.array([5, None, 0], dtype=object)),
        (["a", "b", "c"], np.array(["c", None, "a"], dtype=object)),
        (["a", "b", "c"], [np.str_("c"), None, "a"]),
        ([0, 1, 5], np.array([5, np.nan, 0])),
        ([0, 1, 5], np.ma.masked_array([5, 1, 0], mask=[0, 1, 0])),
        ([0, 1, 5], pd.Series([5, None, 0], dtype="Int64")),
    ],
)
def test_forms_of_known_labels(classes, known):
    found = as_allowed(None, [known], np.array(classes), np.array([0, 3]))
    np.testing.assert_array_equal(found, np.array([[0, 0, 1], [1, 1, 1], [1, 0, 0]], dtype=bool))


ABC_MASK = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
STRINGS, INTEGERS = ["a", "b", "c"], [0, 1, 5]


@pytest.mark.parametrize(
    ("classes", "allowed"),
    [
        (STRINGS, [["a"], ["b", "c"], None]),
        (STRINGS, [("a",), ["c", "b", "c"], ["a", "b", "c"]]),
        (STRINGS, [{"a"}, frozenset("bc"), None]),
        (STRINGS, [["a"], np.array(["b", "c"]), None]),
        (STRINGS, np.array([["a", "a"], ["b", "c"], None], dtype=object)),
        (STRINGS, np.array([["a", "a"], ["b", "c"], ["a", "b"]])),
        (STRINGS, pd.Series([["a"], ["b", "c"], None])),
        (STRINGS, ABC_MASK.tolist()),
        (STRINGS, pd.DataFrame(ABC_MASK, columns=list("abc"))),
        (INTEGERS, [{0}, {5, 1}, None]),
        (INTEGERS, [{np.int8(0)}, {5.0, True}, None]),
        (INTEGERS, ABC_MASK.astype(float)),
    ],
)
@pytest.mark.parametrize("is_long", [False, True])
def test_forms_of_allowed_labels(classes, allowed, is_long):
    offsets, segmentation = np.array([0, 3]), Segmentation()
    if is_long:
        if isinstance(allowed, pd.DataFrame):
            allowed = allowed.to_numpy()
        offsets, segmentation = np.array([0, 1, 3]), Segmentation(lengths=[1, 2])
    given = allowed if is_long else [allowed]
    found = as_allowed(given, None, np.array(classes), offsets, segmentation)
    expected = ABC_MASK.copy()
    expected[2, 2] = not (isinstance(allowed, np.ndarray) and allowed.dtype.kind == "U")
    np.testing.assert_array_equal(found, expected)


def test_labels_that_masks_forbid_raise():
    allowed = np.ones((4, 3), dtype=bool)
    check_allowed(allowed, np.array([0, 1, 2, 0]), XYZ, np.array([0, 2, 4]))
    allowed[[1, 3], [1, 0]] = False
    with pytest.raises(ValueError, match=r"^sequence 0, position 1: 'y' is forbidden by allowed$"):
        check_allowed(allowed, np.array([0, 1, 2, 0]), XYZ, np.array([0, 2, 4]))
    allowed[1, 1] = True
    with pytest.raises(ValueError, match=r"^sequence 1, position 1: 'x' is forbidden by allowed$"):
        check_allowed(allowed, np.array([0, 1, 2, 0]), XYZ, np.array([0, 2, 4]))


# Tables by label

NAMED = {
    "allowed": lambda frame: {"allowed": [frame] * 6},
    "init_score": lambda frame: {"init_score": [frame * 1.0] * 6},
}
PAIRS = {
    "transitions": {},
    "cost_matrix": {"decoding": "minimum_risk"},
}


@pytest.mark.parametrize("argument", NAMED)
def test_data_frames_have_the_labels_as_columns(argument):
    X, y = [[[0.0], [1.0], [2.0]]] * 6, ["aba"] * 6
    table = np.array([[True, False], [True, True], [True, False]])
    in_order = NAMED[argument](pd.DataFrame(table, columns=["a", "b"]))
    reordered = NAMED[argument](pd.DataFrame(table, columns=["b", "a"]))
    crf = TreeCRF(max_iter=2)
    assert crf.fit(X, y, **NAMED[argument](pd.DataFrame(table | True))).n_iter_ == 2
    assert crf.predict(X, **in_order)[0].tolist()[::2] == ["a", "a"]
    for call in (lambda: crf.fit(X, y, **reordered), lambda: crf.predict(X, **reordered)):
        with pytest.raises(ValueError, match=r"are b, a; expected the labels a, b in this order"):
            call()


@pytest.mark.parametrize("parameter", PAIRS)
def test_matrices_in_data_frames_have_the_labels_as_rows_and_columns(parameter):
    X, y = ["uvu"] * 6, ["aba"] * 6
    table = np.ones((2, 2)) - np.eye(2)
    settings = PAIRS[parameter] | {"max_iter": 2}
    for names in ({}, {"columns": ["a", "b"], "index": ["a", "b"]}):
        frame = pd.DataFrame(table, **names)
        assert TreeCRF(**settings | {parameter: frame}).fit(X, y).predict(X)[0].tolist() == [*"aba"]
    for axis, what in (("columns", "columns"), ("index", "rows")):
        names = {"columns": ["a", "b"], "index": ["a", "b"]} | {axis: ["b", "a"]}
        crf = TreeCRF(**settings | {parameter: pd.DataFrame(table, **names)})
        with pytest.raises(ValueError, match=rf"the {what} of {parameter} are b, a"):
            crf.fit(X, y)
