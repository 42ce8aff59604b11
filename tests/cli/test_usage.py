"""The command line: errors of its arguments and files, and help."""

import shlex

import pytest
from support.command_files import SMALL, TABLE

import treecrf
from treecrf.cli import _parser, main
from treecrf.cli.train import parameters_of


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
        ([*TABLE, "--set", "estimator=1"], "TreeCRF has no parameter 'estimator'"),
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


def test_long_values_are_cut_in_messages(table, tmp_path, fail):
    table.write_text("x,y\n" + f"1,{'long' * 1000}\n" * 2)
    errors = fail("train", table, "--label", "y", "--model", tmp_path / "m", "--quiet")
    assert "y holds only the label 'longlong" in errors
    assert len(errors) < 1100


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


@pytest.mark.parametrize("words", [[], ["train"], ["predict"], ["evaluate"], ["info"], ["export"]])
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
