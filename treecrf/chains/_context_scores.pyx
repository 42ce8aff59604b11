"""Scores of the labels in single contexts.

A beam needs the scores of a few contexts of a position at a time, where an array over all contexts
would not fit in memory. A row holds the scores of all labels in one context of one position.
"""

import numpy as np

from libc.math cimport INFINITY


cdef class ContextScores:
    """Source of the scores of single contexts, for beam search; subclasses implement `_fill`."""

    def __cinit__(self, *_, **__):
        self.allowed = self.follows = None

    def constrain(self, allowed, follows):
        """Set the scores of labels that `Constraints` forbid to minus infinity."""
        self.allowed = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)
        self.follows = None if follows is None else np.ascontiguousarray(follows).view(np.uint8)

    cdef void fetch(self, Request *requests, Py_ssize_t n_requests) noexcept nogil:
        """Fill the rows of some requests; this may reorder the requests."""
        cdef Py_ssize_t r, s, previous
        self._fill(requests, n_requests)
        if self.allowed is None and self.follows is None:
            return
        for r in range(n_requests):
            for s in range(requests[r].n):
                previous = self.n_labels
                if requests[r].depth:
                    previous = requests[r].contexts[s] % self.n_labels
                self._forbid(&requests[r], s, previous)

    cdef void fetch_given(self, Request *requests, Py_ssize_t n_requests) noexcept nogil:
        """Fill the rows of requests that define contexts by their symbols, not by numbers."""
        cdef Py_ssize_t r, s, previous
        self._fill_given(requests, n_requests)
        if self.allowed is None and self.follows is None:
            return
        for r in range(n_requests):
            for s in range(requests[r].n):
                previous = requests[r].symbols[s * self.order] if self.order else self.n_labels
                self._forbid(&requests[r], s, previous)

    cdef void _fill(self, Request *requests, Py_ssize_t n_requests) noexcept nogil:
        """Fill the rows without regard to constraints."""

    cdef void _fill_given(self, Request *requests, Py_ssize_t n_requests) noexcept nogil:
        """Fill the rows of contexts that are defined by their symbols, without constraints."""

    cdef void _forbid(self, Request *request, Py_ssize_t s, Py_ssize_t previous) noexcept nogil:
        """Apply the constraints to a row, given the label before the position."""
        cdef Py_ssize_t v
        cdef double *row = request.rows + s * self.n_labels
        for v in range(self.n_labels):
            if ((self.allowed is not None and not self.allowed[request.position, v])
                    or (self.follows is not None and not self.follows[previous, v])):
                row[v] = -INFINITY
