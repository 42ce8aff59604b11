"""The example of the README runs as it stands, and prints what stands below it."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_the_page_shows(capsys):
    text = README.read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n((?: {4}[^\n]*\n)+)", text, re.DOTALL).groups()
    exec(compile(code, str(README), "exec"), {})
    assert capsys.readouterr().out.splitlines() == [line[4:] for line in shown.splitlines()]


def test_links_to_files_exist():
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text())
    files = [target for target in targets if "://" not in target]
    assert files
    for file in files:
        assert (README.parent / file).exists(), file


def test_links_to_the_documentation_lead_to_pages_that_it_has():
    address = r"^\[\w+\]: https://[\w.]+/en/latest/(.+)\.html$"
    pages = re.findall(address, README.read_text(), re.MULTILINE)
    assert len(pages) > 20
    for page in pages:
        assert (README.parent / source(page)).exists(), page


def source(page: str) -> str:
    """The file from which a page of the documentation is made."""
    if page == "gallery/index":
        return "examples/GALLERY_HEADER.rst"
    folder, name = page.rpartition("/")[::2]
    return f"examples/{name}.py" if folder == "gallery" else f"docs/{page}.rst"


def test_references_to_links_are_defined():
    text = re.sub(r"`[^`]*`", "", README.read_text())
    defined = re.findall(r"^\[(\w+)\]: ", text, re.MULTILINE)
    used = re.findall(r"\]\[(\w+)\]|\[(\w+)\](?![\[(:])", text)
    assert {name for pair in used for name in pair if name} == set(defined)


def test_each_number_of_a_table_stands_in_the_section_of_its_benchmark():
    """The commands of a table are in the paragraph below it."""
    benchmarks = (README.parent / "benchmarks/README.md").read_text(encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    measured = 0
    for table, below in re.findall(r"(?<=\n\n)((?:\|[^\n]*\n)+)\n(.+?)(?=\n\n)", text, re.DOTALL):
        scripts = re.findall(r"`python benchmarks/(\w+\.py)", below)
        sections = [
            re.search(rf"\n## `{script}`.*?(?=\n## |\Z)", benchmarks, re.DOTALL)[0]
            for script in scripts
        ]
        numbers = re.findall(r"\d+\.\d+", table) if scripts else []
        assert [n for n in numbers if not any(n in section for section in sections)] == []
        measured += bool(numbers)
    assert measured >= 2


def test_results_on_real_sets_stand_in_the_row_of_their_set():
    benchmarks = (README.parent / "benchmarks/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"\n\| [^|]*\(`(\w+)`\) (\|.*)", README.read_text(encoding="utf-8"))
    section = re.search(r"\n## `real.py`.*?(?=\n## |\Z)", benchmarks, re.DOTALL)[0]
    results = section[section.index("\n| accuracy %, log loss ") :]
    assert len(rows) == 16
    for name, row in rows:
        measured = re.search(rf"\n\| `{name}` (.*)", results)[1]
        numbers = re.findall(r"\**\d+\.\d+\**", row)
        assert [number for number in numbers if number not in measured] == [], name
