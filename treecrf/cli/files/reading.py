"""The formats of files, and which one a file has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from treecrf.cli.files.blocks import CsvFile, ParquetFile
from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.lines import read_attributes, read_columns, read_windows
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
    "conll": read_columns,
    "crfsuite": read_attributes,
    "sparse": read_windows,
}
FORMATS = tuple(READERS)
TABLES = ("csv", "tsv", "parquet")
ENDINGS = {f".{name}": name for name in FORMATS} | {".pq": "parquet", ".tab": "tsv"}


def read_file(path: str, reading: Reading, model: ModelInput | None = None) -> FileData:
    """Read sequences, and labels if there are any.

    Parameters
    ----------
    path : str
    reading : Reading
    model : ModelInput, optional
        What a trained model expects.

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
        If the format cannot be told, or the file is not as it should be; the message says where.
    """
    name = reading.format or format_of(path)
    if name not in TABLES:
        _refuse_table_options(name, reading)
    data = READERS[name](path, reading, model)
    of_symbols = model is not None and model.trained.form == "symbols"
    return data.as_symbols() if of_symbols else data


def format_of(path: str) -> str:
    """The format that the ending of a file name stands for.

    Raises
    ------
    ValueError
        If it is not known.
    """
    endings = [ending for ending in Path(path).suffixes if ending != ".gz"]
    ending = endings[-1].lower() if endings else ""
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: the name does not tell the format; say which with --format: "
            f"{', '.join(FORMATS)}"
        )
    return ENDINGS[ending]


def _refuse_table_options(name: str, reading: Reading) -> None:
    for option in ("label", "group", "drop", "category", "missing"):
        if getattr(reading, option):
            raise ValueError(
                f"--{option} is for tables with named columns; the format {name} has none"
            )
