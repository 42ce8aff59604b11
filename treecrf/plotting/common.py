"""Helpers shared by all plots: axes, and the colors of labels."""

from __future__ import annotations

from collections.abc import Callable
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

# The palette of Okabe and Ito, which color-blind people can distinguish. Further labels repeat it
# with hatches.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#4D4D4D")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "oooo", "----", "||||")
OTHERS = "#D9D9D9"
OTHER_STYLE = {"facecolor": OTHERS, "hatch": "", "edgecolor": "white"}
MAX_LEGEND_ROWS = 24
LEGEND_STYLE = {
    "loc": "upper left",
    "bbox_to_anchor": (1.01, 1),
    "frameon": False,
    "fontsize": "small",
}
# Longer names are cut.
MAX_CHARACTERS = 40
TITLE_SIZE = 10.0
POINTS_PER_INCH = 72
# What the docstrings of all plots say.
DRAWING = {
    "ax": """ax : matplotlib axes, optional
        Axes to draw on; by default, a new figure is made.

    Returns
    -------
    matplotlib axes""",
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
    hatch = HATCHES[k // len(COLORS) % len(HATCHES)]
    return {"facecolor": COLORS[k % len(COLORS)], "hatch": hatch, "edgecolor": "white"}


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


def legend_name(name: Any) -> str:
    """Return a name for a legend; matplotlib hides names that start with an underscore."""
    text = plain(abbreviated(name))
    if text.startswith("_"):
        return f" {text}"
    return text


def name_rows(ax: Axes, names: list[str]) -> None:
    """Name horizontal bars, the first of which is on top."""
    ax.set_yticks(range(len(names)), [plain(abbreviated(name)) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)


def draw_table(ax: Axes, table: np.ndarray, label: str, **style: Any) -> AxesImage:
    """Draw the cells of a table in colors, which a bar with a label explains."""
    image = ax.imshow(table, aspect="auto", **style)
    ax.figure.colorbar(image, ax=ax, label=label)
    return image


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
    lines = wrap(text, width) or [""]
    ax.set_title(plain("\n".join(lines)), fontsize=TITLE_SIZE)


def add_legend(ax: Axes, styles: dict[str, dict], title: str | None = None) -> None:
    """Add a legend of colors and hatches to the right of the axes."""
    from matplotlib.patches import Patch

    ax.legend(
        [Patch(linewidth=0, **style) for style in styles.values()],
        [legend_name(name) for name in styles],
        title=title,
        ncols=_n_legend_columns(len(styles)),
        **LEGEND_STYLE,
    )


def legend_inches(n: int) -> float:
    """Return the height of a legend with a title and n entries."""
    return 0.4 + 0.19 * -(-n // _n_legend_columns(n))


def _n_legend_columns(n: int) -> int:
    return 1 + (n - 1) // MAX_LEGEND_ROWS


def points_of(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in points, in the current layout of their figure."""
    engine = ax.figure.get_layout_engine()
    if engine is not None:
        engine.execute(ax.figure)
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    return POINTS_PER_INCH * box.width / dpi, POINTS_PER_INCH * box.height / dpi
