"""Positions as CRFsuite's clients write them have the attributes that python-crfsuite makes."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import treecrf
from treecrf import LinearCRF, TreeCRF
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.schema import CATEGORY
from treecrf.preprocessing import SequenceScaler

words = st.one_of(
    st.sampled_from(["a", "b", "a:b", "a=b", ":", "b:", "word", "\u0394", "1"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
)
numbers = st.one_of(
    st.booleans(), st.integers(-3, 3), st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 0.5]),
    st.booleans().map(np.bool_), st.floats(width=32, allow_nan=False, allow_infinity=False),
)  # fmt: skip
collections = st.lists(words, max_size=3, unique=True) | st.sets(words, max_size=3)
values = st.recursive(
    words | numbers | collections, lambda inner: st.dictionaries(words, inner, max_size=3)
)
positions = st.dictionaries(words, values, max_size=5) | collections


def names_of(row) -> list[str]:
    """The names of all attributes, as python-crfsuite makes them."""
    if not isinstance(row, dict):
        return [str(item) for item in row]
    names = []
    for key, value in row.items():
        if isinstance(value, (dict, list, set)):
            names += [f"{key}:{name}" for name in names_of(value)]
        else:
            names.append(f"{key}:{value}" if isinstance(value, str) else key)
    return names


def attributes_in(sequences) -> list[dict[str, float]]:
    """The attributes of each position that are not 0, from the table that models read."""
    table = sequences.rows(0, sequences.n_sequences).tocoo()
    rows: list[dict[str, float]] = [{} for _ in range(sequences.n_positions)]
    for t, j, value in zip(table.row, table.col, table.data, strict=True):
        name = sequences.names[j]
        if sequences.kinds[j] == CATEGORY:
            name = f"{name}:{sequences.categories[j][int(value) - 1]}"
            value = 1.0
        assert name not in rows[t]
        rows[t][name] = float(value)
    return rows


def attributes_of_crfsuite(sequence) -> list[dict[str, float]]:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    items = pycrfsuite.ItemSequence(sequence).items()
    return [{name: value for name, value in item.items() if value} for item in items]


@pytest.mark.filterwarnings("ignore:the key .* has numbers", "ignore:lists of strings are attrib",
                            "ignore:some keys of X have strings")  # fmt: skip
@given(st.lists(positions, min_size=1, max_size=6), st.lists(positions, min_size=1, max_size=3))
def test_attributes_are_those_of_crfsuite(sequence, others):
    for row in (*sequence, *others):
        # A dict of python-crfsuite has the last value, but its models the sum.
        assume(max(Counter(names_of(row)).values(), default=0) < 2)
    expected = attributes_of_crfsuite(sequence)
    assume(any(names_of(row) for row in sequence))
    read = as_sequences([sequence])
    assert attributes_in(read) == expected
    found = attributes_in(as_sequences([others], read.schema))
    columns = {name for name, kind in zip(read.names, read.kinds, strict=True) if kind != CATEGORY}
    known = {name for row in sequence for name in names_of(row)}
    for row, ours, theirs in zip(others, found, attributes_of_crfsuite(others), strict=True):
        assert (
            ours.items() <= {name: value for name, value in theirs.items() if name in known}.items()
        )
        assert ours.keys() >= theirs.keys() & columns
        # A category has one of its values.
        for key, value in row.items() if isinstance(row, dict) else ():
            if isinstance(value, str):
                assert (f"{key}:{value}" in ours) == (f"{key}:{value}" in known)


def test_attributes_add_up():
    X = [[["a", "b", "a"], {"n": {"a": 1, "b": "c"}, "n:a": 2.5, "n:b": "c"}, {"n:b": {"c"}}]]
    assert attributes_in(as_sequences(X)) == [
        {"a": 2.0, "b": 1.0},
        {"n:a": 3.5, "n:b:c": 2.0},
        {"n:b:c": 1.0},
    ]


def addresses(n: int) -> tuple[list, list]:
    """Sequences in the form of parserator's projects."""
    rng = random.Random(0)
    vocabulary = ["main", "st", "st.", "12", "7a", "apt", "springfield", ","]

    def features(word):
        return {
            "word": word if word.isalpha() else False,
            "digits": {"some"} if word[0].isdigit() else set(),
            "length": f"w:{len(word)}",
            "trailing": word[-1] if not word[-1].isalnum() else False,
        }

    X, y = [], []
    for _ in range(n):
        chosen = [rng.choice(vocabulary) for _ in range(rng.randint(1, 6))]
        rows = [features(word) for word in chosen]
        for t, row in enumerate([dict(row) for row in rows]):
            if t:
                rows[t]["previous"] = features(chosen[t - 1])
            if t + 1 < len(chosen):
                rows[t + 1]["before"] = [f"has {key}" for key in row]
        X.append(rows)
        y.append([_label(word, rng) for word in chosen])
    return X, y


def _label(word: str, rng: random.Random) -> str:
    if rng.random() < 0.2:
        return rng.choice(["number", "street", "place"])
    return "number" if word[0].isdigit() else "street" if word.startswith("st") else "place"


def test_probabilities_are_those_of_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = addresses(40)
    params = {
        "c1": 0, "c2": 0.2, "feature.possible_states": True, "feature.possible_transitions": True,
        "epsilon": 1e-10, "delta": 1e-14, "max_iterations": 5000,
    }  # fmt: skip
    trainer = pycrfsuite.Trainer(verbose=False, params=params)
    # Its weights of first labels are those of an attribute.
    first = [[{**rows[0], "first": True}, *rows[1:]] for rows in X]
    for xseq, yseq in zip(first, y, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    crf = LinearCRF(
        l2_regularization=0.2, all_possible_states=True, standardize=False, tol=1e-12, max_iter=5000
    ).fit(X, y)
    proba = crf.predict_proba(X)
    for xseq, yseq, found in zip(first, y, proba, strict=True):
        tagger.set(xseq)
        expected = [[tagger.marginal(c, t) for c in crf.classes_] for t in range(len(yseq))]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    theirs = trainer.logparser.last_iteration["loss"]
    norm = sum(w * w for w in tagger.info().state_features.values())
    norm += sum(w * w for w in tagger.info().transitions.values())
    log_likelihood = crf.predict_log_likelihood(X, y).sum()
    assert -log_likelihood == pytest.approx(theirs - 0.2 * norm, rel=1e-4)


def test_models_of_such_positions_are_the_same_everywhere(tmp_path):
    X, y = addresses(40)
    for estimator in (LinearCRF(), TreeCRF(max_iter=5, early_stopping=False, window=1)):
        crf = estimator.fit(X, y)
        expected = np.concatenate(crf.predict_proba(X))
        crf.save(tmp_path / "model")
        for model in (treecrf.load(tmp_path / "model"), treecrf.runtime.load(tmp_path / "model")):
            np.testing.assert_array_equal(np.concatenate(model.predict_proba(X)), expected)
            # Short sequences are read in another way.
            found = [model.predict_proba([x])[0] for x in X]
            np.testing.assert_array_equal(np.concatenate(found), expected)
            long = [row for x in X for row in x]
            lengths = list(map(len, X))
            np.testing.assert_array_equal(model.predict_proba(long, lengths=lengths), expected)


def test_transformers_replace_and_add_numbers_of_nested_dicts_and_lists():
    X = [[{"n": {"len": i, "w": "a"}, "p": "s" if i else False} for i in range(3)], [["n:len"], []]]
    scaled = SequenceScaler().fit(X).transform(X)
    lengths = [row["n:len"] for x in scaled for row in x]
    np.testing.assert_allclose(lengths, [-np.sqrt(1.5), 0, np.sqrt(1.5), 1, -1])
    assert [row.get("n:w") for row in scaled[0]] == ["a"] * 3
    assert [row["p:s"] > 0 for row in scaled[0]] == [False, True, True]
