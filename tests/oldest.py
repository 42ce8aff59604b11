"""Print the lower bounds in pyproject.toml as exact versions: ``python tests/oldest.py test``.

The arguments are extras. Without any, only the dependencies of every installation are printed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lower_bounds(*extras: str) -> list[str]:
    """List the lower bounds of the dependencies and of those of the extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += _expanded(project, extra)
    return sorted({_exact(line) for line in lines}, key=str.lower)


def _expanded(project: dict, extra: str) -> list[str]:
    """List the requirements of an extra; some consist of other extras."""
    lines = []
    for line in project["optional-dependencies"][extra]:
        own = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
        parts = own[1].split(",") if own else []
        lines += [inner for part in parts for inner in _expanded(project, part)] or [line]
    return lines


def _exact(requirement: str) -> str:
    """Turn ``dask[dataframe]>=2025.7`` into ``dask==2025.7``, which is version 2025.7.0."""
    match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement)
    if match is None:
        raise SystemExit(f"{PROJECT.name}: {requirement!r}; expected a lower bound alone")
    return f"{match[1]}=={match[2]}"


if __name__ == "__main__":
    print(*lower_bounds(*sys.argv[1:]), sep="\n")
