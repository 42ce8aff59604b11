"""Commands in processes of their own: pipes, interrupts, the script."""

import importlib
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from support.command_files import TABLE

from treecrf.cli import main


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
