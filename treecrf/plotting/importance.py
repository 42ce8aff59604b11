"""Importances of features, as bars and by offset."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inspection import gain_importance
from treecrf.inspection.fitted_trees import code_of
from treecrf.plotting.common import (
    COLORS,
    add_legend,
    axes_of,
    is_computed,
    legend_inches,
    look_of,
    plain,
    pyplot,
)

BAR_INCHES = 0.26
CELL_INCHES = 0.32


def plot_importances(importances: Any, *, max_features: int = 20, ax: Any = None) -> Any:
    """Show the importance of features as bars, the most important on top.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        A model with boosted trees, for its importance by gain, or what
        `treecrf.inspection.gain_importance` or `permutation_importance` gives. Gain by label is
        shown in the colors of labels; of shuffles the standard deviation is shown, too.
    max_features : int, default=20
        Most features that are shown.
    ax : matplotlib axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        Before the model's `fit`.
    TypeError
        If the model has no trees, or ``ax`` are no axes.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib").use("agg")
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_importances
    >>> crf = TreeCRF(max_iter=5).fit([[[1, 0], [0, 1]], [[0, 1]]], ["xy", "y"])
    >>> [tick.get_text() for tick in plot_importances(crf).get_yticklabels()]
    ['x0', 'x1']
    """
    pyplot()
    given = is_computed(importances, "importances", "gain_importance")
    found = importances if given else gain_importance(importances)
    is_permuted = "importances_mean" in found
    table = found.importances_mean[None] if is_permuted else _by_label(found)
    total = table.sum(axis=0)
    chosen = np.argsort(-total, kind="stable")[:max_features]
    height = 1 + BAR_INCHES * len(chosen)
    ax = axes_of(ax, (6.4, max(height, len(table) > 1 and legend_inches(len(table)))))
    if is_permuted:
        spread = found.importances_std[chosen]
        ax.barh(range(len(chosen)), total[chosen], xerr=spread, color=COLORS[0], ecolor=COLORS[-1])
        ax.axvline(0, color=COLORS[-1], linewidth=0.8)
    else:
        _stack(ax, table[:, chosen], found.labels)
    ax.set_yticks(range(len(chosen)), map(plain, found.feature_names[chosen]))
    ax.set_ylim(len(chosen) - 0.4, -0.6)
    ax.set_xlabel("loss of score when shuffled" if is_permuted else "share of gain")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _by_label(found: Bunch) -> np.ndarray:
    """Gains of features, a row for each label or one for all."""
    table = found.importances.sum(axis=-1) + found.in_bags
    return table if table.ndim == 2 else table[None]


def _stack(ax: Any, table: np.ndarray, labels: np.ndarray) -> None:
    """Bars of several rows after each other, with a legend if there are more than one."""
    starts = np.cumsum(table, axis=0) - table
    for k, (start, row) in enumerate(zip(starts, table, strict=True)):
        ax.barh(range(len(row)), row, left=start, linewidth=0, **look_of(k))
    if len(table) > 1:
        add_legend(ax, {str(label): look_of(k) for k, label in enumerate(labels)}, "label")


def plot_importance_map(
    importances: Any,
    *,
    label: Any = None,
    feature: str | None = None,
    max_features: int = 30,
    ax: Any = None,
) -> Any:
    """Show where in the window which features are important, by gain.

    A row is a feature and a column an offset of the window: 0 is the position that is labeled. The
    discovered features of a `FutureFeatureMEMM`, which have no offset, make a column ``bags``.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        A model with boosted trees, or what `treecrf.inspection.gain_importance` gives, with
        ``per_label`` for the next two parameters.
    label : str, int or bool, optional
        Only the trees of this label.
    feature : str, optional
        Only this feature; the rows are labels.
    max_features : int, default=30
        Most features that are shown, the most important on top.
    ax : matplotlib axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the model has no trees, or no such label or feature, gains by label are wanted and not
        given, or ``ax`` are no axes.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib").use("agg")
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_importance_map
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> ax = plot_importance_map(crf, feature="symbol")
    >>> ax.images[0].get_array().shape
    (2, 3)
    """
    pyplot()
    if label is not None and feature is not None:
        raise ValueError("both label and feature are given; one of them is shown for all of others")
    found = _gains(importances, label is not None or feature is not None)
    table, rows = _map_rows(found, label, feature, max_features)
    columns = [f"{offset:+d}" if offset else "0" for offset in found.offsets]
    if np.any(found.in_bags):
        columns.append("bags")
    else:
        table = table[:, :-1]
    ax = axes_of(ax, (2.6 + CELL_INCHES * len(columns), max(2.2, 1.2 + CELL_INCHES * len(rows))))
    image = ax.imshow(table, cmap="cividis", vmin=0, aspect="auto")
    ax.set_yticks(range(len(rows)), map(plain, rows))
    step = 1 + (len(columns) - 1) // 25
    ax.set_xticks(range(0, len(columns), step), columns[::step])
    ax.set_xlabel("offset in the window")
    ax.figure.colorbar(image, ax=ax, label="share of gain")
    return ax


def _gains(importances: Any, per_label: bool) -> Bunch:
    if not is_computed(importances, "offsets", "gain_importance"):
        return gain_importance(importances, per_label=per_label)
    if per_label and importances.importances.ndim < 3:
        raise ValueError("the gains are those of all labels; use gain_importance(per_label=True)")
    return importances


def _map_rows(
    found: Bunch, label: Any, feature: str | None, max_features: int
) -> tuple[np.ndarray, list[str]]:
    """Gains with those of the bags behind them, and the names of the rows."""
    table = np.concatenate([found.importances, found.in_bags[..., None]], axis=-1)
    names = found.feature_names.tolist()
    if feature is not None:
        if feature not in names:
            raise ValueError(f"feature={feature!r} is none of the model's: {', '.join(names)}")
        return table[:, names.index(feature)], [str(label) for label in found.labels]
    if table.ndim == 3:
        table = table.sum(axis=0) if label is None else table[code_of(found.labels, label)]
    chosen = np.argsort(-table.sum(axis=1), kind="stable")[:max_features]
    return table[chosen], [names[j] for j in chosen]
