"""The command line of the demonstration."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from treecrf.cli.demo.compare import Result, evaluate, format_table, make_models, table_rows
from treecrf.cli.demo.figure import draw_minimaps
from treecrf.cli.demo.files import SourceFile, load_files, show_case
from treecrf.cli.demo.lines import FEATURES
from treecrf.cli.demo.page import render_page

DESCRIPTION = (
    "Label every line of Python source as code, comment, docstring or blank: a window of lines "
    "alone against a TREECRF with the same window."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration.

    Parameters
    ----------
    argv : sequence of str, optional
        Options, as ``python -m treecrf demo --help`` lists them; those of the process if not given.

    Returns
    -------
    int
        0: the exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m treecrf demo", description=DESCRIPTION)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(options: argparse.Namespace) -> int:
    """Run the demonstration with parsed options."""
    say = (lambda *_: None) if options.quiet else print
    say("Reading the standard library ...")
    files = load_files(options.files + max(options.files // 2, 1), options.seed)
    n_test = max(len(files) // 3, 1)
    train, test = files[n_test:], files[:n_test]
    say(f"{len(FEATURES)} features of a line, {options.window} lines of window on each side")
    say(f"training: {_size(train)}; test: {_size(test)}")
    results = []
    for name, model in make_models(
        options.window, options.iterations, options.jobs, options.seed
    ).items():
        say(f"Training {name}, {options.iterations} iterations ...")
        results.append(evaluate(name, model, train, test))
    print(f"\n{format_table(results)}\n")
    for path in write_pictures(options.output, test, results):
        print(f"{path}")
    return 0


def write_pictures(output: Path, test: list[SourceFile], results: list[Result]) -> list[Path]:
    """Write one test file as a page, and as a PNG beside it where matplotlib is installed."""
    file = show_case(test)
    which = next(index for index, other in enumerate(test) if other is file)
    columns = {result.name: result.predictions[which] for result in results}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(render_page(file, columns, table_rows(results)), encoding="utf-8")
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
    """Give a parser the options of the demonstration."""
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    add = parser.add_argument
    add("--files", type=_positive, default=200, help="files to train on; half as many for the test")
    add("--iterations", type=_positive, default=60, help="boosting iterations of each model")
    add("--window", type=_whole, default=2, help="lines seen before and after the line")
    add("--output", type=Path, default=Path("demo.html"), help="the page to write")
    add("--seed", type=int, default=0, help="chooses files and the random state")
    add("--jobs", type=int, default=os.cpu_count(), help="threads")
    add("--quiet", action="store_true", help="print nothing but the results")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if not _whole(text):
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return int(text)
