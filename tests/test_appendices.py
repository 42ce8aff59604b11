"""The package without a variant: the same results to the bit, and no import of its folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sweeps import sweep

import treecrf

PACKAGE = Path(treecrf.__file__).parent
SCRIPT = Path(__file__).parent / "support" / "everyday_use.py"
# The folders and modules of each variant, and the everyday use that needs it, if any.
APPENDICES = {
    "fast evaluators": (["trees/fast"], None),
    "short sequences": (["learners/short"], None),
    "large data": (["inputs/large", "learners/large"], None),
    "other objectives": (["chains/losses", "learners/boosted/losses.py"], None),
    "beams": (["chains/beam", "learners/boosted/beams"], None),
    "factored scores": (["chains/factored", "learners/boosted/constant"], "sampled"),
    "samples": (
        ["chains/sampled", "learners/boosted/sampled", "trees/lists", "trees/updates"],
        "sampled",
    ),
    "local models": (["chains/local", "learners/local"], None),
    "multi-output trees": (["trees/multi_output", "learners/boosted/multi_output"], None),
    "single contexts": (["trees/contexts"], None),
}
APPENDICES["all variants"] = (
    [path for paths, _ in APPENDICES.values() for path in paths],
    "sampled",
)


def run(folder: Path, unused: str | None = None) -> list[str]:
    """Run the script with the package in a folder, but for one use."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-W", "ignore", str(SCRIPT)]
    if unused is not None:
        command.append(unused)
    process = subprocess.run(
        command, env=environment, cwd=folder, text=True, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def results():
    """Results of the whole package."""
    return run(PACKAGE.parent)


@pytest.mark.parametrize("name", sweep(reversed(APPENDICES), 1))
def test_models_are_the_same_without(name, results, tmp_path):
    appendix, unused = APPENDICES[name]
    hidden = [PACKAGE / path for path in appendix]
    assert all(path.exists() for path in hidden)

    def ignored(folder, names):
        return [name for name in names if Path(folder) / name in hidden or name == "__pycache__"]

    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=ignored)
    assert not any((tmp_path / PACKAGE.name / path).exists() for path in appendix)
    expected = [line for line in results if unused is None or not line.startswith(unused)]
    assert len(expected) >= len(results) - 4
    assert run(tmp_path, unused) == expected
