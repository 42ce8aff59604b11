"""File formats, and detection of the format of a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from treecrf.cli.files.content import format_of_content
from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.lines import (
    read_conll_file,
    read_conllu_file,
    read_crfsuite_file,
    read_sparse_file,
)
from treecrf.cli.files.tables import read_table
from treecrf.inputs.files.blocks import CsvFile, ParquetFile
from treecrf.inputs.files.source import HEAD_BYTES, Source

Reader = Callable[[Source, Reading, ModelInput | None], FileData]


def _read_csv(
    source: Source, reading: Reading, model: ModelInput | None, separator: str
) -> FileData:
    file = CsvFile(source, reading.separator or separator, reading.encoding)
    return read_table(file, reading, model)


def _read_parquet(source: Source, reading: Reading, model: ModelInput | None) -> FileData:
    return read_table(ParquetFile(source), reading, model)


READERS: dict[str, Reader] = {
    "csv": partial(_read_csv, separator=","),
    "tsv": partial(_read_csv, separator="\t"),
    "parquet": _read_parquet,
    "conll": read_conll_file,
    "conllu": read_conllu_file,
    "crfsuite": read_crfsuite_file,
    "sparse": read_sparse_file,
}
FORMATS = tuple(READERS)
TABLES = ("csv", "tsv", "parquet")
# Where the label is in the formats without names.
LABELS = {
    "conll": "has the label in the last column",
    "crfsuite": "has the label first",
    "sparse": "has the label first",
}
ENDINGS = {f".{name}": name for name in FORMATS} | {".pq": "parquet", ".tab": "tsv"}


def read_file(source: Source, reading: Reading, model: ModelInput | None = None) -> FileData:
    """Read sequences, and labels if the file has them.

    Parameters
    ----------
    source : Source
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
    name = reading.format or format_of(source)
    if name not in TABLES:
        _refuse_table_options(name, reading)
    data = READERS[name](source, reading, model)
    of_symbols = model is not None and model.schema.form == "symbols"
    return data.as_symbols() if of_symbols else data


def format_of(source: Source) -> str:
    """Return the format that the extension of a file determines, or else its content.

    Raises
    ------
    ValueError
        If neither does.
    """
    name = _format_of_ending(source)
    if name is None:
        head = source.head()
        name = format_of_content(head, len(head) < HEAD_BYTES)
    if name is None:
        raise ValueError(
            f"{source.name}: neither the extension nor the content determines the format; specify "
            f"it with --format: {', '.join(FORMATS)}"
        )
    return name


def is_blank(source: Source, reading: Reading) -> bool:
    """Return whether a text file holds no characters but spaces and line ends."""
    head = source.head()
    is_text = "parquet" not in (reading.format, _format_of_ending(source))
    return is_text and len(head) < HEAD_BYTES and not head.strip()


def _format_of_ending(source: Source) -> str | None:
    endings = [ending for ending in source.suffixes if ending != ".gz"]
    return ENDINGS.get(endings[-1].lower()) if endings else None


def _refuse_table_options(name: str, reading: Reading) -> None:
    for option in ("label", "group", "drop", "category", "missing"):
        if getattr(reading, option) and (option, name) != ("label", "conllu"):
            raise ValueError(
                f"--{option} requires a table with named columns; the format {name} "
                f"{LABELS[name] if option == 'label' else 'is none'}"
            )
