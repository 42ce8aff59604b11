"""Training on more data than memory: files in pieces, with scratch files and a limit on memory.

Every fit runs in a process of its own. Peaks are those after the imports: of the memory that the
process has allocated, and of all its resident pages, which include the pages of scratch files that
the system may drop at any time. With a limit, the system refuses the process more allocated memory
than the imports and this number of megabytes. All fits must give the same model.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import Peaks, Spread, in_new_process, markdown, status_bytes

MB = 1e6
FILES = 8
SEQUENCE = 50
ROWS_AT_ONCE = 100_000
HEADER = ("training on", "limit MB", "allocated MB", "resident MB", "CPU s", "ratio", "wall s")


@dataclass(frozen=True)
class Case:
    """A way to train: from which files, with scratch files or not, and below which limit in MB."""

    name: str
    source: str
    has_scratch: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class Result:
    """Peaks in bytes, seconds, and a hash of the trees."""

    allocated: float
    resident: float
    cpu: float
    wall: float
    model: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--limit", type=int, default=200, help="MB beyond the imports")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="for the data and the scratch files")
    arguments = parser.parse_args()
    cases = [
        Case("table in memory", "memory"),
        Case("Parquet files", "parquet"),
        Case("Parquet files, scratch", "parquet", True),
        Case("Parquet files, scratch", "parquet", True, arguments.limit),
        Case("CSV files, scratch", "csv", True, arguments.limit),
    ]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        write(Path(folder), arguments)
        rounds = [
            [in_new_process(train, case, folder, arguments.iterations) for case in cases]
            for _ in range(arguments.repeats)
        ]
    models = {result.model for of_round in rounds for result in of_round}
    columns = list(zip(*rounds, strict=True))
    print(markdown(HEADER, [cells(*pair, columns[0]) for pair in zip(cases, columns, strict=True)]))
    print("all models are equal" if len(models) == 1 else f"{len(models)} DIFFERENT MODELS")


def write(folder: Path, arguments: argparse.Namespace) -> None:
    """Write the same rows as Parquet and as CSV files."""
    import pyarrow.csv
    import pyarrow.parquet

    bounds = np.linspace(0, arguments.rows, FILES + 1).astype(int)
    for i in range(FILES):
        parquet, csv = (folder / f"part-{i}.{name}" for name in ("parquet", "csv"))
        schema = next(batches(0, 1, arguments)).schema
        with (
            pyarrow.parquet.ParquetWriter(parquet, schema) as of_parquet,
            pyarrow.csv.CSVWriter(csv, schema) as of_csv,
        ):
            for batch in batches(bounds[i], bounds[i + 1], arguments):
                of_parquet.write_batch(batch)
                of_csv.write_batch(batch)


def batches(start: int, stop: int, arguments: argparse.Namespace) -> Iterator[Any]:
    """Yield rows of random numbers, a fifth of them missing, whose sums determine the labels."""
    import pyarrow

    for first in range(start, stop, ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, stop - first)
        rng = np.random.default_rng(first)
        table = rng.normal(size=(n, arguments.features)).round(3)
        hidden = table[:, :3].sum(axis=1) + np.roll(table[:, 0], 1) + rng.normal(size=n) / 2
        edges = np.linspace(-3, 3, arguments.labels - 1)
        table[rng.random(table.shape) < 0.2] = np.nan
        columns = {
            "sequence": (first + np.arange(n)) // SEQUENCE,
            "label": np.char.add("L", np.searchsorted(edges, hidden).astype(str)),
        }
        columns |= {f"x{j}": column for j, column in enumerate(table.T)}
        yield pyarrow.record_batch(columns)


def train(case: Case, folder: str, n_iter: int) -> Result:
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.parquet

    from treecrf import TreeCRF

    crf = TreeCRF(window=1, max_iter=n_iter, learning_rate=0.3, max_leaf_nodes=32, init="zero",
                  early_stopping=False, n_jobs=1, random_state=0)  # fmt: skip
    TreeCRF(max_iter=1).fit(["ab"], ["ab"])  # imports
    pattern = str(Path(folder, f"*.{case.source}"))
    if case.limit is not None:
        allocated = status_bytes("VmData") + case.limit * MB
        resource.setrlimit(resource.RLIMIT_DATA, (int(allocated), int(allocated)))
    with Peaks() as peaks:
        started = time.process_time(), time.perf_counter()
        X = (
            pyarrow.dataset.dataset(sorted(Path(folder).glob("*.parquet"))).to_table()
            if case.source == "memory"
            else pattern
        )
        crf.fit(X, "label", groups="sequence", scratch=folder if case.has_scratch else None)
        ended = time.process_time(), time.perf_counter()
    cpu, wall = (b - a for a, b in zip(started, ended, strict=True))
    return Result(peaks.growth["RssAnon"], peaks.growth["VmRSS"], cpu, wall, model_hash(crf))


def model_hash(crf: Any) -> str:
    packed = crf._forest.pack()
    return hashlib.sha256(b"".join(packed[name].tobytes() for name in sorted(packed))).hexdigest()


def cells(case: Case, results: tuple[Result, ...], reference: tuple[Result, ...]) -> list[str]:
    def spread(value: Callable[[Result], float], of: tuple[Result, ...] = results) -> Spread:
        return Spread(tuple(map(value, of)))

    cpu, ratio = spread(lambda r: r.cpu), spread(lambda r: r.cpu, reference)
    return [
        case.name,
        "" if case.limit is None else str(case.limit),
        spread(lambda r: r.allocated).show(1 / MB, 0),
        spread(lambda r: r.resident).show(1 / MB, 0),
        cpu.show(digits=1),
        cpu.over(ratio).show(),
        spread(lambda r: r.wall).show(digits=1),
    ]


if __name__ == "__main__":
    main()
