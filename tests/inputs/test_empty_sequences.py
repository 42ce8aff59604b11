"""Sequences without positions, in all forms: ignored in predictions, and refused in training."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.family import assert_equal_arrays

from treecrf import LinearCRF, PerSequence, RecurrentSlidingWindowClassifier, TreeCRF

RNG = np.random.default_rng(2)
NUMBERS = [RNG.normal(size=(n, 2)).round(1) for n in (4, 1, 6, 5)]
Y = [np.where(table[:, 0] > 0, "x", "y") for table in NUMBERS]


def frames(library):
    return [pytest.importorskip(library).DataFrame({"a": t[:, 0], "b": t[:, 1]}) for t in NUMBERS]


def mixed(library="pandas"):
    return [frame.assign(a=np.where(frame["a"] > 0, "p", "q")) for frame in frames(library)]


def arrow():
    table = pytest.importorskip("pyarrow").Table
    return [table.from_pandas(frame) for frame in frames("pandas")]


SIGNS = [np.sign(table[:, 0]).astype(int) for table in NUMBERS]
# For each form, sequences, and what else is an empty one.
FORMS = {
    "strings": lambda: (["".join("pqr"[i] for i in s) for s in SIGNS], ["", np.array([], "U1")]),
    "lists of words": lambda: ([[f"word{i}" for i in s] for s in SIGNS], [(), ""]),
    "integers": lambda: (SIGNS, [np.zeros(0, int), np.zeros(0)]),
    "missing symbols": lambda: ([[*map(str, s[:-1]), None] for s in SIGNS], [np.array([], object)]),
    "arrays": lambda: (NUMBERS, [np.zeros((0, 2)), np.zeros((0, 5)), np.zeros(0)]),
    "lists of lists": lambda: ([t.tolist() for t in NUMBERS], [()]),
    "arrays of objects": lambda: ([np.array([["p", v] for v in t[:, 0]], dtype=object)
                                   for t in NUMBERS], [np.zeros((0, 2), dtype=object)]),
    "sparse matrices": lambda: ([sparse.coo_array(t) for t in NUMBERS],
                                [sparse.csr_array((0, 2)), sparse.coo_matrix((0, 2))]),
    "pandas": lambda: (frames("pandas"), [frames("pandas")[0][:0], type(frames("pandas")[0])()]),
    "categories of pandas": lambda: (mixed(), [mixed()[0][:0]]),
    "polars": lambda: (frames("polars"), [frames("polars")[0][:0]]),
    "pyarrow": lambda: (arrow(), [arrow()[0][:0]]),
    "dicts": lambda: ([[{"a": v, "s": "p" if v > 0 else "q"} for v in t[:, 0].tolist()]
                       for t in NUMBERS], [(), np.array([], dtype=object)]),
    "attributes": lambda: ([[["up", "high"] if v > 1 else ["up"] if v > 0 else [] for v in t[:, 0]]
                            for t in NUMBERS], [()]),
}  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_all_forms(form, backward):
    X, others = FORMS[form]()
    crf = TreeCRF(window=1, max_iter=3)
    if backward:
        crf = RecurrentSlidingWindowClassifier(direction="right-to-left", max_iter=3)
    crf.fit(X, Y)
    for empty in ([], *others):
        with_empty = [empty, X[0], empty, empty, *X[1:], empty]
        found = crf.predict_proba(with_empty)
        assert_equal_arrays([found[1], *found[4:-1]], crf.predict_proba(X))
        assert [p.shape for p in (found[0], *found[2:4], found[-1])] == [(0, 2)] * 4
        assert [labels.shape for labels in crf.predict([empty])] == [(0,)]
        assert crf.score(with_empty, [[], Y[0], "", (), *Y[1:], None]) == crf.score(X, Y)
    with pytest.raises((ValueError, TypeError)):
        crf.fit([X[0], others[0], *X[1:]], [Y[0], [], *Y[1:]])


@pytest.mark.parametrize("form", ["array", "list", "string", "sparse", "pandas", "polars"])
def test_long_tables_without_rows(form):
    make = {
        "array": lambda t: t,
        "list": lambda t: t.tolist(),
        "string": lambda t: "".join("pq"[int(v > 0)] for v in t[:, 0]),
        "sparse": sparse.csr_array,
        "pandas": lambda t: pytest.importorskip("pandas").DataFrame(t, columns=["a", "b"]),
        "polars": lambda t: pytest.importorskip("polars").DataFrame({"a": t[:, 0], "b": t[:, 1]}),
    }[form]
    crf = TreeCRF(max_iter=3).fit(make(np.concatenate(NUMBERS)), np.concatenate(Y), lengths=[4, 12])
    table = make(np.zeros((0, 2)))
    for given in ({"lengths": []}, {"groups": []}, {"groups": np.zeros(0)}):
        assert crf.predict(table, **given).shape == (0,)
        assert crf.predict(table, **given).dtype == crf.classes_.dtype
        assert crf.predict_proba(table, **given).shape == (0, 2)
        labels, log_p = crf.decode(table, **given)
        assert labels.shape == log_p.shape == (0,)
        assert crf.decode(table, 2, **given) == ([], [])
        assert crf.predict_pairwise_proba(table, **given) == []
        assert crf.predict_log_likelihood(table, [], **given).shape == (0,)
    assert crf.decode(table, lengths=[0, 0])[1].tolist() == [0, 0]
    with pytest.raises(ValueError, match="lengths add up to 3, but X has 0 positions"):
        crf.predict(table, lengths=[3])
    with pytest.raises(ValueError, match="X has 0 positions, groups has 1"):
        crf.predict(table, groups=[1])
    with pytest.raises(ValueError, match="X holds no positions"):
        crf.fit(table, [], lengths=[])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_a_column_of_groups(library):
    frame = pytest.importorskip(library).DataFrame(
        {"v": [1.0, 2.0, 3.0, 0.5], "day": [1, 1, 2, 2], "state": list("xyyx")}
    )
    crf = TreeCRF(max_iter=3).fit(frame, "state", groups="day")
    assert crf.predict(frame[:0]).tolist() == []
    assert crf.predict_proba(frame[:0]).shape == (0, 2)
    assert crf.predict(frame[:0], groups="day").tolist() == []
    if library == "pandas":
        assert crf.predict(frame[:0].groupby("day")) == []


def test_scores_of_other_models_and_masks():
    X, y = ["abab", "", "ba"], ["xyxy", "", "yx"]
    start = [np.eye(2)[[0, 1, 0, 1]] * 2, np.zeros((0, 2)), np.eye(2)[[1, 0]]]
    crf = TreeCRF(max_iter=3, window=1).fit(X[::2], y[::2], init_score=start[::2])
    expected = crf.predict_proba(X[::2], init_score=start[::2])
    for empty in (start[1], []):
        found = crf.predict_proba(X, init_score=[start[0], empty, start[2]])
        assert_equal_arrays(found[::2], expected)
    with pytest.raises(ValueError, match=r"init_score: sequence 1 has shape \(0, 3\)"):
        crf.predict(X, init_score=[start[0], np.zeros((0, 3)), start[2]])


def test_pipelines_pass_empty_sequences_on():
    model = make_pipeline(PerSequence(StandardScaler()), LinearCRF()).fit(NUMBERS, Y)
    found = model.predict([NUMBERS[0], [], np.zeros((0, 2)), NUMBERS[1]])
    assert_equal_arrays([found[0], found[3]], model.predict(NUMBERS[:2]))
    assert [labels.shape for labels in found[1:3]] == [(0,), (0,)]


def test_errors_count_empty_sequences():
    crf = TreeCRF(max_iter=3).fit(NUMBERS, Y)
    wrong = np.array([[0.5, np.inf]])
    for empty in ([], np.zeros((0, 2))):
        with pytest.raises(ValueError, match="sequence 2, position 0, feature 1: inf is infinite"):
            crf.predict([NUMBERS[0], empty, wrong])
        with pytest.raises(ValueError, match="sequence 2 has 3 features, the model was trained"):
            crf.predict([NUMBERS[0], empty, np.zeros((1, 3))])
        with pytest.raises(ValueError, match="sequence 2 is a 1-D array of int64, sequence 1 is a"):
            crf.predict([empty, NUMBERS[0], [1, 2]])
    with pytest.raises(ValueError, match="X has 2 sequences, y has 1"):
        crf.score([NUMBERS[0], []], [Y[0]])


def test_time_of_long_tables_with_empty_sequences():
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2024-01-02", "2024-01-03", "2024-01-01", "2024-01-02"])
    frame = pandas.DataFrame({"v": [1.0, 2.0, 3.0, 0.5]}, index=times)
    crf = TreeCRF(max_iter=3).fit(frame, list("xyyx"), lengths=[2, 2])
    crf.predict(frame, lengths=[0, 2, 0, 2, 0])
    with pytest.warns(UserWarning, match="sequence 1, position 2: the time in the index of X goes"):
        crf.predict(frame, lengths=[0, 4, 0])
