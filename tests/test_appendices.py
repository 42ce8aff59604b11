"""The package without a folder of variants: the same results to the bit, and no import of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import treecrf

PACKAGE = Path(treecrf.__file__).parent
SCRIPT = Path(__file__).parent / "support" / "everyday_use.py"
APPENDICES = ["trees/fast", "learners/short", "inputs/large", "learners/large"]


def run(folder: Path) -> list[str]:
    """Run the script with the package in a folder."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-W", "ignore", str(SCRIPT)]
    process = subprocess.run(
        command, env=environment, cwd=folder, text=True, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def results():
    """Results of the whole package."""
    return run(PACKAGE.parent)


@pytest.mark.parametrize("appendix", APPENDICES)
def test_models_are_the_same_without(appendix, results, tmp_path):
    hidden = PACKAGE / appendix
    assert hidden.is_dir()

    def ignored(folder, names):
        return [name for name in names if Path(folder) / name == hidden or name == "__pycache__"]

    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=ignored)
    assert not (tmp_path / PACKAGE.name / appendix).exists()
    assert run(tmp_path) == results
