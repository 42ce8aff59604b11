"""Imports between the packages of treecrf run downwards only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "treecrf"
# From the lowest layer to the highest. The packages of one layer do not import each other, except
# that "+" joins a package and its module at a fixed path.
LAYERS = [
    "_version", "utils", "inputs", "inputs.large", "datasets", "encoding", "metrics",
    "chains+_inference",
    "chains.factored", "chains.beam chains.local chains.losses chains.sampled",
    "chains.objectives",
    "trees.growing+_tree", "trees.lists", "trees.scoring", "trees.multi_output", "trees.fast",
    "trees", "trees.updates", "trees.contexts", "trees.explain",
    "learners.linear.model+learners.linear.attributes+learners.linear.standardization"
    "+learners.linear._linear", "learners.short",
    "learners.base+learners.large",
    "learners", "learners.linear", "learners.boosted", "learners.local",
    "learners.future", "learners.flat", "learners.structured",
    "preprocessing", "learners.registry", "runtime", "inspection", "annotation", "plotting",
    "reports", "export", "dask", "crfsuite", "cli",
]  # fmt: skip
# Of each package: the number of its layer, and the first name of its unit.
UNITS = {
    name: (number, unit)
    for number, layer in enumerate(LAYERS)
    for unit in layer.split()
    for name in unit.split("+")
}
# Packages and modules of variants, and what imports each of them: one module of the core, and other
# variants.
DOORS = {
    "trees.fast": ("trees.evaluators",),
    "learners.short": ("learners.base.short_sequences",),
    "inputs.large": ("learners.large", "dask", "cli"),
    "learners.large": ("learners.base.opening", "dask"),
    "chains.losses": ("chains.objectives",),
    "learners.boosted.losses": ("learners.boosted.engines",),
    "chains.beam": ("learners.boosted.beams",),
    "learners.boosted.beams": ("learners.boosted.engines", "learners.boosted.saved"),
    "chains.factored": (
        "chains.sampled",
        "learners.boosted.constant",
        "learners.boosted.sampled",
        "trees.updates",
        "inspection",
    ),
    "learners.boosted.constant": (
        "learners.boosted.engines",
        "learners.boosted.saved",
        "learners.boosted.sampled",
    ),
    "chains.sampled": ("learners.boosted.sampled", "trees.lists"),
    "trees.lists": ("learners.boosted.sampled",),
    "learners.boosted.multi_output": ("learners.boosted.engines",),
    "trees.multi_output": ("trees.evaluators", "learners.boosted.multi_output"),
    "trees.updates": ("learners.boosted.sampled",),
    "learners.boosted.sampled": ("learners.boosted.engines", "dask"),
    "chains.local": ("learners.local",),
    "trees.contexts": ("learners.boosted.beams", "learners.local"),
    "learners.local": ("learners.registry", "learners.flat", "learners.future", "dask"),
}
# The public names, which are collected from all layers. Only the command line imports them.
TOP = (len(LAYERS) - 1, "cli")
FILES = sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", ".pyx", ".pxd"))


def unit_of(module: str) -> tuple[int, str]:
    """Find the smallest package of a module that has a layer of its own."""
    while module and module not in UNITS:
        module = module.rpartition(".")[0]
    return UNITS.get(module, TOP)


def imports_of(path: Path) -> Iterator[str]:
    """Names of imported modules and of the objects imported from them, without "treecrf."."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{name.name}" for name in node.names)
            elif isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
    else:
        for module, names in re.findall(r"^from (\S+) c?import (\([^)]*\)|.*)", text, flags=re.M):
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
        yield from re.findall(r"^c?import (\S+)", text, flags=re.M)


def test_imports_run_downwards():
    upwards = []
    for path in FILES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        number, unit = unit_of(module.removesuffix("__init__").rstrip("."))
        for name in imports_of(path):
            if name.partition(".")[0] == "treecrf":
                other, other_unit = unit_of(name.removeprefix("treecrf").lstrip("."))
                if other >= number and other_unit != unit:
                    upwards.append(f"{module} imports {name}")
    assert not upwards


def is_in(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these packages or modules, or in one of them."""
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def test_appendices_have_one_door():
    """The other modules neither need a variant nor know that there is one."""
    others = []
    for path in FILES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if module == "__init__":  # the public names, which are imported when they are used
            continue
        names = list(imports_of(path))
        for appendix, doors in DOORS.items():
            if not is_in(module, [appendix, *doors]):
                others += [
                    f"{module} imports {name}"
                    for name in names
                    if is_in(name, [f"treecrf.{appendix}"])
                ]
    assert not others
