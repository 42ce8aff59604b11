"""Plots of feature importances, as bars and by offset."""

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
    plain,
    pyplot,
    style_of,
)

BAR_INCHES = 0.26
CELL_INCHES = 0.32


def plot_importances(importances: Any, *, max_features: int = 20, ax: Any = None) -> Any:
    """Plot the importance of features as bars, the most important on top.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        A model with boosted trees, for its importance by gain, or the result of
        `treecrf.inspection.gain_importance` or `permutation_importance`. Gains by label are shown
        in the colors of the labels, and permutation importances with their standard deviation.
    max_features : int, default=20
        Maximum number of features to show.
    ax : matplotlib axes, optional
        Axes to draw on; those of a new figure by default.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has no trees, or ``ax`` is not an Axes object.

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
    is_result = is_computed(importances, "importances", "gain_importance")
    found = importances if is_result else gain_importance(importances)
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
    ax.set_xlabel("drop of score when shuffled" if is_permuted else "fraction of gain")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _by_label(found: Bunch) -> np.ndarray:
    """Return gains of features, with one row per label or one for all."""
    table = found.importances.sum(axis=-1) + found.in_bags
    return table if table.ndim == 2 else table[None]


def _stack(ax: Any, table: np.ndarray, labels: np.ndarray) -> None:
    """Draw stacked bars, one part per row, with a legend if there are several."""
    starts = np.cumsum(table, axis=0) - table
    for k, (start, row) in enumerate(zip(starts, table, strict=True)):
        ax.barh(range(len(row)), row, left=start, linewidth=0, **style_of(k))
    if len(table) > 1:
        add_legend(ax, {str(label): style_of(k) for k, label in enumerate(labels)}, "label")


def plot_importance_map(
    importances: Any,
    *,
    label: Any = None,
    feature: str | None = None,
    max_features: int = 30,
    ax: Any = None,
) -> Any:
    """Plot the importance of features by offset in the window.

    Rows are features and columns are offsets in the window; 0 is the labeled position. Discovered
    features of a `FutureFeatureMEMM`, which have no offset, are shown in a column ``bags``.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        A model with boosted trees, or the result of `treecrf.inspection.gain_importance`; the next
        two parameters need a result with ``per_label=True``.
    label : str, int or bool, optional
        If given, only the trees of this label.
    feature : str, optional
        If given, only this feature; the rows are then labels.
    max_features : int, default=30
        Maximum number of features to show, the most important on top.
    ax : matplotlib axes, optional
        Axes to draw on; those of a new figure by default.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees or no such label or feature, gains by label are needed but not
        given, or ``ax`` is not an Axes object.

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
        raise ValueError("both label and feature are given; pass at most one of them")
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
    ax.figure.colorbar(image, ax=ax, label="fraction of gain")
    return ax


def _gains(importances: Any, per_label: bool) -> Bunch:
    if not is_computed(importances, "offsets", "gain_importance"):
        return gain_importance(importances, per_label=per_label)
    if per_label and importances.importances.ndim < 3:
        raise ValueError(
            "label and feature need gains by label; use gain_importance(per_label=True)"
        )
    return importances


def _map_rows(
    found: Bunch, label: Any, feature: str | None, max_features: int
) -> tuple[np.ndarray, list[str]]:
    """Return gains with those of bags in the last column, and the names of the rows."""
    table = np.concatenate([found.importances, found.in_bags[..., None]], axis=-1)
    names = found.feature_names.tolist()
    if feature is not None:
        if feature not in names:
            raise ValueError(f"feature={feature!r}; expected one of {', '.join(names)}")
        return table[:, names.index(feature)], [str(label) for label in found.labels]
    if table.ndim == 3:
        table = table.sum(axis=0) if label is None else table[code_of(found.labels, label)]
    chosen = np.argsort(-table.sum(axis=1), kind="stable")[:max_features]
    return table[chosen], [names[j] for j in chosen]
