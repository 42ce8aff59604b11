"""What all pictures share: axes, and how labels look."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of Okabe and Ito, told apart by colour-blind people, too; more labels get them again with hatches.
COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#4D4D4D",
)
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "oooo", "----", "||||")
OTHERS = "#D9D9D9"
MAX_LEGEND_ROWS = 24


def pyplot() -> ModuleType:
    """The module of matplotlib that makes figures.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'pictures are drawn with matplotlib: pip install "treecrf[plot]"'
        ) from error
    return pyplot


def axes_of(ax: Any, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure of a size in inches.

    Raises
    ------
    TypeError
        If something else is given.
    """
    if ax is None:
        return pyplot().subplots(figsize=size, layout="tight")[1]
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        several = " (one of the array's elements)" if isinstance(ax, np.ndarray) else ""
        raise TypeError(
            f"ax is of type {type(ax).__name__}; expected the axes of a figure{several}, such as "
            "matplotlib.pyplot.subplots()[1]"
        )
    return ax


def is_computed(given: Any, key: str, by: str) -> bool:
    """Whether numbers are given that a function of `treecrf.inspection` has computed.

    Raises
    ------
    TypeError
        If they are those of another function.
    """
    if isinstance(given, Bunch) and key not in given:
        raise TypeError(
            f"a Bunch of {', '.join(given)} is given; expected a fitted classifier or what "
            f"treecrf.inspection.{by} gives"
        )
    return isinstance(given, Bunch)


def look_of(k: int) -> dict[str, str]:
    """Color and hatch of label number k."""
    hatch = HATCHES[k // len(COLORS) % len(HATCHES)]
    return {"facecolor": COLORS[k % len(COLORS)], "hatch": hatch, "edgecolor": "white"}


def plain(text: Any) -> str:
    """A name as matplotlib shows it: dollar signs begin no formula."""
    return str(text).replace("$", r"\$")


def add_legend(ax: Axes, looks: dict[str, dict], title: str | None = None) -> None:
    """Tell to the right of the axes what colors and hatches mean."""
    from matplotlib.patches import Patch

    handles = [Patch(linewidth=0, **look) for look in looks.values()]
    # What begins with an underscore is hidden from legends.
    names = [" " * name.startswith("_") + plain(name) for name in looks]
    ax.legend(
        handles,
        names,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        ncols=_n_legend_columns(len(looks)),
        frameon=False,
        fontsize="small",
    )


def legend_inches(n: int) -> float:
    """The height that a legend of n entries and a title takes."""
    return 0.4 + 0.19 * -(-n // _n_legend_columns(n))


def _n_legend_columns(n: int) -> int:
    return 1 + (n - 1) // MAX_LEGEND_ROWS


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in points, as their figure lays them out now."""
    engine = ax.figure.get_layout_engine()
    if engine is not None:
        engine.execute(ax.figure)
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return 72 * box.width / dpi, 72 * box.height / dpi
