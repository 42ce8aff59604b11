"""Helpers shared by all plots: axes, and the colors of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from textwrap import wrap
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils import Bunch

from treecrf.utils.validation import Function, documented

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# The palette of Okabe and Ito, which color-blind people can distinguish. Colors that print in a
# similar gray have different hatches. Further labels repeat the colors with other hatches.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#6E6E6E")
HATCHES = ("", "///", "...", "xx", "\\\\\\", "oo", "---", "|||")
FIRST_HATCHES = (0, 0, 2, 3, 5, 4, 1, 6)
# Hatches on dark and on light colors.
EDGES = ("white", "#4D4D4D")
# Colors that are too light for lines on white are darker in lines.
LINE_COLORS = tuple({"#F0E442": "#A89B00"}.get(color, color) for color in COLORS)
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")
OTHERS = "#D9D9D9"
OTHER_STYLE = {"facecolor": OTHERS, "hatch": "", "edgecolor": "white"}
# Hatches of cells of a table without a number.
EMPTY_STYLE = {"facecolor": "none", "edgecolor": "#999999", "hatch": "////", "linewidth": 0}
MAX_LEGEND_ROWS = 24
LEGEND_STYLE = {
    "loc": "upper left",
    "bbox_to_anchor": (1.01, 1),
    "frameon": False,
    "fontsize": "small",
}
LEGEND_POINTS = 8.3
# Longer names are cut.
MAX_CHARACTERS = 40
TITLE_SIZE = 10.0
MAX_TITLE_LINES = 3
POINTS_PER_INCH = 72
# What the docstrings of all plots say.
DRAWING = {
    "ax": """ax : matplotlib Axes, default=None
        Axes to draw on. By default, a new figure is made.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.""",
    "raises": """Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError""",
}


def pyplot() -> ModuleType:
    """Import matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "treecrf[plot]"') from error
    return pyplot


def drawing(function: Function) -> Function:
    """Declare a function that draws, which needs matplotlib before it computes anything."""

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Axes:
        pyplot()
        return function(*args, **options)

    return documented(DRAWING)(cast(Function, checked))


def axes_of(ax: Any, size: tuple[float, float]) -> Axes:
    """Return the user's axes, or the axes of a new figure with a size in inches."""
    if ax is None:
        return pyplot().subplots(figsize=size, layout="tight")[1]
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        several = ", one element of the array," if isinstance(ax, np.ndarray) else ""
        raise TypeError(
            f"ax is of type {type(ax).__name__}; expected matplotlib axes{several} such as "
            "matplotlib.pyplot.subplots()[1]"
        )
    return ax


def result_of(
    function: Callable[..., Bunch], key: str, source: Any, *args: Any, **options: Any
) -> Bunch:
    """Return a result of a function of `treecrf.inspection`, or call it if the source is a model.

    A result of this function has the key, and results of others do not.
    """
    if not isinstance(source, Bunch):
        return function(source, *args, **options)
    if key not in source:
        raise TypeError(
            f"a Bunch of {', '.join(source)}; expected a fitted classifier or the result of "
            f"treecrf.inspection.{function.__name__}"
        )
    return source


def style_of(k: int) -> dict[str, str]:
    """Return the color and the hatch of label number k."""
    turn, color = divmod(k, len(COLORS))
    hatch = HATCHES[(FIRST_HATCHES[color] + turn) % len(HATCHES)]
    is_light = COLORS[color] == "#F0E442"
    return {"facecolor": COLORS[color], "hatch": hatch, "edgecolor": EDGES[is_light]}


def line_style_of(k: int) -> dict[str, str]:
    """Return the color, the dashes and the marks of the line of label number k."""
    turn, color = divmod(k, len(COLORS))
    kind = (color + turn) % len(LINES)
    return {"color": LINE_COLORS[color], "linestyle": LINES[kind], "marker": MARKERS[kind]}


def style_numbers(codes: Sequence[int], n_labels: int) -> Sequence[int]:
    """Return the numbers of the styles of some labels.

    Labels have the same styles in all plots unless the model has more labels than colors.
    """
    return codes if n_labels <= len(COLORS) else range(len(codes))


def ink() -> str:
    """Return the color of lines and marks that belong to no label: that of text in this style."""
    return pyplot().rcParams["text.color"]


def plain(text: Any) -> str:
    """Escape dollar signs, which would start a formula in matplotlib."""
    return str(text).replace("$", r"\$")


def abbreviated(text: Any, n: int = MAX_CHARACTERS) -> str:
    """Cut a text to n characters."""
    text = str(text)
    if len(text) <= n:
        return text
    return f"{text[: n - 1]}…"


def one_line(name: Any, n: int = MAX_CHARACTERS) -> str:
    """Write a name on one line of at most n characters; blank ones and line breaks in quotes."""
    text = str(name)
    if not text.strip() or not text.isprintable():
        text = repr(text)
    return abbreviated(text, n)


def name_text(name: Any, n: int = MAX_CHARACTERS) -> str:
    """Write a name as `one_line` does, for matplotlib."""
    return plain(one_line(name, n))


def legend_name(name: Any) -> str:
    """Return a name for a legend; matplotlib hides names that start with an underscore."""
    text = name_text(name)
    if text.startswith("_"):
        return f" {text}"
    return text


def text_inches(texts: Iterable[str], points: float = 10.0) -> float:
    """Return about the width of the longest text."""
    return 0.6 * points * max(map(len, texts), default=0) / POINTS_PER_INCH


def name_rows(ax: Axes, names: list[str]) -> None:
    """Name horizontal bars, the first of which is on top."""
    ax.set_yticks(range(len(names)), [name_text(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)


def draw_table(ax: Axes, table: np.ndarray, label: str, **style: Any) -> AxesImage:
    """Draw the cells of a table in colors, which a bar with a label explains."""
    image = ax.imshow(table, aspect="auto", **style)
    ax.figure.colorbar(image, ax=ax, label=label)
    return image


def hatch_cells(ax: Axes, is_empty: np.ndarray) -> None:
    """Hatch the cells of a table that have no number."""
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(is_empty):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **EMPTY_STYLE))


def write_at_end(ax: Axes, text: str, end: tuple[float, float], distance: int, size: int) -> None:
    """Write a text at the end of a horizontal bar, to its left if the distance is negative."""
    ax.annotate(
        text,
        end,
        xytext=(distance, 0),
        textcoords="offset points",
        ha="left" if distance > 0 else "right",
        va="center",
        fontsize=size,
    )


def finish(ax: Axes, title: str, *hidden: str) -> None:
    """Set the title, and hide the lines at the top and at the right, and more of them."""
    ax.spines[["top", "right", *hidden]].set_visible(False)
    set_title(ax, title)


def set_title(ax: Axes, text: str) -> None:
    """Set the title, broken into lines that fit the axes; ``ax.set_title`` replaces it."""
    width = max(20, int(points_of(ax)[0] / (0.55 * TITLE_SIZE)))
    lines = wrap(text, width, max_lines=MAX_TITLE_LINES, placeholder=" …") or [""]
    ax.set_title(plain("\n".join(lines)), fontsize=TITLE_SIZE)


def add_legend(ax: Axes, styles: dict[str, dict], title: str | None = None) -> None:
    """Add a legend of colors and hatches to the right of the axes."""
    from matplotlib.patches import Patch

    ax.legend(
        [Patch(linewidth=0, **style) for style in styles.values()],
        [legend_name(name) for name in styles],
        title=title,
        ncols=n_legend_columns(len(styles)),
        **LEGEND_STYLE,
    )


def legend_width(names: Iterable[Any]) -> float:
    """Return about the width of a legend with some names."""
    names = [legend_name(name) for name in names]
    return n_legend_columns(len(names)) * (0.5 + text_inches(names, LEGEND_POINTS))


def legend_inches(n: int) -> float:
    """Return the height of a legend with a title and n entries."""
    return 0.4 + 0.19 * -(-n // n_legend_columns(n))


def n_legend_columns(n: int) -> int:
    """Return the number of columns of a legend with n entries."""
    return 1 + (n - 1) // MAX_LEGEND_ROWS


def points_of(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in points, in the current layout of their figure."""
    engine = ax.figure.get_layout_engine()
    if engine is not None:
        engine.execute(ax.figure)
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    return POINTS_PER_INCH * box.width / dpi, POINTS_PER_INCH * box.height / dpi
