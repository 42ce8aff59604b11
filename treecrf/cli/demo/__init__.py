"""Demonstration: label each line of Python source as code, comment, docstring or blank.

``treecrf demo`` trains on the standard library of the running interpreter. Each file is a
sequence of lines, and the features of a line do not depend on its neighbors. Two models with the
same window are compared: one labels each line independently, the other is a TREECRF.
"""

from treecrf.cli.demo.command import main
from treecrf.cli.demo.compare import Result, evaluate, format_table, make_models, table_rows
from treecrf.cli.demo.errors import ErrorRun, confusion_rows, error_runs
from treecrf.cli.demo.figure import draw_minimaps
from treecrf.cli.demo.files import SourceFile, load_files, show_case
from treecrf.cli.demo.lines import FEATURES, LABELS, label_lines, line_features
from treecrf.cli.demo.page import render_page

__all__ = [
    "FEATURES",
    "LABELS",
    "ErrorRun",
    "Result",
    "SourceFile",
    "confusion_rows",
    "draw_minimaps",
    "error_runs",
    "evaluate",
    "format_table",
    "label_lines",
    "line_features",
    "load_files",
    "main",
    "make_models",
    "render_page",
    "show_case",
    "table_rows",
]
