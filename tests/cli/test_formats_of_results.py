"""Scores as JSON, predictions as Parquet, and completions for shells."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from support.command_files import DAYS, SMALL

import treecrf
from treecrf.cli import main, parquet_output
from treecrf.metrics import token_classification_report

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

# Scores as JSON


def test_scores_as_json(folder, succeed):
    found = json.loads(succeed("evaluate", "data.csv", "--model", "m", "--json"))
    text = succeed("evaluate", "data.csv", "--model", "m", "--digits", "6")
    table = csv.read_csv("data.csv")
    predicted = treecrf.load("m").predict(table.drop_columns(["time"]))
    y = np.array(table["y"].to_pylist())
    assert found["sequences"] == 3
    assert found["positions"] == len(y)
    assert found["labels_missing"] == 0
    assert found["accuracy"] == np.mean(predicted == y)
    assert f"accuracy           {found['accuracy']:.6f}" in text
    assert f"sequence accuracy  {found['sequence_accuracy']:.6f}" in text
    expected = token_classification_report([y], [predicted], output_dict=True)
    assert found["labels"] == expected
    assert found["spans"] is None


def test_spans_as_json(folder, run):
    pytest.importorskip("seqeval")
    text = "a B-X\nb I-X\nc O\n\nd O\ne B-Y\n\n"
    (folder / "spans.conll").write_text(text * 3)
    assert main(["train", "spans.conll", "--model", "spans", *SMALL]) == 0
    _, output, _ = run("evaluate", "spans.conll", "--model", "spans", "--json")
    spans = json.loads(output)["spans"]
    assert {"X", "Y", "micro avg"} <= set(spans)
    assert spans["X"]["support"] == 3
    (folder / "broken.conll").write_text("a I-X\nb O\n\n")
    words = ["--model", "bio", "--set", "transitions=bio", *SMALL]
    assert main(["train", "spans.conll", *words]) == 0
    _, output, _ = run("evaluate", "broken.conll", "--model", "bio", "--json")
    assert "error" in json.loads(output)["spans"]


def test_scores_of_partly_labeled_data_as_json(folder, succeed):
    rows = DAYS.splitlines(keepends=True)
    rows[1] = rows[1].replace(",a,", ",,")
    (folder / "part.csv").write_text("".join(rows))
    found = json.loads(succeed("evaluate", "part.csv", "--model", "m", "--json"))
    assert found["labels_missing"] == 1
    assert found["labels"]["weighted avg"]["support"] == found["positions"] - 1


# Predictions as Parquet

LABELS = {"text": ["a", "b"], "integers": [3, 8], "booleans": [True, False]}


@pytest.mark.parametrize("n_rows", [1, 4, 1000])
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("kind", LABELS)
def test_predictions_as_parquet(kind, form, n_rows, folder, succeed, monkeypatch):
    monkeypatch.setattr(parquet_output, "ROWS", n_rows)
    monkeypatch.setattr("treecrf.inputs.large.table_sources.BATCH_ROWS", n_rows)
    n = 12
    columns = {
        "time": np.arange(n, dtype=np.int16),
        "day": np.repeat([1, 2], n // 2),
        "x": np.arange(n) % 2 + 0.5,
        "y": LABELS[kind] * (n // 2),
    }
    table = pa.table(columns)
    (csv.write_csv if form == "csv" else parquet.write_table)(table, f"typed.{form}")
    words = ["train", f"typed.{form}", "--label", "y", "--group", "day", "--drop", "time"]
    assert main([*words, "--model", "typed", *SMALL]) == 0
    words = ["predict", f"typed.{form}", "--model", "typed", "--proba", "--output", "out.parquet"]
    assert succeed(*words, "--keep", "time", "--reference") == ""
    found = parquet.read_table("out.parquet")
    labels = sorted(LABELS[kind])
    assert found.column_names == ["day", "time", "y", "prediction", *(f"p_{v}" for v in labels)]
    if form == "parquet":
        assert found.select(["day", "time", "y"]).equals(table.select(["day", "time", "y"]))
    else:
        assert found["time"].to_pylist() == [str(value) for value in range(n)]
    model = treecrf.load("typed")
    X = table.select(["day", "x"])
    assert found["prediction"].to_pylist() == model.predict(X).tolist()
    proba = np.column_stack([found[f"p_{label}"] for label in labels])
    np.testing.assert_array_equal(proba, model.predict_proba(X))
    # Without columns of the table.
    assert succeed(*words[:4], "--no-group", "--output", "few.parquet") == ""
    few = parquet.read_table("few.parquet")
    assert few.column_names == ["prediction"]
    assert few.num_rows == n


def test_a_table_without_rows_as_parquet(folder, succeed):
    (folder / "none.csv").write_text(DAYS.splitlines()[0] + "\n")
    words = ["predict", "none.csv", "--model", "m", "--proba", "--keep", "time"]
    assert succeed(*words, "--output", "none.parquet") == ""
    found = parquet.read_table("none.parquet")
    assert found.column_names == ["day", "time", "prediction", "p_a", "p_b"]
    assert found.num_rows == 0


def test_outputs_that_are_not_tables(folder, fail):
    words = ["predict", "data.conll", "--model", "chunks", "--output"]
    assert "only predictions for tables are written as Parquet" in fail(*words, "out.parquet")
    assert "out.jsonl: predictions are written as CSV or Parquet" in fail(*words, "out.jsonl")
    words = ["predict", "data.csv", "--model", "m", "--output"]
    for name in ("out.parquet.gz", "out.PQ.GZ"):
        assert f"{name}: Parquet files have their own compression" in fail(*words, name)
    assert not list(folder.glob("out*"))


# Messages about memory


@pytest.mark.parametrize("message", ["", "Unable to allocate 3 GiB"])
def test_too_little_memory(message, folder, fail, monkeypatch):
    def full(*_, **__):
        raise MemoryError(message)

    monkeypatch.setattr("treecrf.cli.options.load_for_labeling", full)
    errors = fail("predict", "data.csv", "--model", "m")
    assert (
        f"treecrf: {message or 'not enough memory'}; less memory is needed with --jobs 1" in errors
    )


# Completion


@pytest.mark.skipif(os.name != "posix", reason="a pipe beside the standard streams")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("treecrf ev", {"evaluate"}),
        ("treecrf evaluate data.csv --js", {"--json"}),
        ("treecrf train data.csv --learner sv", {"svm"}),
    ],
)
def test_completions(line, expected, tmp_path):
    pytest.importorskip("argcomplete")
    found = tmp_path / "found"
    environment = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_IFS": "\n",
    }
    words = [sys.executable, "-c", "import sys; from treecrf.cli import main; sys.exit(main())"]
    subprocess.run(words, env=environment, check=False)
    assert {word.strip() for word in found.read_text().splitlines()} == expected
