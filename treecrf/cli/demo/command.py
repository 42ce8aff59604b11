"""The command ``treecrf demo``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from treecrf.cli.demo.compare import Result, evaluate, format_table, make_models, table_rows
from treecrf.cli.demo.errors import confusion_rows
from treecrf.cli.demo.figure import draw_minimaps
from treecrf.cli.demo.files import SourceFile, load_files, show_case
from treecrf.cli.demo.lines import FEATURES
from treecrf.cli.demo.page import render_page
from treecrf.cli.outputs import check_output

EXAMPLES = """\
examples:
  treecrf demo
  treecrf demo --files 40 --iterations 20 --output lines.html
"""
DESCRIPTION = (
    "Label every line of Python source as code, comment, docstring or blank. Compares a model that "
    "labels each line independently from a window of lines with a TREECRF of the same window."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration.

    Parameters
    ----------
    argv : sequence of str, optional
        Options of ``treecrf demo``; those of the process by default.

    Returns
    -------
    int
        The exit status, 0.
    """
    parser = argparse.ArgumentParser(prog="treecrf demo", description=DESCRIPTION)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(options: argparse.Namespace) -> int:
    """Run the demonstration with parsed options."""
    check_output(str(options.output), [])
    report = (lambda *_: None) if options.quiet else print
    report("Reading the standard library ...")
    files = load_files(options.files + max(options.files // 2, 1), options.seed)
    n_test = max(len(files) // 3, 1)
    train, test = files[n_test:], files[:n_test]
    report(f"{len(FEATURES)} features per line, window of {options.window} lines on each side")
    report(f"training: {_size(train)}; test: {_size(test)}")
    results = []
    for name, model in make_models(
        options.window, options.iterations, options.jobs, options.seed
    ).items():
        report(f"Training {name}, {options.iterations} iterations ...")
        results.append(evaluate(name, model, train, test))
    print(f"\n{format_table(results)}\n")
    written = write_pictures(options.output, test, results)
    print(f"wrote {' and '.join(map(str, written))}")
    print(f"open {options.output}")
    return 0


def write_pictures(output: Path, test: list[SourceFile], results: list[Result]) -> list[Path]:
    """Write one test file as an HTML page and, if matplotlib is installed, as a PNG image."""
    file = show_case(test)
    which = next(index for index, other in enumerate(test) if other is file)
    columns = {result.name: result.predictions[which] for result in results}
    output.parent.mkdir(parents=True, exist_ok=True)
    confusions = confusion_rows(test, [result.predictions for result in results])
    page = render_page(file, columns, table_rows(results), confusions)
    output.write_text(page, encoding="utf-8")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return [output]
    figure = Figure()
    draw_minimaps(figure, file, columns)
    figure.savefig(output.with_suffix(".png"), dpi=160)
    return [output, output.with_suffix(".png")]


def _size(files: list[SourceFile]) -> str:
    return f"{len(files)} files, {sum(len(file.lines) for file in files):,} lines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the demonstration to a parser."""
    add = parser.add_argument
    add(
        "--files",
        type=_positive,
        default=200,
        help="number of training files; half as many are test files (default: 200)",
    )
    add("--iterations", type=_positive, default=60, help="number of iterations (default: 60)")
    add("--window", type=_whole, default=2, help="lines on each side in a window (default: 2)")
    add(
        "--output",
        type=_page,
        default=Path("demo.html"),
        help="HTML file to write; the picture is next to it (default: demo.html)",
    )
    add("--seed", type=int, default=0, help="seed of files and training (default: 0)")
    add("--jobs", type=int, default=os.cpu_count(), help="number of threads (default: all)")
    add("--quiet", action="store_true", help="print the results only")


def _page(text: str) -> Path:
    path = Path(text)
    if path.suffix == ".png":
        raise argparse.ArgumentTypeError(f"{text!r}; expected a page such as demo.html")
    return path


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; expected an integer of at least 0")
    return int(text)


def _positive(text: str) -> int:
    if not _whole(text):
        raise argparse.ArgumentTypeError(f"{text!r}; expected at least 1")
    return int(text)
