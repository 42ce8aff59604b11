"""Warnings in fit and prediction about inputs that are valid, but probably not meant."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from support.family import CORE, COUNTED, FAMILY, FLAT, assert_equal_arrays, every

import treecrf
from treecrf import HMMClassifier, LinearCRF, SlidingWindowClassifier, TreeCRF, flatten

pd = pytest.importorskip("pandas")

TABULAR = FAMILY.keys() - COUNTED.keys()
RNG = np.random.default_rng(0)
FRAMES = [pd.DataFrame(RNG.normal(size=(n, 2)), columns=["a", "b"]) for n in (4, 9, 7)]
Y = [np.where(frame["a"] > 0, "x", "y") for frame in FRAMES]
ARRAYS = [frame.to_numpy() for frame in FRAMES]


def warned(call) -> list[str]:
    """Return the messages of the warnings of a call, which name this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(each.filename == __file__ for each in found)
    assert all(each.category is UserWarning for each in found)
    return [str(each.message) for each in found]


# Names of features


def calls(model, X, y):
    """All methods that take sequences."""
    long = np.concatenate(X) if isinstance(X[0], np.ndarray) else pd.concat(X)
    lengths = list(map(len, X))
    yield lambda: model.predict(X)
    yield lambda: model.predict(long, lengths=lengths)
    yield lambda: model.predict_proba(X)
    yield lambda: model.predict_pairwise_proba(X)
    yield lambda: model.predict_log_likelihood(X, y)
    yield lambda: model.decode(X)
    yield lambda: model.decode(X, 2)
    yield lambda: model.score(X, y)
    yield lambda: model.score(long, np.concatenate(y), lengths=lengths)
    if hasattr(model, "staged_predict_proba"):
        yield lambda: list(model.staged_predict_proba(X))
    if hasattr(model, "transform"):
        yield lambda: model.transform(X)
        yield lambda: model.attributes(X)


@every(TABULAR | FLAT.keys(), fast=CORE)
def test_only_one_of_training_and_prediction_has_names(name):
    flat = name in FLAT
    model = FLAT[name] if flat else FAMILY[name]
    kind = "FlatModel" if flat else type(model).__name__
    for trained, other, message in (
        (FRAMES, ARRAYS, f"X does not have valid feature names, but {kind} was fitted with feat"),
        (ARRAYS, FRAMES, f"X has feature names, but {kind} was fitted without feature names"),
    ):
        fitted = clone(model).fit(trained, Y)
        fitted = flatten(fitted) if flat else fitted
        assert hasattr(fitted, "feature_names_in_") == (trained is FRAMES)
        for call in calls(fitted, other, Y):
            (found,) = warned(call)
            assert found.startswith(message)
        for call in calls(fitted, trained, Y):
            assert not warned(call)


def test_other_forms_without_names():
    crf = TreeCRF(max_iter=2).fit(FRAMES, Y)
    numbered = [frame.set_axis([0, 1], axis=1) for frame in FRAMES]
    lists = [table.tolist() for table in ARRAYS]
    for X in (numbered, lists, list(map(sparse.csr_array, ARRAYS)), np.stack([ARRAYS[0]] * 2)):
        (found,) = warned(lambda X=X: crf.predict(X))
        assert found.startswith("X does not have valid feature names")
    dicts = [frame.to_dict("records") for frame in FRAMES]
    assert not warned(lambda: crf.predict(dicts))
    assert not warned(lambda: crf.predict([[], FRAMES[0]]))
    assert not warned(lambda: crf.predict([[], []]))
    of_dicts = TreeCRF(max_iter=2).fit(dicts, Y)
    assert len(warned(lambda: of_dicts.predict(ARRAYS))) == 1
    swapped = [frame[["b", "a"]].to_numpy() for frame in FRAMES]
    assert len(warned(lambda: crf.score(swapped, Y))) == 1


def test_a_stream_warns_once_of_names():
    crf = TreeCRF(max_iter=2).fit(FRAMES, Y)
    stream = crf.stream()

    def push() -> None:
        for row in ARRAYS[0]:
            stream.push(row)
        stream.finish()

    assert len(warned(push)) == len(warned(push)) == 1
    named = crf.stream()
    assert not warned(lambda: [named.push(row) for row in FRAMES[0].to_dict("records")])


# Labels


def hidden(share):
    """The labels, of which a share is unknown, but not the first of each sequence."""
    rng, hidden = np.random.default_rng(1), []
    for labels in Y:
        gone = rng.permutation(len(labels) - 1)[: round(share * len(labels))] + 1
        hidden.append([None if t in gone else label for t, label in enumerate(labels)])
    return hidden


MOSTLY = r"y holds no label for 16 of 20 positions, and training uses the other 4 only; if they"
LEARNERS = {
    "trees": TreeCRF(max_iter=2, init="zero"),
    "linear start": TreeCRF(max_iter=2),
    "linear": LinearCRF(l2_regularization=1.0),
    "estimator": SlidingWindowClassifier(FAMILY["sliding window of logistic regression"].estimator),
    "HMM": HMMClassifier(),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_most_labels_are_unknown(name):
    model = LEARNERS[name]
    X = ["ab" * (len(labels) // 2) + "a" * (len(labels) % 2) for labels in Y]
    X = X if name == "HMM" else FRAMES
    assert sum(label is None for labels in hidden(0.8) for label in labels) == 16
    (found,) = warned(lambda: clone(model).fit(X, hidden(0.8)))
    assert found.startswith(MOSTLY)
    assert not warned(lambda: clone(model).fit(X, hidden(0.5)))
    fitted = clone(model).fit(X, Y)
    (found,) = warned(lambda: fitted.score(X, hidden(0.8)))
    assert "16 of 20 positions, and the score counts the other 4 only" in found
    assert not warned(lambda: fitted.score(X, hidden(0.5)))
    assert not warned(lambda: fitted.predict_log_likelihood(X, hidden(0.8)))


def test_sets_of_labels_are_labels():
    sets = [[{"x", "y"} if t else label for t, label in enumerate(labels)] for labels in Y]
    assert not warned(lambda: TreeCRF(max_iter=2, init="zero").fit(FRAMES, sets))


def test_most_labels_in_files_are_unknown(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.concat(FRAMES, keys=range(3), names=["doc"]).reset_index("doc")
    table["tag"] = [label for labels in hidden(0.8) for label in labels]
    crf = TreeCRF(max_iter=2, init="zero")
    for doc, part in table.groupby("doc"):
        part.to_parquet(tmp_path / f"{doc}.parquet", index=False)
    (tmp_path / "scratch").mkdir()
    for X, given in (
        (table, {}), (table, {"scratch": tmp_path / "scratch"}),
        (tmp_path / "*.parquet", {"scratch": tmp_path / "scratch"}), (tmp_path / "*.parquet", {}),
    ):  # fmt: skip
        (found,) = warned(lambda X=X, given=given: clone(crf).fit(X, "tag", groups="doc", **given))
        assert found.startswith(MOSTLY)


def test_verbose_training_counts_unknown_labels(capsys):
    TreeCRF(max_iter=2, init="zero", verbose=1).fit(FRAMES, hidden(0.3))
    assert "TreeCRF: 6 of 20 positions have no label\n" in capsys.readouterr().err
    TreeCRF(max_iter=2, init="zero").fit(FRAMES, hidden(0.3))
    assert "no label" not in capsys.readouterr().err
    TreeCRF(max_iter=2, init="zero", verbose=1).fit(FRAMES, Y)
    assert "no label" not in capsys.readouterr().err


# Nothing known


SENTENCES = [[{"word": "the", "up": 1.0}, {"word": "cat", "up": 0}], [{"word": "a"}]]
WORDS = pd.DataFrame({"word": list("abba"), "tag": list("pqqp")})
UNKNOWN = {
    # Training data, sequences without anything known, and others.
    "strings": (["abab", "ba"], ["ABA", "q"], ["ab", "qqqa", ""]),
    "words": ([["the", "cat"], ["a", "the"]], [["The"], ["x", "y"]], [["x", "cat"], []]),
    "integers": ([[1, 2], [2, 3]], [[7, 8], np.array([9])], [[7, 1]]),
    "missing symbols": (
        [["a", None], ["b", "a"]], [["q", None], ["q"]], [[None, None], ["q", "a"]],
    ),
    "missing symbols in prediction": (["ab", "ba"], [["q", None]], [[None, "b"]]),
    "dicts": (
        SENTENCES,
        [[{"w": "The"}], [{"word": "dog"}, {"wrd": 3}], [{"w": 1.0, "word": "x"}, {}]],
        [[{"word": "dog"}, {"up": 2}], [{}, {}], [{"word": "x", "up": 0}], [{"w": 1, "word": "a"}]],
    ),
    "attributes": (
        [[["u", "v"], ["w"]], [["w", "u"]]], [[["q"]], [[], ["r", "q"]]], [[["q"], ["u"]]],
    ),
    "frames of categories": (
        [WORDS, WORDS[::-1]],
        [WORDS.replace(["a", "b"], "A").replace(["p", "q"], "P")],
        [WORDS.assign(word="A"), WORDS.assign(word=None, tag=None).astype(object)],
    ),
    "arrays of categories": (
        [WORDS.to_numpy()] * 2, [np.full((2, 2), "z")], [WORDS.to_numpy()[:1]],
    ),
    "frames with numbers": ([WORDS.assign(n=1.5)], [], [WORDS.assign(word="A", tag="P", n=9)]),
    "numbers": (ARRAYS, [], [table + 1000 for table in ARRAYS]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_known(name):
    X, unknown, known = UNKNOWN[name]
    y = [["x", "y"] * 9 for _ in X]
    y = [labels[: len(x)] for x, labels in zip(X, y, strict=True)]
    for model in (TreeCRF(max_iter=2, init="zero"), LinearCRF(l2_regularization=1.0)):
        crf = model.fit(X, y)
        assert not warned(lambda crf=crf: crf.predict([*X, *known]))
        for item in unknown:
            for call in (crf.predict, crf.predict_proba, crf.decode):
                (found,) = warned(lambda call=call, item=item: call([*known, *X, item, item]))
                assert found.startswith("nothing in a sequence is known: none of its ")
                assert "occurred in training; check how X was made" in found
            iterated = warned(lambda crf=crf, item=item: crf.predict(iter([item])))
            assert len(iterated) == 1


def test_nothing_in_a_long_table_is_known():
    crf = TreeCRF(max_iter=2).fit("abab", "xyxy", lengths=[2, 2])
    (found,) = warned(lambda: crf.predict("abqqrr", lengths=[2, 0, 2, 2]))
    assert found.startswith("nothing in a sequence is known: none of its symbols occurred in")
    crf = TreeCRF(max_iter=2).fit([*SENTENCES[0], *SENTENCES[1]], "xyx", lengths=[2, 1])
    (found,) = warned(lambda: crf.score([{"word": "a"}, {"w": 1}], "xy", lengths=[1, 1]))
    assert found.startswith("nothing in a sequence is known: none of its keys and categories")


def test_symbols_that_a_hidden_markov_model_does_not_know(tmp_path):
    hmm = HMMClassifier().fit(["abab", "ba"], ["xyxy", "yx"])
    hmm.save(tmp_path / "hmm.treecrf")
    for model in (hmm, treecrf.load(tmp_path / "hmm.treecrf"), hmm.fit(["cd"], ["xy"])):
        (found,) = warned(lambda model=model: model.predict(["q", "QQ"]))
        assert found.startswith("nothing in a sequence is known: none of its symbols occurred in")
    assert not warned(lambda: hmm.predict(["cq"]))
    assert len(warned(lambda: hmm.predict(["ab"]))) == 1


def test_streams_do_not_warn_of_the_first_symbols():
    crf = TreeCRF(max_iter=2).fit(["abab", "ba"], ["xyxy", "yx"])
    stream = crf.stream()
    assert not warned(lambda: [stream.push(symbol) for symbol in "qab"])


# Arrays of strings


@pytest.mark.parametrize("kind", [np.str_, object, "T"])
def test_arrays_of_strings_are_lists(kind):
    dtype = np.dtypes.StringDType() if kind == "T" else kind
    X, y = ["abab", "bbab", "a"], ["xyxy", "yyxy", "x"]
    X_array, y_array = np.array(X, dtype=dtype), np.array(y, dtype=dtype)
    for model in (TreeCRF(max_iter=3), HMMClassifier()):
        expected = clone(model).fit(X, y)
        for given in ((X_array, y_array), (X_array, y), (X, y_array)):
            found = clone(model).fit(*given)
            assert found.classes_.tolist() == ["x", "y"]
            assert_equal_arrays(found.predict_proba(X_array), expected.predict_proba(X))
            assert found.score(X_array, y_array) == expected.score(X, y)


@pytest.mark.parametrize("dtype", [np.str_, "T"])
def test_arrays_of_strings_that_may_be_symbols_are_refused(dtype):
    dtype = np.dtypes.StringDType() if dtype == "T" else dtype
    letters, words = np.array(["a", "b"], dtype=dtype), np.array(["the", "cat"], dtype=dtype)
    refusal = pytest.raises(TypeError, match=r"pass \[X\] .* of symbols, X\.tolist\(\) for a list")
    with refusal:
        TreeCRF().fit(letters, ["x", "y"])
    crf = TreeCRF(max_iter=2).fit(["ab", "ba"], ["xy", "yx"])
    with refusal:
        crf.predict(letters)
    assert len(crf.predict(letters.tolist())) == 2
    assert len(crf.predict([letters])[0]) == 2
    crf = TreeCRF(max_iter=2).fit([["the", "cat"], ["cat"]], ["dn", "n"])
    with refusal:
        crf.predict(words)
    assert crf.predict([words])[0].tolist() == ["d", "n"]
    assert crf.predict(words, lengths=[2]).tolist() == ["d", "n"]
