"""Memory and time for reading tables: from a file to encoded positions and labels, in one thread.

Each row of the output is measured in a separate process. Growth is the peak growth of the process
after its imports. Encoded is the memory that the trees need for the table, and labels the memory
that ``fit`` needs in addition. "pandas" reads the same CSV file with ``pandas.read_csv`` and passes
the data frame.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import in_new_process, markdown, peak_memory, reset_peak_memory

from treecrf.cli.files import Reading, Source, read_file
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.sequences import Sequences

LENGTH = 50
ROWS_AT_ONCE = 10_000
MB = 1e6
HEADER = ("method", "file MB", "growth MB", "encoded MB", "labels MB", "reading s", "encoding s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "table.csv"), Path(folder, "table.parquet")
        write_csv(csv, arguments.rows)
        write_parquet(csv, parquet)
        cases = [
            ("CSV", csv, by_reader),
            ("Parquet", parquet, by_reader),
            ("pandas", csv, by_pandas),
        ]
        print(markdown(HEADER, [[name, *measured(path, read)] for name, path, read in cases]))


def write_csv(path: Path, n_rows: int) -> None:
    """Six floats, an integer, a word, a boolean, and a column with text only at the very end."""
    rng = np.random.default_rng(0)
    names = ["id", "y", *(f"float{j}" for j in range(6)), "integer", "word", "boolean", "late"]
    with path.open("w") as file:
        file.write(",".join(names) + "\n")
        for start in range(0, n_rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, n_rows - start)
            columns = [
                (start + np.arange(n)) // LENGTH,
                rng.choice(["noun", "verb", "other"], n),
                *rng.normal(size=(6, n)).round(5),
                rng.integers(0, 1000, n),
                rng.choice(["red", "green", "blue"], n),
                rng.choice(["true", "false"], n),
                rng.integers(0, 9, n) if start + n < n_rows else ["odd"] * n,
            ]
            file.writelines(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def write_parquet(csv: Path, path: Path) -> None:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    types = pyarrow.csv.ConvertOptions(column_types={"late": pyarrow.string()})
    table = pyarrow.csv.read_csv(csv, convert_options=types)
    pyarrow.parquet.write_table(table, path)


def by_reader(path: Path) -> tuple[Sequences, list[np.ndarray]]:
    """Read in chunks, as the command line does."""
    data = read_file(Source(str(path)), Reading(label="y", group="id"))
    return data.sequences, data.labels


def by_pandas(path: Path) -> tuple[Sequences, list[np.ndarray]]:
    """Read the whole file with pandas."""
    import pandas as pd

    from treecrf.inputs.offsets import Segmentation

    frame = pd.read_csv(path, dtype={"late": str})
    labels = frame.pop("y").to_numpy(dtype=str)
    sequences = as_sequences(frame, segmentation=Segmentation(groups="id"))
    return sequences, np.split(labels, sequences.offsets[1:-1])


def measured(path: Path, read: Callable) -> list[str]:
    """All cells of a row of the table but the first."""
    return [f"{path.stat().st_size / MB:.0f}", *in_new_process(measure, path, read)]


def measure(path: Path, read: Callable) -> list[str]:
    import pandas  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    before, started = reset_peak_memory(), time.process_time()
    sequences, labels = read(path)
    read_at = time.process_time()
    encoder = Encoder((0, 0)).fit(sequences)
    encoded = encoder.encode(sequences)
    ended = time.process_time()
    sizes = [peak_memory() - before, encoded_bytes(encoded), labels[0].base.nbytes]
    times = [read_at - started, ended - read_at]
    return [f"{size / MB:.0f}" for size in sizes] + [f"{seconds:.1f}" for seconds in times]


def encoded_bytes(encoded: EncodedSequences) -> int:
    return sum(array.nbytes for array in vars(encoded).values() if isinstance(array, np.ndarray))


if __name__ == "__main__":
    main()
