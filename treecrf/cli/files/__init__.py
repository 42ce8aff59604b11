"""Reading files of sequences and labels for the command line."""

from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.reading import FORMATS, TABLES, format_of, is_blank, read_file
from treecrf.cli.files.tables import MAX_COLUMNS
from treecrf.inputs.table_sources import STANDARD, Source

__all__ = [
    "FORMATS",
    "MAX_COLUMNS",
    "STANDARD",
    "TABLES",
    "FileData",
    "ModelInput",
    "Reading",
    "Source",
    "format_of",
    "is_blank",
    "read_file",
]
