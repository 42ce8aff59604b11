"""Default settings on millions of positions in Parquet files, with scratch files.

The numbers are drawn by `simulated_numbers`. Every fit runs in a process of its own, in one thread.
Peaks are those after the imports: of the memory that the process has allocated, of all its resident
pages, and of its scratch files. Accuracy and log loss are those of new sequences.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import Peaks, in_new_process, markdown
from simulated_numbers import LENGTH, SimulatedNumbers

MB = 1e6
FILES = 10
SEQUENCES_AT_ONCE = 1_000
TEST_SEQUENCES = 1_000
TEST_SEED = 1_000_000_000  # no training sequences have it
HEADER = ("positions", "max_examples", "Parquet MB", "CPU s", "of it before iterations",
          "an iteration s", "allocated MB", "resident MB", "scratch MB", "accuracy %",
          "log loss")  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a fit needed, and the quality of the model."""

    # Growth in bytes, by name; see `Peaks`.
    peaks: dict[str, float]
    # CPU seconds before the first iteration and after each one.
    times: list[float]
    # CPU seconds of the whole fit.
    cpu: float
    # Share of the positions of new sequences whose most probable label is right.
    accuracy: float
    # Mean of minus the logarithm of the probability of their labels.
    log_loss: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", nargs="+", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--max-examples", nargs="+", type=int, default=[300_000])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--settings", type=json.loads, default={}, help="of TreeCRF, as JSON")
    parser.add_argument("--folder", help="for the data and the scratch files")
    arguments = parser.parse_args()
    rows = []
    for n_positions in arguments.positions:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write(Path(folder), n_positions // LENGTH)
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            for max_examples in arguments.max_examples:
                fixed = {"max_iter": arguments.iterations, "max_examples": max_examples}
                result = in_new_process(train, folder, fixed | arguments.settings)
                row = [f"{n_positions:,}", f"{max_examples:,}", f"{size / MB:.0f}", *cells(result)]
                rows.append(row)
                print(*row, sep=" | ", flush=True)
    print(markdown(HEADER, rows))


def write(folder: Path, n_sequences: int) -> None:
    """Write sequences of numbers, with their labels, to Parquet files."""
    import pyarrow
    import pyarrow.parquet

    numbers = SimulatedNumbers()
    batches = range(0, n_sequences, SEQUENCES_AT_ONCE)
    for i, firsts in enumerate(np.array_split(batches, FILES)):
        writer = None
        for first in firsts.tolist():
            n = min(SEQUENCES_AT_ONCE, n_sequences - first)
            X, y = numbers.draw(n, first)
            columns = {"sequence": np.repeat(np.arange(first, first + n), LENGTH)}
            columns["label"] = np.array(["A", "B", "C", "D"])[y.ravel()]
            columns |= {f"x{j}": X[..., j].ravel() for j in range(X.shape[-1])}
            table = pyarrow.table(columns)
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(folder / f"part-{i}.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def train(folder: str, settings: dict[str, Any]) -> Result:
    """Fit the files in a folder, and score new sequences."""
    import pyarrow.parquet  # noqa: F401

    from treecrf import TreeCRF

    crf = TreeCRF(n_jobs=1, random_state=0, **settings)
    TreeCRF(max_iter=1).fit(["ab"], ["ab"])  # imports
    with Peaks(folder) as peaks:
        clock = Clock()
        crf.fit(f"{folder}/*.parquet", "label", groups="sequence", scratch=folder,
                callbacks=[clock])  # fmt: skip
        cpu = clock.seconds()
    X, y = SimulatedNumbers().draw(TEST_SEQUENCES, TEST_SEED)
    with warnings.catch_warnings(action="ignore"):  # arrays have no names of columns
        probabilities = np.concatenate(crf.predict_proba(list(X)))
    codes = y.ravel()
    accuracy = float(np.mean(probabilities.argmax(axis=1) == codes))
    log_loss = float(-np.log(probabilities[np.arange(len(codes)), codes]).mean())
    return Result(peaks.growth, clock.times, cpu, accuracy, log_loss)


class Clock:
    """Callback that notes the CPU seconds before the first iteration and after each one."""

    def __init__(self) -> None:
        self.started = time.process_time()
        self.times: list[float] = []

    def seconds(self) -> float:
        """Return the CPU seconds since the clock was made."""
        return time.process_time() - self.started

    def start(self, _: Any) -> None:
        """Note the time before the first iteration."""
        self.times.append(self.seconds())

    __call__ = start


def cells(result: Result) -> list[str]:
    before, *after = result.times
    iteration = (after[-1] - before) / len(after)
    names = ("RssAnon", "VmRSS", "scratch")
    return [
        f"{result.cpu:.0f}",
        f"{before:.0f}",
        f"{iteration:.2f}",
        *(f"{result.peaks[name] / MB:.0f}" for name in names),
        f"{100 * result.accuracy:.2f}",
        f"{result.log_loss:.4f}",
    ]


if __name__ == "__main__":
    main()
