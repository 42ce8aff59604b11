"""Scores of the labels in single contexts, where a table of all contexts would not fit in memory.

A beam, or a search that continues a few label sequences, needs the scores of a few contexts of a
position at a time.
"""

import numpy as np

from libc.math cimport INFINITY


cdef class ContextScores:
    """Source of the scores of single contexts; subclasses implement `_fill`.

    A row holds the scores of all labels in one context of one position.
    """

    def __cinit__(self, *_, **__):
        self.allowed = self.follows = None

    def constrain(self, allowed, follows):
        """Set the scores of labels that `Constraints` forbid to minus infinity."""
        self.allowed = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)
        self.follows = None if follows is None else np.ascontiguousarray(follows).view(np.uint8)

    cdef void fetch(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil:
        """Fill the rows of some requests; this may reorder the requests.

        Contexts are defined by their numbers or, with ``by_symbols``, by their symbols.
        """
        cdef Py_ssize_t r, s, v, previous
        cdef Request *request
        cdef double *row
        self._fill(requests, n_requests, by_symbols)
        if self.allowed is None and self.follows is None:
            return
        for r in range(n_requests):
            request = &requests[r]
            for s in range(request.n):
                previous = self.n_labels
                if by_symbols and self.order:
                    previous = request.symbols[s * self.order]
                elif not by_symbols and request.depth:
                    previous = request.contexts[s] % self.n_labels
                row = request.rows + s * self.n_labels
                for v in range(self.n_labels):
                    if ((self.allowed is not None and not self.allowed[request.position, v])
                            or (self.follows is not None and not self.follows[previous, v])):
                        row[v] = -INFINITY

    cdef void _fill(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil:
        """Fill the rows without regard to constraints."""
