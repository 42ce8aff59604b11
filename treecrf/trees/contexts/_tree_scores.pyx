"""Scores of single contexts, summed by walking the trees of a forest.

Leaf values are multiples of 2**-20 (see ``round_value``). Their sums are exact, so a row is the
same whether it is summed at once or tree by tree as the forest grows.
"""

import numpy as np

from libc.math cimport rint
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from treecrf.chains._context_scores cimport ContextScores, Request, Segment
from treecrf.trees.growing._sets cimport WHOLE, fraction_of, value_of_fraction
from treecrf.trees.growing._tests cimport BIT, CODE_ABOVE, CODE_EQUAL, LABEL, LEAF, lists_any
from treecrf.trees.scoring._answers cimport Positions


cdef struct Node:
    # A node of a tree, or a surrogate: its test, its children, or the value of a leaf. The same
    # as `treecrf.trees.contexts.context_scores.NODE`.
    int16_t kind               # how its test is evaluated, see `NodeKind`
    int16_t offset             # of the row that is tested, or the lag of a label less 1
    int32_t slot               # index of the stored column
    int32_t low                # the code, bit or label to compare with, or the first of some ids
    int32_t high               # end of these ids
    int32_t missing            # code or listed id of a missing value; -1 for none
    int32_t passed             # child for passing; of a surrogate, whether its node's test passes
    int32_t failed             # the same for failing
    int32_t first_surrogate    # number of its first surrogate
    int32_t n_surrogates       # number of its surrogates
    double value               # of a leaf; else the fraction of training examples that passes


cdef class TreeScores(ContextScores):
    """Scores of encoded positions under the trees of a forest, summed anew each time."""

    cdef const Node[::1] nodes              # of all trees
    cdef const Node[::1] surrogates         # of all nodes
    cdef bint follows_surrogates            # whether missing values follow them
    cdef const int32_t[::1] roots           # of each tree
    cdef Py_ssize_t n_iter                  # number of iterations of trees
    cdef Positions positions

    def __init__(self, encoded, Py_ssize_t n_labels, Py_ssize_t order):
        self.positions = Positions(encoded)
        self.n_labels = n_labels
        self.order = order

    def plant(self, nodes, roots, surrogates, Py_ssize_t max_nodes):
        """Set the trees: nodes of `context_scores.NODE`, the root of each tree, and surrogates.

        Without surrogates, fractions of positions without a value go to both children.
        """
        self.nodes = nodes
        self.surrogates = surrogates
        self.follows_surrogates = surrogates is not None
        # One for each level that is left on the way to a leaf.
        self.max_segments = max_nodes // 2 + 1
        self.roots = roots
        self.n_iter = len(roots) // self.n_labels

    cdef void _fill(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil:
        """Bring the requested rows up to date."""
        cdef Py_ssize_t r, k, s, n_behind = 0
        for r in range(n_requests):
            self._load(&requests[r])
            find_stale(&requests[r], self.n_iter)
            if requests[r].n_stale:
                requests[r], requests[n_behind] = requests[n_behind], requests[r]
                n_behind += 1
        for r in range(n_behind):
            for k in range(0 if by_symbols else requests[r].n_stale):
                s = requests[r].stale[k]
                write_symbols(requests[r].contexts[s], requests[r].depth, self.n_labels, self.order,
                              requests[r].symbols + s * self.order, 1)
        self._catch_up(requests, n_behind)
        for r in range(n_behind):
            self._store(&requests[r])

    cdef void _load(self, Request *request) noexcept nogil:
        """Fill the rows with the stored sums, and set the iterations that these include."""
        memset(request.rows, 0, request.n * self.n_labels * sizeof(double))
        memset(request.included, 0, request.n * sizeof(int32_t))

    cdef void _store(self, const Request *request) noexcept nogil:
        """Store the rows that have been brought up to date."""

    cdef void _catch_up(self, Request *requests, Py_ssize_t n_requests) noexcept nogil:
        """Add the trees that rows lack, one tree at a time so that its nodes stay in cache."""
        cdef Py_ssize_t i, k, r, first = self.n_iter
        cdef Request *request
        cdef int32_t s
        for r in range(n_requests):
            for k in range(requests[r].n_stale):
                first = min(first, requests[r].included[requests[r].stale[k]])
        for i in range(first, self.n_iter):
            for r in range(n_requests):
                # Include the contexts whose rows end before this iteration.
                request = &requests[r]
                for k in range(request.n_walking, request.n_stale):
                    s = request.stale[k]
                    if request.included[s] <= i:
                        request.stale[k] = request.stale[request.n_walking]
                        request.stale[request.n_walking] = s
                        request.n_walking += 1
            for k in range(self.n_labels):
                for r in range(n_requests):
                    if requests[r].n_walking:
                        self._walk(&requests[r], self.roots[i * self.n_labels + k], k)

    cdef void _walk(self, const Request *request, Py_ssize_t root,
                    Py_ssize_t label) noexcept nogil:
        """Take the contexts of a position down a tree, together until a label test splits them."""
        cdef Py_ssize_t i, middle, n_open = 1, row = self.positions.rows[request.position]
        cdef const Node *nodes = &self.nodes[0]
        cdef const Node *node
        cdef Segment segment
        cdef bint passed
        cdef uint32_t weight
        cdef double value
        request.segments[0] = Segment(<int32_t> root, 0, request.n_walking, WHOLE)
        while n_open:
            n_open -= 1
            segment = request.segments[n_open]
            node = nodes + segment.node
            while node.kind != LEAF:
                if node.kind == LABEL:
                    middle = split_walking(request, segment.first, segment.last, node,
                                           self.order)
                    passed = middle > segment.first
                    if passed and middle < segment.last:
                        request.segments[n_open] = Segment(node.failed, middle, segment.last,
                                                           segment.weight)
                        n_open += 1
                        segment.last = middle
                elif self.positions.has_missing and self._is_missing(node, row + node.offset):
                    if self.follows_surrogates:
                        passed = self._passes_surrogates(node, row)
                    else:
                        # A fraction of the weight passes; the rest waits.
                        weight = fraction_of(segment.weight, <uint32_t> rint(node.value * WHOLE))
                        passed = weight > 0
                        if passed and weight < segment.weight:
                            request.segments[n_open] = Segment(
                                node.failed, segment.first, segment.last, segment.weight - weight)
                            n_open += 1
                            segment.weight = weight
                else:
                    passed = self._passes(node, row + node.offset)
                node = nodes + (node.passed if passed else node.failed)
            value = value_of_fraction(node.value, segment.weight)
            for i in range(segment.first, segment.last):
                request.rows[request.stale[i] * self.n_labels + label] += value

    cdef bint _is_missing(self, const Node *node, Py_ssize_t row) noexcept nogil:
        """Return whether a row lacks the value of a window test."""
        if node.missing < 0:
            return False
        if node.kind <= CODE_ABOVE:
            return self.positions.codes[row, node.slot] == node.missing
        return self._lists(row, node.missing, node.missing + 1)

    cdef bint _passes_surrogates(self, const Node *node, Py_ssize_t row) noexcept nogil:
        """Return whether a position passes, by the first surrogate with a value or the majority."""
        cdef Py_ssize_t i
        cdef const Node *surrogate
        for i in range(node.first_surrogate, node.first_surrogate + node.n_surrogates):
            surrogate = &self.surrogates[i]
            if not self._is_missing(surrogate, row + surrogate.offset):
                if self._passes(surrogate, row + surrogate.offset):
                    return surrogate.passed
                return surrogate.failed
        return node.value >= 0.5

    cdef inline bint _passes(self, const Node *node, Py_ssize_t row) noexcept nogil:
        """Return whether a row passes a window test."""
        if node.kind == CODE_EQUAL:
            return self.positions.codes[row, node.slot] == node.low
        if node.kind == CODE_ABOVE:
            return self.positions.codes[row, node.slot] > node.low
        if node.kind == BIT:
            return self.positions.bits[row, node.slot] >> node.low & 1
        return self._lists(row, node.low, node.high)

    cdef inline bint _lists(self, Py_ssize_t row, int32_t first, int32_t last) noexcept nogil:
        """Return whether a row lists an id of [first, last)."""
        return lists_any(self.positions.list_starts, self.positions.list_ids, row, first, last)


cdef void find_stale(Request *request, Py_ssize_t n_iter) noexcept nogil:
    """List the contexts whose rows lack iterations."""
    cdef Py_ssize_t s
    request.n_stale = 0
    request.n_walking = 0
    for s in range(request.n):
        if request.included[s] < n_iter:
            request.stale[request.n_stale] = <int32_t> s
            request.n_stale += 1


cdef void write_symbols(int64_t context, Py_ssize_t depth, Py_ssize_t n_labels, Py_ssize_t order,
                        uint8_t *out, Py_ssize_t stride) noexcept nogil:
    """Write the label at each lag of a context, ``n_labels`` for none."""
    cdef Py_ssize_t lag
    for lag in range(order):
        out[lag * stride] = <uint8_t> (context % n_labels if lag < depth else n_labels)
        context //= n_labels


cdef Py_ssize_t split_walking(const Request *request, Py_ssize_t first, Py_ssize_t last,
                              const Node *node, Py_ssize_t order) noexcept nogil:
    """Move the contexts that pass a label test to the front; returns where the others begin."""
    cdef int32_t s
    while first < last:
        s = request.stale[first]
        if request.symbols[s * order + node.offset] == node.low:
            first += 1
        else:
            last -= 1
            request.stale[first] = request.stale[last]
            request.stale[last] = s
    return first


cdef class CachedScores(TreeScores):
    """Scores under a growing forest, with a cache of the contexts used last.

    Each row of encoded positions has ``n_layers`` entries. An entry holds the scores of all labels
    in one context, class-major, like the examples in layers of ``treecrf._tree.TreeGrower``: entry
    ``layer * n_rows + row``. The least recently used context of a row makes room for a new one.
    """

    cdef Py_ssize_t n_layers                # number of entries of a row
    cdef Py_ssize_t n_rows
    cdef int32_t clock                      # number of passes
    # Of each entry.
    cdef double[:, ::1] values_             # scores of all labels
    cdef int64_t[::1] contexts              # number of the context
    cdef uint8_t[:, ::1] labels_            # label at each lag of the context
    cdef int32_t[::1] included              # number of iterations that the scores include
    cdef int32_t[::1] used                  # the pass that requested it last
    # Of each row.
    cdef int32_t[::1] n_cached              # number of entries that hold a context
    cdef int32_t[::1] ranking               # layers of these entries, ordered by context

    def __init__(self, encoded, Py_ssize_t n_labels, Py_ssize_t order, Py_ssize_t n_layers,
                 Py_ssize_t n_rows):
        TreeScores.__init__(self, encoded, n_labels, order)
        self.n_layers = n_layers
        self.n_rows = n_rows
        self.n_entries = n_layers * n_rows
        self.values_ = np.zeros((n_labels, self.n_entries))
        self.contexts = np.zeros(self.n_entries, dtype=np.int64)
        self.included = np.zeros(self.n_entries, dtype=np.int32)
        self.used = np.zeros(self.n_entries, dtype=np.int32)
        self.ranking = np.zeros(self.n_entries, dtype=np.int32)
        self.n_cached = np.zeros(n_rows, dtype=np.int32)
        self.labels_ = np.zeros((order, self.n_entries), dtype=np.uint8)
        self.clock = 0

    @property
    def values(self):
        return np.asarray(self.values_)[:, :, None]

    @property
    def labels(self):
        return np.asarray(self.labels_)

    def begin_pass(self):
        """Begin a pass, in which each position is requested once."""
        self.clock += 1

    def seen(self):
        """Mark the examples requested in this pass; bool array (n_layers * n_rows,)."""
        return np.asarray(self.used) == self.clock

    def note_iteration(self):
        """Note that the examples of this pass include one more iteration of trees."""
        np.asarray(self.included)[self.seen()] = self.n_iter + 1

    cdef void _load(self, Request *request) noexcept nogil:
        cdef Py_ssize_t s, v, rank, entry, row = self._row(request)
        # First the cached contexts, so that they do not make room for the others.
        for s in range(request.n):
            request.entries[s] = -1
            rank = self._rank(row, request.contexts[s])
            if rank < self.n_cached[row]:
                entry = self._entry(rank, row)
                if self.contexts[entry] == request.contexts[s]:
                    self.used[entry] = self.clock
                    request.entries[s] = entry
        for s in range(request.n):
            if request.entries[s] < 0:
                self._insert(request, s)
        for s in range(request.n):
            request.included[s] = self.included[request.entries[s]]
            for v in range(self.n_labels):
                request.rows[s * self.n_labels + v] = self.values_[v, request.entries[s]]

    cdef inline Py_ssize_t _row(self, const Request *request) noexcept nogil:
        """Return the row of a position, counted from the first one."""
        return self.positions.rows[request.position] - self.positions.rows[0]

    cdef inline Py_ssize_t _entry(self, Py_ssize_t rank, Py_ssize_t row) noexcept nogil:
        """Return the entry of the context with this rank in a row."""
        return self.ranking[rank * self.n_rows + row] * self.n_rows + row

    cdef Py_ssize_t _rank(self, Py_ssize_t row, int64_t context) noexcept nogil:
        """Return the number of cached contexts of a row that are less than a context."""
        cdef Py_ssize_t low = 0, high = self.n_cached[row], middle
        while low < high:
            middle = (low + high) // 2
            if self.contexts[self._entry(middle, row)] < context:
                low = middle + 1
            else:
                high = middle
        return low

    cdef void _insert(self, const Request *request, Py_ssize_t s) noexcept nogil:
        """Make an entry for a context that is not cached."""
        cdef Py_ssize_t i, v, entry, rank, row = self._row(request)
        cdef int32_t layer = self.n_cached[row]
        if layer == self.n_layers:
            layer = self._forget_oldest(row)
        rank = self._rank(row, request.contexts[s])
        for i in range(self.n_cached[row], rank, -1):
            self.ranking[i * self.n_rows + row] = self.ranking[(i - 1) * self.n_rows + row]
        self.ranking[rank * self.n_rows + row] = layer
        self.n_cached[row] += 1
        entry = layer * self.n_rows + row
        self.contexts[entry] = request.contexts[s]
        self.included[entry] = 0
        self.used[entry] = self.clock
        for v in range(self.n_labels):
            self.values_[v, entry] = 0.0
        if self.order:
            write_symbols(request.contexts[s], request.depth, self.n_labels, self.order,
                          &self.labels_[0, entry], self.n_entries)
        request.entries[s] = entry

    cdef int32_t _forget_oldest(self, Py_ssize_t row) noexcept nogil:
        """Forget the context of a row that was used least recently; return its layer."""
        cdef Py_ssize_t i, oldest = 0, n = self.n_cached[row]
        cdef int32_t layer
        for i in range(1, n):
            if self.used[self._entry(i, row)] < self.used[self._entry(oldest, row)]:
                oldest = i
        layer = self.ranking[oldest * self.n_rows + row]
        for i in range(oldest, n - 1):
            self.ranking[i * self.n_rows + row] = self.ranking[(i + 1) * self.n_rows + row]
        self.n_cached[row] -= 1
        return layer

    cdef void _store(self, const Request *request) noexcept nogil:
        cdef Py_ssize_t k, s, v
        for k in range(request.n_stale):
            s = request.stale[k]
            self.included[request.entries[s]] = <int32_t> self.n_iter
            for v in range(self.n_labels):
                self.values_[v, request.entries[s]] = request.rows[s * self.n_labels + v]
