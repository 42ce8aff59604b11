"""Print the lower bounds of the dependencies in pyproject.toml as exact versions.

With those of the extras whose libraries read data and show progress.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *extras["cli"], *extras["progress"]]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    version += ".0" * (version.count(".") == 0)
    # The first patch version and later ones.
    print(f"{name}~={version}.0" if version.count(".") == 1 else f"{name}=={version}")
