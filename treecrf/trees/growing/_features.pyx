"""Encoded positions as trees read them: histograms of windows, and window tests.

Between the sequences, encoded rows (see `treecrf.encoding.encoded`) include boundary rows, as many
as the window reaches beyond the ends. A window is therefore a run of adjacent rows and needs no
check.

A tree or a node that may test only some features needs no bins of others. The histograms of a tree
contain the bins of its features only. A node that has fewer features searches their bins among
them, or has a histogram of these bins alone.
"""

import numpy as np

from treecrf.encoding.encoded import EncodedColumns
from treecrf.trees.growing.window_tests import joint_codes

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memset

from treecrf.trees.growing._tests cimport (
    BIT, CODE_ABOVE, CODE_EQUAL, LISTED, NO_VALUE, PASSED, bytes_equal, lists_any, lower_bound,
    test_bytes,
)

cdef extern from "trees/bitsets.h" nogil:
    int lowest_bit(uint64_t word)

cdef extern from "trees/growing/histograms.h" nogil:
    void add_pair(double *target, double first, double second)
    void add_pairs(double *joint, const int64_t *bins, const int64_t *firsts,
                   const uint16_t *pairs, Py_ssize_t n, double value, double weight)
    void add_rows(double *bins, const int64_t *first, const uint8_t *codes, Py_ssize_t n_columns,
                  const int64_t *stretches, Py_ssize_t n_stretches, const int32_t *rows,
                  Py_ssize_t n_rows, const double *values, double *sums, Py_ssize_t n_lanes)
    void prefetch "TREECRF_PREFETCH" (const void *address)

# Listing a member of a node and its values takes about as long as adding a pair to this many bins.
# With a higher value, children less often sum up the bins that each of them has chosen: they list
# all their members, and save the bins that they have not chosen. The trees are the same.
cdef double LISTING = 8.0
# With this many rows for each joint bin, joint histograms of pairs of codes take less time: they
# halve the additions of rows, but each joint bin must be cleared and added to two bins.
cdef Py_ssize_t ROWS_PER_JOINT_BIN = 4


cdef class ChosenBins:
    """The bins of chosen features, at first of all, and where the values of a row are added.

    Every choice includes the bins of previous labels, after those of the window.
    """

    def __init__(self, tests, Py_ssize_t n_label_bins, bint with_counts):
        self._describe_groups(tests, n_label_bins)
        self._allocate(len(tests.code_bins), tests.n_bins + n_label_bins, with_counts)
        self.choose_all()

    def _describe_groups(self, tests, Py_ssize_t n_label_bins):
        """Set the arrays of the groups of bins, with a last group for previous labels."""
        groups = tests.bin_groups
        n_groups = len(groups.starts)
        n_bins = tests.n_bins + n_label_bins
        self.n_code_groups = len(groups.pairs)
        self.n_byte_groups = len(tests.bit_bins)
        label_start = [tests.n_bins] if n_label_bins else []
        self.starts = np.concatenate([groups.starts, label_start, [n_bins]]).astype(np.int64)
        self.feature_groups = groups.feature_groups
        sizes = np.bincount(groups.feature_groups, minlength=n_groups + 1)
        self.group_sizes = sizes.astype(np.int32)
        bin_features = np.full(n_bins + 1, tests.n_features, dtype=np.int32)
        bin_features[:tests.n_bins] = groups.bin_features
        self.bin_features = bin_features
        label_groups = range(n_groups, len(self.starts))  # with the number of all groups
        self.always = np.append(groups.missing_groups, label_groups).astype(np.int32)
        self.group_codes = groups.codes
        self.group_pairs = groups.pairs
        self.window_code_bins = tests.code_bins
        self.joint_bins = tests.pairs.bins
        self.with_lists = tests.list_bins[tests.width] > tests.list_bins[0]

    def _allocate(self, Py_ssize_t n_codes, Py_ssize_t n_bins, bint with_counts):
        """Allocate the arrays of chosen bins."""
        self.bins = np.zeros(n_bins + 1, dtype=np.int32)
        self.places = np.zeros(n_bins + 1, dtype=np.int32)
        self.row_starts = np.zeros(1, dtype=np.int64)
        self.row_places = np.zeros(1, dtype=np.int32)
        self.stretches = np.zeros(2 * n_codes + 2, dtype=np.int64)
        self.code_bins = np.zeros(n_codes + 1, dtype=np.int64)
        self.pairs = np.zeros(n_codes + 1, dtype=np.int64)
        self.pair_codes = np.zeros(n_codes + 1, dtype=np.int64)
        self.pair_bins = np.zeros(n_codes + 1, dtype=np.int64)
        self.unpaired = np.zeros(n_codes + 1, dtype=np.int64)
        self.byte_columns = np.zeros(self.n_byte_groups + 1, dtype=np.int64)
        self.byte_bins = np.zeros(self.n_byte_groups + 1, dtype=np.int64)
        self.own_pairs = np.zeros(2 * n_bins + 2)
        self.own_counts = np.zeros(with_counts * n_bins + 1)
        self.own_numbers = np.zeros(n_bins + 1, dtype=np.int32)

    def choose_all(self, chosen=None):
        """Choose features: a uint8 array (n_features,), or None for all."""
        cdef const int32_t[::1] features
        cdef Py_ssize_t i
        if self.is_all and chosen is None:
            return
        every = np.ones(len(self.feature_groups)) if chosen is None else chosen
        features = np.append(np.flatnonzero(every), 0).astype(np.int32)
        self.choose(&features[0], features.shape[0] - 1)
        self.is_all = chosen is None
        for i in range(self.n_bins):
            self.places[self.bins[i]] = <int32_t> i

    cdef void choose(self, const int32_t *features, Py_ssize_t n) noexcept nogil:
        """Choose some features, ascending."""
        cdef Py_ssize_t i = 0, a = 0, first, n_bins
        cdef int32_t group
        self.n_bins = 0
        self.n_bytes = 0
        self.n_stretches = 0
        self.n_pairs = 0
        self.n_joint = 0
        self.n_unpaired = 0
        self.is_all = False
        self.end_of_shared = 0
        while i < n:
            group = self.feature_groups[features[i]]
            first = i
            if group >= self.n_code_groups + self.n_byte_groups:
                break
            while i < n and self.feature_groups[features[i]] == group:
                i += 1
            if group < self.n_code_groups:
                self._add_codes(group, self.n_bins - self.starts[group])
            else:
                self.byte_columns[self.n_bytes] = group - self.n_code_groups
                self.byte_bins[self.n_bytes] = self.n_bins
                self.n_bytes += 1
            if i - first < self.group_sizes[group]:
                self.end_of_shared = self.starts[group + 1]
            self.n_bins = self._add_bins(group, self.n_bins)
        n_bins = self.n_bins
        # Groups of lists, and those of every choice.
        for i in range(i, n):
            group = self.feature_groups[features[i]]
            while self.always[a] < group:
                n_bins = self._add_bins(self.always[a], n_bins)
                a += 1
            n_bins = self._add_bins(group, n_bins)
        for a in range(a, self.always.shape[0] - 1):
            n_bins = self._add_bins(self.always[a], n_bins)
        self.n_bins = n_bins

    cdef inline Py_ssize_t _add_bins(self, int32_t group, Py_ssize_t n_bins) noexcept nogil:
        """Add the bins of a group; return the number of bins with them."""
        cdef int64_t start = self.starts[group], n = self.starts[group + 1] - start, b
        cdef int32_t *bins = &self.bins[n_bins]
        bins[0] = <int32_t> start
        for b in range(1, n):  # most groups have one bin
            bins[b] = <int32_t> (start + b)
        return n_bins + n

    cdef void _add_codes(self, int32_t group, int64_t shift) noexcept nogil:
        """Add the code of a group, or its pair of codes."""
        cdef int32_t pair = self.group_pairs[group]
        cdef int64_t j, first = self.group_codes[group], end = first + 1 + (pair >= 0)
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
        cdef Bins bins = Bins(self.n_bins, 0, &self.own_pairs[0], NULL, &self.bins[0])
        if with_counts:
            bins.counts = &self.own_counts[0]
        return bins

    cdef Bins select(self, const Bins *histogram, ChosenBins tree_bins,
                     const uint8_t *marks) noexcept nogil:
        """Return these bins of a tree's histogram, with their numbers among all.

        If the histogram lists its bins, they are those of the features with ``marks``.
        """
        cdef Bins own = self.own(histogram.counts != NULL)
        cdef Py_ssize_t i, place
        if tree_bins.is_all and self is tree_bins:
            return histogram[0]
        if histogram.bins != NULL:
            self._select_listed(histogram, tree_bins, marks, &own)
            return own
        if self is tree_bins:
            return Bins(self.n_bins, 0, histogram.pairs, histogram.counts, &self.bins[0])
        for i in range(own.n):
            place = tree_bins.places[own.bins[i]]
            own.pairs[2 * i] = histogram.pairs[2 * place]
            own.pairs[2 * i + 1] = histogram.pairs[2 * place + 1]
            if own.counts != NULL:
                own.counts[i] = histogram.counts[place]
        return own

    cdef void _select_listed(self, const Bins *histogram, ChosenBins tree_bins,
                             const uint8_t *marks, Bins *own) noexcept nogil:
        """Copy the bins of features with ``marks`` from a histogram that lists its bins."""
        cdef Py_ssize_t i
        cdef int32_t b
        own.n = 0
        own.bins = &self.own_numbers[0]
        for i in range(histogram.n):
            b = histogram.bins[i] if tree_bins.is_all else tree_bins.bins[histogram.bins[i]]
            own.bins[own.n] = b
            own.pairs[2 * own.n] = histogram.pairs[2 * i]
            own.pairs[2 * own.n + 1] = histogram.pairs[2 * i + 1]
            if own.counts != NULL:
                own.counts[own.n] = histogram.counts[i]
            own.n += marks[self.bin_features[b]]

    cdef bint prefers_rows(self, double share, Py_ssize_t n_small, Py_ssize_t n_both,
                           Py_ssize_t n_bins) noexcept nogil:
        """Return whether children that choose a share of the features should sum their own rows.

        Otherwise the smaller child sums up all features of the tree (these bins), and the sums of
        the other one are the difference from those of the parent, which has ``n_bins``, or 0 if it
        has none. That is always better if rows list ids: to find the chosen ones, all must be read.
        """
        cdef double n_added = self.n_pairs + self.n_unpaired + self.n_bytes     # for each row
        cdef double by_rows = (share * (n_both * n_added + 2 * self.n_bins)
                               + n_both * LISTING)
        return not self.with_lists and (
            n_bins == 0 or by_rows < n_small * (LISTING + n_added) + 2 * n_bins)


# Histograms of whole bytes take less time than adding each bit from this many positions on: 256
# joint bins must be cleared and folded, but a position needs one addition for eight bits.
cdef Py_ssize_t MANY_POSITIONS = 96
# How many examples ahead the lists of a window are fetched from memory: enough for a cache miss to
# end before the example is added, and few enough for the first-level cache.
cdef Py_ssize_t AHEAD = 4
# Listing a chosen bin of a row takes about as long as a tree takes to add and compare this many
# bins of an example. With a higher value, a tree more often lists the bins of its features for all
# rows before it grows, and then reads nothing else at its nodes. The trees are the same.
cdef double SAVED = 2.0
# Maximum number of chosen bins in lists for each id that a row lists, which limits memory.
cdef double MAX_PLACES = 4.0
# Marking the rows that list an id takes less time than searching the lists of rows, if there are
# fewer than this many marks for each row: a search takes several steps, a mark one.
cdef Py_ssize_t MARKS_PER_SEARCH = 4


cdef class Features:
    """The features of some positions, and their bins in a histogram.

    Row 0 is the row of the first position; the arrays also hold the ``left`` rows before it. With
    ``shared``, features of another thread, only the working memory is new.
    """

    def __init__(self, encoded, tests, Features shared=None):
        self.n_words = encoded.n_padded_rows // 64
        self.columns = EncodedColumns.of(encoded)
        self.code_columns = self.columns.codes
        self.bit_columns = self.columns.bits
        self.posting_starts = self.columns.posting_starts
        self.postings = self.columns.postings
        self.codes = encoded.codes
        self.list_starts = encoded.list_starts
        self.list_ids = encoded.list_ids
        self.left = tests.left
        self.width = tests.width
        self.list_bins = tests.list_bins
        self.marks = np.zeros(64 * self.n_words + tests.width, dtype=np.uint8)
        pairs = tests.pairs
        self.pair_widths = pairs.widths
        self.pair_bins = pairs.bins
        if shared is None:
            self.pairs = joint_codes(encoded.codes, pairs.firsts, pairs.widths)
        else:
            self.pairs = shared.pairs
        self.joint = np.zeros(2 * self.pair_bins[self.pair_widths.shape[0]])
        self.test_kinds = tests.kinds
        self.test_offsets = tests.offsets
        self.test_slots = tests.slots
        self.test_lows = tests.lows
        self.test_highs = tests.highs
        self.test_missing = tests.missing

    def entries_per_row(self):
        """Return the mean number of bins that a row is in."""
        n_rows = max(1, self.list_starts.shape[0] - 1)
        per_row = self.codes.shape[1] + self.bit_columns.shape[0] + len(self.list_ids) / n_rows
        return int(per_row * self.width)

    def choose_bins(self, ChosenBins tree_bins, chosen, Py_ssize_t n_examples):
        """Choose the bins of a tree: those of its features, or all if that takes less time.

        ``chosen`` is a uint8 array (n_features,), or None for all.
        """
        cdef double share, n_rows = self.list_starts.shape[0] - 1
        if chosen is None or not tree_bins.with_lists:
            tree_bins.choose_all(chosen)
            return
        share = np.mean(chosen)
        # Lists of the chosen bins of all rows are made once for all nodes.
        if (share * self.width < MAX_PLACES
                and share * n_rows < SAVED * (1 - share) * n_examples):
            tree_bins.choose_all(chosen)
            self._list_places(tree_bins)
        else:
            tree_bins.choose_all()

    cdef void _list_places(self, ChosenBins tree_bins):
        """List the chosen bins of each row's window, by counting them first."""
        cdef Py_ssize_t row, n_rows = self.list_starts.shape[0] + self.width
        cdef int64_t *ends
        if tree_bins.row_starts.shape[0] != n_rows:
            tree_bins.row_starts = np.zeros(n_rows, dtype=np.int64)
        ends = &tree_bins.row_starts[1]
        memset(&tree_bins.row_starts[0], 0, n_rows * sizeof(int64_t))
        with nogil:
            self._visit_places(tree_bins, ends + 1, NULL)
            for row in range(n_rows - 2):
                ends[row + 1] += ends[row]
        if tree_bins.row_places.shape[0] < ends[n_rows - 2]:
            tree_bins.row_places = np.empty(ends[n_rows - 2], dtype=np.int32)
        with nogil:
            self._visit_places(tree_bins, ends, &tree_bins.row_places[0])

    cdef void _visit_places(self, ChosenBins tree_bins, int64_t *ends,
                            int32_t *places) noexcept nogil:
        """Advance the end of each row by the chosen bins of its window, and write them if asked."""
        cdef const int32_t *bins = &tree_bins.bins[0]
        cdef Py_ssize_t j, i = lower_bound(bins, 0, tree_bins.n_bins, self.list_bins[0])
        cdef int64_t *end
        cdef int64_t id, e
        for j in range(self.width):
            while i < tree_bins.n_bins and bins[i] < self.list_bins[j + 1]:
                id = bins[i] - self.list_bins[j]
                for e in range(self.posting_starts[id], self.posting_starts[id + 1]):
                    end = ends + self.postings[e] + self.width - 1 - j
                    if places != NULL:
                        places[end[0]] = <int32_t> i
                    end[0] += 1
                i += 1

    cdef void add_windows(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                          const double *values, double *bins, int stride) noexcept nogil:
        """Add the values of some rows to the chosen bins of their windows.

        ``values`` holds a pair for each row. With ``stride`` 2 bins are pairs too; with 1 a bin
        receives the first of each pair.
        """
        if chosen.n_stretches:
            self._add_codes(chosen, rows, n, values, bins, stride)
        if chosen.n_bytes:
            self._add_bits(chosen, rows, n, values, bins, stride)
        if chosen.with_lists and chosen.is_all:
            self._add_lists(rows, n, values, bins, stride)
        elif chosen.with_lists:
            self._add_places(chosen, rows, n, values, bins, stride)

    cdef void add_lanes(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                        const double *lanes, Py_ssize_t n_lanes, double *bins,
                        double *sums) noexcept nogil:
        """Add 2, 4 or 8 lanes of some rows to the bins of their codes, and to the sums of all."""
        add_rows(bins, &chosen.code_bins[0], &self.codes[0, 0], self.codes.shape[1],
                 &chosen.stretches[0], chosen.n_stretches, rows, n, lanes, sums, n_lanes)

    cdef void _add_codes(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                         const double *values, double *bins, int stride) noexcept nogil:
        """Add the codes of windows, in the way that takes least time."""
        cdef const int64_t *first = &chosen.code_bins[0]
        cdef const int64_t *stretches = &chosen.stretches[0]
        cdef Py_ssize_t n_columns = self.codes.shape[1]
        cdef const uint8_t *window
        cdef Py_ssize_t i, j, s
        if stride == 2 and n * chosen.n_pairs > ROWS_PER_JOINT_BIN * chosen.n_joint:
            self._add_code_pairs(chosen, rows, n, values, bins)
            return
        if stride == 2:
            self.add_lanes(chosen, rows, n, values, 2, bins, NULL)
            return
        for i in range(n):
            window = &self.codes[0, 0] + rows[i] * n_columns
            for s in range(chosen.n_stretches):
                for j in range(stretches[2 * s], stretches[2 * s + 1]):
                    bins[first[j] + window[j]] += values[2 * i]

    cdef void _add_code_pairs(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                              const double *values, double *bins) noexcept nogil:
        """Add codes by joint histograms of adjacent ones, with half the additions."""
        cdef Py_ssize_t n_columns = self.codes.shape[1], n_unpaired = chosen.n_unpaired
        cdef const uint8_t *window
        cdef const int64_t *unpaired = &chosen.unpaired[0]
        cdef const int64_t *first = &chosen.code_bins[0]
        cdef double *joint = &self.joint[0]
        cdef double *former
        cdef double *latter
        cdef double *pair_sums
        cdef Py_ssize_t i, p, j, k, width
        for i in range(chosen.n_pairs):
            p = chosen.pairs[i]
            memset(joint + 2 * self.pair_bins[p], 0,
                   2 * (self.pair_bins[p + 1] - self.pair_bins[p]) * sizeof(double))
        for i in range(n):
            window = &self.codes[0, 0] + rows[i] * n_columns
            add_pairs(joint, &chosen.pair_bins[0], &chosen.pair_codes[0],
                      &self.pairs[rows[i] * n_columns], chosen.n_pairs, values[2 * i],
                      values[2 * i + 1])
            for p in range(n_unpaired):
                j = unpaired[p]
                add_pair(bins + 2 * (first[j] + window[j]), values[2 * i], values[2 * i + 1])
        # Sum the joint bins over either code.
        for i in range(chosen.n_pairs):
            p = chosen.pairs[i]
            width = self.pair_widths[p]
            former = bins + 2 * first[chosen.pair_codes[i]]
            latter = bins + 2 * first[chosen.pair_codes[i] + 1]
            pair_sums = joint + 2 * self.pair_bins[p]
            for j in range((self.pair_bins[p + 1] - self.pair_bins[p]) // width):
                for k in range(width):
                    add_pair(former + 2 * j, pair_sums[0], pair_sums[1])
                    add_pair(latter + 2 * k, pair_sums[0], pair_sums[1])
                    pair_sums += 2

    cdef void _add_bits(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                        const double *values, double *bins, int stride) noexcept nogil:
        """Add the bytes of bits of windows."""
        cdef Py_ssize_t n_columns = self.bit_columns.shape[0], i, j
        cdef const uint8_t *column
        for i in range(chosen.n_bytes):
            j = chosen.byte_columns[i]
            column = &self.bit_columns[j % n_columns, j // n_columns]
            if n < MANY_POSITIONS:
                add_set_bits(rows, n, column, values, bins + stride * chosen.byte_bins[i], stride)
            else:
                add_bytes(rows, n, column, values, bins + stride * chosen.byte_bins[i], stride)

    cdef void _add_lists(self, const int32_t *rows, Py_ssize_t n, const double *values,
                         double *bins, int stride) noexcept nogil:
        """Add the ids that windows list; they come from memory in random order."""
        cdef Py_ssize_t i, j, width = self.width
        cdef const int64_t *starts = &self.list_starts[0]
        cdef const int32_t *ids = &self.list_ids[0]
        cdef const int64_t *list_bins = &self.list_bins[0]
        cdef const int64_t *window
        for i in range(n):
            if i + AHEAD < n:
                window = starts + rows[i + AHEAD]
                prefetch_run(ids, window[0], window[width])
            window = starts + rows[i]
            for j in range(width):
                add_to_bins(ids + window[j], window[j + 1] - window[j], list_bins[j],
                            values + 2 * i, bins, stride)

    cdef void _add_places(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                          const double *values, double *bins, int stride) noexcept nogil:
        """Add the chosen bins that windows list."""
        cdef Py_ssize_t i
        cdef const int64_t *starts = &chosen.row_starts[self.width - 1]
        cdef const int64_t *row
        cdef const int32_t *places = &chosen.row_places[0]
        for i in range(n):
            if i + AHEAD < n:
                row = starts + rows[i + AHEAD]
                prefetch_run(places, row[0], row[1])
            row = starts + rows[i]
            add_to_bins(places + row[0], row[1] - row[0], 0, values + 2 * i, bins,
                        stride)

    cdef void evaluate(self, int64_t test, uint64_t *passed) noexcept nogil:
        """Find which rows pass a test: a bit for each row."""
        cdef uint8_t kind = self.test_kinds[test]
        cdef uint8_t low = <uint8_t> self.test_lows[test]
        cdef Py_ssize_t start = self.test_offsets[test] + self.left
        cdef Py_ssize_t slot = self.test_slots[test]
        if kind == LISTED:
            self._find_listed(self.test_lows[test], self.test_highs[test], start, passed)
        elif kind == BIT:
            test_bytes(kind, low, &self.bit_columns[slot, start], self.n_words, passed)
        else:
            test_bytes(kind, low, &self.code_columns[slot, start], self.n_words, passed)

    cdef bint find_missing(self, int64_t test, uint64_t *missing) noexcept nogil:
        """Find the rows that lack the value of a test; False if no row can lack it."""
        cdef int32_t value = self.test_missing[test]
        cdef Py_ssize_t start = self.test_offsets[test] + self.left
        if value < 0:
            return False
        if self.test_kinds[test] <= CODE_ABOVE:
            bytes_equal(&self.code_columns[self.test_slots[test], start], self.n_words, 255,
                        <uint8_t> value, missing)
        else:
            self._find_listed(value, value + 1, start, missing)
        return True

    cdef void _find_listed(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t start,
                           uint64_t *listed) noexcept nogil:
        """Find the rows that list an id of [low, high)."""
        self._mark(low, high, 1)
        bytes_equal(&self.marks[start], self.n_words, 255, 1, listed)
        self._mark(low, high, 0)

    cdef void _mark(self, Py_ssize_t low, Py_ssize_t high, uint8_t mark) noexcept nogil:
        """Mark the rows that list an id of [low, high)."""
        cdef int64_t i
        for i in range(self.posting_starts[low], self.posting_starts[high]):
            self.marks[self.postings[i]] = mark

    cdef void outcomes(self, int64_t test, const int32_t *rows, Py_ssize_t n,
                       uint8_t *out) noexcept nogil:
        """Evaluate a test at some rows: FAILED, PASSED or NO_VALUE for each row."""
        cdef Py_ssize_t i, start = self.test_offsets[test] + self.left
        cdef int32_t low = self.test_lows[test], missing = self.test_missing[test]
        cdef uint8_t kind = self.test_kinds[test]
        cdef const uint8_t *column
        if kind <= CODE_ABOVE:
            self._find_codes(test, rows, n, out)
            return
        if kind == BIT:
            column = &self.bit_columns[self.test_slots[test], start]
            for i in range(n):
                out[i] = column[rows[i]] >> low & 1
        else:
            self._find_in_lists(low, self.test_highs[test], rows, n, start, PASSED, out)
        if missing >= 0:
            self._find_in_lists(missing, missing + 1, rows, n, start, NO_VALUE, out)

    cdef void _find_codes(self, int64_t test, const int32_t *rows, Py_ssize_t n,
                          uint8_t *out) noexcept nogil:
        """Evaluate a test of a code at some rows."""
        cdef Py_ssize_t i, start = self.test_offsets[test] + self.left
        cdef int32_t low = self.test_lows[test], missing = self.test_missing[test]
        cdef const uint8_t *column = &self.code_columns[self.test_slots[test], start]
        if self.test_kinds[test] == CODE_EQUAL:
            for i in range(n):
                out[i] = column[rows[i]] == low
        else:
            for i in range(n):
                out[i] = column[rows[i]] > low
        for i in range(n if missing >= 0 else 0):
            if column[rows[i]] == missing:
                out[i] = NO_VALUE

    cdef void _find_in_lists(self, int32_t low, int32_t high, const int32_t *rows, Py_ssize_t n,
                             Py_ssize_t start, uint8_t outcome, uint8_t *out) noexcept nogil:
        """Write an outcome for the rows that list an id of [low, high).

        If it is PASSED, the others have FAILED.
        """
        cdef Py_ssize_t i
        cdef bint listed
        cdef int64_t n_marks = self.posting_starts[high] - self.posting_starts[low]
        cdef bint by_marks = n_marks < MARKS_PER_SEARCH * n
        if by_marks:
            self._mark(low, high, 1)
        for i in range(n):
            if by_marks:
                listed = self.marks[rows[i] + start]
            else:
                listed = lists_any(self.list_starts, self.list_ids, rows[i] + start, low,
                                   high)
            if listed:
                out[i] = outcome
            elif outcome == PASSED:
                out[i] = 0
        if by_marks:
            self._mark(low, high, 0)


cdef inline void prefetch_run(const int32_t *values, int64_t e, int64_t end) noexcept nogil:
    """Fetch the values of [e, end) from memory, one cache line of 64 bytes after another."""
    while e < end:
        prefetch(values + e)
        e += 16


cdef inline void add_to_bins(const int32_t *numbers, Py_ssize_t n, Py_ssize_t first,
                             const double *values, double *bins, int stride) noexcept nogil:
    """Add the values of a row to some bins, counted from the first."""
    cdef Py_ssize_t i
    if stride == 2:
        for i in range(n):
            add_pair(bins + 2 * (first + numbers[i]), values[0], values[1])
    else:
        for i in range(n):
            bins[first + numbers[i]] += values[0]


cdef void add_set_bits(const int32_t *rows, Py_ssize_t n, const uint8_t *column,
                       const double *values, double *bins, int stride) noexcept nogil:
    """Add the values of some rows to the bins of the bits that are set in their bytes."""
    cdef Py_ssize_t i
    cdef uint64_t byte
    cdef int bit
    for i in range(n):
        byte = column[rows[i]]
        while byte:
            bit = lowest_bit(byte)
            byte &= byte - 1
            bins[stride * bit] += values[2 * i]
            if stride == 2:
                bins[2 * bit + 1] += values[2 * i + 1]


cdef void add_bytes(const int32_t *rows, Py_ssize_t n, const uint8_t *column,
                    const double *values, double *bins, int stride) noexcept nogil:
    """Add up a histogram of bytes, then fold it into the sums of the eight bits.

    One addition for each position serves eight features.
    """
    cdef Py_ssize_t i, half
    cdef int bit
    cdef double joint[512]
    memset(joint, 0, sizeof(joint))
    for i in range(n):
        add_pair(joint + 2 * column[rows[i]], values[2 * i], values[2 * i + 1])
    for bit in range(7, -1, -1):
        half = 1 << bit
        for i in range(half):
            bins[stride * bit] += joint[2 * (half + i)]
            joint[2 * i] += joint[2 * (half + i)]
            if stride == 2:
                bins[2 * bit + 1] += joint[2 * (half + i) + 1]
                joint[2 * i + 1] += joint[2 * (half + i) + 1]
