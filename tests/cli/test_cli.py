"""The command line: each command on each format."""

import csv
import gzip
import sys

import numpy as np
import pytest
from support.command_files import SMALL, TABLE, WRITERS, options_of, write_lines

import treecrf
from treecrf.cli import main
from treecrf.cli.train import parameters_of, parse_value
from treecrf.inspection import strongest_rules, strongest_weights
from treecrf.learners.registry import LEARNERS


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


def test_the_window_can_be_chosen(table, run, tmp_path):
    path = tmp_path / "model.treecrf"
    words = ["--window", "auto", "--max-iter", "2", "--quiet"]
    assert run("train", table, *TABLE, "--model", path, *words)[0] == 0
    assert treecrf.load(path).window == "auto"


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
    assert run(*words, "--set", "scoring=loss")[0] == 0
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
    assert "unlabeled      1 of the training positions\n" in run("info", tmp_path / "m")[1]


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


@pytest.mark.parametrize("command", ["predict", "evaluate", "train"])
@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.csv.gz", "a.conll", "a.crfsuite", "a.txt", "a.parquet"]
)
def test_files_of_nothing_are_refused(name, command, table, model, fail):
    """They are what a failed export leaves."""
    path = table.with_name(name)
    path.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    words = TABLE if command == "train" and ("csv" in name or "parquet" in name) else []
    output = table.with_name("other") if command == "train" else model
    assert name in fail(command, path, "--model", output, *words)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_tables_of_blank_lines_have_no_header(name, table, model, fail):
    path = table.with_name(name)
    path.write_text("\n\n")
    assert "the file holds no names of columns" in fail("predict", path, "--model", model)


@pytest.mark.parametrize("name", ["a.conll", "a.crfsuite", "a.txt"])
def test_files_of_blank_lines_give_an_empty_output(name, table, model, succeed):
    path = table.with_name(name)
    path.write_text("\n\n\n")
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


TAGS = {
    "plain": ("B I O B", None, "_", 2),
    "plain of segments": ("B I I B", None, "_", 2),
    "plain of one letter": ("I I O I", None, "_", 2),
    "plain iobes": ("B E O S", None, "_", 2),
    "iob1 without B": ("I-P I-P O I-Q", None, "P Q", 2),
    "iob1": ("I-P B-P O I-Q", "iob1", "P Q", 3),
    "iob2": ("B-P I-P O B-Q", "BIO", "P Q", 2),
    "ioe2": ("I-P E-P E-P O", "ioe2", "P", 2),
    "iobes": ("B-P E-P O S-Q", None, "P Q", 2),
    "bilou": ("B-P L-P O U-Q", None, "P Q", 2),
    "bilou of the model": ("B-P L-P O U-Q", "biluo", "P Q", 2),
    "bilou without types": ("B L O U", None, "_", 2),
}


def evaluated(tmp_path, run, tags, transitions, true=None):
    """Train on a sequence of tags, evaluate the same or other tags, and return the output."""
    data, model = tmp_path / "data.conll", tmp_path / "m"
    text = "".join(f"w{i} {tag}\n" for i, tag in enumerate(tags.split()))
    data.write_text(f"{text}\n" * 4)
    options = [] if transitions is None else ["--set", f"transitions={transitions}"]
    assert run("train", data, "--model", model, *SMALL, *options)[0] == 0
    if true is not None:
        rows = [f"w{i}\t{tag.strip('_')}\n" for i, tag in enumerate(true.split())]
        data.write_text("".join(rows))
    status, output, _ = run(
        "evaluate", data, "--model", model, "--separator", "\t" if true else " "
    )
    assert status == 0
    return output


@pytest.mark.parametrize("case", TAGS)
def test_spans_of_all_schemes_are_evaluated(case, tmp_path, run):
    pytest.importorskip("seqeval")
    tags, transitions, kinds, n_spans = TAGS[case]
    report = evaluated(tmp_path, run, tags, transitions).split("\nspans\n")[1]
    rows = [line.split() for line in report.splitlines() if line]
    assert [row[0] for row in rows[1:-3]] == kinds.split()
    assert rows[-3][-1] == str(4 * n_spans)


@pytest.mark.parametrize(
    ("tags", "transitions", "true", "line"),
    [
        ("B-P L-P O U-P", "bilou", "B-P L-P O B-P",
         "spans: no scores; sequence 0, position 3: 'B-P' at the end is forb"),
        ("B-P L-P O U-P", None, "B-P O O O", "spans: no scores; sequence 0, position 1: 'O' after"),
        ("B-P I-P O B-P", "bio", "O I-P O O", "spans: no scores; sequence 0, position 1: 'I-P'"),
        ("B-P I-P x x", None, None, "spans: no scores; sequence 0, position 2: label 'x'; ex"),
        ("B-P I-P O O", None, "B-P _ O O", "spans: no scores; no sequence has all its labels"),
        ("a b a b", None, None, None),
        ("O a O a", None, None, None),
        ("H E S O", None, None, None),
        ("E S O S", None, None, None),
    ],
)  # fmt: skip
def test_a_line_says_why_there_are_no_scores_of_spans(tags, transitions, true, line, tmp_path, run):
    pytest.importorskip("seqeval")
    output = evaluated(tmp_path, run, tags, transitions, true)
    lines = [text for text in output.splitlines() if text.startswith("spans")]
    assert len(lines) == (line is not None)
    assert all(text.startswith(line) for text in lines)


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
    assert "strongest weights" not in run("info", path, "--weights", 0)[1]
    words = ["train", table, *TABLE, *SMALL, "--set", "init=linear", "--model", path]
    assert run(*words)[0] == 0
    assert "strongest weights of the linear start\n  " in run("info", path)[1]


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


def test_models_are_written_as_c(letters, tmp_path, run, succeed):
    data, model = tmp_path / "data.conll", tmp_path / "m.treecrf"
    WRITERS["conll"](data, letters)
    succeed("train", data, "--model", model, *SMALL)
    assert succeed("export", model, "--output", tmp_path / "letters.c") == ""
    assert "int letters_predict(" in (tmp_path / "letters.h").read_text()
    succeed("export", model, "--output", tmp_path / "letters.c", "--name", "other")
    assert "int other_predict(" in (tmp_path / "letters.h").read_text()
    message = f"treecrf: {data}: expected a file with the extension .c\n"
    assert run("export", model, "--output", data) == (1, "", message)
    beam = treecrf.TreeCRF(beam_width=2, max_iter=2, early_stopping=False).fit(*letters)
    beam.save(model)
    status, _, message = run("export", model, "--output", tmp_path / "beam.c")
    assert status == 1 and message.startswith("treecrf: TreeCRF with a beam cannot be exported")
