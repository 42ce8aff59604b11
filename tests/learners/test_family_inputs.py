"""All forms of input give the same model, for all learners."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from support.family import (
    CORE,
    ESTIMATED,
    EXACT,
    FAMILY,
    GROWN,
    LINEAR,
    assert_close_arrays,
    assert_equal_arrays,
    every,
)

TABULAR = GROWN | LINEAR | ESTIMATED
RNG = np.random.default_rng(5)
LENGTHS = RNG.integers(1, 12, 15)
N = int(LENGTHS.sum())
NAMES = ("heat", "open", "room")
HEAT = RNG.integers(0, 5, N) / 2
OPEN = RNG.random(N) < 0.4
ROOM = RNG.choice(["attic", "bath", "cellar"], N)
CELLS = (HEAT, OPEN, ROOM)
Y = np.where(ROOM == "bath", "x", np.where(HEAT > 1, "y", "z"))


def cut(items) -> list:
    ends = np.cumsum(LENGTHS)
    return [items[a:b] for a, b in zip(ends - LENGTHS, ends, strict=True)]


def with_missing(values, seed: int) -> list:
    """The values, with about one in five missing."""
    gone = np.random.default_rng(seed).random(N) < 0.2
    return [None if no else v for v, no in zip(values.tolist(), gone, strict=True)]


def forms(columns: dict) -> dict:
    """The same cells as lists of sequences in several forms."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    made = {
        "lists": cut([list(row.values()) for row in rows]),
        "arrays of objects": [np.array([[*row.values()] for row in part], dtype=object)
                              for part in cut(rows)],
    }  # fmt: skip
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame
        made[library] = [frame(part, schema) if library == "polars" else frame(part)
                         for schema in [dict.fromkeys(columns)]
                         for part in cut(rows)]  # fmt: skip
    return made


def assert_close(name, ours, theirs) -> None:
    assert_close_arrays(ours, theirs, atol=1e-12 if name in EXACT else 1e-4)


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize("has_gaps", [False, True])
@every(TABULAR, fast=CORE)
def test_forms_of_the_same_cells_give_the_same_model(name, has_gaps):
    if has_gaps and name in ESTIMATED:
        pytest.skip("estimators may refuse missing values")
    columns = dict(zip(NAMES, (values.tolist() for values in CELLS), strict=True))
    if has_gaps:
        columns = {n: with_missing(v, i) for i, (n, v) in enumerate(zip(NAMES, CELLS, strict=True))}
    made, y = forms(columns), cut(Y)
    expected = clone(FAMILY[name]).fit(made["lists"], y).predict_proba(made["lists"])
    for form, X in made.items():
        model = clone(FAMILY[name]).fit(X, y)
        assert_close(name, model.predict_proba(X), expected)
        for other in made.values():
            assert_close(name, model.predict_proba(other), expected)
        assert model.n_features_in_ == 3
        named = list(NAMES) if form in ("pandas", "polars") else ["x0", "x1", "x2"]
        assert model.get_feature_names_out().tolist() == named


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@every(ESTIMATED)
def test_wrapped_estimators_read_missing_categories(name):
    rooms = cut([[room] for room in with_missing(ROOM, 2)])
    model = clone(FAMILY[name]).fit(rooms, cut(Y))
    unseen = [[["mansard" if room is None else room] for (room,) in part] for part in rooms]
    assert_equal_arrays(model.predict_proba(unseen), model.predict_proba(rooms))


# The names of the forms of symbols start with an s.
@every(FAMILY, fast=CORE)
def test_missing_symbols_have_many_forms(name):
    words, y = with_missing(ROOM, 0), cut(Y)
    expected = clone(FAMILY[name]).fit(cut(words), y).predict_proba(cut(words))
    objects = np.array(words, dtype=object)
    mask = np.array([word is None for word in words])
    masked = np.ma.masked_array(ROOM, mask)
    nans = np.array([np.nan if word is None else word for word in words], dtype=object)
    numbers = [None if word is None else ord(word[0]) for word in words]
    for same in (objects, nans, masked, [np.nan if n is None else n for n in numbers], numbers):
        model = clone(FAMILY[name]).fit(cut(same), y)
        assert_equal_arrays(model.predict_proba(cut(same)), expected)


@every(GROWN | LINEAR, fast=CORE)
def test_an_unseen_category_is_like_an_absent_one(name):
    """This holds with and without missing values, in training and in prediction."""
    gapped, y = with_missing(ROOM, 0), cut(Y)
    for trained_on in (ROOM.tolist(), gapped):
        by_symbols = clone(FAMILY[name]).fit(cut(trained_on), y)
        by_dicts = clone(FAMILY[name]).fit(cut([{"room": room} for room in trained_on]), y)
        for rooms in (ROOM.tolist(), gapped):
            some, others = (
                [new if i % 3 == 0 else room for i, room in enumerate(rooms)]
                for new in ("mansard", "vault")
            )
            absent = [{} if room == "vault" else {"room": room} for room in others]
            assert_equal_arrays(
                by_symbols.predict_proba(cut(some)), by_symbols.predict_proba(cut(others))
            )
            assert_equal_arrays(
                by_dicts.predict_proba(cut([{"room": room} for room in some])),
                by_dicts.predict_proba(cut(absent)),
            )
