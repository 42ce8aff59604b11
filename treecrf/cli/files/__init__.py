"""Files of sequences and labels, as the command line reads them."""

from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.reading import FORMATS, TABLES, format_of, read_file

__all__ = ["FORMATS", "TABLES", "FileData", "ModelInput", "Reading", "format_of", "read_file"]
