"""Attributes in rows, for learners that look at one sequence after another.

Rows, windows and blocks of weights are those of `treecrf.learners.linear._linear`.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

cdef extern from "learners/linear/linear.h" nogil:
    void add_rows(const int64_t *starts, const int32_t *attributes, const double *values,
                  Py_ssize_t n_rows, Py_ssize_t left, Py_ssize_t right, Py_ssize_t width,
                  const double *weights, Py_ssize_t first, Py_ssize_t last, double *target)

cdef extern from "learners/structured/attribute_rows.h" nogil:
    void collect_rows(const int64_t *starts, const int32_t *attributes, const double *values,
                      Py_ssize_t n_rows, Py_ssize_t left, Py_ssize_t right, Py_ssize_t width,
                      const double *deltas, double factor, Py_ssize_t first, Py_ssize_t last,
                      double *weights)
    void move_blocks(const int64_t *starts, const int32_t *attributes, Py_ssize_t n_rows,
                     Py_ssize_t left, Py_ssize_t right, Py_ssize_t width, double factor,
                     Py_ssize_t first, Py_ssize_t last, double *source, double *target)


cdef class AttributeRows:
    """The attributes of all rows.

    Parameters
    ----------
    starts : int64 array (n_rows + 1,)
    attributes : int32 array (n_values,)
    values : float64 array (n_values,)
        Where the entries of each row start, and what they are.
    left, right : int
        The window.
    width : int
        Number of weights of an attribute at an offset.
    """

    def __init__(self, starts, attributes, values, Py_ssize_t left, Py_ssize_t right,
                 Py_ssize_t width):
        self.starts = starts
        self.attributes = attributes
        self.values = values
        self.left = left
        self.right = right
        self.width = width

    cdef void score(self, Py_ssize_t first, Py_ssize_t last, const double *weights,
                    double *out) noexcept nogil:
        """Write the scores of the rows ``first`` to ``last - 1``, one after another."""
        memset(out, 0, (last - first) * self.width * sizeof(double))
        if self.attributes.shape[0]:
            add_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                     self.starts.shape[0] - 1, self.left, self.right, self.width, weights, first,
                     last, out)

    cdef void collect(self, Py_ssize_t first, Py_ssize_t last, const double *deltas,
                      double factor, double *weights) noexcept nogil:
        """The transposed product: add to the weights what rows of numbers make of the features."""
        if self.attributes.shape[0]:
            collect_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                         self.starts.shape[0] - 1, self.left, self.right, self.width, deltas,
                         factor, first, last, weights)

    cdef void move(self, Py_ssize_t first, Py_ssize_t last, double factor, double *source,
                   double *target) noexcept nogil:
        """Add ``factor * source`` to the weights that these rows see, and clear the source."""
        if self.attributes.shape[0]:
            move_blocks(&self.starts[0], &self.attributes[0], self.starts.shape[0] - 1, self.left,
                        self.right, self.width, factor, first, last, source, target)
