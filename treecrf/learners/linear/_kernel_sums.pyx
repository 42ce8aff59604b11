"""Sums over the inputs that a model with a kernel has kept."""

cdef extern from "learners/linear/linear.h" nogil:
    void add_block(double *target, const double *source, double x, Py_ssize_t n)


def add(const double[:, ::1] values, const double[:, ::1] coefficients, double[:, ::1] out):
    """Add the matrix product of the first two to ``out``.

    Unlike in a product by a linear algebra library, a row's sum has the same order whatever other
    rows there are.
    """
    cdef Py_ssize_t i, k, n = coefficients.shape[1]
    if coefficients.shape[0] == 0:
        return
    with nogil:
        for i in range(values.shape[0]):
            for k in range(values.shape[1]):
                add_block(&out[i, 0], &coefficients[k, 0], values[i, k], n)
