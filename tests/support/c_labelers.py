"""Models exported to C, compiled, and run on sequences in any form."""

from __future__ import annotations

import copy
import shutil
import subprocess
from dataclasses import dataclass
from numbers import Integral, Number
from pathlib import Path
from typing import Any

import numpy as np

import treecrf

COMPILER = shutil.which("cc")
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
DRIVER = Path(__file__).parents[1] / "export" / "driver.c"


@dataclass
class Results:
    """What a labeler returns for a sequence; None for errors."""

    labels: np.ndarray | None
    viterbi: np.ndarray | None
    marginals: np.ndarray | None
    # Status of all commands that failed.
    errors: list[int]


class CLabeler:
    """A compiled labeler of a model."""

    def __init__(self, model: Any, folder: Path, options: list[str] = SANITIZERS):
        self.model = model
        self.program = folder / "labeler"
        source = folder / "labeler.c"
        treecrf.export_c(model, source)
        command = [COMPILER, "-std=c99", "-O1", *WARNINGS, *options, "-I", folder]
        command += [DRIVER, source, "-lm", "-o", self.program]
        subprocess.run(command, check=True)

    def run(self, commands: list[str]) -> list[str]:
        """Return the lines that the program prints for commands."""
        process = subprocess.run(
            [self.program], input="\n".join(commands), text=True, capture_output=True, check=False
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.splitlines()

    def results(self, X: list) -> list[Results]:
        """Return the results of sequences."""
        found = []
        for x in X:
            values = self.commands(x)
            n_values = sum(self.n_values(value) for value in values)
            lines = self.run([f"b {len(x)} {n_values}", *values, "p"])
            found.append(self._read(lines, len(x)))
        return found

    def commands(self, x: Any) -> list[str]:
        """Return the commands that set the values of a sequence."""
        positions = enumerate(positions_of(x))
        return [value for t, position in positions for value in self.values(t, position)]

    def n_values(self, command: str) -> int:
        return self.model.n_features_in_ if command.startswith("r") else 1

    def values(self, t: int, position: Any) -> list[str]:
        """Return the commands that set the values of a position."""
        if isinstance(position, dict):
            return [self._named(t, key, value) for key, value in position.items()]
        if isinstance(position, str | Integral) or position is None:
            return [f"k {t} 0 {text(position)}"]
        if isinstance(position, np.ndarray) and position.dtype.kind != "O":
            return [f"r {t} {' '.join(map(number, position.tolist()))}"]
        return [self._of_column(t, j, value) for j, value in enumerate(position)]

    def _named(self, t: int, key: str, value: Any) -> str:
        if isinstance(value, str) or self._is_category(key):
            return f"s {t} {text(key)} {text(value)}"
        return f"a {t} {text(key)} {number(value)}"

    def _is_category(self, key: str) -> bool:
        schema = self.model._chain().schema
        return key in schema.names and schema.names.index(key) in schema.categories

    def _of_column(self, t: int, j: int, value: Any) -> str:
        if j in self.model._chain().schema.categories:
            return f"k {t} {j} {text(value)}"
        return f"n {t} {j} {number(value)}"

    def _read(self, lines: list[str], n: int) -> Results:
        errors = [int(line.split()[1]) for line in lines if line.startswith("error")]
        results = [None if line.startswith("error") else line.split() for line in lines[-3:]]
        labels, viterbi, marginals = results
        classes = self.model.classes_
        return Results(
            None if labels is None else classes[np.array(labels, dtype=int)],
            None if viterbi is None else classes[np.array(viterbi, dtype=int)],
            None
            if marginals is None
            else np.array([float.fromhex(p) for p in marginals]).reshape(n, len(classes)),
            errors,
        )


def positions_of(x: Any) -> list:
    """Return the positions of a sequence; those of a frame and of attributes are dicts."""
    if hasattr(x, "to_dict"):
        return x.to_dict("records")
    if len(x) and isinstance(x[0], list):
        return [dict.fromkeys(position, True) for position in x]
    return list(x)


def text(value: Any) -> str:
    """Write a string for the driver, or None."""
    if value is None or value != value:
        return "-"
    return str(value).encode("utf-8", "surrogatepass").hex() or "00"


def number(value: Number | None) -> str:
    """Write a number for the driver."""
    if value is None or value != value:
        return "nan"
    return float(value).hex()


def assert_agrees(model: Any, X: list, folder: Path, options: list[str] = SANITIZERS) -> None:
    """Compare labels and probabilities with those of the model."""
    labels = model.predict(X)
    probabilities = model.predict_proba(X)
    best = viterbi(model, X)
    for i, results in enumerate(CLabeler(model, folder, options).results(X)):
        assert results.errors == []
        assert_close(results.marginals, probabilities[i])
        assert results.labels.tolist() == labels[i].tolist()
        assert results.viterbi.tolist() == best[i].tolist()


def viterbi(model: Any, X: list) -> list[np.ndarray]:
    """Return the best label sequences; those of a greedy model are not what it decodes."""
    if model.decoding == "greedy":
        model = copy.copy(model).set_params(decoding="viterbi")
    return model.decode(X)[0]


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0.0) < 1e-12
