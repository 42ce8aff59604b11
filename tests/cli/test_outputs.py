"""Files that are protected, and pipes: what commands read and write."""

import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
import threading

import pytest
from support.command_files import DAYS, OF_DAYS, SMALL, TOKENS

import treecrf
from treecrf.cli import main

pytest.importorskip("pyarrow")

OPTIONS = [*OF_DAYS, *SMALL]
posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


def links_to(path):
    """Other names of a file."""
    os.symlink(path, path.parent / "symbolic")
    os.link(path, path.parent / "hard")
    (path.parent / "folder").mkdir()
    return [path, "symbolic", "hard", f"folder/../{path.name}", f"./{path.name}"]


# Outputs


@posix
def test_inputs_are_not_overwritten(folder, fail):
    for other in links_to(folder / "data.csv"):
        message = f"{other}: the output is the same file as the input data.csv"
        assert message in fail("train", "data.csv", "--model", other, *OPTIONS)
        assert message in fail("predict", "data.csv", "--model", "m", "--output", other)
        (folder / "other.csv").write_text(DAYS)
        words = ["--validation", "data.csv", "--model", other]
        assert message in fail("train", "other.csv", *words, *OPTIONS)
    assert (folder / "data.csv").read_text() == DAYS


@posix
def test_models_are_not_overwritten_with_predictions(folder, trained, fail):
    (folder / "other").write_bytes(trained["csv"])
    for other in links_to(folder / "m"):
        message = f"{other}: the output is the same file as the input m"
        assert message in fail("predict", "data.csv", "--model", "m", "--output", other)
    message = "other: the file is a treecrf model and is not overwritten"
    assert message in fail("predict", "data.csv", "--model", "m", "--output", "other")
    assert (folder / "m").read_bytes() == (folder / "other").read_bytes() == trained["csv"]


def test_predictions_are_not_written_to_files_named_as_other_formats(folder, trained, fail):
    for name in ("new.jsonl", "NEW.JSONL"):
        message = f"{name}: predictions are written as CSV or Parquet"
        assert message in fail("predict", "data.csv", "--model", "m", "--output", name)
        assert not (folder / name).exists()


def test_a_model_replaces_models_and_empty_files_alone(folder, trained, fail, succeed):
    message = "notes: the file exists and is not a treecrf model"
    (folder / "notes").write_text("dear diary")
    assert message in fail("train", "data.csv", "--model", "notes", *OPTIONS)
    assert (folder / "notes").read_text() == "dear diary"
    for content in (b"", trained["csv"][:-5], trained["csv"]):
        (folder / "notes").write_bytes(content)
        assert succeed("train", "data.csv", "--model", "notes", *OPTIONS) == ""
        assert treecrf.load("notes").n_iter_ == 3


@posix
def test_a_model_does_not_replace_a_device(folder, fail):
    os.mkfifo("fifo")
    for other in ("fifo", "/dev/null"):
        message = f"{other}: not a regular file; use --model - for standard output"
        assert message in fail("train", "data.csv", "--model", other, *OPTIONS)


def test_other_outputs_are_overwritten_and_compressed(folder, run, succeed):
    expected = run("predict", "data.csv", "--model", "m")[1]
    for name in ("out.csv", "out.csv.gz"):
        (folder / name).write_text("before " * 1000)
        assert succeed("predict", "data.csv", "--model", "m", "--output", name) == ""
    assert (folder / "out.csv").read_text() == expected
    assert gzip.decompress((folder / "out.csv.gz").read_bytes()).decode() == expected


def test_a_redirected_input_is_not_overwritten(folder, monkeypatch, fail):
    with open("data.csv") as file:
        monkeypatch.setattr(sys, "stdin", file)
        message = "data.csv: the output is the same file as the input standard input"
        assert message in fail("predict", "-", "--model", "m", "--output", "data.csv")
    assert (folder / "data.csv").read_text() == DAYS


def test_closed_outputs_are_discarded(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["predict", "data.csv", "--model", "m"]) == 0
    assert main(["predict", "none.csv", "--model", "m"]) == 1
    sys.stdout.close()
    sys.stderr.close()


# Inputs that cannot be read twice


@pytest.fixture
def stdin(monkeypatch):
    def provide(content):
        content = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return provide


@contextlib.contextmanager
def fifo(path, content):
    """Make a pipe that holds the content."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[content])
    writer.start()
    yield path
    writer.join()


def parquet(text):
    import pyarrow.csv
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(io.BytesIO(text.encode())), content)
    return content.getvalue()


CONLLU = """\
# text = I don't
1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\t_\tAUX\tVBP\t_\t_\t_\t_\t_
3\tn't\t_\t_\tRB\t_\t_\t_\t_\t_

1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_

"""
CONTENTS = {
    "csv": (DAYS.encode(), True),
    "tsv": (DAYS.replace(",", "\t").encode(), True),
    "gzip": (gzip.compress(DAYS.encode()), True),
    "parquet": (parquet(DAYS), True),
    "conll": (TOKENS.encode(), False),
    "conll and gzip": (gzip.compress(TOKENS.encode()), False),
    "conllu": (CONLLU.encode(), False),
    "crfsuite": (b"X\ta\tb:2\nY\tb\n\nY\tc\n", False),
    "sparse": (b"1 2 2\n1 1 1 0 0\n1 2 0 1\n", False),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_every_format_comes_through_standard_input(name, folder, run, stdin, succeed):
    content, is_table = CONTENTS[name]
    options = OPTIONS if is_table else SMALL
    options = [*options, *(["--format", "sparse"] if name == "sparse" else [])]
    format_options = options[-2:] if name == "sparse" else []
    columns = OF_DAYS if is_table else []
    stdin(content)
    assert succeed("train", "-", "--model", "other", *options) == ""
    stdin(content)
    text = succeed("predict", "-", "--model", "other", *columns, *format_options)
    stdin(content)
    scores = succeed("evaluate", "-", "--model", "other", *columns, *format_options)
    (folder / "file").write_bytes(content)
    words = ["file", "--model", "other", *columns, *format_options]
    assert run("predict", *words)[1] == text
    assert run("evaluate", *words)[1] == scores
    if os.name == "posix":
        with fifo(folder / "pipe", content):
            assert run("predict", "pipe", *words[1:])[1] == text


def test_errors_name_standard_input(folder, stdin, fail):
    words = ["predict", "-", "--model", "m"]
    for content, message in [
        ("a", "standard input: neither the extension nor the content determines the format"),
        ("day,z\n1,2\n", "standard input: there is no column 'x'"),
        ("day,x,c\n1,much,u\n", "standard input: row 2, column 'x': 'much' is not a number"),
        ("a b\n\nc\n", "standard input: neither the extension"),
    ]:
        stdin(content)
        assert message in fail(*words)
    stdin("a b\nc\n")
    assert "standard input, line 2: 1 columns; expected 2" in fail(*words, "--format", "conll")


def test_standard_input_is_read_once(folder, stdin, fail):
    stdin(DAYS)
    assert "both the data and the model are standard input" in fail("predict", "-", "--model", "-")
    words = ["train", "-", "--validation", "-", "--model", "other", *OPTIONS]
    assert "both the data and --validation are standard input" in fail(*words)


def test_closed_standard_input(folder, monkeypatch, fail):
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in fail("predict", "-", "--model", "m")


def test_a_full_folder_of_temporary_files_is_named(folder, stdin, monkeypatch, fail):
    monkeypatch.setattr("tempfile.tempdir", str(folder / "none"))
    stdin(DAYS)
    message = f"temporary file in {folder / 'none'}: No such file or directory; set TMPDIR"
    assert message in fail("predict", "-", "--model", "m")
    assert message in fail("predict", "data.csv", "--model", "m")


# Processes


def shell(command):
    done = subprocess.run(
        ["bash", "-c", command.replace("treecrf", f"{sys.executable} -m treecrf")],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@posix
@pytest.mark.exhaustive
def test_pipes_of_a_shell(folder, run):
    """Data, models and predictions come and go through pipes."""
    expected = run("predict", "data.csv", "--model", "m", "--group", "day")[1]
    command = (
        "treecrf train <(cat data.csv) --label y --group day --drop time --max-iter 3 --quiet "
        "--set l2_regularization=1 --set early_stopping=false --model - | "
        "treecrf predict <(cat data.csv) --group day --model /dev/stdin --output /dev/fd/1"
    )
    assert shell(command) == (0, expected, "")


def test_a_treebank(folder, run, succeed):
    (folder / "bank.conllu").write_text(CONLLU * 3)
    options = ["--max-iter", "9", "--quiet", "--jobs", "1", "--set", "l2_regularization=1"]
    assert succeed("train", "bank.conllu", "--model", "tags", *options) == ""
    model = treecrf.load(folder / "tags")
    assert model.classes_.tolist() == ["AUX", "PRON"]
    assert model.get_feature_names_out().tolist() == ["form"]
    assert "labels missing     3;" in run("evaluate", "bank.conllu", "--model", "tags")[1]
    words = ["predict", "bank.conllu", "--model", "tags", "--keep", "id", "--keep", "form"]
    text = run(*words, "--reference")[1]
    assert text.startswith("1\tI\tPRON\tPRON\n2\tdo\tAUX\tAUX\n3\tn't\t\t")
    (folder / "new.conllu").write_text(re.sub("PRON|AUX", "_", CONLLU) * 3)
    assert run("predict", "new.conllu", *words[2:])[1] == run(*words)[1]
    assert "new.conllu: no labels" in run("evaluate", "new.conllu", "--model", "tags")[2]


def test_another_column_of_a_treebank(folder, run, succeed):
    (folder / "bank.conllu").write_text(CONLLU * 3)
    options = ["--max-iter", "2", "--quiet", "--jobs", "1", "--set", "l2_regularization=1"]
    words = ["train", "bank.conllu", "--model", "tags", *options, "--label"]
    assert succeed(*words, "xpos") == ""
    assert treecrf.load(folder / "tags").classes_.tolist() == ["PRP", "RB", "VBP"]
    assert "accuracy" in run("evaluate", "bank.conllu", "--model", "tags")[1]
    assert "--label 3: '3' is not a column of CoNLL-U: id, form, lem" in run(*words, "3")[2]
    assert (
        "format conll has the label in the last column" in run(*words, "3", "--format", "conll")[2]
    )
    errors = run("train", "bank.conllu", "--model", "tags", "--format", "conll")[2]
    assert "bank.conllu: in CoNLL-U, some lines are not words; --format conllu leaves" in errors
    (folder / "bank.txt").write_text(CONLLU * 3)
    errors = run("train", "bank.txt", "--model", "tags", "--format", "conll")[2]
    assert "line 2: 10 columns; expected 5, as in line 1; line 1 starts with #: only" in errors
