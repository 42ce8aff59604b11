"""Reports: their numbers against plain computations, their contents, and their files."""

import base64
import itertools
import json
import re

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_recall_fscore_support
from support.family import CORE, FAMILY, every

from treecrf import HMMClassifier, LinearCRF, Report, TreeCRF, report
from treecrf.cli import main
from treecrf.inspection import explain, partial_dependence
from treecrf.reports.page import json_for_html
from treecrf.reports.scores import (
    DISTANCES,
    LENGTHS,
    SequenceCounts,
    accuracy_by_segment_length,
    accuracy_near_boundaries,
    confusion_table,
    count_changes,
    label_scores,
)


def contents_of(page: Report) -> dict:
    """The data of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.S)
    return json.loads(found[1])


def unpacked(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def sequences_of_codes(seed: int, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True and predicted codes, a few of which are unknown or wrong, and offsets."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, size=8)
    lengths[rng.integers(8)] = 40
    offsets = np.append(0, np.cumsum(lengths))
    changes = rng.random(offsets[-1]) < 0.15
    true = (np.cumsum(changes) % n_labels).astype(np.int32)
    predicted = np.where(rng.random(len(true)) < 0.2, rng.integers(n_labels, size=len(true)), true)
    true[rng.random(len(true)) < 0.05] = -1
    return true, predicted.astype(np.int32), offsets


# Scores


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_scikit_learn(seed):
    true, predicted, offsets = sequences_of_codes(seed)
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(3), size=len(true))
    known = true >= 0
    losses = np.where(known, -np.log(proba[np.arange(len(true)), true]), 0)
    counts = SequenceCounts(true, predicted, losses, offsets, 3)
    scores = counts.scores(np.ones((1, len(offsets) - 1)))
    assert scores["accuracy"][0] == pytest.approx(accuracy_score(true[known], predicted[known]))
    macro = f1_score(true[known], predicted[known], average="macro")
    assert scores["macro F1"][0] == pytest.approx(macro)
    assert scores["log loss"][0] == pytest.approx(log_loss(true[known], proba[known]))
    confusion = confusion_table(true, predicted, 3)
    by_label = label_scores(confusion)
    expected = precision_recall_fscore_support(true[known], predicted[known])
    for name, values in zip(("precision", "recall", "f1"), expected, strict=False):
        np.testing.assert_allclose(by_label[name], values)


def test_a_resample_counts_a_sequence_as_often_as_it_is_drawn():
    true, predicted, offsets = sequences_of_codes(0)
    losses = np.random.default_rng(0).random(len(true))
    counts = SequenceCounts(true, predicted, losses, offsets, 3)
    weights = np.random.default_rng(1).integers(0, 3, size=len(offsets) - 1)
    drawn = np.repeat(np.arange(len(weights)), weights)
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in drawn])
    lengths = np.diff(offsets)[drawn]
    repeated = SequenceCounts(
        true[rows], predicted[rows], losses[rows], np.append(0, np.cumsum(lengths)), 3
    )
    expected = repeated.scores(np.ones((1, len(drawn))))
    for name, value in counts.scores(weights[None].astype(float)).items():
        assert value == pytest.approx(expected[name])


def segments_of(codes, offsets):
    """Runs of one label, as pairs of ends."""
    for first, last in itertools.pairwise(offsets):
        start = first
        for t in range(first, last):
            if t + 1 == last or codes[t + 1] != codes[t]:
                yield start, t + 1
                start = t + 1


def shares_of(table):
    return [(row["name"], row["n"], pytest.approx(row["accuracy"])) for row in table]


def ranges_of(ends):
    starts = [1, *(end + 1 for end in ends)]
    for low, high in zip(starts, [*ends, 10**9], strict=True):
        name = f"{low} or more" if high == 10**9 else f"{low} to {high}" if low < high else str(low)
        yield name, low, high


@pytest.mark.parametrize("seed", range(5))
def test_accuracy_by_length_and_near_changes(seed):
    true, predicted, offsets = sequences_of_codes(seed)
    segments = list(segments_of(true, offsets))
    lengths = np.concatenate([np.full(end - start, end - start) for start, end in segments])
    distances = np.full(len(true), 10**6)
    for first, last in itertools.pairwise(offsets):
        inner = [start for start, _ in segments if first < start < last]
        for t in range(first, last):
            away = [t - start + 1 if t >= start else start - t for start in inner]
            distances[t] = min(away, default=10**6)
    known = true >= 0
    for table, sizes, ends in (
        (accuracy_by_segment_length(true, predicted, offsets), lengths, LENGTHS),
        (accuracy_near_boundaries(true, predicted, offsets), distances, DISTANCES),
    ):
        expected = []
        for name, low, high in ranges_of(ends):
            chosen = known & (low <= sizes) & (sizes <= high)
            if chosen.any():
                accuracy = np.mean(true[chosen] == predicted[chosen])
                expected.append((name, int(chosen.sum()), accuracy))
        assert shares_of(table) == expected
    n_changes = sum(
        true[t] != true[t - 1] for a, b in itertools.pairwise(offsets)
        for t in range(a + 1, b)
    )  # fmt: skip
    assert count_changes(true, offsets) == n_changes


def test_nothing_is_near_a_change_without_changes():
    codes = np.zeros(5, dtype=np.int32)
    assert accuracy_near_boundaries(codes, codes, np.array([0, 5])) == []


# Contents


@every(FAMILY, CORE)
def test_every_model_has_a_report(name, fitted, letters):
    model = fitted(name)
    X, y = letters
    page = report(model, X, y, n_explained=3)
    found = contents_of(page)
    positions = found["positions"]
    predicted = np.concatenate(model.predict(X))
    proba = np.concatenate(model.predict_proba(X))
    classes = model.classes_
    assert classes[unpacked(positions["predicted"], "i1")].tolist() == predicted.tolist()
    assert classes[unpacked(positions["true"], "i1")].tolist() == list("".join(map("".join, y)))
    stored = unpacked(positions["labels"], "i1").reshape(len(proba), -1)
    shares = unpacked(positions["shares"], "u1").reshape(stored.shape)
    expected = np.take_along_axis(proba, stored.astype(int), axis=1)
    np.testing.assert_allclose(shares / 255, expected, atol=0.5 / 255 + 1e-9)
    np.testing.assert_array_equal(expected, -np.sort(-proba, axis=1)[:, : stored.shape[1]])
    accuracy = {score["name"]: score["value"] for score in found["evaluation"]["scores"]}
    assert accuracy["accuracy"] == pytest.approx(model.score(X, y))
    assert page.html == report(model, X, y, n_explained=3).html


@pytest.mark.parametrize("name", ["CRF of order 2", "linear CRF", "recurrent window, backward"])
def test_explanations_are_those_of_explain(name, fitted, letters):
    model = fitted(name)
    X, y = letters
    found = contents_of(report(model, X, y, n_explained=5))["explanations"]
    offsets = np.append(0, np.cumsum([len(x) for x in X]))
    predicted = model.predict(X)
    assert len(found) == 5
    for row, explained in found.items():
        i = int(np.searchsorted(offsets, int(row), side="right")) - 1
        expected = explain(model, X[i], int(row) - offsets[i], predicted[i])
        first, second = explained["labels"]
        difference = expected.values[first] - expected.values[second]
        base = expected.base_values[first] - expected.base_values[second]
        assert explained["base"] == pytest.approx(base, abs=1e-4)
        total = explained["others"] + sum(value for _, value in explained["items"])
        assert total == pytest.approx(difference.sum(), abs=2e-3)
        strongest = np.argsort(-np.abs(difference), kind="stable")[0]
        assert explained["items"][0][0] == expected.descriptions[strongest]


def test_no_contributions_if_none_are_wanted(trained, letters):
    assert contents_of(report(trained, *letters, n_explained=0))["explanations"] == {}


def test_the_worst_sequences_come_first(trained, letters):
    X, y = letters
    found = contents_of(report(trained, X, y))["sequences"]
    log_p = [
        np.log(p[np.arange(len(labels)), np.searchsorted(trained.classes_, list(labels))]).mean()
        for p, labels in zip(trained.predict_proba(X), y, strict=True)
    ]
    assert [i for i, *_ in found] == np.argsort(log_p, kind="stable").tolist()
    expected = [
        [len(X[i]), int(np.sum(trained.predict([X[i]])[0] != list(y[i])))] for i, *_ in found
    ]
    assert [counts for _, *counts in found] == expected


def test_unknown_labels_have_no_part(trained, letters):
    X, y = letters
    y = [list(labels) for labels in y]
    y[0][0] = None
    found = contents_of(report(trained, X, y, n_explained=0))
    assert found["evaluation"]["n_unknown"] == 1
    assert unpacked(found["positions"]["true"], "i1")[0] == -1
    assert np.sum(found["evaluation"]["confusion"]) == sum(map(len, y)) - 1
    assert [0, len(X[0]) - 1] in [row[:2] for row in found["sequences"]]
    nothing = contents_of(report(trained, X[:1], [[None] * len(X[0])], n_explained=0))
    assert nothing["evaluation"] is None and "true" not in nothing["positions"]


def test_without_labels_there_are_no_scores(trained, letters):
    found = contents_of(report(trained, letters[0]))
    assert found["evaluation"] is None and "true" not in found["positions"]
    proba = [p.max(axis=1).mean() for p in trained.predict_proba(letters[0])]
    assert [i for i, *_ in found["sequences"]] == np.argsort(proba).tolist()


def test_two_models_are_compared(trained, fitted, letters):
    X, y = letters
    other = fitted("linear CRF")
    found = contents_of(report(trained, X, y, other=other, n_explained=0))["comparison"]
    values = {row["name"]: row["value"] for row in found["differences"]}
    assert values["accuracy"] == pytest.approx(other.score(X, y) - trained.score(X, y))
    right = [
        [int(sum(a == b for a, b in zip(p, t, strict=True))) for p, t in zip(pred, y, strict=True)]
        for pred in (trained.predict(X), other.predict(X))
    ]
    gains = np.subtract(right[1], right[0])
    assert dict(found["sequences"]) == {i: gains[i] for i, _ in found["sequences"]}
    sizes = [abs(gain) for _, gain in found["sequences"]]
    assert sizes == sorted(sizes, reverse=True)


def test_drift_is_large_where_values_moved():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(100, 3)) for _ in range(5)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    new = [x + [0, 3, 0] for x in X]
    new[0][:50, 2] = np.nan
    crf = TreeCRF(max_iter=3).fit([np.where(x > 9, np.nan, x) for x in X], y)
    training = contents_of(report(crf, new, X_train=X, n_explained=0))["training"]
    assert (training["n_sequences"], training["n_positions"]) == (5, 500)
    rows = training["drift"]
    assert [row["name"] for row in rows] == ["x1", "x2", "x0"]
    assert rows[0]["distance"] > 0.8 and rows[2]["distance"] == 0
    assert rows[1]["missing"] == [0, 0.1]
    old, moved = np.concatenate(X), np.concatenate(new)
    for row in rows:
        j = int(row["name"][1:])
        pair = old[:, j], moved[~np.isnan(moved[:, j]), j]
        assert row["distance"] == pytest.approx(ks_2samp(*pair).statistic)
        # With five sequences, ten splits miss few of the pairs.
        halves = [
            ks_2samp(np.concatenate([X[i], X[k]])[:, j], np.delete(X, [i, k], 0)[..., j].ravel())
            for i, k in itertools.combinations(range(5), 2)
        ]
        found = [pytest.approx(half.statistic) for half in halves]
        assert row["within"] in found and row["within"] > np.median([h.statistic for h in halves])
    alone = contents_of(report(crf, new, X_train=X[:1], n_explained=0))["training"]["drift"]
    assert {row["within"] for row in alone} == {None}


def test_drift_of_symbols_is_half_the_difference_of_frequencies(trained):
    training = contents_of(report(trained, ["aabb", "aacc"], X_train=["aaab", "aaab"]))["training"]
    (row,) = training["drift"]
    # a: 6/8 and 4/8, b: 2/8 and 2/8, c: 0 and 2/8.
    assert row["distance"] == pytest.approx(0.25)
    assert row["within"] == 0 and row["medians"] is None


def test_a_single_sequence_has_no_intervals(trained):
    scores = contents_of(report(trained, ["abca"], ["xyzx"]))["evaluation"]["scores"]
    assert all(score["interval"] is None for score in scores)


def test_groups_are_the_names_of_sequences():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": range(8), "day": ["mo"] * 3 + ["tu"] * 5, "on": [0, 1] * 4})
    crf = TreeCRF(max_iter=2).fit(table, "on", groups="day")
    found = contents_of(report(crf, table, "on", groups="day"))
    assert found["positions"]["names"] == ["mo", "tu"]


def test_texts_are_data_and_never_markup():
    evil = ["</script><script>alert(1)</script>", "<!--", "$contents$", "&amp;"]
    X, y = [evil, evil[::-1]], [["<b>", "</title>", "<b>", "$title$"]] * 2
    crf = LinearCRF().fit(X, y)
    page = report(crf, X, y, title="<img src=x onerror=alert(1)> $styles$")
    assert page.html.count("<script") == 2 and page.html.count("</script>") == 2
    assert "<img" not in page.html and "&lt;img src=x onerror=alert(1)&gt; $styles$" in page.html
    found = contents_of(page)
    assert found["positions"]["texts"] == [*evil, *evil[::-1]]
    assert found["labels"] == sorted({"<b>", "</title>", "$title$"})


@pytest.mark.parametrize("form", ["dicts", "frames", "long frame", "given", "given at once"])
def test_texts_of_columns(form):
    pandas = pytest.importorskip("pandas")
    words = [["Ada", "met"], ["Mary"]]
    X = [[{"word": word, "n": len(word)} for word in sentence] for sentence in words]
    y = [["N", "V"], ["N"]]
    crf = LinearCRF().fit(X, y)
    options = {"symbols": "word"}
    if form == "frames":
        X = [pandas.DataFrame(rows) for rows in X]
        crf.fit(X, y)
    if form == "long frame":
        X = pandas.DataFrame(X[0] + X[1])
        crf.fit(X, ["N", "V", "N"], lengths=[2, 1])
        options |= {"lengths": [2, 1]}
    if form == "given":
        options = {"symbols": words}
    if form == "given at once":
        options = {"symbols": ["Ada", "met", "Mary"]}
    found = contents_of(report(crf, X, n_explained=0, **options))
    assert found["positions"]["texts"] == ["Ada", "met", "Mary"]


def test_texts_that_do_not_fit():
    X = [[{"word": "Ada"}, {"word": "met"}]]
    crf = LinearCRF().fit(X, [["N", "V"]])
    with pytest.raises(ValueError, match="symbols has 1 texts; expected 2"):
        report(crf, X, symbols=["Ada"])
    table = [np.zeros((3, 1))]
    numbers = LinearCRF().fit([np.arange(3.0)[:, None]], [[0, 1, 1]])
    with pytest.raises(
        TypeError, match="symbols='word' names a column, but X holds no data frames"
    ):
        report(numbers, table, symbols="word")


def test_the_command_shows_the_words_of_a_file(tmp_path, capsys):
    file = tmp_path / "a.conll"
    file.write_text("Ada N\nmet V\n\nMary N\nmet V\n")
    assert main(f"train {file} --model {tmp_path}/m --learner linear --quiet".split()) == 0
    to = f"--model {tmp_path}/m --output {tmp_path}/r.html"
    assert main(f"report {file} {to}".split()) == 0
    found = contents_of(Report((tmp_path / "r.html").read_text(encoding="utf-8")))
    assert found["positions"]["texts"] == ["Ada", "met", "Mary", "met"]
    assert main(f"report {file} {to} --text nothing".split()) == 1
    assert "--text names 'nothing'; the columns are: x0" in capsys.readouterr().err


def test_json_has_no_nan():
    text = json_for_html({"a": [float("nan"), float("inf"), 1.0], "b": "<"})
    assert json.loads(text) == {"a": [None, None, 1.0], "b": "<"}
    assert "<" not in text


# Errors and files


def test_invalid_arguments(trained, letters):
    X, y = letters
    with pytest.raises(TypeError, match="expected a fitted classifier of treecrf"):
        report("model", X, y)
    for unknown in (None, [[None] * len(x) for x in X]):
        with pytest.raises(ValueError, match="other is given without labels"):
            report(trained, X, unknown, other=trained)
    with pytest.raises(TypeError, match="title=3; expected a str"):
        report(trained, X, y, title=3)
    with pytest.raises(TypeError, match="X_train: X holds"):
        report(trained, X, y, X_train=[np.zeros((3, 2))])
    two = LinearCRF().fit(["ab"], ["xy"])
    with pytest.raises(ValueError, match="the labels of other are"):
        report(trained, X, y, other=two)
    with pytest.raises(ValueError, match="n_explained=-1; expected an integer from 0 to 1000"):
        report(trained, X, y, n_explained=-1)
    with pytest.raises(ValueError, match="sequence 0 is empty"):
        report(trained, [""], [""])


@pytest.mark.parametrize("name", ["other type", "other labels", "no labels"])
def test_an_invalid_other_is_refused_before_any_prediction(name, fitted, letters, monkeypatch):
    X, y = letters
    model = fitted("linear CRF")
    others = {
        "other type": "model",
        "other labels": LinearCRF().fit(["ab"], ["xy"]),
        "no labels": model,
    }

    def fail(*_):
        raise AssertionError("predicted too early")

    monkeypatch.setattr(type(model), "predict", fail)
    with pytest.raises((TypeError, ValueError), match=r"^(other is|the labels of other)"):
        report(model, X, None if name == "no labels" else y, other=others[name])


def test_sequences_are_counted_once_for_each_model(trained, letters, monkeypatch):
    counted = []
    count = SequenceCounts.of
    monkeypatch.setattr(SequenceCounts, "of", lambda *data: counted.append(1) or count(*data))
    report(trained, *letters, other=trained, n_explained=0)
    assert len(counted) == 2


def test_positions_that_a_window_does_not_reach():
    X = [np.array([[value], [0.0]]) for value in (-1.0, 1.0, -2.0, 2.0)]
    y = [["a", "a"], ["a", "b"]] * 2
    crf = TreeCRF(window=1, max_iter=3, early_stopping=False, min_samples_leaf=1).fit(X, y)
    assert [row["name"] for row in contents_of(report(crf, X, y))["effects"]] == ["x0[-1]"]
    assert contents_of(report(crf, [X[0][:1]], [y[0][:1]]))["effects"] == []


def symbols_with_frequencies(n_symbols):
    """Two sequences; symbol k is labeled by k % 12, and each one is rarer than the one before."""
    names = [f"s{k:02}" for k in range(n_symbols)]
    X = [[name for k, name in enumerate(names) for _ in range(n_symbols - k)]] * 2
    y = [[f"label {int(name[1:]) % 12}" for name in X[0]]] * 2
    return X, y


def test_effects_of_a_category_are_those_of_its_most_frequent_values():
    X, y = symbols_with_frequencies(25)
    crf = TreeCRF(max_iter=3, early_stopping=False, min_samples_leaf=1).fit(X, y)
    (effect,) = contents_of(report(crf, X, y, n_explained=0))["effects"]
    assert not effect["is_number"] and effect["n_values"] == 25
    assert effect["values"] == [f"s{k:02}" for k in range(20)]
    assert effect["counts"] == [2 * (25 - k) for k in range(20)]
    expected = partial_dependence(crf, X, 0, values=effect["values"]).average
    changes = np.ptp(expected, axis=0)
    assert len(effect["labels"]) == 10 and len(changes) == 12
    left_out = np.setdiff1d(np.arange(12), effect["labels"])
    assert changes[effect["labels"]].min() >= changes[left_out].max()
    np.testing.assert_allclose(effect["average"], expected[:, effect["labels"]], atol=1e-4)


def test_effects_of_a_boolean_have_two_values():
    pandas = pytest.importorskip("pandas")
    on = [True, True, False, True]
    X = [pandas.DataFrame({"on": on})] * 4
    y = [["a" if value else "b" for value in on]] * 4
    crf = TreeCRF(max_iter=3, early_stopping=False, min_samples_leaf=1).fit(X, y)
    (effect,) = contents_of(report(crf, X, y))["effects"]
    assert (effect["values"], effect["counts"]) == (["True", "False"], [12, 4])
    a = effect["labels"].index(0)
    assert effect["average"][0][a] > effect["average"][1][a]


def test_inputs_without_a_known_value_have_no_effects():
    X, y = symbols_with_frequencies(4)
    crf = TreeCRF(max_iter=3, early_stopping=False, min_samples_leaf=1).fit(X, y)
    with pytest.warns(UserWarning, match="nothing in a sequence is known"):
        assert contents_of(report(crf, [["new", "newer"]]))["effects"] == []
    X = [np.array([[0.0], [1.0]])] * 4
    crf = TreeCRF(max_iter=3, early_stopping=False, min_samples_leaf=1).fit(X, [["a", "b"]] * 4)
    assert contents_of(report(crf, [np.full((2, 1), np.nan)]))["effects"] == []


def test_many_labels_take_two_bytes_each():
    names = [f"label {k}" for k in range(200)]
    crf = HMMClassifier().fit([names], [names])
    found = contents_of(report(crf, [names], [names], n_explained=0))["positions"]
    assert found["code_bytes"] == 2
    expected = [crf.classes_.tolist().index(name) for name in names]
    assert unpacked(found["true"], "<i2").tolist() == expected


@pytest.mark.parametrize("length", [5, 100_000])
def test_a_page_of_100000_positions_stays_small(length):
    codes = np.arange(length) % 3
    X = [codes[:, None].astype(float)] * (100_000 // length)
    y = [codes] * len(X)
    crf = LinearCRF().fit([X[0][:5]], [y[0][:5]])
    page = report(crf, X, y, n_explained=0)
    assert len(page.html) < 2_000_000


def test_only_a_report_is_overwritten(trained, letters, tmp_path):
    page = report(trained, *letters, n_explained=0)
    path = tmp_path / "report.html"
    page.save(path)
    page.save(path)
    assert path.read_text(encoding="utf-8") == page.html
    path.write_text("<!doctype html>\n<p>mine</p>")
    with pytest.raises(ValueError, match="is not a report of treecrf; it is not overwritten"):
        page.save(path)
    with pytest.raises(ValueError, match="is not a report"):
        page.save(tmp_path)
    assert "iframe" in page._repr_html_() and "characters" in repr(page)


@pytest.fixture
def files(tmp_path):
    """A table with labels, one without, and a model."""
    rng = np.random.default_rng(0)
    rows = ["day,a,on"]
    for day in range(4):
        rows += [
            f"d{day},{value:.3f},{'yes' if value > 0 else 'no'}" for value in rng.normal(size=20)
        ]
    (tmp_path / "labeled.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(row.rsplit(",", 1)[0] for row in rows) + "\n")
    command = f"train {tmp_path}/labeled.csv --label on --group day --model {tmp_path}/m.treecrf"
    assert main(command.split()) == 0
    return tmp_path


def test_the_command_writes_a_report(files, capsys):
    to = f"--model {files}/m.treecrf --output {files}/report.html"
    extra = f"--other {files}/m.treecrf --training {files}/new.csv --title Days --explain 4"
    assert main(f"report {files}/labeled.csv {to} {extra}".split()) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {files}/report.html"
    page = Report((files / "report.html").read_text(encoding="utf-8"))
    found = contents_of(page)
    assert found["title"] == "Days" and found["positions"]["names"] == ["d0", "d1", "d2", "d3"]
    assert len(found["explanations"]) == 4 and found["comparison"] and found["training"]["drift"]
    assert main(f"report {files}/new.csv {to}".split()) == 0
    without = contents_of(Report((files / "report.html").read_text(encoding="utf-8")))
    assert without["evaluation"] is None


def test_the_command_overwrites_no_other_file(files, capsys):
    before = (files / "new.csv").read_bytes()
    command = f"report {files}/labeled.csv --model {files}/m.treecrf --output"
    assert main([*command.split(), f"{files}/new.csv"]) == 1
    assert main([*command.split(), "-"]) == 1
    assert (files / "new.csv").read_bytes() == before
    error = capsys.readouterr().err
    assert "is not a report of treecrf" in error and "expected the name of a file" in error
