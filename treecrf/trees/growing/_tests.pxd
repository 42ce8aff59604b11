# Numbers that the kernels of trees share.

# How a node is evaluated at a row. The window tests are numbered as in
# `treecrf.encoding.plan`, the other nodes as in `treecrf.trees.context_scores`.
cdef enum NodeKind:
    CODE_EQUAL = 0
    CODE_ABOVE = 1
    BIT = 2
    LISTED = 3
    LABEL = 4
    LEAF = 5

# How the tests of a run of histogram bins follow from the bins; numbered as in
# `treecrf.trees.growing.window_tests`.
cdef enum RunKind:
    EACH = 0      # test b: the value is in bin b
    SUFFIX = 1    # test b: the value is in a bin above b
    PREFIX = 2    # test b: the value is in bin b or below

# `list_bits` may write this many entries beyond the last one.
cdef enum:
    LISTING_SLACK = 64
