"""The command line: each command on each format, and its error messages."""

import contextlib
import csv
import importlib
import io
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treecrf
from treecrf.cli import _parser, main
from treecrf.cli.train import parameters_of, parse_value
from treecrf.inputs.schema import CATEGORY
from treecrf.inspection import strongest_rules, strongest_weights
from treecrf.learners.registry import LEARNERS

COLORS = {"a": "red", "b": "blue", "c": "green", "d": "grey"}


def write_table(path, letters, separator=","):
    """Write a table of two columns, one of which identifies the letters."""
    lines = [separator.join(["id", "y", "color", "number"])]
    for i, (word, labels) in enumerate(zip(*letters, strict=True)):
        for letter, label in zip(word, labels, strict=True):
            lines.append(separator.join([f"w{i}", label, COLORS[letter], str(len(word))]))
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, letters):
    csv_module = pytest.importorskip("pyarrow.csv")
    write_table(path.with_suffix(".csv"), letters)
    table = csv_module.read_csv(path.with_suffix(".csv"))
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def write_lines(path, letters, template):
    sequences = [
        "".join(
            template.format(letter=letter, label=label, color=COLORS[letter])
            for letter, label in zip(word, labels, strict=True)
        )
        for word, labels in zip(*letters, strict=True)
    ]
    path.write_text("\n".join(sequences))


def write_sparse(path, letters):
    lines = [f"{len(letters[0])} 3 4"]
    for i, (word, labels) in enumerate(zip(*letters, strict=True), start=1):
        for t, (letter, label) in enumerate(zip(word, labels, strict=True), start=1):
            lines.append(f"{i} {t} 1 {'abcd'.index(letter)} {'xyz'.index(label)}")
    path.write_text("\n".join(lines))


WRITERS = {
    "csv": write_table,
    "tsv": lambda path, letters: write_table(path, letters, "\t"),
    "parquet": write_parquet,
    "conll": lambda path, letters: write_lines(path, letters, "{letter} {color} {label}\n"),
    "crfsuite": lambda path, letters: write_lines(path, letters, "{label}\t{letter}\t{color}:2\n"),
    "sparse": write_sparse,
}
TABLE = ["--label", "y", "--group", "id"]
SMALL = ["--max-iter", "3", "--quiet", "--jobs", "1"]
SMALL += ["--set", "l2_regularization=1", "--set", "early_stopping=false"]


def options_of(name):
    if name in ("csv", "tsv", "parquet"):
        pytest.importorskip("pyarrow")
        return TABLE
    return []


@pytest.fixture
def table(tmp_path, letters):
    pytest.importorskip("pyarrow")
    write_table(tmp_path / "data.csv", letters)
    return tmp_path / "data.csv"


@pytest.fixture
def model(table, succeed):
    """A model trained on the table."""
    path = table.with_name("model.treecrf")
    assert succeed("train", table, *TABLE, "--model", path, *SMALL) == ""
    return path


# From training to information, for every format


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_trained_on_and_labeled(name, letters, tmp_path, succeed):
    options, model = options_of(name), tmp_path / "model.treecrf"
    data = tmp_path / f"data.{name}"
    WRITERS[name](data, letters)
    assert succeed("train", data, *options, "--model", model, *SMALL) == ""
    assert treecrf.load(model).n_iter_ == 3
    text = succeed("evaluate", data, *options, "--model", model)
    assert "sequences          24" in text
    accuracy = float(text.split("accuracy")[1].split()[0])
    assert accuracy > 0.8
    text = succeed("predict", data, *options, "--model", model, "--proba")
    assert accuracy_of(text, letters, table=bool(options), numbers=name == "sparse") == accuracy
    text = succeed("info", model)
    assert "class          TreeCRF" in text
    assert "iterations     3" in text


def accuracy_of(text, letters, table, numbers):
    """Accuracy of an output; also checks that probabilities agree with the labels."""
    true = list("".join(letters[1]))
    if numbers:
        true = [str("xyz".index(label)) for label in true]
    if table:
        rows = list(csv.DictReader(text.splitlines()))
        assert [row["id"] for row in rows] == [
            f"w{i}" for i, word in enumerate(letters[0]) for _ in word
        ]
        predicted = [row["prediction"] for row in rows]
        probabilities = [{k[2:]: float(v) for k, v in row.items() if k[:2] == "p_"} for row in rows]
    else:
        assert text.count("\n\n") == len(letters[0])
        lines = [line.split("\t") for line in text.splitlines() if line]
        predicted = [line[0] for line in lines]
        probabilities = [
            {k: float(v) for k, v in (f.split(":") for f in line[1:])} for line in lines
        ]
    for label, row in zip(predicted, probabilities, strict=True):
        assert sum(row.values()) == pytest.approx(1, abs=1e-4)
        assert row[label] == max(row.values())
    accuracy = np.mean([a == b for a, b in zip(predicted, true, strict=True)])
    return round(float(accuracy), 4)


# These learners have no parameter l2_regularization.
UNPENALIZED = ("perceptron", "svm", "boosting")


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
@pytest.mark.filterwarnings("ignore:StructuredSVM did not converge")
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_is_trained(learner, table, run, tmp_path):
    path = tmp_path / "model.treecrf"
    small = ["--quiet"] if learner == "hmm" else SMALL
    if learner in UNPENALIZED:
        small = ["--max-iter", "3", "--quiet"]
    columns = [*TABLE, *(["--drop", "number"] if learner == "hmm" else [])]
    assert run("train", table, *columns, "--learner", learner, "--model", path, *small)[0] == 0
    assert type(treecrf.load(path)) is LEARNERS[learner]
    assert run("predict", table, *columns, "--model", path)[0] == 0
    assert LEARNERS[learner].__name__ in run("info", path)[1]


def test_models_of_symbols_read_the_only_column(letters, tmp_path, fail, succeed):
    data, path = tmp_path / "data.conll", tmp_path / "model.treecrf"
    write_lines(data, letters, "{letter} {label}\n")
    fitted = treecrf.TreeCRF(max_iter=3).fit(*letters)
    fitted.save(path)
    text = succeed("predict", data, "--model", path)
    expected = ["".join(labels) for labels in fitted.predict(letters[0])]
    assert ["".join(part.split()) for part in text.split("\n\n")[:-1]] == expected
    write_lines(data, letters, "{letter} {color} {label}\n")
    errors = fail("train", data, "--learner", "hmm", "--model", path)
    assert "the file has 2 features; expected symbols" in errors


def test_parameters_reach_the_model(table, run, tmp_path):
    path = tmp_path / "model.treecrf"
    words = ["--window", "1,2", "--order", "2", "--max-iter", "2", "--random-state", "7"]
    words += ["--set", "class_weight=balanced", "--set", "max-features=0.5"]
    words += ["--set", "second_order=true", "--set", "beam_width=None", "--quiet"]
    assert run("train", table, *TABLE, "--model", path, *words)[0] == 0
    expected = {
        "window": (1, 2),
        "order": 2,
        "max_iter": 2,
        "random_state": 7,
        "class_weight": "balanced",
        "max_features": 0.5,
        "second_order": True,
        "beam_width": None,
        "n_jobs": None,
        "verbose": 0,
    }
    parameters = treecrf.load(path).get_params()
    assert {name: parameters[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("True", True),
        ("false", False),
        ("none", None),
        ("2,3", (2, 3)),
        ("{'a': 2}", {"a": 2}),
        ("balanced", "balanced"),
        ("", ""),
        ("a(", "a("),
    ],
)
def test_values_of_parameters(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize("learner", LEARNERS)
def test_parameters_are_listed_with_values_that_can_be_set(learner, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["train", "--parameters", learner])
    assert caught.value.code == 0
    listed = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    defaults = LEARNERS[learner]().get_params()
    assert {name: parse_value(text) for name, text in listed.items()} == {
        name: defaults[name] for name in parameters_of(learner)
    }


def test_all_parameters_can_be_set():
    for name, learner in LEARNERS.items():
        others = set(learner().get_params()) - set(parameters_of(name))
        assert others <= {"estimator", "attributes", "n_jobs", "verbose", "warm_start"}


def test_validation_data(table, run, tmp_path):
    path = tmp_path / "model.treecrf"
    words = ["train", table, *TABLE, "--validation", table, "--model", path, *SMALL]
    assert run(*words)[0] == 0
    fitted = treecrf.load(path)
    np.testing.assert_allclose(fitted.validation_score_, fitted.train_score_)
    assert "validation" in run("info", path)[1]
    status, _, errors = run(*words, "--learner", "hmm", "--set", "order=1")
    assert (status, "has no" in errors) == (1, True)


def test_progress_goes_to_standard_error(table, run, tmp_path):
    loud = [word for word in SMALL if word != "--quiet"]
    words = ["train", table, *TABLE, "--model", tmp_path / "model.treecrf", *loud]
    status, text, errors = run(*words)
    assert (status, text) == (0, "")
    assert errors.startswith("sequences: 24, positions: ")
    assert "TreeCRF" in errors


def test_positions_without_labels_are_counted(run, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("v,y\n1,a\n2,b\n3,\n4,a\n5,b\n")
    words = ["train", tmp_path / "a.csv", "--label", "y", "--model", tmp_path / "m"]
    status, _, errors = run(*words, "--max-iter", "2")
    assert status == 0
    assert errors.startswith("sequences: 1, positions: 5 (1 without a label), features: 1,")
    output = run("evaluate", tmp_path / "a.csv", "--model", tmp_path / "m")[1]
    assert "labels missing     1;" in output


@pytest.mark.filterwarnings("default")
def test_columns_of_distinct_words_cause_a_warning(table, run, tmp_path):
    rows = "".join(f"2020-01-{t:03},{'AB'[t % 2]}\n" for t in range(150))
    table.write_text("date,y\n" + rows)
    words = ["train", table, "--label", "y", "--model", tmp_path / "model.treecrf"]
    errors = run(*words, "--max-iter", "1")[2]
    warning = "treecrf: warning: column 'date' has 150 distinct values"
    assert warning in errors
    assert "TreeCRF" in errors
    assert run(*words, *SMALL)[2].startswith(warning)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("scratch", [False, True])
def test_quiet_does_not_hide_warnings(scratch, table, run, tmp_path):
    rows = "".join(f'{t % 5},"{t},5",{"AB"[t % 2]}\n' for t in range(60))
    table.write_text("id,size,y\n" + "".join(sorted(rows.splitlines(keepends=True))))
    words = ["train", table, "--label", "y", "--group", "id", "--model", tmp_path / "m.treecrf"]
    words += ["--scratch", tmp_path] if scratch else []
    status, text, errors = run(*words, *SMALL)
    assert (status, text) == (0, "")
    assert len(errors.splitlines()) == 1
    assert "treecrf: warning: column 'size' holds 60 different strings that are numbers" in errors


def test_predictions_are_written_to_a_file(table, model, run, tmp_path, succeed):
    words = ["predict", table, "--model", model, "--group", "id"]
    expected = run(*words)[1]
    assert succeed(*words, "--output", tmp_path / "out.csv") == ""
    assert (tmp_path / "out.csv").read_text() == expected
    assert expected.startswith("id,prediction\nw0,")
    words = ["predict", table, "--model", model, "--no-group"]
    assert run(*words)[1].startswith("prediction\n")


def test_sequences_are_labeled_in_batches(table, model, run, monkeypatch):
    words = ["predict", table, "--model", model, "--group", "id", "--proba"]
    expected = run(*words)
    monkeypatch.setattr("treecrf.cli.predict.BATCH_BYTES", 9 * 8 * 20)
    assert run(*words) == expected


@pytest.mark.parametrize("options", [[], ["--proba"], ["--keep-all", "--reference"]])
def test_a_table_without_rows_gives_a_header(options, table, model, run, succeed):
    empty = table.with_name("empty.csv")
    empty.write_text(table.read_text().splitlines()[0] + "\n")
    header = succeed("predict", empty, "--model", model, *options)
    assert header == run("predict", table, "--model", model, *options)[1].splitlines(True)[0]
    status, output, errors = run("evaluate", empty, "--model", model)
    assert (status, output) == (1, "")
    assert "the table has no rows" in errors
    empty.write_text("id,nothing\n")
    assert "there is no column" in run("predict", empty, "--model", model)[2]


@pytest.mark.parametrize("text", ["", "\n\n\n"])
@pytest.mark.parametrize("name", ["a.csv", "a.conll", "a.crfsuite", "a.txt"])
def test_empty_files_give_an_empty_output(name, text, table, model, succeed):
    path = table.with_name(name)
    path.write_text(text)
    assert succeed("predict", path, "--model", model, "--keep-all", "--proba") == ""
    output = table.with_name("labels")
    assert succeed("predict", path, "--model", model, "--output", output) == ""
    assert output.read_text() == ""


def test_empty_files_of_parquet_are_damaged(table, model, run):
    path = table.with_name("a.parquet")
    path.write_bytes(b"")
    assert run("predict", path, "--model", model)[0] == 1


def test_blank_lines_in_conll_files_are_no_sequences(letters, tmp_path, run):
    write_lines(tmp_path / "a.conll", letters, "{letter} {color} {label}\n")
    run("train", tmp_path / "a.conll", "--model", tmp_path / "m", *SMALL)
    text = (tmp_path / "a.conll").read_text()
    (tmp_path / "b.conll").write_text("\n\n" + text.replace("\n\n", "\n\n\n\n") + "\n\n\n")
    status, output, _ = run("predict", tmp_path / "b.conll", "--model", tmp_path / "m")
    assert (status, output) == run("predict", tmp_path / "a.conll", "--model", tmp_path / "m")[:2]
    assert output.count("\n\n") == len(letters[0])


def test_spans_are_evaluated_if_labels_are_tags(tmp_path, run, monkeypatch):
    pytest.importorskip("seqeval")
    data, model = tmp_path / "data.conll", tmp_path / "model.treecrf"
    data.write_text("He B-NP\ncame B-VP\n\nthe B-NP\nman I-NP\ncame B-VP\n. O\n" * 5)
    assert run("train", data, "--model", model, *SMALL)[0] == 0
    words = ["evaluate", data, "--model", model, "--digits", "2"]
    status, text, _ = run(*words)
    spans = text.split("spans\n")[1]
    assert status == 0
    assert spans.split()[:4] == ["precision", "recall", "f1-score", "support"]
    assert {"NP", "VP"} <= set(spans.split())
    monkeypatch.setitem(sys.modules, "seqeval", None)
    status, text, errors = run(*words)
    assert status == 0
    assert "spans\n" not in text
    assert "scores of spans are not available: span metrics" in errors
    assert 'pip install "treecrf[spans]"' in errors


def test_unseen_labels_count_as_wrong(table, model, succeed):
    table.write_text(table.read_text().replace(",x,", ",q,"))
    text = succeed("evaluate", table, *TABLE, "--model", model)
    assert text.split("\n           q")[1].split()[:2] == ["0.0000", "0.0000"]


def test_features_are_listed_by_importance(model, run):
    listed = run("info", model)[1].split("feature importances\n")[1]
    lines = listed.split("strongest rules\n")[0].splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("column 'color'")
    assert run("info", model, "--features", "1")[1].count("  column '") == 1


def test_rules_are_listed_by_strength(model, run, letters, tmp_path):
    rules = [f"  {rule}" for rule in strongest_rules(treecrf.load(model), n_rules=10)]
    assert run("info", model)[1].splitlines()[-11:] == ["strongest rules", *rules]
    assert run("info", model, "--rules", 2)[1].splitlines()[-3:] == ["strongest rules", *rules[:2]]
    assert "rules" not in run("info", model, "--rules", 0)[1]
    treecrf.HMMClassifier().fit(*letters).save(tmp_path / "hmm.treecrf")
    assert "rules" not in run("info", tmp_path / "hmm.treecrf")[1]


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
def test_weights_of_linear_models_are_listed_by_strength(table, run, tmp_path):
    path = tmp_path / "linear.treecrf"
    words = ["train", table, *TABLE, "--learner", "linear", "--max-iter", "9", "--quiet"]
    assert run(*words, "--model", path)[0] == 0
    weights = [f"  {weight}" for weight in strongest_weights(treecrf.load(path), 20)]
    assert run("info", path)[1].splitlines()[-len(weights) - 1 :] == ["strongest weights", *weights]
    assert run("info", path, "--weights", 2)[1].splitlines()[-2:] == weights[:2]
    assert "weights" not in run("info", path, "--weights", 0)[1]
    words = ["train", table, *TABLE, *SMALL, "--set", "init=linear", "--model", path]
    assert run(*words)[0] == 0
    assert "strongest weights of the linear start\n  " in run("info", path)[1]


def test_warnings_are_lines_of_standard_error(table, run, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        words = ["--learner", "linear", "--max-iter", "1", "--quiet"]
        status, _, errors = run("train", table, *TABLE, *words, "--model", tmp_path / "m")
    assert status == 0
    assert errors.startswith(
        "treecrf: warning: LinearCRF did not converge in max_iter=1 iterations"
    )


# Real data


def test_hyphenation_reaches_a_published_accuracy(data_folder, run, tmp_path):
    stem, model = data_folder / "hyphen" / "sparse.hyphen.6", tmp_path / "model.treecrf"
    words = ["--format", "sparse", "--model", model]
    assert run("train", f"{stem}.train", *words, "--max-iter", 60, "--quiet")[0] == 0
    text = run("evaluate", f"{stem}.test", *words)[1]
    assert float(text.split("accuracy")[1].split()[0]) > 0.915


def test_occupancy_reads_the_original_columns(data_folder, run, tmp_path):
    pytest.importorskip("pyarrow")
    folder, model = data_folder / "occupancy", tmp_path / "model.treecrf"
    words = ["--format", "csv", "--label", "Occupancy", "--model", model]
    words += ["--drop", "date", "--drop", "sno"]
    train = ["train", folder / "datatraining.txt", *words, *SMALL]
    assert run(*train)[0] == 0
    assert "features       5 (5 number)" in run("info", model)[1]
    text = run("evaluate", folder / "datatest.txt", *words)[1]
    assert float(text.split("accuracy")[1].split()[0]) > 0.9


# Errors


@pytest.mark.parametrize("command", ["train", "predict", "evaluate"])
def test_files_that_are_missing(command, model, tmp_path, fail):
    words = [*TABLE, *SMALL] if command == "train" else []
    errors = fail(command, tmp_path / "none.csv", "--model", model, *words)
    assert "none.csv: No such file or directory" in errors


@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_models_that_are_missing_or_damaged(command, table, model, fail):
    words = [] if command == "info" else [table, "--model"]
    assert "none: No such file or directory" in fail(command, *words, model.parent / "none")
    assert "data.csv: not a treecrf model" in fail(command, *words, table)
    model.write_bytes(model.read_bytes()[:-5])
    assert "wrong checksum" in fail(command, *words, model)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "z"], "there is no column 'z'; the columns are: id, y, color, number"),
        ([], "is a table: specify the column of labels with --label"),
        (["--label", "color", "--group", "y"], "the rows of a group must be contiguous"),
        ([*TABLE, "--set", "learningrate=1"], "did you mean 'learning_rate'?"),
        ([*TABLE, "--set", "estimator=1"], "TreeCRF has no parameter 'estimator'"),
        ([*TABLE, "--set", "learning_rate=-1"], "'learning_rate' parameter of TreeCRF must be"),
        ([*TABLE, "--learner", "hmm", "--window", "1"], "HMMClassifier has no parameter 'window'"),
        ([*TABLE, "--validation", "none.csv"], "none.csv: No such file or directory"),
        ([*TABLE, "--format", "conll"], "--label requires a table with named columns"),
    ],
)
def test_training_that_is_refused(words, message, table, tmp_path, fail):
    model = tmp_path / "other.treecrf"
    assert message in fail("train", table, "--model", model, "--quiet", *words)
    assert not model.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "learning_rate=-1"], "'learning_rate' parameter of TreeCRF must be"),
        (["--set", "learning_rate=fast"], "'learning_rate' parameter of TreeCRF must be"),
        (["--set", "learning_rate=1e999"], "'learning_rate' parameter of TreeCRF must be"),
        (["--set", "leaning_rate=1"], "did you mean 'learning_rate'?"),
        (["--set", "depth=1", "--learner", "hmm"], "expected one of cost_matrix, decoding"),
        (["--set", "window=wide"], "'window' parameter of TreeCRF must be"),
        (["--window", "1,99999999"], "window=(1, 99999999); expected an integer or a pair"),
    ],
)
def test_parameters_are_checked_before_files_are_read(words, message, tmp_path, fail):
    errors = fail("train", tmp_path / "none.csv", "--model", tmp_path / "m", *words)
    assert message in errors
    assert "none.csv" not in errors


def test_models_that_cannot_be_written_are_refused_before_training(table, tmp_path, fail):
    words = ["train", table, *TABLE, "--quiet", "--model"]
    assert "does not exist" in fail(*words, tmp_path / "none" / "model")
    assert "the file cannot be written" in fail(*words, tmp_path)


def test_columns_that_the_model_needs(table, model, fail):
    table.write_text(table.read_text().replace("color", "hue"))
    errors = fail("predict", table, "--model", model)
    assert "there is no column 'color'; the columns are: id, y, hue, number" in errors


def test_long_values_are_cut_in_messages(table, tmp_path, fail):
    table.write_text("x,y\n" + f"1,{'long' * 1000}\n" * 2)
    errors = fail("train", table, "--label", "y", "--model", tmp_path / "m", "--quiet")
    assert "y holds only the label 'longlong" in errors
    assert len(errors) < 1100


def test_evaluation_needs_labels(table, model, fail):
    table.write_text(table.read_text().replace("id,y,", "id,z,"))
    errors = fail("evaluate", table, "--model", model)
    assert "no labels; there is no column 'y' as in training; specify the column with" in errors


ODD = [b"\0", b"\n", b",", b'"', b" ", b"\t", b":", b"\xff", b"nan", b"1e999", b"9" * 25, b"\\"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_a_model_or_one_line(name, letters, tmp_path, data):
    """Bytes are deleted, inserted and repeated at random positions."""
    options, path = options_of(name), tmp_path / f"data.{name}"
    WRITERS[name](path, ([word[:4] for word in letters[0][:3]], [y[:4] for y in letters[1][:3]]))
    content = path.read_bytes()
    for _ in range(data.draw(st.integers(1, 3))):
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        middle = data.draw(st.sampled_from([*ODD, b"", content[first:last] * 2]))
        content = content[:first] + middle + content[data.draw(st.sampled_from([first, last])) :]
    path.write_bytes(content)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        words = ["train", path, *options, "--model", tmp_path / "model.treecrf", *SMALL]
        status = main([str(word) for word in words])
    lines = errors.getvalue().splitlines()
    failures = [line for line in lines if not line.startswith("treecrf: warning: ")]
    assert (status, len(failures)) in [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["bogus"],
        ["train", "data.csv"],
        ["train", "--model", "m"],
        ["train", "data.csv", "--model", "m", "--window", "x"],
        ["train", "data.csv", "--model", "m", "--window", "1,2,3"],
        ["train", "data.csv", "--model", "m", "--set", "window"],
        ["train", "data.csv", "--model", "m", "--set", "l2_regularization=" + "9" * 400],
        ["train", "data.csv", "--model", "m", "--jobs", "0"],
        ["train", "data.csv", "--model", "m", "--learner", "forest"],
        ["predict", "data.csv", "--model", "m", "--separator", "::"],
        ["predict", "data.csv", "--model", "m", "--encoding", "utf-9"],
        ["predict", "data.csv", "--model", "m", "--encoding", "rot13"],
        ["predict", "data.csv", "--model", "m", "--format", "json"],
        ["predict", "data.csv", "--model", "m", "--group", "id", "--no-group"],
        ["train", "data.csv", "--model", "m", "--no-group"],
        ["train", "--parameters", "forest"],
        ["train", "data.csv", "--model", "m", "--jobs", "9" * 30],
        ["evaluate", "data.csv", "--model", "m", "--digits", "-1"],
        ["info", "m", "--rules", "9" * 30],
    ],
)
def test_invalid_usage(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: treecrf")


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_help(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    assert "treecrf" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["train"], ["predict"], ["evaluate"], ["info"]])
def test_help_has_examples_that_can_be_parsed(words, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text = capsys.readouterr().out
    assert ("required options:\n  --model" in text) == (
        words in (["train"], ["predict"], ["evaluate"])
    )
    examples = [
        shlex.split(line.rpartition("| treecrf ")[2].removeprefix("  treecrf ").partition(" | ")[0])
        for line in text.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    ]
    assert examples
    for example in examples:
        assert words in ([], example[:1])
        _parser(example).parse_args(example)


def test_help_of_training_lists_the_names_of_parameters(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out.partition("names for --set with --learner crf:\n")[2]
    assert text.replace(",", " ").split() == list(parameters_of("crf"))


def test_interruption(model, run, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(treecrf, "load", interrupt)
    assert run("info", model) == (130, "", "treecrf: interrupted\n")


# In a separate process


def process(*words, **options):
    command = [sys.executable, "-m", "treecrf", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_the_script_is_the_command():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["treecrf"].partition(":")
    assert getattr(importlib.import_module(module), name) is main


@pytest.mark.exhaustive
def test_the_module_is_a_command(model):
    with process("info", model) as running:
        text, errors = running.communicate()
    assert (running.returncode, errors) == (0, b"")
    assert text.startswith(b"class          TreeCRF\n")
    with process("info", model.parent) as running:
        text, errors = running.communicate()
    assert (running.returncode, text) == (1, b"")
    assert b"Traceback" not in errors


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_output_that_is_no_longer_read_is_not_an_error(table, model):
    table.write_text("color,number\n" + "red,3\n" * 40_000)
    with process("predict", table, "--model", model, "--no-group") as running:
        assert running.stdout.readline() == b"prediction\n"
        running.stdout.close()
        errors = running.stderr.read()
    assert (running.wait(), errors) == (141, b"")


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("seconds", [0.2, pytest.param(0.6, marks=pytest.mark.exhaustive)])
def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(model, seconds):
    with process("info", model) as running:
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        errors = running.stderr.read()
    # A shell reports the signal as 130, too. On a slow machine, the command has not started yet.
    assert running.wait() in (0, 130, -signal.SIGINT)
    early = b"site" in errors or b"_get_module_details" in errors
    assert errors in (b"", b"treecrf: interrupted\n") or early


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_waits_for_the_end_of_an_import(run, monkeypatch):
    imported = []

    def import_module(name):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        imported.append(name)

    monkeypatch.setattr(importlib, "import_module", import_module)
    assert run("info", "m.treecrf") == (130, "", "treecrf: interrupted\n")
    assert imported == ["treecrf.cli.info"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupted_training_leaves_no_model(table, tmp_path):
    path = tmp_path / "late.treecrf"
    words = ["train", table, *TABLE, "--model", path, "--max-iter", "1000000"]
    words += ["--set", "early_stopping=false"]
    with process(*words) as running:
        assert running.stderr.readline().startswith(b"sequences: 24")
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        errors = running.stderr.read()
    assert running.wait() == 130
    assert errors.endswith(b"treecrf: interrupted\n")
    assert not path.exists()


# Tables in pieces


@pytest.fixture
def parts(table):
    """The table in two files of a folder."""
    folder = table.parent / "parts"
    folder.mkdir()
    header, *lines = table.read_text().splitlines(keepends=True)
    (folder / "part-2.csv").write_text("".join([header, *lines[:40]]))
    (folder / "part-10.csv").write_text("".join([header, *lines[40:]]))
    return folder


@pytest.mark.parametrize("data", ["parts", "parts/*.csv", "data.csv"])
def test_tables_in_pieces(data, parts, model, run):
    folder = parts.parent
    scratch = ["--scratch", folder] if data == "data.csv" else []
    path = folder / "of_pieces.treecrf"
    status, output, errors = run("train", folder / data, *scratch, *TABLE, "--model", path, *SMALL)
    assert (status, output, errors) == (0, "", "")
    fitted, expected = treecrf.load(path), treecrf.load(model)
    assert fitted._columns == expected._columns
    for name, array in expected._forest.pack().items():
        np.testing.assert_array_equal(fitted._forest.pack()[name], array)


def test_whole_numbers_of_pieces_are_categories(tmp_path, succeed):
    pytest.importorskip("pyarrow")
    rows = "".join(f"{i // 4},{i % 5},{'NV'[i % 5 > 2]}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f"doc,k,tag\n{rows}")
    options = ["--label", "tag", "--group", "doc", "--category", "k", *SMALL]
    for name, scratch in (("one", []), ("two", ["--scratch", tmp_path])):
        path = tmp_path / name
        assert succeed("train", tmp_path / "a.csv", *scratch, *options, "--model", path) == ""
    one, two = (treecrf.load(tmp_path / name)._encoder.schema for name in ("one", "two"))
    assert one.kinds.tolist() == two.kinds.tolist() == [CATEGORY]
    assert one.categories[0].tolist() == two.categories[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--label", "tag"], "require --label and --group"),
        (["--learner", "hmm", *TABLE], "HMMClassifier does not read tables in pieces"),
        (["--validation", "-", *TABLE], "standard input is not read in pieces"),
        (["--format", "conll", *TABLE], "--format conll is not that of tables in pieces"),
        (["--drop", "thing", *TABLE], "drop='thing' is not a column"),
        (["--category", "thing", *TABLE], "category='thing' is not a column"),
        (["--scratch", "nowhere", "--drop", "thing", *TABLE], "nowhere: there is no such folder"),
        (["--scratch", __file__, *TABLE], "expected a folder for temporary files, not a file"),
    ],
)
def test_options_that_do_not_fit_pieces(options, match, parts, fail):
    model = parts.with_name("m.treecrf")
    errors = fail("train", parts, *options, "--model", model, "--quiet")
    assert match in errors
    assert not model.exists()


def test_a_folder_in_place_of_one_file(tmp_path, model, fail):
    errors = fail("predict", tmp_path, "--model", model)
    assert "expected one file, not a folder" in errors
