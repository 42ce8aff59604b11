"""The bins of some features: those that a histogram has.

A tree or a node that may test only some features needs no other bins. The histograms of a tree have
the bins of its features next to each other. A node picks its own among them, or has a histogram of
nothing else.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

# Listing a row takes about as long as adding to this many bins.
cdef double LISTING = 8.0


cdef class ChosenBins:
    """The bins of chosen features, at first of all, and where the values of a row are added.

    Every choice includes the bins of previous labels, after those of the window.
    """

    def __init__(self, tests, Py_ssize_t n_label_bins, bint with_counts):
        units = tests.units
        n_units, n_bins = len(units.starts), tests.n_bins + n_label_bins
        n_codes = len(tests.code_bins)
        labels = [tests.n_bins] if n_label_bins else []
        self.n_window_bins = tests.n_bins
        self.n_code_units, self.n_byte_units = len(units.pairs), len(tests.bit_bins)
        self.starts = np.concatenate([units.starts, labels, [n_bins]]).astype(np.int64)
        self.units_of_features = units.of_features
        self.n_features_in = np.bincount(units.of_features, minlength=n_units + 1).astype(np.int32)
        features_of = np.full(n_bins + 1, tests.n_features, dtype=np.int32)
        features_of[:tests.n_bins] = units.features_of
        self.features_of = features_of
        self.always = np.append(units.of_missing, range(n_units, len(self.starts))).astype(np.int32)
        self.unit_codes, self.unit_pairs = units.codes, units.pairs
        self.window_code_bins, self.joint_bins = tests.code_bins, tests.pairs.bins
        self.with_lists = tests.list_bins[tests.width] > tests.list_bins[0]
        self.bins, self.places, self.numbers = np.zeros((3, n_bins + 1), dtype=np.int32)
        self.stretches = np.zeros(2 * n_codes + 2, dtype=np.int64)
        (self.code_bins, self.pairs, self.pair_codes, self.pair_bins,
         self.unpaired) = np.zeros((5, n_codes + 1), dtype=np.int64)
        self.byte_columns, self.byte_bins = np.zeros((2, self.n_byte_units + 1), dtype=np.int64)
        self.pair_sums, self.counts = np.zeros(2 * n_bins + 2), np.zeros(with_counts * n_bins + 1)
        self.row_starts, self.row_places = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
        self.choose_all()

    def choose_all(self, chosen=None):
        """Choose features: a uint8 array (n_features,), or None for all."""
        cdef const int32_t[::1] features
        cdef Py_ssize_t i
        if self.is_all and chosen is None:
            return
        every = np.ones(len(self.units_of_features)) if chosen is None else chosen
        features = np.append(np.flatnonzero(every), 0).astype(np.int32)
        self.choose(&features[0], features.shape[0] - 1)
        self.is_all = chosen is None
        for i in range(self.n_bins):
            self.places[self.bins[i]] = <int32_t> i

    cdef void choose(self, const int32_t *features, Py_ssize_t n) noexcept nogil:
        """Choose some features, ascending."""
        cdef Py_ssize_t i = 0, first
        cdef int32_t unit
        self.n_bins = self.n_bytes = 0
        self.n_stretches = self.n_pairs = self.n_joint = self.n_unpaired = 0
        self.is_all = False
        self.end_of_shared = 0
        while i < n:
            unit, first = self.units_of_features[features[i]], i
            if unit >= self.n_code_units + self.n_byte_units:
                break
            while i < n and self.units_of_features[features[i]] == unit:
                i += 1
            self._add_shared(unit, i - first)
        self._add_listed(features + i, n - i)

    cdef void _add_shared(self, int32_t unit, Py_ssize_t n_chosen) noexcept nogil:
        """Add a unit of codes or bits with some chosen features."""
        if unit < self.n_code_units:
            self._add_codes(unit, self.n_bins - self.starts[unit])
        else:
            self.byte_columns[self.n_bytes] = unit - self.n_code_units
            self.byte_bins[self.n_bytes] = self.n_bins
            self.n_bytes += 1
        if n_chosen < self.n_features_in[unit]:
            self.end_of_shared = self.starts[unit + 1]
        self.n_bins = self._add_bins(unit, self.n_bins)

    cdef void _add_listed(self, const int32_t *features, Py_ssize_t n) noexcept nogil:
        """Add the units of some features in lists, and those of every choice."""
        cdef Py_ssize_t i, a = 0, n_bins = self.n_bins
        cdef int32_t unit
        for i in range(n):
            unit = self.units_of_features[features[i]]
            while self.always[a] < unit:
                n_bins = self._add_bins(self.always[a], n_bins)
                a += 1
            n_bins = self._add_bins(unit, n_bins)
        for a in range(a, self.always.shape[0] - 1):
            n_bins = self._add_bins(self.always[a], n_bins)
        self.n_bins = n_bins

    cdef inline Py_ssize_t _add_bins(self, int32_t unit, Py_ssize_t n_bins) noexcept nogil:
        """Add the bins of a unit; return the number of bins with them."""
        cdef int64_t start = self.starts[unit], n = self.starts[unit + 1] - start, b
        cdef int32_t *bins = &self.bins[n_bins]
        bins[0] = <int32_t> start
        for b in range(1, n):  # most units have one bin
            bins[b] = <int32_t> (start + b)
        return n_bins + n

    cdef void _add_codes(self, int32_t unit, int64_t shift) noexcept nogil:
        """Add the code of a unit, or its pair of codes."""
        cdef int32_t pair = self.unit_pairs[unit]
        cdef int64_t j, first = self.unit_codes[unit], end = first + 1 + (pair >= 0)
        for j in range(first, end):
            self.code_bins[j] = self.window_code_bins[j] + shift
        if pair >= 0:
            self.pairs[self.n_pairs] = pair
            self.pair_codes[self.n_pairs] = first
            self.pair_bins[self.n_pairs] = self.joint_bins[pair]
            self.n_pairs += 1
            self.n_joint += self.joint_bins[pair + 1] - self.joint_bins[pair]
        else:
            self.unpaired[self.n_unpaired] = first
            self.n_unpaired += 1
        if self.n_stretches and self.stretches[2 * self.n_stretches - 1] == first:
            self.n_stretches -= 1
        else:
            self.stretches[2 * self.n_stretches] = first
        self.stretches[2 * self.n_stretches + 1] = end
        self.n_stretches += 1

    cdef Bins own(self, bint with_counts) noexcept nogil:
        """Return the bins in the working memory, not yet filled."""
        cdef Bins bins = Bins(self.n_bins, 0, &self.pair_sums[0], NULL, &self.bins[0])
        if with_counts:
            bins.counts = &self.counts[0]
        return bins

    cdef Bins select(self, const Bins *histogram, ChosenBins of_tree,
                     const uint8_t *marks) noexcept nogil:
        """Return these bins of a tree's histogram, with their numbers among all.

        If the histogram lists its bins, they are those of the features with ``marks``.
        """
        if of_tree.is_all and self is of_tree:
            return histogram[0]
        if histogram.bins != NULL:
            return self._pick_listed(histogram, of_tree, marks)
        if self is of_tree:
            return Bins(self.n_bins, 0, histogram.pairs, histogram.counts, &self.bins[0])
        return self._pick_places(histogram, of_tree)

    cdef Bins _pick_places(self, const Bins *histogram, ChosenBins of_tree) noexcept nogil:
        """Copy the chosen bins from a histogram of all bins of the tree."""
        cdef Bins own = self.own(histogram.counts != NULL)
        cdef Py_ssize_t i, place
        cdef const int32_t *places = &of_tree.places[0]
        for i in range(own.n):
            place = places[own.bins[i]]
            own.pairs[2 * i] = histogram.pairs[2 * place]
            own.pairs[2 * i + 1] = histogram.pairs[2 * place + 1]
            if own.counts != NULL:
                own.counts[i] = histogram.counts[place]
        return own

    cdef Bins _pick_listed(self, const Bins *histogram, ChosenBins of_tree,
                           const uint8_t *marks) noexcept nogil:
        """Copy the chosen bins from a histogram that lists some bins of the tree."""
        cdef Bins own = self.own(histogram.counts != NULL)
        cdef Py_ssize_t i
        cdef int32_t b
        own.n, own.bins = 0, &self.numbers[0]
        for i in range(histogram.n):
            b = histogram.bins[i] if of_tree.is_all else of_tree.bins[histogram.bins[i]]
            own.bins[own.n] = b
            own.pairs[2 * own.n] = histogram.pairs[2 * i]
            own.pairs[2 * own.n + 1] = histogram.pairs[2 * i + 1]
            if own.counts != NULL:
                own.counts[own.n] = histogram.counts[i]
            own.n += marks[self.features_of[b]]
        return own

    cdef bint prefers_rows(self, double share, Py_ssize_t n_small, Py_ssize_t n_both,
                           Py_ssize_t n_bins) noexcept nogil:
        """Return whether children that choose a share of the features should sum their own rows.

        Otherwise the smaller child sums up all features of the tree (these bins), and the sums of
        the other one are the difference from those of the parent, which has ``n_bins``, or 0 if it
        has none. That is always better if rows list ids: to find the chosen ones, all must be read.
        """
        cdef double counted = self.n_pairs + self.n_unpaired + self.n_bytes
        cdef double by_rows = (share * (n_both * counted + 2 * self.n_bins)
                               + n_both * LISTING)
        return not self.with_lists and (
            n_bins == 0 or by_rows < n_small * (LISTING + counted) + 2 * n_bins)
