"""Configuration of Sphinx: sphinx-build -W --keep-going -b html docs docs/_build/html."""

import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # an installed treecrf comes first

from treecrf import __version__  # noqa: E402
from treecrf.datasets import fetch_occupancy  # noqa: E402

project = "treecrf"
author = "The treecrf developers"
copyright = f"2026, {author}"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc",
              "sphinx_gallery.gen_gallery"]  # fmt: skip
exclude_patterns = ["_build"]
default_role = "py:obj"
highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False


def runnable_examples():
    """A pattern of the examples to run: without its data, that of the sensors is only shown."""
    try:
        fetch_occupancy()
    except (ImportError, OSError):
        return r"/plot_(?!occupancy)"
    return r"/plot_"


sphinx_gallery_conf = {
    "filename_pattern": runnable_examples(),
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "treecrf"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["treecrf.css"]
html_sidebars = {name: [] for name in ("install", "tutorial", "contributing", "changelog")}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_math_renderer = "mathml"


def render(**style):
    """Write a formula as MathML, which browsers show without a script from the network."""

    def visit(translator, node):
        translator.body.append(tex2mathml(node.astext(), **style))
        raise SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", render(), render(as_block=True))
