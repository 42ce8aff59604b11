"""Commands that tests run, a table, and a model of it."""

import pytest
from support.command_files import SMALL, TABLE, write_table

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
