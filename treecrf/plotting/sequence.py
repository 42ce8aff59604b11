"""Plots of one sequence: labels with probabilities, discovered features, and text in HTML."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from numbers import Real
from typing import Any

import numpy as np

from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import label_column, rows_of
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import as_list, column_names, find_missing, short_list, short_repr
from treecrf.inspection.fitted import CheckedData, check_model, group_values
from treecrf.inspection.spans import SpanRules, find_spans, without_times
from treecrf.learners.base.fitted import fitted_model
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
    ink,
    legend_inches,
    one_line,
    plain,
    points_of,
    set_title,
    style_numbers,
    style_of,
)
from treecrf.utils.typing import GroupsLike, LabelsLike
from treecrf.utils.validation import check_positive

POSITION = "position"


@dataclass(frozen=True)
class OneSequence:
    """A sequence and its labels, as they are passed to a model."""

    x: Any
    # The labels; None without.
    y: Any
    # Times of the positions; None without.
    times: list | None = None
    # Name of the times, for the axis.
    time_name: str = "time"
    # Name of the sequence, for the title.
    name: str = ""

    @classmethod
    def of(cls, model: Any, x: Any, y: Any, times: Any, groups: Any, group: Any) -> OneSequence:
        """Select the sequence, the columns of its labels and times, and the rows of its group."""
        if isinstance(y, str) and is_frame(x) and y in column_names(x):
            x, y = label_column(x, y, False)
        one = _with_times(model, cls(x, y), times)
        predictor = fitted_model(model).predictor
        segmentation = predictor.segmentation(one.x, None, groups, may_be_empty=False)
        if segmentation.is_long:
            return one.in_group(segmentation, group)
        if group is not None:
            raise ValueError(f"group={group!r} without groups; pass the group of each position")
        return one

    def in_group(self, segmentation: Segmentation, group: Any) -> OneSequence:
        """Return the sequence of one group of a long table."""
        column = segmentation.column
        groups = group_values(self.x, segmentation)
        offsets = segmentation.offsets(len(self.x), groups)
        names = [groups[start] for start in offsets[:-1]]
        k = _index_of(group, names, column)
        first, last = (int(edge) for edge in offsets[k : k + 2])
        if is_frame(self.x):
            (x,) = rows_of(self.x, [(first, last)], segmentation.group_columns)
        else:
            x = self.x[first:last]
        return replace(
            self,
            x=x,
            y=_slice(self.y, first, last, offsets[-1], "y"),
            times=_slice(self.times, first, last, offsets[-1], "times"),
            name=f"{column or 'group'} {names[k]}",
        )


def true_codes(model: Any, one: OneSequence) -> np.ndarray:
    """Return the codes of the true labels."""
    data = CheckedData.of(model, [one.x], [one.y], None, None)
    return encode_labels(data.labels, model.classes_)


def symbols_of(model: Any, x: Any, n: int, symbols: Any) -> list[str]:
    """Return the text above each position, or nothing if there are no symbols."""
    if symbols is None:
        if fitted_model(model).chain.schema.form != "symbols":
            return []
        return ["" if _is_missing(symbol) else str(symbol) for symbol in x]
    if isinstance(symbols, str):
        items = list(symbols)
    else:
        items = as_list(symbols, "symbols", "texts")
    if len(items) != n:
        raise ValueError(
            f"symbols has {len(items)} items; expected {n}, the number of positions of x"
        )
    return [str(item) for item in items]


def _is_missing(symbol: Any) -> bool:
    """Return whether a symbol is None or NaN."""
    return symbol is None or (isinstance(symbol, Real) and symbol != symbol)


def _index_of(group: Any, names: list, column: str | None) -> int:
    """Return the index of a group, given by its value or by its text."""
    if group is None and len(names) == 1:
        return 0
    listed = short_list([short_repr(name) for name in names])
    if group is None:
        raise ValueError(
            f"x holds {len(names)} sequences; choose one of them, group= one of {listed}"
        )
    for k, name in enumerate(names):
        if name == group or str(name) == str(group):
            return k
    where = "groups" if column is None else f"column {column!r}"
    raise ValueError(f"group={group!r} is not in {where}; expected one of {listed}")


def _slice(items: Any, first: int, last: int, n: int, name: str) -> Any:
    """Return the items of some positions, if there are items; ValueError unless there are n."""
    if items is None:
        return None
    if len(items) != n:
        raise ValueError(f"x has {n} positions, {name} has {len(items)}")
    if hasattr(items, "iloc"):
        return items.iloc[first:last]
    return items[first:last]


def _with_times(model: Any, one: OneSequence, times: Any) -> OneSequence:
    """Add the times that were passed, or else the index of a data frame if it has times."""
    index = getattr(one.x, "index", None) if is_frame(one.x) else None
    if times is None:
        if getattr(getattr(index, "dtype", None), "kind", "") != "M" or index.hasnans:
            return one
        return replace(one, times=list(index), time_name=str(index.name or "time"))
    if isinstance(times, str):
        x, values = without_times(model, one.x if is_frame(one.x) else [one.x], times, "x")
        return replace(one, x=x, times=_complete(values), time_name=times)
    name = getattr(times, "name", None)
    values = _complete(as_list(times, "times", "times"))
    return replace(one, times=values, time_name=str(name or "time"))


def _complete(times: list) -> list:
    """Return times; ValueError if one is missing."""
    missing = find_missing(times)
    if missing is not None:
        raise ValueError(f"times: the time of position {int(np.argmax(missing))} is missing")
    return times


@dataclass(frozen=True)
class Axis:
    """Where the positions of a sequence are on the horizontal axis.

    Each position extends halfway to its neighbors, or less if they are far away.
    """

    # Place of each position, and both ends of its room.
    centers: np.ndarray
    left: np.ndarray
    right: np.ndarray
    # Text below the axis.
    label: str
    # Time zone of dates; None without.
    timezone: Any = None
    # Whether places are dates, as matplotlib counts them.
    has_dates: bool = False

    # A gap is wider than this multiple of the usual distance.
    WIDEST = 2.0

    @classmethod
    def of(cls, one: OneSequence, n: int, *, is_given: bool) -> Axis:
        """Place the positions at their times, or one unit apart.

        Times that were not passed explicitly are used only if they increase.
        """
        if one.times is None:
            return cls._spaced(np.arange(n, dtype=float), POSITION)
        if len(one.times) != n:
            raise ValueError(f"x has {n} positions, times has {len(one.times)}")
        is_number = all(isinstance(time, (int, float, np.number)) for time in one.times)
        if is_number:
            places = np.array(one.times, dtype=float)
        else:
            places = _dates(one.times)
        steps = np.diff(places)
        if not (steps > 0).all():
            if not is_given:
                return cls._spaced(np.arange(n, dtype=float), POSITION)
            t = int(np.argmin(steps > 0)) + 1
            raise ValueError(f"times: position {t} is not later than position {t - 1}")
        if is_number:
            return cls._spaced(places, one.time_name)
        timezone = getattr(one.times[0], "tzinfo", None)
        return replace(cls._spaced(places, one.time_name), timezone=timezone, has_dates=True)

    @classmethod
    def _spaced(cls, centers: np.ndarray, label: str) -> Axis:
        """Give each position the room around its center."""
        steps = np.diff(centers)
        usual = float(np.median(steps)) if len(steps) else 1.0
        halves = np.where(steps > cls.WIDEST * usual, usual, steps) / 2
        return cls(
            centers,
            centers - np.append(usual / 2, halves),
            centers + np.append(halves, usual / 2),
            label,
        )

    def format(self, ax: Any) -> None:
        """Set the limits, the label and the ticks of the axis."""
        ax.set_xlim(self.left[0], self.right[-1])
        ax.set_xlabel(self.label)
        if self.has_dates:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator(tz=self.timezone)
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=self.timezone))
        elif self.label == POSITION:
            ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _dates(times: list) -> np.ndarray:
    """Convert dates and times to numbers; TypeError if they are neither."""
    from matplotlib.dates import date2num

    try:
        return np.asarray(date2num(times), dtype=float)
    except (TypeError, ValueError, AttributeError):
        raise TypeError(
            f"times holds {short_repr(times[0])} of type {type(times[0]).__name__}; expected "
            "dates, times or numbers"
        ) from None


# Heights of the strips of labels above the probabilities, and of marks where they differ.
PREDICTED = 1.05
TRUE = 1.19
THICKNESS = 0.1
WRONG = 1.42
# Labels below this probability everywhere that are neither predicted nor true share one color.
MIN_SHOWN = 0.02
# Sizes of symbols in points. Smaller ones cannot be read.
MIN_FONT = 4.0
MAX_FONT = 10.0
MAX_CHARACTERS = 16
# Width of a new figure in inches; texts of a wider one are unreadable on a page.
MAX_WIDTH = 9.0


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

    Stacked colors show the probabilities of the labels at each position. Above them are the
    predicted labels, the true labels if given, marks where the two differ, and the symbols. Labels
    that are nowhere true, predicted, or probable are combined as "others".

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    y : array-like of shape (n_positions,) or str, default=None
        True labels, or the name of the data frame column that holds them.
    symbols : list of str, default=None
        Texts to write above the positions, such as words. By default, this is the input if it
        consists of symbols. Texts that would be too small to read are left out.
    times : array-like of shape (n_positions,) or str, default=None
        Dates, times or increasing numbers for the horizontal axis, or the name of the data frame
        column that holds them. By default, these are the index values of a pandas data frame if
        they are increasing times, and otherwise the positions.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if x is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.
    group : str, int or other value of ``groups``, default=None
        The sequence to plot. Required if there are several.
    max_labels : int, default=8
        Maximum number of labels with their own colors. If there are more, the labels with the
        highest total probability are shown, and the rest share one color. From the ninth label on,
        the colors repeat with other hatches.
    $ax

    $raises
        If x does not match the training data, y, ``symbols`` or ``times`` does not match x, the
        group does not exist or is not given, or ``ax`` is not an Axes object.

    See Also
    --------
    highlight_text : A text in which the predicted spans have colors.
    treecrf.report : All sequences on one page, with scores.

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
    >>> times = pandas.date_range("2024-05-01", periods=96, freq="h")
    >>> times.name = "time"
    >>> table = pandas.DataFrame({"load": range(96)}, index=times)
    >>> table["day"] = times.day
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
    texts = symbols_of(model, one.x, len(proba), symbols)
    styles = _styles(proba, predicted, true, max_labels)
    ax = axes_of(ax, _size(model.classes_[list(styles)], len(proba), bool(texts)))
    _stack(ax, axis, proba, styles)
    _draw_labels(ax, axis, predicted, true, styles)
    axis.format(ax)
    ax.set_ylabel("probability", loc="bottom")
    named_styles = {str(model.classes_[code]): style for code, style in styles.items()}
    strips = [predicted] if true is None else [predicted, true]
    if _shows_others(proba, strips, styles):
        named_styles["others"] = OTHER_STYLE
    add_legend(ax, named_styles)
    title = f"labels predicted by {type(model).__name__}"
    if true is not None:
        title = f"{np.sum(predicted != true):,} of {len(true):,} predicted labels wrong"
    if one.name:
        title = f"{abbreviated(one.name)}: {title}"
    finish(ax, title)
    _write_symbols(ax, axis, texts)
    return ax


def _draw_labels(
    ax: Any, axis: Axis, predicted: np.ndarray, true: np.ndarray | None, styles: dict[int, dict]
) -> None:
    """Draw the predicted labels, the true labels if given, and marks where the two differ."""
    heights = {"0": 0, "0.5": 0.5, "1": 1, "predicted": PREDICTED + THICKNESS / 2}
    _draw_strip(ax, axis, predicted, PREDICTED, styles)
    top = TRUE
    if true is not None:
        _draw_strip(ax, axis, true, TRUE, styles)
        wrong = axis.centers[predicted != true]
        ax.plot(wrong, np.full(len(wrong), WRONG), "v", markersize=4, color=ink())
        heights |= {"true": TRUE + THICKNESS / 2, "wrong": WRONG}
        top = WRONG + 0.06
    ax.set_yticks(list(heights.values()), list(heights))
    ax.set_ylim(0, top)


def _size(labels: np.ndarray, n: int, has_symbols: bool) -> tuple[float, float]:
    """Return the size of a new figure in inches."""
    legend = 0.6 + 0.08 * max(len(abbreviated(label)) for label in ["others", *labels.tolist()])
    height = max(3.6 + 0.6 * has_symbols, 1.3 + legend_inches(len(labels) + 2))
    return min(MAX_WIDTH, legend + max(3.2, 1.2 + 0.15 * n)), height


def _styles(
    proba: np.ndarray, predicted: np.ndarray, true: np.ndarray | None, max_labels: int
) -> dict[int, dict[str, str]]:
    """Return the styles of the labels that have their own color, by their codes."""
    n = proba.shape[1]
    is_shown = proba.max(axis=0) >= MIN_SHOWN
    is_shown[predicted] = True
    total = proba.sum(axis=0)
    if true is not None:
        is_shown[true] = True
        total += np.bincount(true, minlength=n)
    codes = np.flatnonzero(is_shown)
    by_total = codes[np.argsort(-total[codes], kind="stable")]
    shown = np.sort(by_total[:max_labels]).tolist()
    numbers = style_numbers(shown, n)
    return {code: style_of(number) for code, number in zip(shown, numbers, strict=True)}


def _shows_others(proba: np.ndarray, strips: list[np.ndarray], styles: dict[int, dict]) -> bool:
    """Return whether labels without a style are probable anywhere, or part of a strip."""
    others = 1 - proba[:, list(styles)].sum(axis=1)
    return bool(others.max() >= MIN_SHOWN or not np.isin(strips, list(styles)).all())


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
    is_first = np.append(True, axis.left[1:] > axis.right[:-1])
    is_last = np.append(is_first[1:], True)
    is_corner = np.column_stack([is_first, np.ones((len(low), 2), dtype=bool), is_last])
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
    left = axis.left[starts]
    widths = axis.right[ends] - left
    for code in np.unique(codes):
        has_code = codes[starts] == code
        runs = list(zip(left[has_code], widths[has_code], strict=True))
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
    top.tick_params(length=0, pad=1, rotation=90 * is_long)
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
    """Plot where in a sequence the discovered features of a model are active.

    Each feature has two rows: the probability that a position is a positive instance, and the
    probability that its bag contains one.

    Parameters
    ----------
    model : FutureFeatureMEMM
        A fitted model.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if x is a long table, as in `plot_sequence`.
    group : str, int or other value of ``groups``, default=None
        The sequence to plot. Required if there are several.
    $ax

    $raises
        If the sequence does not match the training data, no features were discovered, the group
        does not exist or is not given, or ``ax`` is not an Axes object.

    See Also
    --------
    treecrf.FutureFeatureMEMM : The model, which describes the features in ``future_features_``.
    plot_sequence : The predictions of a model.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM
    >>> from treecrf.datasets import make_future_bags
    >>> from treecrf.plotting import plot_future_features
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> memm = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30,
    ...     max_future_features=1, random_state=0,
    ... ).fit(X, y)
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


SPAN_STYLE = "background: {}55; padding: 0.15em 0; border-radius: 0.2em"
# Lines above spans of characters, whose labels do not stand behind them.
LINE_STYLE = "border-top: 3px {} {}"
LINE_KINDS = ("solid", "dashed", "dotted", "double")
TEXT_STYLE = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.6"
ERROR_STYLE = "border-bottom: 2px solid #d1242f"


class HtmlText(str):
    """A text in HTML, which notebooks show."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def _span_style(k: int, are_words: bool) -> str:
    """Return the style of spans of label number k; those of characters differ in print, too."""
    turn, color = divmod(k, len(COLORS))
    style = SPAN_STYLE.format(COLORS[color])
    if are_words:
        return style
    line = LINE_STYLE.format(LINE_KINDS[(color + turn) % len(LINE_KINDS)], COLORS[color])
    return f"{style}; {line}"


def highlight_text(
    model: Any,
    x: Any,
    y: LabelsLike | str | None = None,
    *,
    symbols: Any = None,
    prefixes: bool | None = None,
    groups: GroupsLike = None,
    group: Any = None,
) -> HtmlText:
    """Write a text in HTML in which the predicted spans have colors.

    - The label of a span of words stands behind it. Spans of characters also have lines above them,
      which differ by label, and a legend below explains them.
    - If the pointer is over a span, its probability is shown.
    - Errors are underlined in red, and show the true label.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    y : array-like of shape (n_positions,) or str, default=None
        True labels, or the name of the data frame column that holds them.
    symbols : list of str, default=None
        The texts of the positions. By default, this is the input if it consists of symbols. Spaces
        separate the texts, unless all are single characters.
    prefixes : bool, default=None
        Whether labels have the prefixes of a tagging scheme, as in `treecrf.inspection.find_spans`.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if x is a long table, as in `plot_sequence`.
    group : str, int or other value of ``groups``, default=None
        The sequence to show. Required if there are several.

    Returns
    -------
    str
        A ``<div>``, which Jupyter notebooks show as the last value of a cell, and which can be part
        of any page.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If x does not match the training data, y or ``symbols`` does not match x, the group does not
        exist or is not given, or the input has no symbols and none are given.

    See Also
    --------
    treecrf.inspection.find_spans : The spans and their probabilities.
    plot_sequence : The probabilities of the labels at each position.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.plotting import highlight_text
    >>> X = [["Ada", "Lovelace", "met", "Mary"], ["Mary", "met", "Ada"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "B-PER"]]
    >>> crf = LinearCRF(l2_regularization=0.1).fit(X, y)
    >>> text = highlight_text(crf, ["Mary", "met", "Ada"])
    >>> text[text.index(">Mary"):text.index(" met")]
    '>Mary<small> PER</small></span>'
    """
    check_model(model)
    one = OneSequence.of(model, x, y, None, groups, group)
    labels = model.predict([one.x])[0]
    texts = symbols_of(model, one.x, len(labels), symbols)
    if len(texts) != len(labels):
        raise ValueError("x holds no symbols; pass the text of each position as symbols=")
    are_words = any(len(text) > 1 for text in texts)
    texts = [escape(text) for text in texts]
    if one.y is not None:
        true = true_codes(model, one)
        for t in np.flatnonzero(true != encode_labels([labels], model.classes_)):
            title = escape(f"true: {model.classes_[true[t]]}")
            texts[t] = f'<span title="{title}" style="{ERROR_STYLE}">{texts[t]}</span>'
    names = SpanRules.of(model.classes_, prefixes).names
    colors = {name: _span_style(k, are_words) for k, name in enumerate(names)}
    space = " " if are_words else ""
    pieces = []
    end = 0
    for span in find_spans(model, [one.x], [labels], prefixes=prefixes):
        title = escape(f"{span.label}, probability {span.probability:.2f}")
        content = space.join(texts[span.start : span.end])
        if are_words:
            content += f"<small> {escape(one_line(span.label))}</small>"
        pieces += texts[end : span.start]
        pieces.append(f'<span title="{title}" style="{colors[span.label]}">{content}</span>')
        end = span.end
    text = space.join([*pieces, *texts[end:]])
    if not are_words:
        chips = (f'<span style="{colors[name]}">{escape(str(name))}</span>' for name in colors)
        text += f"\n\n<small>{' '.join(chips)}</small>"
    return HtmlText(f'<div style="{TEXT_STYLE}">{text}</div>')
