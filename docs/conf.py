"""Configuration of Sphinx: sphinx-build -W --keep-going -b html docs docs/_build/html."""

import ast
import re
import sys
import textwrap
from doctest import DocTestParser, Example
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset
from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # an installed treecrf comes first

from treecrf import __version__  # noqa: E402
from treecrf.datasets import fetch_occupancy  # noqa: E402

REPOSITORY = ""  # recipe/release.py sets it

project = "treecrf"
author = "The treecrf developers"
copyright = f"2026, {author}"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"
highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

# Copied code has neither prompts nor output. A prompt of dots ends with a blank or with the line;
# results may also begin with dots.
copybutton_prompt_text = r">>> |\.\.\.(?: |$)|\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

# The inventories contain only the names that these pages link to, so building needs no network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", "_inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable/", "_inventories/numpy.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "_inventories/scipy.inv"),
    "pandas": ("https://pandas.pydata.org/docs/", "_inventories/pandas.inv"),
    "sklearn": ("https://scikit-learn.org/stable/", "_inventories/sklearn.inv"),
}

# The parts of MathJax that formulas in TeX need. The package also contains several others.
mathjax_path = "mathjax/tex-chtml.js"
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
MATHJAX_PARTS = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts")


def has_data(fetch):
    """Whether a data set is in a folder or can be downloaded."""
    try:
        fetch()
    except (ImportError, OSError):
        return False
    return True


# Examples whose data is missing are shown without output.
NEEDED = {"plot_occupancy": fetch_occupancy}
WITHOUT_DATA = [name for name, fetch in NEEDED.items() if not has_data(fetch)]
RUNNABLE = rf"/(?!{'|'.join(WITHOUT_DATA)})plot_" if WITHOUT_DATA else "/plot_"

# What treecrf does, then how it is used, then why it works; last, clusters.
EXAMPLES = [
    "plot_syntax_highlighting.py",
    "plot_first_look.py",
    "plot_occupancy.py",
    "plot_online.py",
    "plot_python_lines.py",
    "plot_hyphenation.py",
    "plot_missing_values.py",
    "plot_explain.py",
    "plot_inspection.py",
    "plot_training.py",
    "plot_label_bias.py",
    "plot_family.py",
    "plot_future_features.py",
    "dask_cluster.py",
    "spark_prediction.py",
]

sphinx_gallery_conf = {
    "filename_pattern": RUNNABLE,
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": ExplicitOrder(EXAMPLES),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "reference_url": {"treecrf": None},
}

html_theme = "pydata_sphinx_theme"
html_title = "treecrf"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["treecrf.css"]
WITHOUT_SIDEBAR = ("index", "install", "tutorial", "contributing", "versions", "changelog")
html_sidebars = {name: [] for name in WITHOUT_SIDEBAR}
html_theme_options = {
    "logo": {"text": "treecrf", "alt_text": "treecrf"},
    "header_links_before_dropdown": 5,
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "footer_start": ["copyright"],
    "footer_end": [],
    "external_links": [{"name": "Source code", "url": REPOSITORY}] if REPOSITORY else [],
}


NO_OUTPUT = """
.. note::

   The data set of this example was missing when this page was built, so there is no output. Run the
   script to see it: the data is downloaded, or read from the folder ``TREECRF_DATA``.
"""
TITLE = re.compile(r"^=+\n", flags=re.MULTILINE)


def note_missing_output(app, docname, source):
    """Say below the title of an example why it shows no output."""
    if docname in [f"gallery/{name}" for name in WITHOUT_DATA]:
        source[0] = TITLE.sub(lambda line: line[0] + NO_OUTPUT, source[0], count=1)


def copy_mathjax(app, exception):
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir, "_static", "mathjax")
        for part in MATHJAX_PARTS:
            source = MATHJAX / part
            copy_asset(source, target / part if source.is_dir() else target)


GUIDE_TO_REPORTS = Path(__file__).parent / "guide" / "reports.rst"


def write_report(app, exception):
    """Write the report of the guide, by its own lines."""
    if exception is not None or app.builder.format != "html":
        return
    lines = GUIDE_TO_REPORTS.read_text(encoding="utf-8").splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith(">>> page = report"))
    code = [line[4:] for line in lines[: last + 1] if line.startswith((">>> ", "... "))]
    names = {}
    exec("\n".join(code), names)
    names["page"].save(Path(app.outdir, "_static", "report.html"))


def as_session(example):
    """Return a tested example as Python shows it."""
    code = example.source.rstrip("\n").replace("\n", "\n... ")
    return textwrap.indent(f">>> {code}\n{example.want}", " " * example.indent)


def as_command(example):
    """Return a tested call ``shell("...")`` as a terminal shows it."""
    command = ast.literal_eval(example.source.removeprefix("shell").partition("  # doctest")[0])
    words = re.sub(" (?!-)", "\N{NO-BREAK SPACE}", command)  # lines begin with an option
    lines = textwrap.wrap(words, 76, break_long_words=False, break_on_hyphens=False)
    shown = "$ " + " \\\n    ".join(lines).replace("\N{NO-BREAK SPACE}", " ")
    return textwrap.indent(shown + "\n" + example.want.replace("<BLANKLINE>", ""), "    ")


def show_commands(app, docname, source):
    """Commands of the shell, which a page calls from Python to test them, look like commands."""
    if ">>> shell(" not in source[0]:
        return
    shown = []
    in_console = False
    for part in filter(None, DocTestParser().parse(source[0])):
        is_command = isinstance(part, Example) and part.source.startswith("shell(")
        if is_command and not in_console:
            shown.append(".. code-block:: console\n\n")
        shown.append(as_shown(part, is_command))
        in_console = is_command
    source[0] = "".join(shown)


def as_shown(part, is_command):
    """Return a part of a page, which is text or a tested example, as its reader sees it."""
    if not isinstance(part, Example):
        return part
    return as_command(part) if is_command else as_session(part)


# As numpydoc writes an entry without a type and a text.
HEADING = re.compile(r"^( *)\*\*([A-Z][\w ]+)\*\*\n\s*\.\.\n", flags=re.MULTILINE)


def as_headings(app, what, name, obj, options, lines):
    """Headings between parameters, which numpydoc takes for parameters, become headings."""
    lines[:] = HEADING.sub(r"\1.. rubric:: \2\n", "\n".join(lines)).split("\n")


def setup(app):
    app.connect("source-read", show_commands)
    app.connect("autodoc-process-docstring", as_headings, priority=600)  # after numpydoc's 500
    app.connect("source-read", note_missing_output)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", write_report)
