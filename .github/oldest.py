"""Print the lower bounds of the dependencies in pyproject.toml as exact versions."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    # The first patch version and later ones.
    print(f"{name}~={version}.0" if version.count(".") == 1 else f"{name}=={version}")
