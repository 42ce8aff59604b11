"""Plots of transition scores, and of likelihoods by iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inspection import likelihood_curve, transition_scores, transition_weights
from treecrf.inspection.fitted import check_model
from treecrf.inspection.weights import has_transition_weights
from treecrf.plotting.common import (
    COLORS,
    abbreviated,
    axes_of,
    draw_table,
    drawing,
    finish,
    plain,
    result_of,
    set_title,
)
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike

CELL_INCHES = 0.5
MAX_NUMBERS = 12
AFTER = {0: "in any context", 1: "given the label next to it"}
SEVERAL = "given the label next to it, mean over further labels"


@drawing
def plot_transition_scores(
    scores: Any,
    X: SequencesLike | None = None,
    *,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    ax: Any = None,
) -> Any:
    """Plot the mean score of each label after each previous label.

    Parameters
    ----------
    scores : fitted classifier or Bunch
        Any model, or the result of `treecrf.inspection.transition_scores` or
        `treecrf.inspection.transition_weights`.
    X : sequences, optional
        Data to average over. Without data, the transition weights of the model are shown, which
        must not depend on the input.
    lengths, groups : optional
        As in the model's ``predict``.
    $ax
        One row for each previous label and one for the start of a sequence. For order 2 and above,
        scores are averaged over earlier labels. Labels that cannot follow are hatched.

    $raises
        As `treecrf.inspection.transition_scores`, or if ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import HMMClassifier
    >>> from treecrf.plotting import plot_transition_scores
    >>> ax = plot_transition_scores(HMMClassifier().fit(["aab", "bbb"], ["xxy", "yyy"]), ["ab"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['start', 'x', 'y']
    """
    from matplotlib.patches import Rectangle

    if isinstance(scores, Bunch) or X is not None:
        result = result_of(transition_scores, "scores", scores, X, lengths=lengths, groups=groups)
    else:
        check_model(scores)
        if not has_transition_weights(scores):
            raise ValueError(
                "X is missing; pass sequences over which to average the scores of the model"
            )
        result = transition_weights(scores)
    names = [abbreviated(label) for label in result.labels]
    table, rows = _rows(result, names)
    ax = axes_of(ax, (2.4 + CELL_INCHES * len(names), 1.4 + CELL_INCHES * len(rows)))
    image = draw_table(ax, np.ma.masked_invalid(table), "score", **_colors(table))
    for row, column in np.argwhere(~np.isfinite(table)):
        style = {"facecolor": "#EEEEEE", "edgecolor": "#AAAAAA", "hatch": "////", "linewidth": 0}
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **style))
    if len(names) <= MAX_NUMBERS:
        _write(ax, table, image)
    long = max(map(len, names)) > 3
    ax.set_xticks(range(len(names)), map(plain, names), rotation=90 if long else 0)
    ax.set_yticks(range(len(rows)), map(plain, rows))
    ax.set_xlabel("label")
    ax.set_ylabel(f"label {'after' if result.backward else 'before'} it" if len(rows) > 1 else "")
    n_before = max(result.scores.ndim - 1, 0)
    set_title(ax, f"score of a label {AFTER.get(n_before, SEVERAL)}")
    return ax


def _rows(result: Bunch, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the scores as a table, and the names of its rows."""
    if result.scores.ndim == 1:
        return result.scores[None], ["any"]
    table = result.scores
    while table.ndim > 2:
        table = np.ma.masked_invalid(table).mean(axis=0).filled(-np.inf)
    start = "end" if result.backward else "start"
    return np.vstack([result.start, table]), [start, *names]


def _colors(table: np.ndarray) -> dict:
    """Return a diverging color map, or a sequential one for log-probabilities."""
    finite = table[np.isfinite(table)]
    if finite.max() <= 0:
        return {"cmap": "cividis", "vmin": finite.min(), "vmax": finite.max()}
    limit = np.abs(finite).max()
    return {"cmap": "PuOr_r", "vmin": -limit, "vmax": limit}


def _write(ax: Any, table: np.ndarray, image: Any) -> None:
    """Write the numbers into the cells, dark on light or light on dark."""
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            color = "white" if is_dark else "black"
            ax.text(column, row, f"{value:.1f}", color=color, ha="center", va="center", fontsize=8)


@drawing
def plot_likelihood(
    curve: Any,
    X: SequencesLike | None = None,
    y: LabelsLike | None = None,
    *,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    ax: Any = None,
) -> Any:
    """Plot the mean log-likelihood per position, or another objective, by iteration.

    Parameters
    ----------
    curve : fitted classifier or Bunch
        A model with boosted trees, or the result of `treecrf.inspection.likelihood_curve`.
    X, y : sequences and their labels, optional
        Further data to score after each iteration.
    lengths, groups : optional
        As in the model's ``score``.
    $ax
        The iteration with the best validation score is marked.

    $raises
        As `treecrf.inspection.likelihood_curve`, or if ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_likelihood
    >>> crf = TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> plot_likelihood(crf).lines[0].get_ydata().shape
    (6,)
    """
    data = {"lengths": lengths, "groups": groups}
    curve = result_of(likelihood_curve, "iterations", curve, X, y, **data)
    ax = axes_of(ax, (6.4, 4))
    lines = (
        ("training", curve.train, "-"),
        ("validation", curve.validation, "--"),
        ("further data", curve.given, "-."),
    )
    for (name, values, style), color in zip(lines, COLORS, strict=False):
        if values is not None:
            # A line of one point would be invisible.
            marker = "o" if len(values) == 1 else None
            ax.plot(curve.iterations, values, style, color=color, label=name, marker=marker)
    if curve.validation is not None:
        best = int(np.nanargmax(curve.validation))
        ax.plot(best, curve.validation[best], "o", color=COLORS[1], label=f"best: {best}")
    ax.set_xlabel("iteration")
    is_log = curve.objective == "log"
    ax.set_ylabel("mean log-likelihood per position" if is_log else curve.objective)
    ax.legend()
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    finish(ax, f"{'log-likelihood' if is_log else 'objective'} by iteration")
    return ax
