"""Versions and dependencies are the same in all files that list them."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from oldest import lower_bounds

import treecrf

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
LOWEST = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])


RELEASE = ROOT / "recipe/release.py"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    version = treecrf.__version__
    assert re.search(r'^  version: "(.*)"$', read("recipe/recipe.yaml"), re.M)[1] == version
    assert re.search(r"^version: (.*)$", read("CITATION.cff"), re.M)[1] == version
    assert re.search(r"^(\S+), .*\n-+$", read("CHANGELOG.md"), re.M)[1] == version


def run_release(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(RELEASE), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_one_command_sets_a_release_and_its_check_finds_what_is_not_set(tmp_path):
    files = sorted({passage.file for passage in runpy.run_path(str(RELEASE))["PASSAGES"]})
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    root = ("--root", str(tmp_path))
    assert (
        "not ready for the release of 9.8: CHANGELOG" in run_release("--check", "9.8", *root).stderr
    )
    assert run_release("9.8", "2030-01-02", *root).returncode == 2  # no repository
    for _ in range(2):
        done = run_release("9.8", "2030-01-02", "https://example.org/a/treecrf/", *root)
        assert done.stdout == "ready for the release of 9.8\n", done.stderr
    texts = {file: (tmp_path / file).read_text(encoding="utf-8") for file in files}
    pages = "".join(text for file, text in texts.items() if not file.startswith("recipe"))
    assert "not been released" not in pages and "pip install ." not in pages
    assert "\n9.8, 2030-01-02\n-" in texts["CHANGELOG.md"]
    assert 'Issues = "https://example.org/a/treecrf/issues"' in texts["pyproject.toml"]
    for file in files:
        shutil.copy(ROOT / file, tmp_path / file)
        done = run_release("--check", "9.8", *root)
        assert done.stderr.startswith(f"not ready for the release of 9.8: {file};")
        (tmp_path / file).write_text(texts[file], encoding="utf-8")


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = read("recipe/recipe.yaml")
    host, run = re.search(r"^  host:\n(.*?)^  run:\n(.*?)^\S", recipe, re.M | re.S).groups()
    assert set(re.findall(r"- (.*)", run)) - {"python"} == {
        f"{name} >={version}" for name, version in LOWEST.items()
    }
    required = {line.replace(">=", " >=") for line in CONFIGURATION["build-system"]["requires"]}
    assert set(re.findall(r"- (.*)", host)) - {"python", "pip"} == required


def test_wheels_are_tested_with_the_oldest_dependencies():
    overrides = CONFIGURATION["tool"]["cibuildwheel"]["overrides"]
    assert overrides[0]["test-requires"] == lower_bounds()


def test_the_documentation_lists_the_oldest_dependencies():
    rows = re.findall(r"^([\w-]+) +(\d[\d.]*) +\d", read("docs/versions.rst"), re.M)
    oldest = {name.lower(): version for name, version in rows}
    assert oldest.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    tools = ("distributed", "hypothesis", "pytest", "selenium")
    assert {f"{name}=={version}" for name, version in oldest.items()} == {
        bound for bound in lower_bounds("test") if not bound.startswith(tools)
    }


def test_each_extra_is_described():
    described = re.findall(r"^(\w+) +.*$", read("docs/install.rst").split("=\nextra")[1], re.M)
    assert PROJECT["optional-dependencies"].keys() <= set(described)
