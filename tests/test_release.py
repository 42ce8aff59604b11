"""Versions and dependencies are the same in all files that list them."""

import re
import tomllib
from pathlib import Path

from oldest import lower_bounds

import treecrf

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
LOWEST = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    version = treecrf.__version__
    assert re.search(r'^  version: "(.*)"$', read("recipe/recipe.yaml"), re.M)[1] == version
    assert re.search(r"^version: (.*)$", read("CITATION.cff"), re.M)[1] == version
    assert re.search(r"^(\S+), .*\n-+$", read("CHANGELOG.md"), re.M)[1] == version


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
    tools = ("distributed", "hypothesis", "pytest")
    assert {f"{name}=={version}" for name, version in oldest.items()} == {
        bound for bound in lower_bounds("test") if not bound.startswith(tools)
    }


def test_each_extra_is_described():
    described = re.findall(r"^(\w+) +.*$", read("docs/install.rst").split("=\nextra")[1], re.M)
    assert PROJECT["optional-dependencies"].keys() <= set(described)
