"""Commands that tests run, a table, and a model of it."""

import pytest
from support.command_files import DAYS, OF_DAYS, SMALL, TABLE, TOKENS, write_table

from treecrf.cli import main


@pytest.fixture
def run(capsys):
    """Run a command and return its status, output and errors."""

    def call(*words):
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def succeed(run):
    """Run a command that succeeds without warnings, and return its output."""

    def call(*words):
        status, text, errors = run(*words)
        assert (status, errors) == (0, "")
        return text

    return call


@pytest.fixture
def fail(run):
    """Run a command that fails with one line of errors, and return that line."""

    def call(*words):
        status, text, errors = run(*words)
        assert (status, text) == (1, "")
        assert errors.startswith("treecrf: ")
        assert errors.count("\n") == 1
        return errors

    return call


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


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Contents of the files of models of days and of tokens."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("trained")
    for name, text, words in (("data.csv", DAYS, OF_DAYS), ("data.conll", TOKENS, [])):
        (folder / name).write_text(text)
        words = ["train", folder / name, "--model", folder / f"{name}.m", *words, *SMALL]
        assert main([str(word) for word in words]) == 0
    return {name: (folder / f"data.{name}.m").read_bytes() for name in ("csv", "conll")}


@pytest.fixture
def folder(tmp_path, trained, monkeypatch):
    """The current folder, with data of days and tokens and the models of both."""
    (tmp_path / "data.csv").write_text(DAYS)
    (tmp_path / "data.conll").write_text(TOKENS)
    (tmp_path / "m").write_bytes(trained["csv"])
    (tmp_path / "chunks").write_bytes(trained["conll"])
    monkeypatch.chdir(tmp_path)
    return tmp_path
