"""Statistics of the values in a window that moves along a sequence.

A window of w positions ends at every position in turn. The sequence is cut into blocks of w
positions, as for running minima [1]. A window then consists of the last positions of one block and
the first ones of the next. Sums over the first positions grow with each position, and sums over the
last positions are computed when their block is complete. So nothing is ever subtracted: a value
that has left the window leaves no rounding errors behind, and the work for a position does not
depend on w.

Sums are those of differences from an anchor, a value in the window. So the variance loses at most a
factor of w of the precision, wherever zero is, and equal values have exactly the deviation 0.
Sums of whole numbers are exact: equal windows have equal statistics wherever blocks begin.

[1] M. van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and
octagonal kernels", Pattern Recognition Letters 13, 1992.
"""

import numpy as np

from libc.math cimport INFINITY, NAN, fma, isnan, sqrt
from libc.stdint cimport int64_t

cdef enum Statistic:
    DIFFERENCE
    ZSCORE
    MEAN
    STD
    MIN
    MAX
    RANGE
    SLOPE
    SUM
    COUNT

# Statistics of a window by their names.
STATISTICS = {
    "difference": DIFFERENCE,
    "zscore": ZSCORE,
    "mean": MEAN,
    "std": STD,
    "min": MIN,
    "max": MAX,
    "range": RANGE,
    "slope": SLOPE,
    "sum": SUM,
    "count": COUNT,
}


cdef struct Sums:
    # Sums over the values that are not missing: of 1, of times t since the start of the block, and
    # of differences x from the anchor. All are exact for whole numbers.
    double n, t, tt, x, xx, tx
    double lowest, highest


cdef enum:
    # Number of doubles in `Sums`.
    SIZE = 8


cdef void clear(Sums *sums) noexcept nogil:
    sums.n = sums.t = sums.tt = sums.x = sums.xx = sums.tx = 0
    sums.lowest = INFINITY
    sums.highest = -INFINITY


cdef void add(Sums *sums, double value, double anchor, double t) noexcept nogil:
    cdef double x = value - anchor
    sums.n += 1
    sums.t += t
    sums.tt += t * t
    sums.x += x
    sums.xx += x * x
    sums.tx += t * x
    sums.lowest = min(sums.lowest, value)
    sums.highest = max(sums.highest, value)


cdef void join(const Sums *one, const Sums *other, Sums *both) noexcept nogil:
    both.n = one.n + other.n
    both.t = one.t + other.t
    both.tt = one.tt + other.tt
    both.x = one.x + other.x
    both.xx = one.xx + other.xx
    both.tx = one.tx + other.tx
    both.lowest = min(one.lowest, other.lowest)
    both.highest = max(one.highest, other.highest)


cdef double rounded_sum(double a, double b, double rest) noexcept nogil:
    """Add two numbers and a small rest, with the rounding error of the first addition [2].

    [2] D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2.
    """
    cdef double total = a + b
    cdef double part = total - a
    return total + (((a - (total - part)) + (b - part)) + rest)


cdef double mean_of(const Sums *sums, double anchor) noexcept nogil:
    cdef double quotient = sums.x / sums.n
    cdef double rest = fma(-quotient, sums.n, sums.x) / sums.n
    return rounded_sum(anchor, quotient, rest)


cdef double difference_of(const Sums *sums, double anchor, double value) noexcept nogil:
    """The value minus the mean, without rounding the mean."""
    cdef double quotient = sums.x / sums.n
    cdef double rest = fma(-quotient, sums.n, sums.x) / sums.n
    return rounded_sum(value - anchor, -quotient, -rest)


cdef double deviation_of(const Sums *sums) noexcept nogil:
    return sqrt(max(sums.n * sums.xx - sums.x * sums.x, 0.0)) / sums.n


cdef double zscore_of(const Sums *sums, double anchor, double value) noexcept nogil:
    cdef double deviation = deviation_of(sums)
    if isnan(value):
        return NAN
    return difference_of(sums, anchor, value) / deviation if deviation > 0 else 0


cdef double slope_of(const Sums *sums) noexcept nogil:
    """The slope of the line with the least squares; NaN for fewer than two values."""
    if sums.n < 2:
        return NAN
    return (sums.n * sums.tx - sums.t * sums.x) / (sums.n * sums.tt - sums.t * sums.t)


cdef double value_of(int statistic, const Sums *sums, double anchor, double value) noexcept nogil:
    """A statistic of a window, given the value at the position that it describes."""
    if statistic == COUNT:
        return sums.n
    if sums.n == 0:
        return NAN
    if statistic == DIFFERENCE:
        return difference_of(sums, anchor, value)
    if statistic == ZSCORE:
        return zscore_of(sums, anchor, value)
    if statistic == MEAN:
        return mean_of(sums, anchor)
    if statistic == STD:
        return deviation_of(sums)
    if statistic == MIN:
        return sums.lowest
    if statistic == MAX:
        return sums.highest
    if statistic == RANGE:
        return sums.highest - sums.lowest
    if statistic == SLOPE:
        return slope_of(sums)
    return fma(sums.n, anchor, sums.x)


cdef class RollingWindow:
    """A window of ``length`` positions, ``n_after`` of them after the position that it describes.

    Missing values (NaN) are skipped. The arrays have room for the values of one block; if sequences
    are shorter than ``length``, ``room`` for the longest one is enough.
    """

    cdef readonly Py_ssize_t length, n_after
    cdef Py_ssize_t n_pushed, n_in_block
    # Values of this block and of the one before, and sums from each position of that to its end.
    cdef double[::1] values, values_before, memory
    cdef Sums *until_end
    cdef Sums from_start
    cdef double anchor, latest
    cdef bint has_block_before

    def __init__(self, Py_ssize_t length, Py_ssize_t n_after, Py_ssize_t room):
        cdef Py_ssize_t size = min(length, room)
        self.length = length
        self.n_after = n_after
        self.values = np.empty(size)
        self.values_before = np.empty(size)
        self.memory = np.empty(SIZE * (size + 1))
        self.until_end = <Sums *> &self.memory[0]
        self.reset()

    cpdef void reset(self) noexcept:
        """Start a new sequence."""
        self._reset()

    def push(self, double value, const int[::1] statistics, double[::1] out):
        """Add a value of the sequence, or NaN after its end.

        Write the statistics of the window that this value completes, if there is one already.
        """
        cdef Py_ssize_t k
        self._push(value)
        if self.n_pushed <= self.n_after:
            return
        for k in range(statistics.shape[0]):
            out[k] = self._statistic(statistics[k])

    cdef void _reset(self) noexcept nogil:
        self.n_pushed = self.n_in_block = 0
        self.has_block_before = False
        self.anchor = self.latest = NAN
        clear(&self.from_start)

    cdef void _push(self, double value) noexcept nogil:
        if self.n_in_block == self.length:
            self._start_block()
        self.values[self.n_in_block] = value
        if not isnan(value):
            if self.from_start.n == 0:
                self._set_anchor(value)
            add(&self.from_start, value, self.anchor, self.n_in_block)
            self.latest = value
        self.n_in_block += 1
        self.n_pushed += 1

    cdef void _start_block(self) noexcept nogil:
        self.values, self.values_before = self.values_before, self.values
        self.n_in_block = 0
        self.has_block_before = True
        clear(&self.from_start)
        # In all windows that have a value, until this block has one.
        self._set_anchor(self.latest)

    cdef void _set_anchor(self, double anchor) noexcept nogil:
        """Compute the sums over the last positions of the block before with another anchor."""
        cdef Py_ssize_t i
        self.anchor = anchor
        if not self.has_block_before:
            return
        clear(&self.until_end[self.length])
        for i in range(self.length - 1, self.n_in_block, -1):
            self.until_end[i] = self.until_end[i + 1]
            if not isnan(self.values_before[i]):
                add(&self.until_end[i], self.values_before[i], anchor, i - self.length)

    cdef double _statistic(self, int statistic) noexcept nogil:
        cdef Sums sums = self.from_start
        cdef Py_ssize_t i = self.n_in_block - 1 - self.n_after
        cdef double value
        if self.has_block_before:
            join(&self.until_end[self.n_in_block], &self.from_start, &sums)
        if i >= 0:
            value = self.values[i]
        else:
            value = self.values_before[i + self.length]
        return value_of(statistic, &sums, self.anchor, value)


def roll(
    RollingWindow window, const double[::1] values, const int64_t[::1] offsets,
    const int[::1] statistics, double[::1, :] out,
):
    """Write the statistics of the windows at all positions, each inside its sequence."""
    cdef Py_ssize_t i, t, k
    with nogil:
        for i in range(offsets.shape[0] - 1):
            window._reset()
            for t in range(offsets[i], offsets[i + 1] + window.n_after):
                window._push(values[t] if t < offsets[i + 1] else NAN)
                if t - window.n_after >= offsets[i]:
                    for k in range(statistics.shape[0]):
                        out[t - window.n_after, k] = window._statistic(statistics[k])


cdef class GrowingWindow:
    """The positions of a sequence so far."""

    cdef Sums sums
    cdef double anchor

    def __init__(self):
        self.reset()

    cpdef void reset(self) noexcept:
        """Start a new sequence."""
        clear(&self.sums)

    def push(self, double value):
        """Add a value of the sequence; return its z-score among the values so far."""
        self._push(value)
        return value_of(ZSCORE, &self.sums, self.anchor, value)

    cdef void _push(self, double value) noexcept nogil:
        if isnan(value):
            return
        if self.sums.n == 0:
            self.anchor = value
        add(&self.sums, value, self.anchor, 0)


def standardize(
    const double[::1] values, const int64_t[::1] offsets, bint running, double[::1] out
):
    """Write the z-score of each value in its sequence, or among the values so far (``running``)."""
    cdef Py_ssize_t i, t
    cdef GrowingWindow window = GrowingWindow()
    with nogil:
        for i in range(offsets.shape[0] - 1):
            clear(&window.sums)
            for t in range(offsets[i], offsets[i + 1]):
                window._push(values[t])
                if running:
                    out[t] = value_of(ZSCORE, &window.sums, window.anchor, values[t])
            if running:
                continue
            for t in range(offsets[i], offsets[i + 1]):
                out[t] = value_of(ZSCORE, &window.sums, window.anchor, values[t])


cdef class Event:
    """The number of positions since an event: a value that is true, or a change of the value."""

    cdef readonly bint is_change
    cdef double elapsed, latest

    def __init__(self, bint is_change):
        self.is_change = is_change
        self.reset()

    cpdef void reset(self) noexcept:
        """Start a new sequence."""
        self.elapsed = self.latest = NAN

    def push(self, double value):
        """Add a value; return the number of positions since the latest event, NaN without one."""
        return self._push(value)

    cdef double _push(self, double value) noexcept nogil:
        cdef bint happens = not isnan(value) and value != 0
        if self.is_change:
            happens = value != self.latest and not (isnan(value) or isnan(self.latest))
        self.elapsed = 0 if happens else self.elapsed + 1
        if not isnan(value):
            self.latest = value
        return self.elapsed


def since(
    Event event, const double[::1] values, const int64_t[::1] offsets, double[::1] out
):
    """Write the number of positions since the latest event in the same sequence."""
    cdef Py_ssize_t i, t
    for i in range(offsets.shape[0] - 1):
        event.reset()
        for t in range(offsets[i], offsets[i + 1]):
            out[t] = event._push(values[t])
