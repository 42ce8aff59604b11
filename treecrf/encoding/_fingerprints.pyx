"""Hashes of the cells of tables: of columns, or of the categories of a column.

The value of a column of numbers or booleans belongs to the cell of its column. A category is a cell
of its own, and so are the missing values of a column of categories. Zeros belong to no cell, so
dense and sparse tables have the same hashes.

``n_categories`` is -1 for columns without categories. The cells of a column begin at its start.
"""

from libc.math cimport isnan
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "utils/hashing.h" nogil:
    uint64_t scrambled(uint64_t state)
    uint64_t mixed_with(uint64_t hash, uint64_t part)

# What stands for a category, and for any missing number.
cdef uint64_t PRESENT = 1, MISSING = 2
# What stands for a missing value among the bins.
cdef uint64_t MISSING_BIN = 1 << 32

ctypedef fused value_t:
    double
    uint8_t


cdef inline uint64_t find_cell(double value, int64_t start, int64_t n_categories,
                               int64_t *cell) noexcept nogil:
    """Find the cell of a value other than 0; return what stands for the value there."""
    cdef uint64_t bits
    cell[0] = start
    if n_categories >= 0:
        cell[0] += n_categories if isnan(value) else <int64_t> value - 1
        return PRESENT
    if isnan(value):
        return MISSING
    memcpy(&bits, &value, sizeof(bits))
    return bits


cdef inline void add_value(double value, int64_t start, int64_t n_categories, uint64_t salt,
                           uint64_t[::1] sums) noexcept nogil:
    """Add the hash of a value and a salt to the sum of its cell."""
    cdef int64_t cell
    cdef uint64_t bits
    if value != 0:
        bits = find_cell(value, start, n_categories, &cell)
        sums[cell] += mixed_with(salt, bits)


cdef inline void hash_value(double value, int64_t start, int64_t n_categories,
                            const uint64_t[:, ::1] cells, uint64_t[::1] out) noexcept nogil:
    """Add the hashes of a value and its cell, which has several hashes."""
    cdef Py_ssize_t k
    cdef int64_t cell
    cdef uint64_t bits
    if value != 0:
        bits = find_cell(value, start, n_categories, &cell)
        for k in range(cells.shape[1]):
            out[k] += mixed_with(cells[cell, k], bits)


def add_dense(const value_t[:, :] values, const int64_t[::1] starts,
              const int64_t[::1] n_categories, const uint64_t[::1] salts, uint64_t[::1] sums):
    """Add the hash of each value and the salt of its position to the sum of its cell."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(values.shape[0]):
            for j in range(values.shape[1]):
                add_value(values[i, j], starts[j], n_categories[j], salts[i], sums)


def add_sparse(const double[::1] values, const int64_t[::1] columns, const int64_t[::1] indptr,
               const int64_t[::1] starts, const int64_t[::1] n_categories,
               const uint64_t[::1] salts, uint64_t[::1] sums):
    """Do so for the stored values of a CSR matrix."""
    cdef Py_ssize_t i, e
    cdef int64_t j
    with nogil:
        for i in range(indptr.shape[0] - 1):
            for e in range(indptr[i], indptr[i + 1]):
                j = columns[e]
                add_value(values[e], starts[j], n_categories[j], salts[i], sums)


cdef inline uint64_t hash_of_bin(double value, const double[::1] thresholds,
                                 const int64_t[::1] starts, const uint8_t[::1] is_number,
                                 Py_ssize_t j, uint64_t salt) noexcept nogil:
    """Hash the bin of a number, or the code of a category or boolean, with the salt."""
    cdef int64_t low, high, middle
    if value == 0.0:
        return 0
    if isnan(value):
        return mixed_with(salt, MISSING_BIN)
    if not is_number[j]:
        return mixed_with(salt, <uint64_t> <int64_t> value)
    low = starts[j]
    high = starts[j + 1]
    while low < high:
        middle = (low + high) // 2
        if value > thresholds[middle]:
            low = middle + 1
        else:
            high = middle
    return mixed_with(salt, <uint64_t> (low - starts[j]))


def add_dense_bins(const value_t[:, :] values, const double[::1] thresholds,
                   const int64_t[::1] starts, const uint8_t[::1] is_number,
                   const uint64_t[::1] salts, const uint64_t[:] weights, uint64_t[::1] sums):
    """Add hashes of the bin or category of each value and the salt of its position to its column.

    A hash is multiplied by the weight of the position. Values of 0 are left out, as in sparse
    tables.
    """
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(values.shape[0]):
            for j in range(values.shape[1]):
                sums[j] += weights[i] * hash_of_bin(values[i, j], thresholds, starts, is_number, j,
                                                    salts[i])


def add_sparse_bins(const double[::1] values, const int64_t[::1] columns,
                    const int64_t[::1] indptr, const double[::1] thresholds,
                    const int64_t[::1] starts, const uint8_t[::1] is_number,
                    const uint64_t[::1] salts, const uint64_t[:] weights, uint64_t[::1] sums):
    """Do so for the stored values of a CSR matrix."""
    cdef Py_ssize_t i, e
    cdef int64_t j
    with nogil:
        for i in range(indptr.shape[0] - 1):
            for e in range(indptr[i], indptr[i + 1]):
                j = columns[e]
                sums[j] += weights[i] * hash_of_bin(values[e], thresholds, starts, is_number, j,
                                                    salts[i])


def hash_dense(const value_t[:, :] values, const int64_t[::1] starts,
               const int64_t[::1] n_categories, const uint64_t[:, ::1] cells,
               uint64_t[:, ::1] out):
    """Sum the hashes of the values of each row and their cells, which have several hashes."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(values.shape[0]):
            for j in range(values.shape[1]):
                hash_value(values[i, j], starts[j], n_categories[j], cells, out[i])


def hash_sparse(const double[::1] values, const int64_t[::1] columns, const int64_t[::1] indptr,
                const int64_t[::1] starts, const int64_t[::1] n_categories,
                const uint64_t[:, ::1] cells, uint64_t[:, ::1] out):
    """Do so for the stored values of a CSR matrix."""
    cdef Py_ssize_t i, e
    cdef int64_t j
    with nogil:
        for i in range(indptr.shape[0] - 1):
            for e in range(indptr[i], indptr[i + 1]):
                j = columns[e]
                hash_value(values[e], starts[j], n_categories[j], cells, out[i])


def hash_positions(const uint64_t[::1] sequence_hashes, const int64_t[::1] offsets,
                   uint64_t[::1] out):
    """Hash each position: the hash of its sequence, and its index there."""
    cdef Py_ssize_t i, t
    cdef uint64_t hash
    with nogil:
        for i in range(offsets.shape[0] - 1):
            hash = scrambled(sequence_hashes[i])
            for t in range(offsets[i], offsets[i + 1]):
                out[t] = mixed_with(hash, t - offsets[i])


def hash_sequences(const uint64_t[::1] position_hashes, const int64_t[::1] offsets,
                   uint64_t[::1] out):
    """Combine the hashes of the positions of each sequence."""
    cdef Py_ssize_t i, t
    with nogil:
        for i in range(offsets.shape[0] - 1):
            out[i] = 0
            for t in range(offsets[i], offsets[i + 1]):
                out[i] += mixed_with(scrambled(position_hashes[t]), t - offsets[i])


def add_by_index(const int64_t[::1] indices, const uint64_t[::1] hashes, uint64_t[::1] sums):
    """Add each hash to the sum of its index."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(indices.shape[0]):
            sums[indices[i]] += hashes[i]
