"""One sequence of a long table, and the times of its positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from treecrf.inputs.frames import label_column, rows_of
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import Segmentation
from treecrf.inputs.values import (
    as_list,
    column_names,
    find_missing,
    is_frame,
    short_list,
    short_repr,
)
from treecrf.inspection.fitted import CheckedData, group_values
from treecrf.inspection.spans import without_times

POSITION = "position"


@dataclass(frozen=True)
class OneSequence:
    """A sequence and its labels, as they are passed to a model."""

    x: Any
    y: Any
    times: list | None = None  # of the positions
    time_name: str = "time"
    name: str = ""  # of the sequence

    @classmethod
    def of(cls, model: Any, x: Any, y: Any, times: Any, groups: Any, group: Any) -> OneSequence:
        """Select the sequence, the columns of its labels and times, and the rows of its group."""
        if isinstance(y, str) and is_frame(x) and y in column_names(x):
            x, y = label_column(x, y, False)
        one = _with_times(model, cls(x, y), times)
        segmentation = model._predictor().segmentation(one.x, None, groups, may_be_empty=False)
        if segmentation.is_long:
            return one._of_group(segmentation, group)
        if group is not None:
            raise ValueError(f"group={group!r} without groups; pass the group of each position")
        return one

    def _of_group(self, segmentation: Segmentation, group: Any) -> OneSequence:
        """Return the sequence of one group of a long table."""
        column = segmentation.column
        of_rows = group_values(self.x, segmentation)
        offsets = segmentation.offsets(len(self.x), of_rows)
        names = [of_rows[start] for start in offsets[:-1]]
        k = _index_of(group, names, column)
        first, last = (int(edge) for edge in offsets[k : k + 2])
        x = (
            rows_of(self.x, [(first, last)], segmentation.group_columns)[0]
            if is_frame(self.x)
            else self.x[first:last]
        )
        return replace(
            self,
            x=x,
            y=_part(self.y, first, last, offsets[-1], "y"),
            times=_part(self.times, first, last, offsets[-1], "times"),
            name=f"{column or 'group'} {names[k]}",
        )


def true_codes(model: Any, one: OneSequence) -> np.ndarray:
    """Return the codes of the true labels."""
    data = CheckedData.of(model, [one.x], [one.y], None, None)
    return encode_labels(data.labels, model.classes_)


def symbols_of(model: Any, x: Any, n: int, symbols: Any) -> list[str]:
    """Return the text above each position, or nothing if there are no symbols."""
    if symbols is None:
        items = list(x) if model._predictor().chain.schema.form == "symbols" else []
        missing = [item is None or (isinstance(item, Real) and item != item) for item in items]
        return ["" if skip else str(item) for item, skip in zip(items, missing, strict=True)]
    items = list(symbols) if isinstance(symbols, str) else as_list(symbols, "symbols", "texts")
    if len(items) != n:
        raise ValueError(
            f"symbols has {len(items)} items; expected {n}, the number of positions of x"
        )
    return [str(item) for item in items]


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


def _part(items: Any, first: int, last: int, n: int, name: str) -> Any:
    if items is None:
        return None
    if len(items) != n:
        raise ValueError(f"x has {n} positions, {name} has {len(items)}")
    return items.iloc[first:last] if hasattr(items, "iloc") else items[first:last]


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
    missing = find_missing(times)
    if missing is not None:
        raise ValueError(f"times: the time of position {int(np.argmax(missing))} is missing")
    return times


@dataclass(frozen=True)
class Axis:
    """Where the positions of a sequence are on the horizontal axis.

    Each position extends halfway to its neighbors, or less if they are far away.
    """

    centers: np.ndarray
    left: np.ndarray
    right: np.ndarray
    label: str
    timezone: Any = None
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
        places = np.array(one.times, dtype=float) if is_number else _dates(one.times)
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
    from matplotlib.dates import date2num

    try:
        return np.asarray(date2num(times), dtype=float)
    except (TypeError, ValueError, AttributeError):
        raise TypeError(
            f"times holds {short_repr(times[0])} of type {type(times[0]).__name__}; expected "
            "dates, times or numbers"
        ) from None
