"""A self-contained HTML page with a file, its predicted labels, and a map of the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from treecrf.cli.demo.errors import ErrorRun, error_runs
from treecrf.cli.demo.files import SourceFile
from treecrf.cli.demo.lines import LABELS

# Number of errors in the summary; the map and the file show all.
MAX_LISTED = 12

STYLE = """
:root { color-scheme: light dark;
  --paper: #fbfbfa; --ink: #22262c; --faint: #8a8f98; --rule: #e4e5e7;
  --code: #2f63ad; --comment: #1e8260; --docstring: #a8640a; --blank: #a3a8b1; --wrong: #c21f58; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #16181c; --ink: #e3e5e8; --faint: #7d838d; --rule: #2c3036;
  --code: #85b2f2; --comment: #63cba4; --docstring: #f0b35f; --blank: #5c626c; --wrong: #ff6f9f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 4rem 4rem 1.5rem; max-width: 100rem;
  background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 .3rem; font-size: 1.5rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 1.8rem 0 .3rem; font-size: 1.1rem; }
a { color: inherit; text-underline-offset: .15em; }
p { margin: 0 0 1rem; max-width: 48rem; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.code { --color: var(--code); } .comment { --color: var(--comment); }
.docstring { --color: var(--docstring); } .blank { --color: var(--blank); }
.measures { border-collapse: collapse; margin: 1.2rem 0; font-variant-numeric: tabular-nums; }
.measures :is(th, td) { padding: .12rem .9rem .12rem 0; text-align: right; font-weight: 400; }
.measures th:first-child { text-align: left; color: var(--faint); }
.measures thead th { font-weight: 600; border-bottom: 1px solid var(--rule); }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; padding: 0; margin: 1.2rem 0;
  list-style: none; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .5em;
  border-radius: 2px; background: var(--color); }
.legend .wrong { --color: var(--wrong); }
.errors { margin: 0 0 .8rem; padding: 0; list-style: none; }
.errors li { margin: .1rem 0; }
.errors b { font-weight: 600; }
.map { position: fixed; top: 0; bottom: 0; right: 0; display: flex; gap: 3px; padding: 0 4px;
  background: var(--paper); border-left: 1px solid var(--rule); }
.map div { position: relative; width: .9rem; background-size: 100% 100%; opacity: .9; }
.map a { position: absolute; left: -2px; right: -2px; min-height: 5px; background: var(--wrong);
  outline: 1px solid var(--paper); }
.map a:hover, .map a:focus { outline: 2px solid var(--ink); z-index: 1; }
.lines tr { scroll-margin-top: 5rem; }
.lines tr:target { outline: 2px solid var(--ink); outline-offset: -1px; }
.jump { float: right; margin-left: .6rem; text-decoration: none; color: var(--wrong);
  font: 600 12px/1.5 system-ui, sans-serif; }
.lines { width: 100%; border-collapse: collapse; table-layout: fixed; }
.lines thead th { position: sticky; top: 0; z-index: 1; padding: .5rem .8rem; text-align: left;
  background: var(--paper); border-bottom: 1px solid var(--rule); }
.lines thead small { margin-left: .6rem; color: var(--faint); font-weight: 400; }
.lines .number { width: 3.2rem; padding-right: .8rem; text-align: right; color: var(--faint);
  font: 11px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; vertical-align: top; }
.lines td { padding: 0 .7rem 0 .8rem; border-left: 4px solid var(--color); vertical-align: top;
  background: color-mix(in srgb, var(--color) 9%, transparent); color: var(--color);
  font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.lines td + td { border-left-width: 4px; }
.lines td.error { background: color-mix(in srgb, var(--wrong) 20%, transparent);
  box-shadow: inset -4px 0 var(--wrong); }
.lines td.error::after { content: "is " attr(data-true); float: right; margin-left: 1rem;
  padding: 0 .5em; border-radius: 3px; background: var(--wrong); color: var(--paper);
  font: 600 11px/1.6 system-ui, sans-serif; }
"""


def render_page(
    file: SourceFile,
    columns: Mapping[str, Sequence[str]],
    measures: Sequence[tuple[str, Sequence[str]]] = (),
    confusions: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Show a file once per model, side by side, in the colors of the predicted labels.

    Parameters
    ----------
    file : SourceFile
        The lines and their true labels.
    columns : mapping of str to sequence of str
        The predicted labels by name of the model. Lines with wrong labels show the true label.
    measures : sequence of (str, sequence of str), default=()
        Rows of the table above the file: a title, and a value for each model.
    confusions : sequence of (str, sequence of str), default=()
        Rows of the table of errors in all test files, from `confusion_rows`.

    Returns
    -------
    str
        A complete page, light or dark depending on the reader's system.
    """
    runs = {name: error_runs(file, labels) for name, labels in columns.items()}
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>treecrf: {escape(file.name)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>What is each line of <code>{escape(file.name)}</code>?</h1>
<p>Both models use the features of a line and of its neighbors. The first labels every line
independently. TREECRF also models how labels follow each other. Neither was trained on this
file.</p>
{_table("all test files", columns, measures)}
<h2>What went wrong</h2>
{_table("lines in all test files", columns, confusions)}
{_errors(file, runs)}
<h2>The file</h2>
{_legend()}
{_lines(file, columns, runs)}
{_map(file, columns, runs)}
</body>
</html>
"""


def _table(
    corner: str, columns: Mapping[str, object], measures: Sequence[tuple[str, Sequence[str]]]
) -> str:
    if not measures:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = "\n".join(
        f"<tr><th>{escape(title)}</th>" + "".join(f"<td>{escape(value)}</td>" for value in values)
        for title, values in measures
    )
    return (
        f'<table class="measures">\n<thead><tr><th>{corner}</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _legend() -> str:
    items = "".join(f'<li class="{label}"><i></i>{label}</li>' for label in LABELS)
    return f'<ul class="legend">{items}<li class="wrong"><i></i>wrong</li></ul>'


def _errors(file: SourceFile, runs: Mapping[str, list[ErrorRun]]) -> str:
    """List the errors in the file, with links to their lines."""
    items = []
    for name, of_model in runs.items():
        links = ", ".join(
            f'<a href="#line-{run.first}">{run.lines}</a> ({run.true} labeled {run.label})'
            for run in of_model[:MAX_LISTED]
        )
        if len(of_model) > MAX_LISTED:
            links += f", and {len(of_model) - MAX_LISTED} more"
        items.append(f"<li><b>{escape(name)}</b>: {links or 'all lines are correct'}</li>")
    body = "\n".join(items)
    return f'<p>In <code>{escape(file.name)}</code>:</p>\n<ul class="errors">\n{body}\n</ul>'


def _map(
    file: SourceFile,
    columns: Mapping[str, Sequence[str]],
    runs: Mapping[str, list[ErrorRun]],
) -> str:
    """Show the whole file at the edge of the window, with links to the errors of each model."""
    strips = []
    for name, labels in columns.items():
        links = "".join(_mark(run, len(file.lines)) for run in runs[name])
        strips.append(f'<div title="{escape(name)}" style="{_stripes(labels)}">{links}</div>')
    return f'<nav class="map" aria-label="map of errors">{"".join(strips)}</nav>'


def _mark(run: ErrorRun, n: int) -> str:
    top, height = 100 * (run.first - 1) / n, 100 * (run.last - run.first + 1) / n
    title = f"{run.lines}: {run.true} labeled {run.label}"
    place = f"top:{top:.2f}%;height:{height:.2f}%"
    return f'<a href="#line-{run.first}" title="{title}" style="{place}"></a>'


def _stripes(labels: Sequence[str]) -> str:
    """Return a background with the colors of the labels from top to bottom."""
    stops, n, start = [], len(labels), 0
    for end in range(1, n + 1):
        if end == n or labels[end] != labels[start]:
            color = f"color-mix(in srgb, var(--{labels[start]}) 45%, var(--paper))"
            stops.append(f"{color} {100 * start / n:.2f}% {100 * end / n:.2f}%")
            start = end
    return f"background-image:linear-gradient({', '.join(stops)})"


def _lines(
    file: SourceFile,
    columns: Mapping[str, Sequence[str]],
    runs: Mapping[str, list[ErrorRun]],
) -> str:
    after = {name: _next_errors(of_model) for name, of_model in runs.items()}
    head = "".join(_column_head(name, labels, file, runs[name]) for name, labels in columns.items())
    rows = []
    for number, (line, true, *labels) in enumerate(
        zip(file.lines, file.labels, *columns.values(), strict=True), start=1
    ):
        cells = "".join(
            _cell(line, label, true, jumps.get(number, ""))
            for label, jumps in zip(labels, after.values(), strict=True)
        )
        rows.append(f'<tr id="line-{number}"><th class="number">{number}</th>{cells}</tr>')
    body = "\n".join(rows)
    return (
        f'<table class="lines">\n<thead><tr><th class="number"></th>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>"
    )


def _column_head(name: str, labels: Sequence[str], file: SourceFile, runs: list[ErrorRun]) -> str:
    wrong = sum(label != true for label, true in zip(labels, file.labels, strict=True))
    jump = f'<a class="jump" href="#line-{runs[0].first}">first error ↓</a>' if runs else ""
    return f"<th>{escape(name)}<small>{wrong} of {len(file.lines)} lines wrong</small>{jump}</th>"


def _next_errors(runs: list[ErrorRun]) -> dict[int, str]:
    """Return links from the first line of each run of errors to the next one."""
    return {
        run.first: f'<a class="jump" href="#line-{other.first}">next error ↓</a>'
        for run, other in pairwise(runs)
    }


def _cell(line: str, label: str, true: str, jump: str) -> str:
    text = escape(line.expandtabs()) or "&nbsp;"
    if label == true:
        return f'<td class="{label}">{text}</td>'
    return f'<td class="{label} error" data-true="{true}" title="labeled {label}">{text}{jump}</td>'
