"""Nodes of growing trees: the best open leaf, the values of leaves, and descriptions."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint64_t

from treecrf.trees.growing._row_sets cimport round_value


cdef void start_root(Node *node, uint64_t seed) noexcept nogil:
    """Start a node without sums, rows and contexts."""
    node.seed = seed
    node.depth = 0
    node.parent = NULL
    node.lower, node.upper = -INFINITY, INFINITY
    node.sign = 0
    node.histogram = node.rows = node.contexts = -1
    node.test = node.run = -1
    node.gain = node.share = 0.0
    node.surrogates.n = 0
    node.true_child = node.false_child = -1


cdef void start_child(Node *node, const Node *parent, bint passes) noexcept nogil:
    """Start a child. Its seed depends on the path from the root, not on node numbers."""
    start_root(node, mixed_with(parent.seed, 1 if passes else 2))
    node.depth = parent.depth + 1
    node.parent = parent
    node.lower, node.upper = parent.lower, parent.upper
    if parent.sign and passes == (parent.sign > 0):
        node.lower = parent.middle
    elif parent.sign:
        node.upper = parent.middle


cdef LeafRule leaf_rule(growth):
    return LeafRule(growth.l2_regularization, growth.max_leaf_value, growth.learning_rate)


cdef double leaf_value(const Node *node, const LeafRule *rule) noexcept nogil:
    cdef double value = bounded_value(node, node.total, rule.penalty + node.weight)
    value = min(max(value, -rule.max_value), rule.max_value)
    return round_value(value * rule.learning_rate)


cdef int32_t take_best_leaf(const Node *nodes, int32_t *open_leaves,
                            Py_ssize_t *n_open) noexcept nogil:
    """Take the open leaf with the largest gain, the oldest one if there are ties; -1 for none."""
    cdef Py_ssize_t i, best = -1
    cdef int32_t leaf = -1
    cdef double gain = -INFINITY
    for i in range(n_open[0]):
        if (nodes[open_leaves[i]].gain > gain
                or (nodes[open_leaves[i]].gain == gain and open_leaves[i] < leaf)):
            leaf = open_leaves[i]
            gain = nodes[leaf].gain
            best = i
    if best >= 0:
        n_open[0] -= 1
        open_leaves[best] = open_leaves[n_open[0]]
    return leaf


cdef dict describe(const Node *nodes, Py_ssize_t n, const LeafRule *rule):
    """Return the arrays of a tree.

    ``test`` is -1 for a leaf; the tests of previous labels follow the window tests. ``share`` is
    the fraction that passes the test, of the examples that have its value, each with the weight of
    its position. ``surrogate_test`` and ``reversed`` have ``n_surrogates`` entries for each node,
    one node after another: failing a reversed test means passing the node's test.
    """
    cdef Py_ssize_t i, s
    cdef const Node *node
    surrogates, is_reversed = [], []
    test, true_child, false_child, n_surrogates = np.empty((4, n), dtype=np.int32)
    leaf, gain, weight, share = (np.empty(n) for _ in range(4))
    cdef int32_t[::1] tests = test, trues = true_child, falses = false_child
    cdef int32_t[::1] sizes = n_surrogates
    cdef double[::1] values = leaf, gains = gain, weights = weight, shares = share
    for i in range(n):
        node = &nodes[i]
        inner = node.true_child >= 0
        tests[i] = <int32_t> node.test if inner else -1
        trues[i] = node.true_child
        falses[i] = node.false_child
        values[i] = 0.0 if inner else leaf_value(node, rule)
        gains[i] = node.gain if inner else 0.0
        weights[i] = node.weight
        shares[i] = node.share if inner else 0.0
        sizes[i] = <int32_t> node.surrogates.n
        for s in range(node.surrogates.n):
            surrogates.append(node.surrogates.ranked[s].test)
            is_reversed.append(node.surrogates.ranked[s].is_reversed)
    return {"test": test, "true_child": true_child, "false_child": false_child,
            "leaf": leaf, "gain": gain, "weight": weight, "share": share,
            "n_surrogates": n_surrogates,
            "surrogate_test": np.array(surrogates, dtype=np.int32),
            "reversed": np.array(is_reversed, dtype=bool)}
