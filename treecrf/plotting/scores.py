"""Plots of scores: by the value of a feature, by previous label, and by iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inputs.values import as_list
from treecrf.inspection import (
    likelihood_curve,
    partial_dependence,
    transition_scores,
    transition_weights,
)
from treecrf.inspection.fitted import check_model, code_of
from treecrf.inspection.scores import has_transition_weights, mean_over_further_labels
from treecrf.plotting.common import (
    COLORS,
    LEGEND_STYLE,
    abbreviated,
    axes_of,
    draw_table,
    drawing,
    finish,
    hatch_cells,
    ink,
    legend_inches,
    legend_name,
    legend_width,
    line_style_of,
    n_legend_columns,
    name_text,
    plain,
    result_of,
    set_title,
    style_numbers,
    style_of,
    text_inches,
)
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive

MAX_CHARACTERS = 20
# Width of the bars of one value, which are 1 apart.
BAR_WIDTH = 0.8


@drawing
def plot_partial_dependence(
    dependence: Any,
    X: SequencesLike | None = None,
    feature: str | int | None = None,
    offset: int | None = 0,
    *,
    labels: Any = None,
    max_labels: int = 8,
    values: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    ax: Any = None,
) -> Any:
    """Plot the mean probability or score of each label as a function of a feature's value.

    - **Numbers** are drawn as lines, which jump where the trees do. If steps between the values may
      have been missed, each value has a mark, and the line keeps its height up to the middle
      between two values.
    - **Categories and booleans** are drawn as bars. Those of probabilities are stacked, and those
      of scores stand side by side.

    Parameters
    ----------
    dependence : fitted classifier or Bunch
        A model, or the result of `treecrf.inspection.partial_dependence`.
    X : list of sequences, or one long table, default=None
        Data to average over. Required for a model.
    feature : str or int, default=None
        Name or index of the feature. Required for a model.
    offset : int or None, default=0
        Offset in the window, or None for all offsets, as in
        `treecrf.inspection.partial_dependence`.
    labels : list, default=None
        Labels to show. By default, these are the labels whose mean changes the most.
    max_labels : int, default=8
        Maximum number of labels, if ``labels`` is None.
    values : list, default=None
        Values of the feature, as in `treecrf.inspection.partial_dependence`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.
    $ax

    $raises
        As `treecrf.inspection.partial_dependence`, if a label does not exist, or if ``ax`` is not
        an Axes object.

    See Also
    --------
    treecrf.inspection.partial_dependence : The same as numbers.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_partial_dependence
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> ax = plot_partial_dependence(crf, X, "symbol", -1)
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['a', 'b', 'c', 'm', 'n', 'p']
    """
    check_positive("max_labels", max_labels)
    if not isinstance(dependence, Bunch) and (X is None or feature is None):
        raise ValueError(
            "X or feature is missing; pass sequences to average over and a feature of the model"
        )
    data = {"values": values, "lengths": lengths, "groups": groups}
    result = result_of(partial_dependence, "grid_values", dependence, X, feature, offset, **data)
    if labels is None:
        changes = np.ptp(result.average, axis=0)
        codes = sorted(np.argsort(-changes, kind="stable")[:max_labels].tolist())
    else:
        codes = [code_of(result.labels, label) for label in as_list(labels, "labels", "labels")]
    order = np.arange(len(result.grid_values))
    width = max(6.4, 3.0 + 0.2 * len(order))
    if result.is_number:
        order = np.argsort(result.grid_values, kind="stable")
        width = 6.4
    width = max(width, width - 2 + legend_width(result.labels[codes].tolist()))
    ax = axes_of(ax, (width, max(3.8, 1 + legend_inches(len(codes)))))
    if result.is_number:
        _draw_lines(ax, result, order, codes)
    else:
        _draw_bars(ax, result, codes)
        _name_values(ax, result.grid_values.tolist())
    name = abbreviated(result.feature_name)
    ax.set_xlabel(plain(name))
    ax.set_ylabel(f"mean {result.response}")
    ax.legend(title="label", ncols=n_legend_columns(len(codes)), **LEGEND_STYLE)
    finish(ax, f"mean {result.response} of labels by {name}")
    return ax


def _draw_lines(ax: Any, result: Bunch, order: np.ndarray, codes: list[int]) -> None:
    """Draw a line for each label over the values of a number."""
    numbers = style_numbers(codes, len(result.labels))
    for k, number in zip(codes, numbers, strict=True):
        style = line_style_of(number) | {"markersize": 3, "drawstyle": "steps-mid"}
        if result.has_all_steps:
            style |= {"marker": None, "drawstyle": "default"}
        ax.plot(
            result.grid_values[order],
            result.average[order, k],
            label=legend_name(result.labels[k]),
            **style,
        )


def _draw_bars(ax: Any, result: Bunch, codes: list[int]) -> None:
    """Draw the bars of each value of a category: probabilities stacked, scores side by side."""
    means = result.average[:, codes]
    are_stacked = result.response == "probability"
    width = BAR_WIDTH if are_stacked else BAR_WIDTH / len(codes)
    starts = np.cumsum(means, axis=1) - means
    numbers = style_numbers(codes, len(result.labels))
    for i, (k, number) in enumerate(zip(codes, numbers, strict=True)):
        ax.bar(
            np.arange(len(means)) - BAR_WIDTH / 2 + (0 if are_stacked else i * width),
            means[:, i],
            width,
            bottom=starts[:, i] if are_stacked else 0,
            align="edge",
            linewidth=0,
            label=legend_name(result.labels[k]),
            **style_of(number),
        )
    if are_stacked:
        ax.set_ylim(0, 1)
    else:
        ax.axhline(0, color=ink(), linewidth=0.8)


def _name_values(ax: Any, values: list) -> None:
    """Write the values of a category below their bars."""
    names = [name_text(value, MAX_CHARACTERS) for value in values]
    width = ax.bbox.width / ax.figure.dpi / len(names)
    is_crowded = text_inches(names) > 0.7 * width  # beside the legend, bars are narrower
    ax.set_xticks(range(len(names)), names, rotation=90 * is_crowded)
    ax.set_xlim(-0.6, len(names) - 0.4)


# Sizes of a cell, and of the table as long as cells are not smaller than texts.
CELL_INCHES = 0.5
TABLE_INCHES = 5.5
MIN_CELL_INCHES = 0.17
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
    """Plot the mean score of each label after each previous label, as a map.

    There is a row for each previous label and one for the start of a sequence. With order 2 and
    above, scores are averaged over earlier labels. Labels that cannot follow are hatched.

    Parameters
    ----------
    scores : fitted classifier or Bunch
        Any model, or the result of `treecrf.inspection.transition_scores` or
        `treecrf.inspection.transition_weights`.
    X : list of sequences, or one long table, default=None
        Data to average over. Without data, the transition weights of the model are shown, which
        must not depend on the input.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.
    $ax

    $raises
        As `treecrf.inspection.transition_scores`, or if ``ax`` is not an Axes object.

    See Also
    --------
    treecrf.inspection.transition_scores : Mean scores, as numbers.
    treecrf.inspection.transition_weights : Weights that do not depend on the input, as numbers.

    Examples
    --------
    >>> from treecrf import HMMClassifier
    >>> from treecrf.plotting import plot_transition_scores
    >>> hmm = HMMClassifier().fit(["aab", "bbb"], ["xxy", "yyy"])
    >>> ax = plot_transition_scores(hmm, ["ab"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['start', 'x', 'y']
    """
    if isinstance(scores, Bunch) or X is not None:
        result = result_of(transition_scores, "scores", scores, X, lengths=lengths, groups=groups)
    else:
        result = _weights_of(scores)
    names = [name_text(label, MAX_CHARACTERS) for label in result.labels]
    table, rows = _rows(result, names)
    texts = max(0.0, text_inches(names) - 1)
    cell = max(MIN_CELL_INCHES, min(CELL_INCHES, TABLE_INCHES / len(names)))
    ax = axes_of(ax, (2.4 + texts + cell * len(names), 1.4 + texts + cell * len(rows)))
    image = draw_table(ax, np.ma.masked_invalid(table), "score", cmap="cividis")
    hatch_cells(ax, ~np.isfinite(table))
    if len(names) <= MAX_NUMBERS:
        _write(ax, table, image)
    is_crowded = max(map(len, names)) > 3
    size = "medium" if cell == CELL_INCHES else "small"
    ax.set_xticks(range(len(names)), names, rotation=90 * is_crowded, fontsize=size)
    ax.set_yticks(range(len(rows)), rows, fontsize=size)
    ax.set_xlabel("label")
    y_label = ""
    if len(rows) > 1:
        y_label = "label after it" if result.backward else "label before it"
    ax.set_ylabel(y_label)
    n_before = max(result.scores.ndim - 1, 0)
    set_title(ax, f"score of a label {AFTER.get(n_before, SEVERAL)}")
    return ax


def _weights_of(model: Any) -> Bunch:
    """Return the transition weights of a model; ValueError if they depend on the input."""
    check_model(model)
    if not has_transition_weights(model):
        raise ValueError(
            "X is missing; pass sequences over which to average the scores of the model"
        )
    return transition_weights(model)


def _rows(result: Bunch, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the scores as a table, and the names of its rows."""
    if result.scores.ndim == 1:
        return result.scores[None], ["any"]
    table = mean_over_further_labels(result.scores)
    start = "end" if result.backward else "start"
    return np.vstack([result.start, table]), [start, *names]


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
    """Plot the mean log-likelihood per position, or another objective, after each iteration.

    The iteration with the best validation score is marked.

    Parameters
    ----------
    curve : fitted classifier or Bunch
        A model with boosted trees, or the result of `treecrf.inspection.likelihood_curve`.
    X : list of sequences, or one long table, default=None
        Further data to score after each iteration.
    y : list of array-like of shape (n_positions,), array-like or str, default=None
        True labels of X. X and y are given together, or not at all.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.
    $ax

    $raises
        As `treecrf.inspection.likelihood_curve`, or if ``ax`` is not an Axes object.

    See Also
    --------
    treecrf.inspection.likelihood_curve : The same as numbers.

    Examples
    --------
    A line with a point before the first iteration and one after each of five:

    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_likelihood
    >>> crf = TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> ax = plot_likelihood(crf)
    >>> ax.lines[0].get_ydata().shape
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
    ax.legend()
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    if curve.objective == "log":
        ax.set_ylabel("mean log-likelihood per position")
        finish(ax, "log-likelihood by iteration")
    else:
        ax.set_ylabel(curve.objective)
        finish(ax, "objective by iteration")
    return ax
