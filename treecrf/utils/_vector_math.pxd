# Vector arithmetic that Cython cannot express.

cdef extern from "utils/vector_math.h" nogil:
    double SHIFT_TO_INTEGER
    double rounded(double x)
    double exp_of(double x)
    void exp_below(double *values, Py_ssize_t n, double highest)
    void log_in_place(double *values, Py_ssize_t n)
    double largest(const double *values, Py_ssize_t n)
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)
