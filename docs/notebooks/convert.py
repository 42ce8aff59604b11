"""Turn pages of the guide into notebooks: python docs/notebooks/convert.py.

Texts become cells of Markdown, and the examples cells of code, without their results. The pages
stay the only source; a test compares the notebooks with them, and runs them.
"""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent
GUIDE = DOCS / "guide"
EXAMPLES = DOCS.parent / "examples"
PAGES = ("sensor_table", "tagging")
PROMPTS = (">>>", "...")
# Underlines of titles, and the number of signs in Markdown.
LEVELS = {"=": "#", "-": "##"}
INSTALL = (
    "This notebook needs the package with its optional libraries: "
    '`pip install "treecrf[all]" pandas`, or in a checkout `pip install ".[all]" pandas`. '
    "Titles in *italics* are those of other pages of the documentation."
)


def cells_of(page: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each cell of a page."""
    cells: list[tuple[str, str]] = []
    for block in re.split(r"\n{2,}", page.strip()):
        lines = block.split("\n")
        if lines[0].startswith(">>>"):
            kind, text = "code", code_of(lines)
        elif lines[0].startswith(".. ") or block.startswith("<BLANKLINE>"):
            continue
        elif lines[0].startswith("    "):
            kind, text = literal_of(lines)
        else:
            kind, text = "markdown", markdown_of(lines)
        if kind == "code" and cells and cells[-1][0] == kind:
            cells[-1] = (kind, f"{cells[-1][1]}\n\n{text}")
        elif text:
            cells.append((kind, text))
    return cells


def code_of(lines: list[str]) -> str:
    """Return the statements of an example, without prompts and results."""
    statements = [line[4:] for line in lines if line.startswith(PROMPTS)]
    return "\n".join(re.sub(r"\s+# doctest: .*", "", line) for line in statements).strip()


def literal_of(lines: list[str]) -> tuple[str, str]:
    """Return an indented block: statements as code, and commands of the shell as they are."""
    text = "\n".join(line[4:] for line in lines)
    if text.startswith("treecrf "):
        return "markdown", f"```console\n{text}\n```"
    return "code", text


def markdown_of(lines: list[str]) -> str:
    """Translate a title, a table, a list or a paragraph."""
    if re.fullmatch(r"=+( +=+)+", lines[0]):
        return table_of(lines)
    if len(lines) == 2 and set(lines[1]) <= set(LEVELS) and len(set(lines[1])) == 1:
        return f"{LEVELS[lines[1][0]]} {lines[0]}"
    return inline_of(re.sub(r"::$", ":", "\n".join(lines)))


def table_of(lines: list[str]) -> str:
    """Translate a table, whose columns begin below the signs = of its first line."""
    starts = [found.start() for found in re.finditer("=+", lines[0])]
    ends = [*(start - 1 for start in starts[1:]), None]
    rows = [
        [inline_of(line[start:end].strip()) for start, end in zip(starts, ends, strict=True)]
        for line in lines
        if not line.startswith("=")
    ]
    rows.insert(1, ["---"] * len(starts))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def inline_of(text: str) -> str:
    """Translate references and code within a text."""
    text = re.sub(r":doc:`([^`]*)`", lambda found: f"*{title_of(found[1])}*", text)
    text = re.sub(r":ref:`([^`<]*?)\s*<[^`]*>`", r"\1", text)
    text = re.sub(r":ref:`([^`<]*)`", lambda found: f"*{section_title_of(found[1])}*", text)
    text = re.sub(r"(?<!`)`~?(?:treecrf\.)?([\w.]+)`(?!`)", r"`\1`", text)
    return text.replace("``", "`")


def title_of(page: str) -> str:
    """Return the title of a page of the guide, or of one whose path starts with a slash."""
    if page.startswith("/gallery/"):
        text = (EXAMPLES / f"{Path(page).name}.py").read_text(encoding="utf-8")
    else:
        folder = DOCS if page.startswith("/") else GUIDE
        text = (folder / f"{page.lstrip('/')}.rst").read_text(encoding="utf-8")
    return re.search(r"^(\S.*)\n===", text, re.M)[1].strip('"')


def section_title_of(label: str) -> str:
    """Return the title below a label of the guide."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted(GUIDE.glob("*.rst")))
    return re.search(rf"^\.\. _{re.escape(label)}:\n+(?:\.\. .*\n+)*(\S.*)\n[-=~]+$", pages, re.M)[
        1
    ]


def notebook_of(page: str) -> str:
    """Return the notebook of a page, as JSON."""
    cells = cells_of(page)
    cells.insert(1, ("markdown", INSTALL))
    contents = {
        "cells": [cell_of(k, kind, text) for k, (kind, text) in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(contents, indent=1, ensure_ascii=False) + "\n"


def cell_of(k: int, kind: str, text: str) -> dict:
    """Return cell number k."""
    cell = {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": text}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def main() -> None:
    for name in PAGES:
        page = (GUIDE / f"{name}.rst").read_text(encoding="utf-8")
        (FOLDER / f"{name}.ipynb").write_text(notebook_of(page), encoding="utf-8")


if __name__ == "__main__":
    main()
