"""Commands that tests run, and what they print."""

import pytest

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
