# Memory of a computation, and the lengths of sequences that determine its size.

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

cdef enum:
    MAX_ARRAYS = 64            # no computation takes more than 32


cdef struct Memory:
    # Arrays that are freed together. All bytes are 0 before the first is taken.
    void *arrays[MAX_ARRAYS]
    Py_ssize_t n
    bint failed                # whether an array was refused


cdef inline void *take(Memory *memory, size_t n_bytes) noexcept nogil:
    """Allocate an array; NULL if there is no memory for it, or no place to remember it."""
    cdef void *array = malloc(max(n_bytes, 1)) if memory.n < MAX_ARRAYS else NULL
    if array == NULL:
        memory.failed = True
        return NULL
    memory.arrays[memory.n] = array
    memory.n += 1
    return array


cdef inline void *take_zeros(Memory *memory, size_t n_bytes) noexcept nogil:
    cdef void *array = take(memory, n_bytes)
    if array != NULL:
        memset(array, 0, n_bytes)
    return array


cdef inline double *take_doubles(Memory *memory, Py_ssize_t n) noexcept nogil:
    return <double *> take(memory, n * sizeof(double))


cdef inline bint resize_doubles(double **array, Py_ssize_t n) noexcept nogil:
    """Change the size of an array; if there is no memory, return 0, and leave it as it is."""
    cdef double *moved = <double *> realloc(array[0], n * sizeof(double))
    if moved == NULL:
        return False
    array[0] = moved
    return True


cdef inline void release(Memory *memory) noexcept nogil:
    """Free all arrays."""
    while memory.n:
        memory.n -= 1
        free(memory.arrays[memory.n])


cdef inline Py_ssize_t longest_of(const int64_t[::1] offsets, Py_ssize_t first,
                                  Py_ssize_t last) noexcept nogil:
    """Return the length of the longest of some sequences, at least 1."""
    cdef Py_ssize_t i, longest = 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest
