"""Codes, bits and lists of tables, see `treecrf.encoding.column_layout`; copies of rows."""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcpy

from treecrf.inputs.schema import CATEGORY, NUMBER

cdef enum:
    # Rows that are searched at the same time, which hides the latency of comparisons.
    N_TOGETHER = 8
    # Rows with more ids are sorted by `qsort` unless their ids ascend.
    MANY_IDS = 64
    # As in `treecrf.encoding.column_layout`.
    IN_CODES = 0
    IN_BITS = 1
    IN_LISTS = 2

    CODE_EQUAL = 0
    CODE_ABOVE = 1
    BIT = 2
    LISTED = 3

ctypedef fused Value:
    uint8_t  # booleans
    double

cdef struct Column:
    bint is_number, is_category
    bint has_one_id          # in lists: of values above ``threshold``
    int32_t storage, slot, missing_code, missing_id
    const double *thresholds
    Py_ssize_t n_thresholds
    double threshold         # the only one; 0 for booleans
    uint8_t code_of_zero


def look_up(columns, layout, const int32_t[::1] tested, const int32_t[::1] values):
    """Return kinds, slots, lows and highs of tests; see `ColumnLayout.lookups`."""
    cdef const int8_t[::1] storage = layout.storage
    cdef const int32_t[::1] slots = layout.slots
    cdef const int32_t[::1] first_codes = layout.first_codes, zeros = layout.zeros
    cdef const uint8_t[::1] has_one_id = layout.has_one_id.view(np.uint8)
    cdef const uint8_t[::1] is_number = columns.is_number.view(np.uint8)
    cdef const uint8_t[::1] is_category = columns.is_category.view(np.uint8)
    cdef const int64_t[::1] n_tests = columns.n_tests
    cdef const int32_t[::1] missing_codes = layout.missing_codes, missing_ids = layout.missing_ids
    cdef int32_t[:, ::1] found = np.zeros((4, tested.shape[0]), dtype=np.int32)
    cdef Py_ssize_t i
    cdef int32_t c, id_, low, high
    for i in range(tested.shape[0]):
        c = tested[i]
        if c < 0:  # the code of boundaries is 0
            continue
        if values[i] < 0:  # whether a value is missing
            if storage[c] == IN_CODES:
                found[0, i], found[1, i], found[2, i] = CODE_EQUAL, slots[c], missing_codes[c]
            else:
                found[0, i], found[2, i] = LISTED, missing_ids[c]
                found[3, i] = missing_ids[c] + 1
        elif storage[c] == IN_CODES:
            found[0, i] = CODE_EQUAL if is_category[c] or first_codes[c] else CODE_ABOVE
            found[1, i], found[2, i] = slots[c], first_codes[c] + values[i]
        elif storage[c] == IN_BITS:
            found[0, i], found[1, i], found[2, i] = BIT, slots[c] >> 3, slots[c] & 7
        else:
            id_ = low = slots[c] + values[i]
            high = id_ + 1
            if is_number[c] and not has_one_id[c]:
                # Ids below the bin of 0 pass `x <= threshold`, the others fail it.
                if values[i] < zeros[c]:
                    low = slots[c]
                else:
                    low, high = id_ + 1, slots[c] + <int32_t> n_tests[c] + 1
            found[0, i], found[2, i], found[3, i] = LISTED, low, high
    return np.asarray(found)


def in_order_of_slots(layout, int storage):
    """Return the columns that are stored in one way, in the order of their slots."""
    columns = np.flatnonzero(layout.storage == storage)
    return columns[np.argsort(layout.slots[columns], kind="stable")]


cdef class ColumnCodes:
    """How values of each column are stored."""

    cdef Column *columns
    cdef readonly Py_ssize_t n_columns
    cdef const double[::1] thresholds
    cdef const int64_t[::1] coded, in_bits, in_lists
    cdef int32_t[::1] ids_of_true   # id of the value 1 in lists, or -1
    cdef bint lists_zeros
    cdef uint8_t no_category

    def __cinit__(self):
        self.columns = NULL

    def __init__(self, columns, layout, int no_category):
        cdef Py_ssize_t j
        cdef Column *column
        cdef const uint8_t[::1] kinds = columns.kinds
        cdef const int64_t[::1] starts = columns.starts
        cdef const double[::1] only = columns.only_thresholds
        cdef const uint8_t[::1] has_one_id = layout.has_one_id.view(np.uint8)
        cdef const int8_t[::1] storage = layout.storage
        cdef const int32_t[::1] slots = layout.slots
        cdef const int32_t[::1] codes = layout.missing_codes, ids = layout.missing_ids
        cdef uint8_t category = CATEGORY, number = NUMBER
        self.n_columns, self.no_category = kinds.shape[0], <uint8_t> no_category
        self.columns = <Column *> calloc(max(self.n_columns, 1), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError(f"no memory for {self.n_columns} columns")
        # An empty array has no first item.
        self.thresholds = np.append(columns.thresholds, 0.0)
        self.coded, self.in_bits, self.in_lists = (
            in_order_of_slots(layout, storage) for storage in (IN_CODES, IN_BITS, IN_LISTS)
        )
        self.ids_of_true, self.lists_zeros = np.full(self.n_columns, -1, dtype=np.int32), False
        for j in range(self.n_columns):
            column = &self.columns[j]
            column.is_number, column.is_category = kinds[j] == number, kinds[j] == category
            column.has_one_id, column.threshold = has_one_id[j], only[j]
            column.storage, column.slot = storage[j], slots[j]
            column.missing_code, column.missing_id = codes[j], ids[j]
            column.thresholds = &self.thresholds[starts[j]]
            column.n_thresholds = starts[j + 1] - starts[j]
            column.code_of_zero = code_of(column, 0, self.no_category)
            if column.storage == IN_LISTS:
                self.ids_of_true[j] = id_of(column, 1)
                self.lists_zeros |= id_of(column, 0) >= 0

    def __dealloc__(self):
        free(self.columns)


cdef class Lists:
    """Ids that rows list, one row after another."""

    cdef int32_t *ids
    cdef Py_ssize_t n, capacity

    def __cinit__(self):
        self.ids, self.n, self.capacity = NULL, 0, 0

    def __dealloc__(self):
        free(self.ids)

    cdef bint reserve(self, Py_ssize_t n) noexcept nogil:
        """Make room for n more ids; return 0 if there is no memory."""
        cdef Py_ssize_t capacity = self.capacity
        cdef int32_t *ids
        if self.n + n <= capacity:
            return True
        capacity = max(2 * capacity, self.n + n, 1024)
        ids = <int32_t *> realloc(self.ids, capacity * sizeof(int32_t))
        if ids == NULL:
            return False
        self.ids, self.capacity = ids, capacity
        return True

    cdef inline void add(self, int32_t id_) noexcept nogil:
        self.ids[self.n] = id_
        self.n += 1

    cdef object as_array(self):
        cdef int32_t[::1] ids = np.empty(self.n, dtype=np.int32)
        if self.n:
            memcpy(&ids[0], self.ids, self.n * sizeof(int32_t))
        return np.asarray(ids)


cdef inline int32_t bin_of(const Column *column, double value) noexcept nogil:
    """Count the thresholds that a value exceeds."""
    cdef Py_ssize_t first = 0, n = column.n_thresholds, half
    while n > 1:
        half = n // 2
        first += half if column.thresholds[first + half - 1] < value else 0
        n -= half
    return <int32_t> (first + (n == 1 and column.thresholds[first] < value))


cdef inline uint8_t code_of(const Column *column, double value, uint8_t no_category) noexcept nogil:
    """Return the category, the value of a boolean, or the bin of a number."""
    if value != value:
        return <uint8_t> column.missing_code
    if column.is_category:
        return no_category if value == 0 else <uint8_t> value
    return <uint8_t> bin_of(column, value) if column.is_number else value > 0


cdef inline int32_t id_of(const Column *column, double value) noexcept nogil:
    """Return the id of a value in lists; -1 if it has none."""
    if value != value:
        return column.missing_id
    if column.has_one_id:
        return column.slot if value > column.threshold else -1
    if value == 0:
        return -1
    return column.slot + (<int32_t> value - 1 if column.is_category else bin_of(column, value))


cdef void write_bins(const Column *column, const double *values, uint8_t *codes) noexcept nogil:
    """Find the bins of some rows side by side."""
    cdef Py_ssize_t first[N_TOGETHER]
    cdef Py_ssize_t n = column.n_thresholds, half, k
    for k in range(N_TOGETHER):
        first[k] = 0
    while n > 1:
        half = n // 2
        for k in range(N_TOGETHER):
            first[k] += half if column.thresholds[first[k] + half - 1] < values[k] else 0
        n -= half
    for k in range(N_TOGETHER):
        if values[k] != values[k]:
            codes[k] = <uint8_t> column.missing_code
        else:
            codes[k] = <uint8_t> (first[k] + (n == 1 and column.thresholds[first[k]] < values[k]))


cdef int compare_ids(const void *one, const void *other) noexcept nogil:
    cdef int32_t first = (<const int32_t *> one)[0], second = (<const int32_t *> other)[0]
    return (first > second) - (first < second)


cdef inline void sort_ids(int32_t *ids, Py_ssize_t n) noexcept nogil:
    """Sort by insertion unless there are many: rows list few ids, or most ascend already."""
    cdef Py_ssize_t i, j
    cdef int32_t id_
    if n > MANY_IDS:
        i = 1
        while i < n and ids[i - 1] < ids[i]:
            i += 1
        if i < n:
            qsort(ids, n, sizeof(int32_t), compare_ids)
        return
    for i in range(1, n):
        id_, j = ids[i], i
        while j > 0 and ids[j - 1] > id_:
            ids[j] = ids[j - 1]
            j -= 1
        ids[j] = id_


def write_dense(ColumnCodes table, const Value[:, :] values, const int32_t[::1] rows,
                uint8_t[:, ::1] codes, uint8_t[:, ::1] bits, uint8_t[::1] missing):
    """Write rows of a dense table; return how many ids each row lists, and the ids.

    Marks the columns with ``missing`` values.
    """
    cdef int32_t[::1] counts = np.zeros(rows.shape[0], dtype=np.int32)
    cdef Lists lists = Lists()
    cdef Py_ssize_t first = 0, last, i, before, n_dense = table.in_bits.shape[0]
    cdef Py_ssize_t n_rows = rows.shape[0], n_listed = table.in_lists.shape[0]
    cdef bint has_room = True
    with nogil:
        while first < n_rows:
            last = min(first + N_TOGETHER, n_rows)
            write_codes(table, values, first, last, rows, codes, missing)
            has_room = lists.reserve((n_dense + n_listed + 1) * (last - first))
            if not has_room:
                break
            for i in range(first, last):
                before = lists.n
                if n_dense:
                    write_bits(table, values, i, &bits[rows[i], 0], lists, missing)
                if n_listed:
                    list_ids(table, values, i, lists, missing)
                counts[i] = <int32_t> (lists.n - before)
                sort_ids(&lists.ids[before], counts[i])
            first = last
    if not has_room:
        raise MemoryError(f"no memory for the lists of {n_rows} rows")
    return np.asarray(counts), lists.as_array()


cdef void write_codes(ColumnCodes table, const Value[:, :] values, Py_ssize_t first,
                      Py_ssize_t last, const int32_t[::1] rows, uint8_t[:, ::1] codes,
                      uint8_t[::1] missing) noexcept nogil:
    """Write the codes of a few rows."""
    cdef double value[N_TOGETHER]
    cdef uint8_t code[N_TOGETHER]
    cdef const Column *column
    cdef Py_ssize_t i, j, k
    for k in range(N_TOGETHER):
        value[k] = 0
    for i in range(table.coded.shape[0]):
        j = table.coded[i]
        column = &table.columns[j]
        for k in range(last - first):
            value[k] = values[first + k, j]
        if column.is_number:
            write_bins(column, value, code)
        else:
            for k in range(last - first):
                code[k] = code_of(column, value[k], table.no_category)
        for k in range(last - first):
            codes[rows[first + k], column.slot] = code[k]
            if code[k] == column.missing_code:
                missing[j] = True


cdef void write_bits(ColumnCodes table, const Value[:, :] values, Py_ssize_t i, uint8_t *bits,
                     Lists lists, uint8_t[::1] missing) noexcept nogil:
    """Write the bits of a row, and list the missing values."""
    cdef const Column *column
    cdef const int64_t *columns = &table.in_bits[0]
    cdef Py_ssize_t k, n = table.in_bits.shape[0]
    cdef uint8_t byte = 0
    cdef double value
    for k in range(n):
        column, value = &table.columns[columns[k]], values[i, columns[k]]
        byte |= <uint8_t> ((value > column.threshold) << (k & 7))
        if k & 7 == 7 or k == n - 1:
            bits[k >> 3] = byte
            byte = 0
        if Value is double:
            if value != value:
                lists.add(column.missing_id)
                missing[columns[k]] = True


cdef void write_zeros(ColumnCodes table, Py_ssize_t row, uint8_t[:, ::1] codes,
                      uint8_t[:, ::1] bits) noexcept nogil:
    """Write a row whose values are all 0."""
    cdef const Column *column
    cdef Py_ssize_t k
    for k in range(table.coded.shape[0]):
        column = &table.columns[table.coded[k]]
        codes[row, column.slot] = column.code_of_zero
    for k in range(table.in_bits.shape[0]):
        set_bit(&bits[row, 0], &table.columns[table.in_bits[k]], 0)


cdef inline void set_bit(uint8_t *bits, const Column *column, double value) noexcept nogil:
    cdef uint8_t bit = <uint8_t> (1 << (column.slot & 7))
    cdef uint8_t *byte = &bits[column.slot >> 3]
    byte[0] = byte[0] | bit if value > column.threshold else byte[0] & ~bit


cdef void list_ids(ColumnCodes table, const Value[:, :] values, Py_ssize_t i, Lists lists,
                   uint8_t[::1] missing) noexcept nogil:
    """List the ids of a row."""
    cdef const int64_t *columns = &table.in_lists[0]
    cdef Py_ssize_t k
    cdef int32_t id_
    cdef double value
    if Value is uint8_t:
        if values.strides[1] == 1 and not table.lists_zeros:
            list_true(table, &values[i, 0], lists)
            return
    for k in range(table.in_lists.shape[0]):
        value = values[i, columns[k]]
        id_ = id_of(&table.columns[columns[k]], value)
        if id_ >= 0:
            lists.add(id_)
            if value != value:
                missing[columns[k]] = True


cdef void list_true(ColumnCodes table, const uint8_t *values, Lists lists) noexcept nogil:
    """List the ids of a row of booleans: words of zeros are skipped, and others have no branch."""
    cdef const int32_t *true_ids = &table.ids_of_true[0]
    cdef int32_t *ids = lists.ids
    cdef Py_ssize_t j = 0, k, n = lists.n, n_columns = table.n_columns
    cdef uint64_t word
    while j < n_columns:
        if j + N_TOGETHER <= n_columns:
            memcpy(&word, &values[j], N_TOGETHER)
            if word == 0:
                j += N_TOGETHER
                continue
        for k in range(j, min(j + N_TOGETHER, n_columns)):
            ids[n] = true_ids[k]
            n += (values[k] != 0) & (true_ids[k] >= 0)
        j += N_TOGETHER
    lists.n = n


def write_sparse(ColumnCodes table, tuple matrix, const int32_t[::1] rows,
                 uint8_t[:, ::1] codes, uint8_t[:, ::1] bits, uint8_t[::1] missing):
    """Write rows of a CSR matrix, given as its arrays; see `write_dense`."""
    cdef const double[::1] data = matrix[0]
    cdef const int32_t[::1] indices = matrix[1]
    cdef const int64_t[::1] starts = matrix[2]
    cdef int32_t[::1] counts = np.zeros(rows.shape[0], dtype=np.int32)
    cdef Lists lists = Lists()
    cdef Py_ssize_t i, j, k, before
    cdef int32_t id_
    cdef const Column *column
    if not lists.reserve(data.shape[0]):
        raise MemoryError(f"no memory for the lists of {rows.shape[0]} rows")
    with nogil:
        for i in range(rows.shape[0]):
            before = lists.n
            write_zeros(table, rows[i], codes, bits)
            for k in range(starts[i], starts[i + 1]):
                j = indices[k]
                column = &table.columns[j]
                if data[k] != data[k]:
                    missing[j] |= column.storage <= IN_LISTS
                    if column.missing_id >= 0:
                        lists.add(column.missing_id)
                if column.storage == IN_CODES:
                    codes[rows[i], column.slot] = code_of(column, data[k], table.no_category)
                elif column.storage == IN_BITS:
                    set_bit(&bits[rows[i], 0], column, data[k])
                elif column.storage == IN_LISTS and data[k] == data[k]:
                    id_ = id_of(column, data[k])
                    if id_ >= 0:
                        lists.add(id_)
            counts[i] = <int32_t> (lists.n - before)
            sort_ids(&lists.ids[before], counts[i])
    return np.asarray(counts), lists.as_array()


# Distances of thresholds from values


def narrow_dense(const double[::1] thresholds, const int64_t[::1] starts,
                 const double[:, :] values, double[::1] margins):
    """Lower ``margins`` to the distance of each threshold from the nearest value of its column.

    ``starts`` holds the first threshold of each column, and the number of all.
    """
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(values.shape[0]):
            for j in range(values.shape[1]):
                narrow(thresholds, starts, j, values[i, j], margins)


def narrow_sparse(const double[::1] thresholds, const int64_t[::1] starts,
                  const int64_t[::1] columns, const double[::1] values, double[::1] margins):
    """As `narrow_dense`, for values of the given ``columns``."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(values.shape[0]):
            narrow(thresholds, starts, columns[i], values[i], margins)


cdef inline void narrow(const double[::1] thresholds, const int64_t[::1] starts, Py_ssize_t j,
                        double value, double[::1] margins) noexcept nogil:
    """Lower the margins of the thresholds on both sides of a value."""
    cdef Column column
    cdef Py_ssize_t first = starts[j], above
    column.n_thresholds = starts[j + 1] - first
    if column.n_thresholds == 0 or value != value:
        return
    column.thresholds = &thresholds[first]
    above = first + bin_of(&column, value)
    if above > first:
        margins[above - 1] = min(margins[above - 1], value - thresholds[above - 1])
    if above < starts[j + 1]:
        margins[above] = min(margins[above], thresholds[above] - value)


# Copies of the rows of the windows of some positions, in runs of adjacent rows


cdef struct Run:
    Py_ssize_t begin, end    # rows of a window that belong to no earlier one


cdef inline Run run_of(Py_ssize_t row, Py_ssize_t left, Py_ssize_t right,
                       Py_ssize_t after) noexcept nogil:
    cdef Run run
    run.begin = max(row - left, after)
    run.end = row + right + 1
    return run


def count_rows(const int32_t[::1] rows, const int64_t[::1] list_starts,
               const int64_t[::1] positions, Py_ssize_t left, Py_ssize_t right):
    """Count the rows of the windows of some positions, and the ids that they list.

    ``list_starts`` has no items if no row lists an id. The rest is as in `copy_rows`.
    """
    cdef Py_ssize_t i, n_rows = 0, n_ids = 0
    cdef Run run
    run.end = 0
    with nogil:
        for i in range(positions.shape[0]):
            run = run_of(rows[positions[i]], left, right, run.end)
            n_rows += run.end - run.begin
            if list_starts.shape[0]:
                n_ids += list_starts[run.end] - list_starts[run.begin]
    return n_rows, n_ids


def copy_rows(const int32_t[::1] rows, tuple source, const int64_t[::1] positions,
              Py_ssize_t left, Py_ssize_t right, int32_t[::1] new_rows, tuple target,
              Py_ssize_t n_rows, Py_ssize_t n_ids):
    """Append the rows of the windows of some positions; each row is copied once.

    Positions ascend, without duplicates. ``source`` and ``target`` are the arrays ``codes``,
    ``bits``, ``list_starts`` and ``list_ids`` of `EncodedSequences`. The target has ``n_rows`` rows
    and ``n_ids`` ids already. Without ids, its ``list_starts`` must be zeros and remain so.
    """
    cdef const uint8_t[:, ::1] codes = source[0], bits = source[1]
    cdef const int64_t[::1] starts = source[2]
    cdef const int32_t[::1] ids = source[3]
    cdef uint8_t[:, ::1] new_codes = target[0], new_bits = target[1]
    cdef int64_t[::1] new_starts = target[2]
    cdef int32_t[::1] new_ids = target[3]
    cdef bint has_lists = new_ids.shape[0] > 0
    cdef Py_ssize_t i, r, n
    cdef Run run
    run.end = 0
    with nogil:
        for i in range(positions.shape[0]):
            run = run_of(rows[positions[i]], left, right, run.end)
            n = run.end - run.begin
            copy_bytes(codes, run.begin, n, new_codes, n_rows)
            copy_bytes(bits, run.begin, n, new_bits, n_rows)
            if has_lists:
                for r in range(1, n + 1):
                    new_starts[n_rows + r] = starts[run.begin + r] - starts[run.begin] + n_ids
                n = starts[run.end] - starts[run.begin]
                if n:
                    memcpy(&new_ids[n_ids], &ids[starts[run.begin]], n * sizeof(int32_t))
                n_ids += n
            n_rows += run.end - run.begin
            new_rows[i] = <int32_t> (n_rows - 1 - right)


cdef inline void copy_bytes(const uint8_t[:, ::1] source, Py_ssize_t first, Py_ssize_t n,
                            uint8_t[:, ::1] target, Py_ssize_t row) noexcept nogil:
    """Copy n rows of bytes."""
    cdef Py_ssize_t n_columns = source.shape[1]
    if n_columns:
        memcpy(&target[row, 0], &source[first, 0], n * n_columns)
