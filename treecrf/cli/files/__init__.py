"""Reading files of sequences and labels for the command line."""

from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.reading import FORMATS, TABLES, format_of, read_file

__all__ = ["FORMATS", "TABLES", "FileData", "ModelInput", "Reading", "format_of", "read_file"]
