"""File formats, and detection of the format of a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from treecrf.cli.files.blocks import CsvFile, ParquetFile
from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.lines import read_conll_file, read_crfsuite_file, read_sparse_file
from treecrf.cli.files.tables import read_table

Reader = Callable[[str, Reading, ModelInput | None], FileData]


def _read_csv(path: str, reading: Reading, model: ModelInput | None, separator: str) -> FileData:
    file = CsvFile(path, reading.separator or separator, reading.encoding)
    return read_table(file, reading, model)


def _read_parquet(path: str, reading: Reading, model: ModelInput | None) -> FileData:
    return read_table(ParquetFile(path), reading, model)


READERS: dict[str, Reader] = {
    "csv": partial(_read_csv, separator=","),
    "tsv": partial(_read_csv, separator="\t"),
    "parquet": _read_parquet,
    "conll": read_conll_file,
    "crfsuite": read_crfsuite_file,
    "sparse": read_sparse_file,
}
FORMATS = tuple(READERS)
TABLES = ("csv", "tsv", "parquet")
ENDINGS = {f".{name}": name for name in FORMATS} | {".pq": "parquet", ".tab": "tsv"}


def read_file(path: str, reading: Reading, model: ModelInput | None = None) -> FileData:
    """Read sequences, and labels if the file has them.

    Parameters
    ----------
    path : str
    reading : Reading
    model : ModelInput, optional
        Requirements of a trained model.

    Returns
    -------
    FileData

    Raises
    ------
    OSError
        If the file cannot be read.
    ImportError
        If pyarrow is needed and not installed.
    ValueError, TypeError
        If the format cannot be determined, or the file is invalid; the message states where.
    """
    name = reading.format or format_of(path)
    if name not in TABLES:
        _refuse_table_options(name, reading)
    data = READERS[name](path, reading, model)
    of_symbols = model is not None and model.schema.form == "symbols"
    return data.as_symbols() if of_symbols else data


def format_of(path: str) -> str:
    """Return the format that a file extension stands for.

    Raises
    ------
    ValueError
        If the extension is unknown.
    """
    endings = [ending for ending in Path(path).suffixes if ending != ".gz"]
    ending = endings[-1].lower() if endings else ""
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: unknown file extension; specify the format with --format: "
            f"{', '.join(FORMATS)}"
        )
    return ENDINGS[ending]


def _refuse_table_options(name: str, reading: Reading) -> None:
    for option in ("label", "group", "drop", "category", "missing"):
        if getattr(reading, option):
            raise ValueError(
                f"--{option} requires a table with named columns; the format {name} has no names"
            )
