"""Statistics of the values around each position, over windows of several lengths."""

from __future__ import annotations

import numbers
from collections import deque
from collections.abc import Sequence
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from treecrf.preprocessing._windows import STATISTICS, Event, RollingWindow, roll, since
from treecrf.preprocessing.streams import TransformerStream
from treecrf.preprocessing.transformer import SequenceTransformer
from treecrf.utils.validation import StrOptions

# Whether the event is a change of the value.
EVENTS = {"since_true": False, "since_change": True}
MAX_WINDOW = 2**31 - 1


class RollingFeatures(SequenceTransformer):
    """Statistics of the values around each position, over windows of several lengths.

    A tree tests one value against a threshold. It cannot express that a price is high for its week,
    or that a signal is less steady than an hour ago. This transformer appends such differences and
    deviations to the numbers of each position. :doc:`/guide/rolling_features` explains the choice
    of statistics and windows.

    Parameters
    ----------
    windows : int or list of int, default=(5, 15, 45)
        Lengths of the windows in positions, at least 2.
    statistics : str or list of str, default=("difference", "std")
        What to compute in each window:

        - ``"mean"``, ``"std"`` (with divisor n), ``"min"``, ``"max"``, ``"range"``
          (``max - min``), and ``"sum"`` of the values. The sum of a boolean column is the number of
          positions where it is true.
        - ``"difference"``: the value minus the mean.
        - ``"zscore"``: the difference divided by the standard deviation, or 0 if that is 0.
        - ``"slope"``: the change per position of the least-squares line, which takes two values.
        - ``"count"``: the number of values that are not missing.

        Two statistics have no window. They are missing before the first such position of the
        sequence.

        - ``"since_true"``: the number of positions since the value was true, or a number other
          than 0.
        - ``"since_change"``: the number of positions since the value last changed.

        Missing values are skipped. Without any value in a window, the result is missing.
    centered : bool, default=True
        Whether a window of w positions has its position in the middle: ``w // 2`` positions before
        it and ``(w - 1) // 2`` after it. If False, windows end at their position. The features of a
        position are then known as soon as its values are.
    columns : list of str or int, default=None
        Names or indices of the columns to use. None means all numbers and booleans.
    keep : bool, default=True
        Whether to keep these columns. All other columns are kept in any case.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str
        Names of these columns, if they have names.

    See Also
    --------
    SequenceScaler : Standardize columns within their sequence.
    treecrf.stream : Label a sequence online with a pipeline.

    Notes
    -----
    Windows never reach into another sequence. At the ends of a sequence, they are shorter.

    The time per position does not depend on the lengths of the windows: a window is the end of one
    block of w positions and the start of the next, as for running minima [1]_. Nothing is
    subtracted from running sums, so a value that has left the window leaves no rounding error
    behind. Sums are those of differences from a value in the window [2]_: around 1e9, deviations
    are as precise as around 0. Equal values have a deviation of 0 and a slope of 0.

    References
    ----------
    .. [1] M. van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and
       octagonal kernels", Pattern Recognition Letters 13, 1992.
    .. [2] T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance:
       analysis and recommendations", The American Statistician 37, 1983.

    Examples
    --------
    >>> import pandas as pd
    >>> from treecrf.preprocessing import RollingFeatures
    >>> day = pd.DataFrame({"light": [0, 0, 9, 0, 0], "state": list("aabba")})
    >>> rolling = RollingFeatures(windows=3, statistics=["difference", "max"])
    >>> rolling.fit_transform([day])[0]
       light state  light_difference_3  light_max_3
    0      0     a                 0.0          0.0
    1      0     a                -3.0          9.0
    2      9     b                 6.0          9.0
    3      0     b                -3.0          9.0
    4      0     a                 0.0          0.0
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceTransformer._parameter_constraints,
        "windows": [numbers.Integral, "array-like"],
        "statistics": [StrOptions({*STATISTICS, *EVENTS}), list, tuple],
        "centered": ["boolean"],
    }

    def __init__(
        self,
        windows: ArrayLike = (5, 15, 45),
        statistics: str | Sequence[str] = ("difference", "std"),
        *,
        centered: bool = True,
        columns: ArrayLike | None = None,
        keep: bool = True,
    ):
        self.windows = windows
        self.statistics = statistics
        self.centered = centered
        self.columns = columns
        self.keep = keep

    def stream(self) -> TransformerStream:
        """Return a stream that computes the features of a sequence online.

        Returns
        -------
        TransformerStream
            Its results are equal, to the bit, to those of `transform`. With centered windows, they
            are delayed by the number of positions after the middle of the longest window.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.

        Examples
        --------
        >>> from treecrf.preprocessing import RollingFeatures
        >>> rolling = RollingFeatures(windows=3, statistics="max", centered=False)
        >>> stream = rolling.fit([[[1.0], [2.0]]]).stream()
        >>> [stream.push([value]).tolist() for value in (7.0, 5.0, 6.0, 4.0)]
        [[7.0, 7.0], [5.0, 7.0], [6.0, 7.0], [4.0, 6.0]]
        """
        return TransformerStream(self)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for window in self._lengths():
            if isinstance(window, bool) or not isinstance(window, numbers.Integral):
                raise TypeError(f"windows={self.windows!r}; expected integers, at least 2")
            if not 2 <= window <= MAX_WINDOW:
                raise ValueError(f"windows={self.windows!r}; expected integers, at least 2")
        names = self._names()
        for name in names:
            if name not in STATISTICS and name not in EVENTS:
                known = ", ".join(map(repr, [*STATISTICS, *EVENTS]))
                raise ValueError(f"statistics has {name!r}; expected some of {known}")
        if not names or (not self._lengths() and not set(names) <= set(EVENTS)):
            raise ValueError(
                f"statistics={self.statistics!r} and windows={self.windows!r}; expected at least "
                "one of each"
            )

    def _lengths(self) -> list[int]:
        """Return the lengths of the windows."""
        array = np.atleast_1d(np.asarray(self.windows, dtype=object))
        if array.ndim > 1:
            raise TypeError(f"windows={self.windows!r}; expected an integer or a list of integers")
        return list(dict.fromkeys(array.tolist()))

    def _names(self) -> list[str]:
        """Return the names of the statistics."""
        given = [self.statistics] if isinstance(self.statistics, str) else self.statistics
        return list(dict.fromkeys(given))

    def _names_of(self, name: str) -> list[str]:
        rolling = [statistic for statistic in self._names() if statistic in STATISTICS]
        events = [statistic for statistic in self._names() if statistic in EVENTS]
        pairs = product(self._lengths() if rolling else (), rolling)
        return [
            *(f"{name}_{statistic}_{length}" for length, statistic in pairs),
            *(f"{name}_{statistic}" for statistic in events),
        ]

    def _codes(self) -> np.ndarray:
        """Return the numbers of the statistics of windows."""
        codes = [STATISTICS[name] for name in self._names() if name in STATISTICS]
        return np.array(codes, dtype=np.intc)

    def _windows(self, room: int) -> list[RollingWindow]:
        """Make the windows of a column, for sequences of at most ``room`` positions."""
        windows = []
        for length in self._lengths() if len(self._codes()) else ():
            n_after = (length - 1) // 2 if self.centered else 0
            windows.append(RollingWindow(length, n_after, room + n_after))
        return windows

    def _events(self) -> list[Event]:
        """Make the counters of positions since an event, of a column."""
        return [Event(EVENTS[name]) for name in self._names() if name in EVENTS]

    def _compute(self, table: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        codes = self._codes()
        windows = self._windows(int(np.diff(offsets).max(initial=0)))
        events = self._events()
        n_columns = table.shape[1] * len(self._names_of(""))
        result = np.empty((len(table), n_columns), order="F")
        start = 0
        for values in table.T:
            for window in windows:
                roll(window, values, offsets, codes, result[:, start : start + len(codes)])
                start += len(codes)
            for event in events:
                since(event, values, offsets, result[:, start])
                start += 1
        return result

    def _online(self) -> OnlineStatistics:
        n_columns = len(self._chosen)
        windows = [self._windows(MAX_WINDOW) for _ in range(n_columns)]
        return OnlineStatistics(windows, [self._events() for _ in range(n_columns)], self._codes())


class OnlineStatistics:
    """The statistics of a sequence of rows, one after another."""

    def __init__(
        self, windows: list[list[RollingWindow]], events: list[list[Event]], codes: np.ndarray
    ):
        # Of each column.
        self._windows = windows
        self._events = events
        self._codes = codes
        self._n_each = len(windows[0]) * len(codes) + len(events[0])
        # Number of positions by which results lag behind: that of the longest window.
        self.delay = max((window.n_after for window in windows[0]), default=0)
        self._rows: deque[np.ndarray] = deque(maxlen=self.delay + 1)

    def reset(self) -> None:
        """Start a new sequence."""
        self._rows.clear()
        for column in (*self._windows, *self._events):
            for state in column:
                state.reset()

    def push(self, row: np.ndarray) -> np.ndarray | None:
        """Add a row, NaN after the end; return the statistics of the row ``delay`` rows before."""
        self._rows.append(row)
        n_columns = len(self._windows)
        values = np.empty((n_columns, self._n_each))
        for j in range(n_columns):
            self._push_column(j, values[j])
        return values.ravel() if len(self._rows) > self.delay else None

    def _push_column(self, j: int, out: np.ndarray) -> None:
        """Add a value to the windows of a column; each gets it so late that all results agree."""
        start = 0
        for window in self._windows[j]:
            age = self.delay - window.n_after
            if age < len(self._rows):
                window.push(self._rows[-1 - age][j], self._codes, out[start:])
            start += len(self._codes)
        if len(self._rows) > self.delay:
            for event in self._events[j]:
                out[start] = event.push(self._rows[0][j])
                start += 1
