"""The package's namespace."""

import ast
import importlib
import importlib.util
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import treecrf

ROOT = Path(__file__).parents[1]
SOURCES = {".py", ".pyx", ".pxd", ".h"}
SUB_PACKAGES = [
    "annotation", "crfsuite", "datasets", "inspection", "metrics", "papers", "plotting",
    "preprocessing",
]  # fmt: skip
# Optional, or slow to import.
NOT_IMPORTED = [
    "argcomplete", "matplotlib", "narwhals", "pandas", "polars", "pyarrow", "seqeval", "tqdm",
    "pooch",
    *(f"treecrf.{name}" for name in SUB_PACKAGES),
]  # fmt: skip


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_dir_shows_the_public_names_alone():
    assert dir(treecrf) == sorted(treecrf.__all__)
    assert set(SUB_PACKAGES) < set(dir(treecrf))
    assert all(name == "__version__" or not name.startswith("_") for name in dir(treecrf))


@pytest.mark.parametrize("name", treecrf.__all__)
def test_every_public_name_is_there(name):
    assert getattr(treecrf, name) is not None


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'treecrf' has no attribute 'TreeSVM'"):
        treecrf.TreeSVM  # noqa: B018


def test_a_plain_import_is_quick_and_sub_packages_come_when_used():
    code = f"""
import sys
import sklearn.base, sklearn.utils.validation  # which may import some of them
before = set(sys.modules)
import treecrf
for name in {NOT_IMPORTED}:
    assert name in before or name not in sys.modules, name
for name in {SUB_PACKAGES}:
    assert getattr(treecrf, name) is sys.modules["treecrf." + name]
assert "matplotlib" not in sys.modules
from treecrf import metrics
from treecrf import *
metrics.SCORERS, plotting.plot_tree
"""
    run(code)


def test_sources_that_are_not_compiled_are_an_error_with_advice(tmp_path):
    """As in the folder of a checkout, which comes before the installed package."""
    (tmp_path / "treecrf").mkdir()
    for name in ("__init__.py", "_version.py"):
        shutil.copy(Path(treecrf.__file__).with_name(name), tmp_path / "treecrf")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import treecrf"
    # Without site, which would find the modules of an editable installation.
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"ImportError: {tmp_path / 'treecrf'} has no compiled modules" in done.stderr


def test_an_unpickled_estimator_that_needs_another_one_finds_it_in_another_process():
    """As by scikit-learn's ``n_jobs``: only the module of the estimator has been imported."""
    pickled = pickle.dumps(treecrf.TreeCRF(max_iter=1, init="linear"))
    run(f"import pickle; pickle.loads({pickled!r}).fit(['ab', 'b'], ['xy', 'y'])")


def test_internal_packages_are_no_public_names():
    importlib.import_module("treecrf.learners")
    assert "learners" not in dir(treecrf)


def test_data_frames_need_no_extra_and_all_has_the_other_extras_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert any(line.startswith("narwhals") for line in project["dependencies"])
    of_users = ",".join(sorted(extras.keys() - {"all", "benchmark", "docs", "lint", "test"}))
    assert extras["all"] == [f"treecrf[{of_users}]"]


def test_places_in_the_guide_for_contributors_exist():
    source = ROOT / "treecrf"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = set(
        re.findall(r"[\w/]+\.pyx?\b", text.partition("## Read these twelve files first")[2])
    )
    folders = (ROOT, source, source / "learners/boosted", source / "inputs")
    assert len(names) > 30
    assert [n for n in names if not any((folder / n).exists() for folder in folders)] == []
    written = "".join(
        path.read_text(encoding="utf-8") for path in source.rglob("*") if path.suffix in SOURCES
    )
    words = set(re.findall(r"`(?:\w+\.)?(\w+)`", text.partition("## The way of a fit")[2]))
    assert [word for word in words if not re.search(rf"\b{word}\b", written)] == []


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "tests"])
def test_scripts_import_names_that_exist(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    for path in (path for path in paths if not path.name.startswith("test_")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treecrf"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    found = hasattr(module, alias.name) or importlib.util.find_spec(
                        f"{node.module}.{alias.name}"
                    )
                    assert found, f"{path}: {node.module} has no {alias.name}"
