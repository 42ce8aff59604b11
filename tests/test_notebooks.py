"""The notebooks are those of the guide, and run."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"


def converter():
    """The script that makes the notebooks."""
    spec = importlib.util.spec_from_file_location("convert", FOLDER / "convert.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONVERT = converter()


@pytest.mark.parametrize("name", CONVERT.PAGES)
def test_a_notebook_is_its_page(name):
    page = (ROOT / "docs" / "guide" / f"{name}.rst").read_text(encoding="utf-8")
    made = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert made == CONVERT.notebook_of(page), "run: python docs/notebooks/convert.py"


@pytest.mark.parametrize("name", CONVERT.PAGES)
def test_a_notebook_runs(name, data_folder, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("seqeval")
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    names = {"__name__": "__main__"}
    codes = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    for code in codes:
        exec(compile(code, name, "exec"), names)
    assert len(codes) > 5
    assert names["crf"].classes_.size > 1


def test_markup_is_translated():
    text = "See :doc:`/guide/inputs` and `~treecrf.TreeCRF.fit`, :ref:`folds <folds>`; ``x=1``:"
    expected = "See *Input data* and `TreeCRF.fit`, folds; `x=1`:"
    assert CONVERT.markdown_of([text]) == expected
    assert CONVERT.title_of("inputs") == "Input data"
    assert CONVERT.title_of("/gallery/plot_occupancy") == "A room whose sensors drop out"
    assert CONVERT.markdown_of(["A title", "-------"]) == "## A title"
    assert CONVERT.markdown_of(["Run this::"]) == "Run this:"
    assert CONVERT.markdown_of(["See :ref:`penalty`."]) == "See *The penalty*."
    table = ["===== =====", "model score", "===== =====", "``A`` 0.5", "===== ====="]
    assert CONVERT.markdown_of(table) == "| model | score |\n| --- | --- |\n| `A` | 0.5 |"
    command = "```console\ntreecrf info m\n```"
    assert CONVERT.literal_of(["    treecrf info m"]) == ("markdown", command)
    assert CONVERT.literal_of(["    x = 1"]) == ("code", "x = 1")
    example = [">>> a = [", "...     1,", "... ]", ">>> a  # doctest: +SKIP", "[1]"]
    assert CONVERT.code_of(example) == "a = [\n    1,\n]\na"
