"""Plots of one sequence: labels and their probabilities, and discovered features."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.labels import encode_labels
from treecrf.inspection.fitted import check_model
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.plotting.common import (
    COLORS,
    OTHER_STYLE,
    abbreviated,
    add_legend,
    axes_of,
    draw_table,
    drawing,
    finish,
    legend_inches,
    plain,
    points_of,
    set_title,
    style_of,
)
from treecrf.plotting.one_sequence import Axis, OneSequence, symbols_of, true_codes
from treecrf.utils.typing import GroupsLike, LabelsLike
from treecrf.utils.validation import check_positive

# Positions of the strips above the probabilities.
PREDICTED, TRUE, THICKNESS = 1.05, 1.19, 0.1
WRONG = 1.42
# Labels below this probability everywhere that are neither predicted nor true share one color.
MIN_SHOWN = 0.02
MIN_FONT, MAX_FONT = 4.0, 10.0
MAX_CHARACTERS = 16


@drawing
def plot_sequence(
    model: Any,
    x: Any,
    y: LabelsLike | str | None = None,
    *,
    symbols: Any = None,
    times: Any = None,
    groups: GroupsLike = None,
    group: Any = None,
    max_labels: int = 8,
    ax: Any = None,
) -> Any:
    """Plot the predictions of a model for one sequence.

    The probabilities of the labels at each position are shown as stacked colors. Above them are the
    predicted labels, the true labels if given, marks where the two differ, and the symbols.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    y : array-like of shape (n_positions,) or str, optional
        True labels, or the name of the data frame column that holds them.
    symbols : list of str, optional
        Texts to write above the positions, such as words; by default the input if it consists of
        symbols. Texts that would be too small to read are left out.
    times : array-like of shape (n_positions,) or str, optional
        Dates, times or increasing numbers for the horizontal axis, or the name of the data frame
        column that holds them. The default is the index of a pandas data frame if it holds
        increasing times, and otherwise the position.
    groups : array-like of shape (n_positions,) or str, optional
        Sequence that each position of a long table belongs to, or the name of the data frame
        column with this information, as in ``predict``.
    group : str, int or other value of ``groups``, optional
        The sequence to plot; required if there are several.
    max_labels : int, default=8
        Maximum number of labels with their own colors. If there are more, the labels with the
        highest total probability are shown, and the rest share one color. From the ninth label on,
        the colors repeat with hatches.
    $ax
        Labels that are nowhere true, predicted, or probable are combined as "others".

    $raises
        If x does not match the training data, y, ``symbols`` or ``times`` does not match x, the
        group does not exist or is not given, or ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_sequence
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> ax = plot_sequence(crf, "nab", "cvc")
    >>> [label.get_text() for label in ax.get_legend().get_texts()]
    ['c', 'v']

    A day of a long table, with the times of its index:

    >>> import pandas
    >>> times = pandas.date_range("2024-05-01", periods=96, freq="h", name="time")
    >>> table = pandas.DataFrame({"load": range(96), "day": times.day}, index=times)
    >>> table["busy"] = times.hour > 12
    >>> crf = TreeCRF(max_iter=5).fit(table, "busy", groups="day")
    >>> ax = plot_sequence(crf, table, "busy", group=2)
    >>> ax.get_xlabel()
    'time'
    """
    check_model(model)
    check_positive("max_labels", max_labels)
    one = OneSequence.of(model, x, y, times, groups, group)
    proba = model.predict_proba([one.x])[0]
    axis = Axis.of(one, len(proba), is_given=times is not None)
    predicted = encode_labels(model.predict([one.x]), model.classes_)
    true = None if one.y is None else true_codes(model, one)
    written = symbols_of(model, one.x, len(proba), symbols)
    styles = _styles(proba, predicted, true, max_labels)
    ax = axes_of(ax, _size(model.classes_[list(styles)], len(proba), bool(written)))
    _stack(ax, axis, proba, styles)
    heights = {"0": 0, "0.5": 0.5, "1": 1, "predicted": PREDICTED + THICKNESS / 2}
    _draw_strip(ax, axis, predicted, PREDICTED, styles)
    if true is not None:
        _draw_strip(ax, axis, true, TRUE, styles)
        wrong = axis.centers[predicted != true]
        ax.plot(wrong, np.full(len(wrong), WRONG), "v", markersize=4, color="black")
        heights |= {"true": TRUE + THICKNESS / 2, "wrong": WRONG}
    ax.set_yticks(list(heights.values()), list(heights))
    ax.set_ylim(0, TRUE if true is None else WRONG + 0.06)
    axis.format(ax)
    ax.set_ylabel("probability", loc="bottom")
    named = {str(model.classes_[code]): style for code, style in styles.items()}
    n_others = len(model.classes_) - len(styles)
    add_legend(ax, named | ({"others": OTHER_STYLE} if n_others else {}))
    title = f"labels predicted by {type(model).__name__}"
    if true is not None:
        title = f"{np.sum(predicted != true):,} of {len(true):,} predicted labels wrong"
    finish(ax, f"{one.name}: {title}" if one.name else title)
    _write_symbols(ax, axis, written)
    return ax


def _size(labels: np.ndarray, n: int, has_symbols: bool) -> tuple[float, float]:
    """Return the size of a new figure in inches."""
    legend = 0.6 + 0.08 * max(len(abbreviated(label)) for label in ["others", *labels.tolist()])
    height = max(3.6 + 0.6 * has_symbols, 1.3 + legend_inches(len(labels) + 2))
    return min(18.0, legend + max(3.2, 1.2 + 0.15 * n)), height


def _styles(
    proba: np.ndarray, predicted: np.ndarray, true: np.ndarray | None, max_labels: int
) -> dict[int, dict[str, str]]:
    """Return the styles of the labels that have their own color, by their codes.

    Labels have the same colors in all sequences unless the model has more labels than colors.
    """
    n = proba.shape[1]
    is_shown = proba.max(axis=0) >= MIN_SHOWN
    is_shown[predicted] = True
    total = proba.sum(axis=0)
    if true is not None:
        is_shown[true] = True
        total += np.bincount(true, minlength=n)
    codes = np.flatnonzero(is_shown)
    shown = np.sort(codes[np.argsort(-total[codes], kind="stable")[:max_labels]]).tolist()
    return {code: style_of(code if n <= len(COLORS) else k) for k, code in enumerate(shown)}


def _stack(ax: Any, axis: Axis, proba: np.ndarray, styles: dict[int, dict]) -> None:
    """Draw stacked areas of the labels, one step per position."""
    tops = np.cumsum(proba[:, list(styles)], axis=1)
    areas = [*zip(tops.T, styles.values(), strict=True)]
    if len(styles) < proba.shape[1]:
        areas.append((np.ones(len(proba)), OTHER_STYLE))
    bottom = np.zeros(len(proba))
    for top, style in areas:
        _fill(ax, axis, bottom, top, style)
        bottom = top


def _fill(ax: Any, axis: Axis, low: np.ndarray, high: np.ndarray, style: dict) -> None:
    """Fill an area, which has no height between positions that are far apart."""
    edges = np.column_stack([axis.left, axis.left, axis.right, axis.right])
    zeros = np.zeros(len(low))
    # Adjacent positions share an edge.
    begins = np.append(True, axis.left[1:] > axis.right[:-1])
    ends = np.append(begins[1:], True)
    is_corner = np.column_stack([begins, np.ones((len(low), 2), dtype=bool), ends])
    low = np.column_stack([zeros, low, low, zeros])[is_corner]
    high = np.column_stack([zeros, high, high, zeros])[is_corner]
    ax.fill_between(edges[is_corner], low, high, linewidth=0, **style)


def _draw_strip(
    ax: Any, axis: Axis, codes: np.ndarray, bottom: float, styles: dict[int, dict]
) -> None:
    """Draw runs of the same label as bars."""
    is_new = (codes[1:] != codes[:-1]) | (axis.left[1:] > axis.right[:-1])
    starts = np.flatnonzero(np.append(True, is_new))
    ends = np.append(starts[1:], len(codes)) - 1
    left, widths = axis.left[starts], axis.right[ends] - axis.left[starts]
    for code in np.unique(codes):
        own = codes[starts] == code
        runs = list(zip(left[own], widths[own], strict=True))
        ax.broken_barh(runs, (bottom, THICKNESS), linewidth=0, **styles.get(int(code), OTHER_STYLE))


def _write_symbols(ax: Any, axis: Axis, symbols: list[str]) -> None:
    """Write symbols as ticks at the top if there is room, rotated if they are long."""
    room = points_of(ax)[0] / max(len(symbols), 1)
    size = min(MAX_FONT, 1.25 * room)
    if not symbols or size < MIN_FONT:
        return
    symbols = [abbreviated(symbol, MAX_CHARACTERS) for symbol in symbols]
    is_long = 0.65 * size * max(map(len, symbols)) > max(room, size)
    top = ax.secondary_xaxis("top")
    top.set_xticks(axis.centers, map(plain, symbols), fontsize=size)
    top.tick_params(length=0, pad=1, rotation=90 if is_long else 0)
    top.spines["top"].set_visible(False)


@drawing
def plot_future_features(
    model: FutureFeatureMEMM,
    x: Any,
    *,
    groups: GroupsLike = None,
    group: Any = None,
    ax: Any = None,
) -> Any:
    """Plot where in a sequence the discovered features are active.

    Each feature has two rows: the probability that a position is a positive instance, and the
    probability that its bag contains one.

    Parameters
    ----------
    model : FutureFeatureMEMM
        A fitted model.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    groups, group : optional
        Sequence to plot of a long table, as in `plot_sequence`.
    $ax

    $raises
        If the sequence does not match the training data, no features were discovered, the group
        does not exist or is not given, or ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM
    >>> from treecrf.datasets import make_future_bags
    >>> from treecrf.plotting import plot_future_features
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> memm = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    ... )
    >>> memm = memm.fit(X, y)
    >>> plot_future_features(memm, X[0]).get_xlabel()
    'position'
    """
    one = OneSequence.of(model, x, None, None, groups, group)
    values = model.future_values([one.x])[0]
    if not values.size:
        raise ValueError("the model has discovered no features")
    n = values.shape[1]
    ax = axes_of(ax, (8, 1 + n / 2))
    rows = np.moveaxis(values, 0, -1).reshape(2 * n, -1)
    style = {"cmap": "Greys", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    draw_table(ax, rows, "probability", **style)
    names = [f"{row} {k}" for k in range(n) for row in ("instance", "bag")]
    ax.set_yticks(range(2 * n), names)
    ax.set_xlabel("position")
    set_title(ax, f"{n} discovered feature{'s' * (n != 1)} at {len(values)} positions")
    return ax
