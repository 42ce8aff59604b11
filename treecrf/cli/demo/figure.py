"""A file at reduced size in the colors of its labels: one strip for each model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treecrf.cli.demo.files import SourceFile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "code": "#3b6fb6",
    "comment": "#2f9e75",
    "docstring": "#e0952f",
    "blank": "#b9bec7",
}
WRONG = "#d6306a"
WIDTH = 84


def draw_minimaps(figure: Figure, file: SourceFile, columns: Mapping[str, Sequence[str]]) -> None:
    """Draw a file in the colors of its true labels, and of the labels of each model.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        An empty figure; its size is set to fit the number of lines.
    file : SourceFile
        The lines and their true labels.
    columns : mapping of str to sequence of str
        The predicted labels by name of the model. Lines with wrong labels are marked.
    """
    height = 1.4 + 0.042 * max(len(file.lines), 60)
    figure.set_size_inches(2.6 * (1 + len(columns)), height)
    figure.set_facecolor("white")
    axes = figure.subplots(1, 1 + len(columns), sharey=True, squeeze=False)[0]
    _draw_strip(axes[0], "true labels", file, file.labels)
    for ax, (name, labels) in zip(axes[1:], columns.items(), strict=True):
        wrong = int(np.sum(np.asarray(labels) != file.labels))
        _draw_strip(ax, f"{name}: {wrong} wrong", file, labels)
    figure.suptitle(file.name, y=1 - 0.22 / height, fontsize=11, family="monospace")
    _draw_legend(figure)
    figure.subplots_adjust(
        left=0.05, right=0.98, top=1 - 0.72 / height, bottom=0.45 / height, wspace=0.08
    )


def _draw_strip(ax: Axes, title: str, file: SourceFile, labels: Sequence[str]) -> None:
    rows = zip(file.lines, labels, file.labels, strict=True)
    for row, (line, label, true) in enumerate(rows, start=1):
        if label != true:
            ax.axhspan(row - 0.5, row + 0.5, color=WRONG, alpha=0.16, linewidth=0)
            ax.plot([-4], [row], marker=">", markersize=3, color=WRONG, clip_on=False)
        words = [(word.start(), word.end() - word.start()) for word in _words(line)]
        ax.broken_barh(words or [(0, 2)], (row - 0.32, 0.64), color=COLORS[label], linewidth=0)
    ax.set_title(title, fontsize=9, loc="left")
    ax.set_xlim(-2, WIDTH)
    ax.set_ylim(len(file.lines) + 0.5, 0.5)
    ax.tick_params(length=0, labelsize=6, labelcolor="#8a8f98")
    ax.set_xticks([])
    ax.spines[:].set_visible(False)


def _words(line: str) -> list[re.Match[str]]:
    return list(re.finditer(r"\S+", line.expandtabs()[:WIDTH]))


def _draw_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=label) for label, color in COLORS.items()]
    handles.append(Patch(color=WRONG, alpha=0.4, label="wrong"))
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, fontsize=8)
