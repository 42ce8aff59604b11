"""Plot of a sequence: symbols, true and predicted labels, and probabilities of labels."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from treecrf.inputs.labels import RawData, encode_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import as_list
from treecrf.inspection.fitted_trees import check_model
from treecrf.plotting.common import (
    OTHERS,
    add_legend,
    axes_of,
    legend_inches,
    plain,
    pyplot,
    size_of,
    style_of,
)
from treecrf.utils.typing import LabelsLike

# Positions of the strips above the probabilities.
PREDICTED, TRUE, THICKNESS = 1.05, 1.19, 0.1
WRONG = 1.35
# Labels below this probability everywhere that are neither predicted nor true share one color.
MIN_SHOWN = 0.02
MIN_FONT, MAX_FONT = 4.0, 10.0


def plot_sequence(
    model: Any, x: Any, y: LabelsLike | None = None, *, symbols: Any = None, ax: Any = None
) -> Any:
    """Plot the predictions of a model for one sequence.

    The probabilities of the labels at each position are shown as stacked colors. Above them are the
    predicted labels, the true labels if given, marks where the two differ, and the symbols.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    x : sequence
        One sequence, in a form that the model accepts.
    y : array-like of shape (n_positions,), optional
        True labels of the sequence.
    symbols : list of str, optional
        Texts to write above the positions, such as words; by default the input if it consists of
        symbols. Texts that would be too small to read are left out.
    ax : matplotlib axes, optional
        Axes to draw on; those of a new figure by default.

    Returns
    -------
    matplotlib axes
        Labels that are nowhere true, predicted, or probable are combined as "others".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If x does not match the training data, y or ``symbols`` does not match x, or ``ax`` is not
        an Axes object.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib").use("agg")
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_sequence
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> ax = plot_sequence(crf, "nab", "cvc")
    >>> [label.get_text() for label in ax.get_legend().get_texts()]
    ['c', 'v']
    """
    pyplot()
    check_model(model)
    proba = model.predict_proba([x])[0]
    n, classes = len(proba), model.classes_
    predicted = encode_labels(model.predict([x]), classes)
    true = None
    if y is not None:
        _, labels = model._read_labeled(RawData([x], [y], Segmentation()))
        true = encode_labels(labels.complete(), classes)
    written = _symbols(model, x, n, symbols)
    shown = _shown(proba, predicted, true)
    height = max(3.6, 1.2 + legend_inches(len(shown) + 2))
    ax = axes_of(ax, (min(18.0, 3.5 + 0.15 * n), height))
    styles = _stack(ax, proba, shown, classes)
    heights = {"0": 0, "0.5": 0.5, "1": 1, "predicted": PREDICTED + THICKNESS / 2}
    _draw_strip(ax, predicted, PREDICTED)
    if true is not None:
        _draw_strip(ax, true, TRUE)
        wrong = np.flatnonzero(predicted != true)
        ax.plot(wrong, np.full(len(wrong), WRONG), "v", markersize=4, color="black")
        heights |= {"true": TRUE + THICKNESS / 2, "wrong": WRONG}
    ax.set_yticks(list(heights.values()), list(heights))
    ax.set(xlim=(-0.5, n - 0.5), ylim=(0, TRUE if true is None else WRONG + 0.06))
    ax.set_xlabel("position")
    ax.set_ylabel("probability", loc="bottom")
    ax.spines[["top", "right"]].set_visible(False)
    add_legend(ax, styles)
    _write_symbols(ax, written)
    return ax


def _symbols(model: Any, x: Any, n: int, symbols: Any) -> list[str]:
    """Return the text above each position, or nothing if there are no symbols."""
    if symbols is None:
        items = list(x) if model._schema.form == "symbols" else []
        return ["" if _is_missing(item) else str(item) for item in items]
    items = list(symbols) if isinstance(symbols, str) else as_list(symbols, "symbols", "texts")
    if len(items) != n:
        raise ValueError(
            f"symbols has {len(items)} items; expected {n}, the number of positions of x"
        )
    return [str(item) for item in items]


def _shown(proba: np.ndarray, predicted: np.ndarray, true: np.ndarray | None) -> np.ndarray:
    """Return the codes of the labels that have their own color."""
    found = proba.max(axis=0) >= MIN_SHOWN
    found[predicted] = True
    if true is not None:
        found[true] = True
    return np.flatnonzero(found)


def _stack(ax: Any, proba: np.ndarray, shown: np.ndarray, classes: np.ndarray) -> dict[str, dict]:
    """Draw stacked areas of the labels, one step per position; return their styles."""
    styles = {str(classes[code]): style_of(int(code)) for code in shown}
    tops = np.cumsum(proba[:, shown], axis=1)
    if len(shown) < len(classes):
        styles["others"] = {"facecolor": OTHERS}
        tops = np.column_stack([tops, np.ones(len(proba))])
    bottom = np.zeros(len(proba))
    for top, style in zip(tops.T, styles.values(), strict=True):
        _fill(ax, bottom, top, style)
        bottom = top
    return styles


def _fill(ax: Any, low: np.ndarray, high: np.ndarray, style: dict) -> None:
    edges = np.arange(len(low) + 1) - 0.5
    low, high = np.append(low, low[-1]), np.append(high, high[-1])
    ax.fill_between(edges, low, high, step="post", linewidth=0, **style)


def _draw_strip(ax: Any, codes: np.ndarray, bottom: float) -> None:
    """Draw runs of the same label as bars."""
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    widths = np.diff(np.append(starts, len(codes)))
    for code in np.unique(codes):
        own = codes[starts] == code
        runs = list(zip(starts[own] - 0.5, widths[own], strict=True))
        ax.broken_barh(runs, (bottom, THICKNESS), linewidth=0, **style_of(int(code)))


def _write_symbols(ax: Any, symbols: list[str]) -> None:
    """Write symbols as ticks at the top if there is room, rotated if they are long."""
    size = min(MAX_FONT, 1.25 * size_of(ax)[0] / max(len(symbols), 1))
    if not symbols or size < MIN_FONT:
        return
    top = ax.secondary_xaxis("top")
    top.set_xticks(range(len(symbols)), map(plain, symbols), fontsize=size)
    top.tick_params(length=0, pad=1, rotation=90 if max(map(len, symbols)) > 2 else 0)
    top.spines["top"].set_visible(False)


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, numbers.Real) and item != item)
