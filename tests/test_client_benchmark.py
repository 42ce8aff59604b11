"""Parts of ``benchmarks/clients.py``: the division of data, their readers, and scores."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pooch")
FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.append(str(FOLDER))

import client_sets  # noqa: E402


def lengths(tokens):
    return [str(len(token)) for token in tokens]


def test_repeated_tokens_are_left_out_and_every_fifth_sequence_tests():
    pairs = [(["a"] * n, ["x"] * n) for n in (1, 2, 3, 4, 2, 0, 5, 6)]
    pairs[4] = (["a", "a"], ["y", "y"])
    data = client_sets.distinct(pairs, lengths, list)
    assert [len(labels) for labels in data.labels] == [1, 2, 3, 4, 5, 6]
    assert data.labels[1] == ["x", "x"]
    assert data.part(True).plain == [["a"] * 5]
    assert data.part(True).attributes == [["1"] * 5]
    assert [len(labels) for labels in data.part(False).labels] == [1, 2, 3, 4, 6]


def test_elements_are_tokens_and_their_names_labels(tmp_path):
    path = tmp_path / "labeled.xml"
    path.write_text(
        "<All>\n <One><A>5</A> <B>Oak St,</B></One>\n <One><A>x &amp; y</A></One></All>"
    )
    assert client_sets.elements(path) == [(["5", "Oak St,"], ["A", "B"]), (["x & y"], ["A"])]


def test_features_of_neighbors_are_left_out():
    features = {"stem": "a", "prev_word": "b", "next_pos2": "c", "is_next": True}
    assert client_sets.without_neighbors(features) == {"stem": "a", "is_next": True}


def test_models_are_scored_by_tokens_and_by_sequences():
    pytest.importorskip("pycrfsuite")
    clients = pytest.importorskip("clients")
    y = [["a", "b"], ["a"], ["b", "b", "b"]]
    assert clients.scores(lambda x: ["a"] * len(x), [[0, 0], [0], [0] * 3], y) == (2 / 6, 1 / 3)


@pytest.mark.parametrize("name", ["CRFsuite", "LinearCRF", "TreeCRF", "TreeCRF on plain inputs"])
def test_contestants_learn(name):
    pytest.importorskip("pycrfsuite")
    clients = pytest.importorskip("clients")
    rows = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}, {"w": "a"}, {"w": "b"}]] * 10
    y = [[row["w"].upper() for row in x] for x in rows]
    data = client_sets.Sequences(rows, rows, y)
    found = clients.result_of(name, data, {"c2": 0.1}, 1)
    assert (found.tokens, found.sequences) == (1, 1)
    assert found.size > 0
    assert (found.by_position is None) == (name == "CRFsuite")


def test_failures_are_added_with_weights():
    pytest.importorskip("pycrfsuite")
    clients = pytest.importorskip("clients")
    rows = [[{"n": str(i)}, {"w": "b"}] for i in range(40)]
    y = [["A", "B"] for _ in rows]
    for i in (4, 14, 24, 34):  # test sequences
        y[i] = ["C", "B"]
    data = client_sets.Sequences(rows, rows, y)
    found = clients.added_failures("LinearCRF", data, {"c2": 0.1}, 1)
    assert (found.n_added, found.n_others, found.others) == (2, 6, 4)
    assert [(weight, added) for weight, added, _ in found.right] == [(1, 0), (10, 2)]
