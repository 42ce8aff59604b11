"""Samples of the examples that trees are fitted to, drawn while their residuals are computed.

An example is a label v at a position t in a context c, with a residual g (its partial derivative)
and a curvature h. It is kept with probability ``q = min(1, s / mu)``, where s is the size of the
example, and then has the residual g / q and the curvature h / q, so that sums over the kept
examples are unbiased (minimal variance sampling, Ibragimov and Gusev 2019). Residuals of a good
model are mostly tiny, and few examples are kept. In second order, s is |g|. In first order the
curvature is the weight of the position for every example, and ``s = sqrt(g**2 + (f * h)**2)``,
where f is the floor.

Whether an example is kept depends on a random number that is a hash of the key of its sequence, of
the iteration, and of t, v and c. It is therefore the same in whatever order sequences are visited.
Examples that are kept for one mu include those that are kept for a larger one.

Random numbers are integers below 2**31, and q is rounded up to a multiple of 2**-31.

If some labels of a chain are unknown, forward-backward runs twice, over all label sequences and
over those with the known labels, and residuals are differences of the two probabilities.

Chains of order 1 with many labels, unless they are long or have unknown labels, are computed in
single precision. Their residuals are those at scores that differ from the given ones by less than
about two of their units, 2**-20, see `single_precision.h`. Sampling changes much more.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from treecrf.chains._chain cimport (
    Chain, KEEP_FEW, KEEP_NONE, backward, backward_row, chain_shape, contexts_at, forward,
    has_weight, load_pairs, move_to, open_chain, path_score, score_source, shape_of, tile_length,
    tile_pairs, tile_start, true_context,
)
from treecrf.chains._curvature cimport (
    Influence, curvature_of, open_influence, visit_backward, visit_forward,
)
from treecrf.chains._memory cimport (
    Memory, longest_of, release, take, take_doubles, take_zeros,
)
from treecrf.chains.sampled._samples cimport Example, Sample, background_of, item

cdef extern from "utils/hashing.h" nogil:
    uint64_t mixed_with(uint64_t hash, uint64_t part)

cdef extern from "chains/sampled/sampling.h" nogil:
    double N_RANDOM
    void fill_streams(uint64_t key, const uint64_t *numbers, Py_ssize_t n, uint32_t *streams)
    int32_t random_of(uint32_t stream, uint32_t v)
    double chances_of(double residual, double background, double scale)
    Py_ssize_t find_kept(const double *row, const uint32_t *streams, const double *weights,
                         const double *backgrounds, Py_ssize_t n, uint32_t v, double scale,
                         int32_t *found)
    int64_t units_of_row(const double *row, Py_ssize_t n)

cdef extern from "chains/factored/factored.h" nogil:
    ctypedef struct factored_terms:
        const int32_t *transitions
    factored_terms terms_of(const score_source *source)

cdef extern from "chains/sampled/single_precision.h" nogil:
    Py_ssize_t SINGLE_LANES, SINGLE_BLOCK
    ctypedef struct single_chain:
        Py_ssize_t n_labels, width, size, start, length
        const int32_t *transitions
        double log_z, path_score
        float *pairs
        float *weights
        float *contexts
        float *future
        float *past
        float *inverse
        float *rows
    bint single_load(single_chain *chain, const score_source *source, const int32_t *labels,
                     int32_t *highest)
    bint single_forward(single_chain *chain)
    void single_finish(single_chain *chain)
    void single_backward(single_chain *chain, Py_ssize_t t)
    void single_future(single_chain *chain, Py_ssize_t t)
    void single_past(single_chain *chain, Py_ssize_t t)
    double single_curvature(const single_chain *chain, Py_ssize_t t, Py_ssize_t v, Py_ssize_t c,
                            double p, double bound_share)
    Py_ssize_t single_find(const float *row, Py_ssize_t width, const uint32_t *streams, uint32_t v,
                           float scale, float background, int32_t *found)

# Sums of sizes are exact in this unit.
cdef double SIZE_UNITS = 2.0 ** 30


cdef struct Test:
    # The random test of the examples of a tile; arrays hold a number per position and context.
    double scale            # 2**31 / mu
    double floor            # the number f above, 0 in second order
    bint weighted           # whether `weights` and `backgrounds` are in use
    uint32_t *streams       # starts of the random numbers of all labels
    double *weights         # weights of the positions
    double *backgrounds     # squared sizes of examples whose residual is 0
    int32_t *kept           # receives the indices of the examples of a label that are kept
    # Numbers of labels and, for each depth, of contexts, which random numbers depend on.
    const uint32_t *label_numbers
    const uint64_t *context_numbers
    Py_ssize_t n_numbers    # of a depth
    Py_ssize_t max_depth


cdef Test open_test(Memory *memory, double mu, double floor, bint weighted,
                    const uint32_t[::1] label_numbers, const uint64_t[:, ::1] context_numbers,
                    Py_ssize_t n) except *:
    """Take memory for tests of n examples of a label at a time."""
    cdef Test test
    memset(&test, 0, sizeof(Test))
    test.label_numbers = &label_numbers[0]
    test.context_numbers = &context_numbers[0, 0]
    test.n_numbers = context_numbers.shape[1]
    test.max_depth = context_numbers.shape[0] - 1
    test.scale = N_RANDOM / mu
    test.floor = floor
    test.weighted = weighted or floor > 0.0
    test.streams = <uint32_t *> take(memory, n * sizeof(uint32_t))
    test.kept = <int32_t *> take(memory, n * sizeof(int32_t))
    if test.weighted:
        test.weights = take_doubles(memory, n)
        test.backgrounds = take_doubles(memory, n)
    if memory.failed:
        release(memory)
        raise MemoryError(f"no memory for the test of {n} examples")
    return test


cdef inline const uint64_t *numbers_at(const Test *test, Py_ssize_t t) noexcept nogil:
    """Return the numbers of the contexts of position t of a chain."""
    return test.context_numbers + min(t, test.max_depth) * test.n_numbers


cdef void set_position(Test *test, Py_ssize_t i, Py_ssize_t width, uint64_t key,
                       const uint64_t *numbers, double weight, double curvature) noexcept nogil:
    """Set the numbers of the contexts of the i-th position of a test.

    ``numbers`` are those of the contexts. ``weight`` multiplies the residuals; ``curvature``
    belongs to the size in first order.
    """
    cdef Py_ssize_t c
    fill_streams(key, numbers, width, test.streams + i * width)
    if test.weighted:
        for c in range(i * width, (i + 1) * width):
            test.weights[c] = weight
            test.backgrounds[c] = background_of(test.floor, curvature)


cdef Py_ssize_t find(const Test *test, const double *row, Py_ssize_t n,
                     Py_ssize_t v) noexcept nogil:
    """Find the examples of label v that are kept among n; returns their number."""
    return find_kept(row, test.streams, test.weights, test.backgrounds, n,
                     test.label_numbers[v], test.scale, test.kept)


# Chains in single precision.

cdef enum:
    # Chains are in single precision from this number of labels on. Up to 8 labels, loops in
    # double precision are compiled for their number.
    MANY_LABELS = 9
    # Not from this number on: `single_find` has bits for at most 256 contexts of a label.
    TOO_MANY_LABELS = 257
    # Nor if they have more factors: all factors of a chain stay in memory, 4 MB.
    SINGLE_SIZE = 1 << 20

# Tests in single precision admit residuals that are smaller by this factor: more than they err.
cdef double MARGIN = 1.0 + 2.0 ** -18


cdef struct SinglePrecision:
    # Scratch memory for chains that are computed in single precision.
    single_chain chain
    Py_ssize_t longest      # length of the longest such chain; 0 if there is none
    int32_t *transitions    # terms of labels after labels, in padded rows
    int32_t *highest        # highest sum of terms in each lane, for each position
    uint32_t *streams       # starts of the random numbers of the contexts of a position
    int32_t *candidates     # receives the contexts of a label that may be kept


cdef SinglePrecision open_single(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                                 Py_ssize_t last) except *:
    """Take memory for the longest of the chains that are computed in single precision."""
    cdef SinglePrecision single
    cdef Memory *memory = &chain.memory
    cdef const int32_t *transitions
    cdef Py_ssize_t i, n, limit, k = chain.shape.n_labels
    cdef Py_ssize_t width = (k + SINGLE_LANES - 1) // SINGLE_LANES * SINGLE_LANES
    memset(&single, 0, sizeof(SinglePrecision))
    if (chain.source.table != NULL or chain.shape.order != 1 or chain.shape.width != k
            or not MANY_LABELS <= k < TOO_MANY_LABELS):
        return single
    single.chain.n_labels = k
    single.chain.width = width
    single.chain.size = (k * width + SINGLE_BLOCK - 1) // SINGLE_BLOCK * SINGLE_BLOCK
    limit = SINGLE_SIZE // (k * width)
    for i in range(first, last):
        n = offsets[i + 1] - offsets[i]
        if single.longest < n <= limit:
            single.longest = n
    n = single.longest + 1
    single.chain.pairs = take_floats(memory, n * single.chain.size)
    single.chain.weights = take_floats(memory, n * width)
    single.chain.contexts = take_floats(memory, n * width)
    single.chain.future = take_floats(memory, n * width)
    single.chain.past = take_floats(memory, n * width)
    single.chain.inverse = take_floats(memory, n)
    single.chain.rows = take_floats(memory, 3 * width)
    single.highest = <int32_t *> take(memory, n * SINGLE_LANES * sizeof(int32_t))
    single.streams = <uint32_t *> take(memory, width * sizeof(uint32_t))
    single.candidates = <int32_t *> take(memory, (width + 1) * sizeof(int32_t))
    single.transitions = <int32_t *> take_zeros(memory, 2 * k * width * sizeof(int32_t))
    single.chain.transitions = single.transitions
    if memory.failed:
        release(memory)
        raise MemoryError(f"no memory for the inference of a sequence of {n - 1} positions")
    transitions = terms_of(&chain.source).transitions
    for i in range(2 * k):
        memcpy(single.transitions + i * width, transitions + i * k, k * sizeof(int32_t))
    return single


cdef inline float *take_floats(Memory *memory, Py_ssize_t n) noexcept nogil:
    return <float *> take(memory, n * sizeof(float))


cdef bint load_single(const Chain *chain, SinglePrecision *single,
                      const int32_t[::1] labels) noexcept nogil:
    """Run the forward pass over a chain in single precision, if it is in range."""
    if chain.length > single.longest:
        return False
    single.chain.start = chain.start
    single.chain.length = chain.length
    return single_load(&single.chain, &chain.source, &labels[0],
                       single.highest) and single_forward(&single.chain)


def log_likelihood(scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                   Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Compute log P(labels) of each chain, to the last bit as `LikelihoodKernel.sample` does."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_NONE)
    cdef SinglePrecision single = open_single(&chain, offsets, first, last)
    cdef Py_ssize_t i
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            if load_single(&chain, &single, labels):
                out[i] = single.chain.path_score - single.chain.log_z
            else:
                forward(&chain)
                out[i] = path_score(&chain, labels) - chain.log_z
        release(&chain.memory)


# Chains with unknown labels.


cdef struct Known:
    # A chain that only has the label sequences with the known labels.
    Chain chain
    double *ends            # row of ``backward`` at the end of each tile


cdef Known open_known(restricted, const int64_t[::1] offsets, Py_ssize_t first,
                      Py_ssize_t last) except *:
    """Allocate memory for the longest of some sequences, or none without scores."""
    cdef Known known
    cdef Py_ssize_t n_tiles
    memset(&known, 0, sizeof(Known))
    if restricted is None:
        return known
    known.chain = open_chain(restricted, offsets, first, last, KEEP_FEW)
    n_tiles = (longest_of(offsets, first, last) + known.chain.tile - 1) // known.chain.tile
    known.ends = take_doubles(&known.chain.memory, n_tiles * known.chain.shape.n_contexts)
    if known.ends == NULL:
        release(&known.chain.memory)
        raise MemoryError(f"no memory for the ends of {n_tiles} tiles")
    return known


# Examples of a likelihood, during forward-backward.


cdef class LikelihoodKernel:
    """Sampler of the examples of the log-likelihood of some chains."""

    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] labels
    cdef const uint64_t[::1] keys
    cdef const uint8_t[::1] unknown    # whether a chain has unknown labels
    cdef Py_ssize_t order
    cdef bint curved           # otherwise the curvature is the weight of the position
    cdef bint bounded
    cdef double bound_share    # see `_curvature`

    def __init__(self, const int64_t[::1] offsets, const int32_t[::1] labels,
                 const uint64_t[::1] keys, Py_ssize_t order, bint curved, double bound_share,
                 const uint8_t[::1] unknown=None):
        self.offsets = offsets
        self.labels = labels
        self.keys = keys
        self.order = order
        self.curved = curved
        self.bounded = curved and bound_share > 0.0
        self.bound_share = bound_share
        self.unknown = unknown

    def sample(self, scores, Py_ssize_t first, Py_ssize_t last, uint64_t iteration_key, numbers,
               double mu, double floor, const double[::1] weights, double[::1] log_likelihoods,
               restricted=None):
        """Draw the examples of the chains ``first`` to ``last - 1``.

        All examples of the size ``mu`` are kept. In first order, the size of an example without a
        residual is ``floor`` times its weight. ``restricted`` are the scores that allow only the
        possible labels, if some labels are unknown.
        """
        cdef const uint32_t[::1] label_numbers = numbers[0]
        cdef const uint64_t[:, ::1] context_numbers = numbers[1]
        cdef Chain chain = open_chain(scores, self.offsets, first, last, KEEP_FEW)
        cdef Influence influence
        cdef Known known
        cdef SinglePrecision single
        cdef Test test
        cdef Sample sample
        cdef bint bounded = self.bounded, is_unknown, counts
        cdef Py_ssize_t i, v
        cdef uint64_t key
        try:
            sample = Sample(chain.shape.n_labels, self.order)
            test = open_test(&chain.memory, mu, floor, weights is not None, label_numbers,
                             context_numbers, chain.tile * chain.shape.width)
            single = open_single(&chain, self.offsets, first, last)
            if bounded:
                influence = open_influence(&chain, self.offsets, first, last, self.bound_share)
            known = open_known(restricted, self.offsets, first, last)
        except MemoryError:
            release(&chain.memory)
            raise
        with nogil:
            for i in range(first, last):
                move_to(&chain, self.offsets, i)
                key = mixed_with(self.keys[i], iteration_key)
                for v in range(sample.n_labels):
                    sample.vectors[v].begin = sample.vectors[v].n
                is_unknown = self.unknown is not None and self.unknown[i]
                counts = has_weight(weights, self.offsets[i], self.offsets[i + 1])
                if is_unknown:
                    move_to(&known.chain, self.offsets, i)
                elif load_single(&chain, &single, self.labels):
                    log_likelihoods[i] = single.chain.path_score - single.chain.log_z
                    if counts:
                        self._sample_single(&single, &test, key, weights, sample)
                    continue
                elif not counts:
                    forward(&chain)
                    log_likelihoods[i] = path_score(&chain, self.labels) - chain.log_z
                    continue
                log_likelihoods[i] = self._sample_chain(
                    &chain, &known if is_unknown else NULL, &influence if bounded else NULL, &test,
                    key, weights, sample)
            release(&known.chain.memory)
            release(&chain.memory)
        sample.check()
        return sample

    cdef double _sample_chain(self, Chain *chain, Known *known, Influence *influence, Test *test,
                              uint64_t key, const double[::1] weights,
                              Sample sample) noexcept nogil:
        """Draw the examples of a chain; returns log P of its known labels.

        ``known`` is NULL if all labels are known, and ``influence`` without a bound.
        """
        cdef Py_ssize_t i, n_contexts = chain.shape.n_contexts
        forward(chain)
        if known != NULL:
            forward(&known.chain)
        for i in range(chain.n_tiles - 1, -1, -1):
            backward(chain, i, True)
            if known != NULL:
                backward(&known.chain, i, True)
            if influence == NULL:
                self._test_tile(chain, known, NULL, i, test, key, weights, sample)
                continue
            visit_backward(chain, influence, i)
            if known != NULL:
                memcpy(known.ends + i * n_contexts,
                       backward_row(&known.chain, tile_length(&known.chain, i)),
                       n_contexts * sizeof(double))
        for i in range(chain.n_tiles if influence != NULL else 0):
            visit_forward(chain, influence, i)
            if known != NULL and i >= known.chain.n_kept:
                load_pairs(&known.chain, i, known.ends + i * n_contexts)
            self._test_tile(chain, known, influence, i, test, key, weights, sample)
        if influence == NULL and chain.n_tiles > 1:
            sample.reverse_sequence()
        if known != NULL:
            return known.chain.log_z - chain.log_z
        return path_score(chain, self.labels) - chain.log_z

    cdef void _test_tile(self, const Chain *chain, const Known *known, const Influence *influence,
                         Py_ssize_t i, Test *test, uint64_t key, const double[::1] weights,
                         Sample sample) noexcept nogil:
        """Test the examples of a tile, and keep some."""
        cdef const Chain *tested = chain if known == NULL else &known.chain
        cdef Py_ssize_t v, k, e, t, j, c, n_kept, width = chain.shape.width
        cdef Py_ssize_t n = tile_length(chain, i) * width
        cdef double x, p, share = 1.0, smallest, weight, curvature
        cdef const double *row
        self._subtract_known(chain, known, i, test, key, weights, sample)
        for v in range(chain.shape.n_labels):
            row = tile_pairs(tested, i) + v * n
            n_kept = find(test, row, n, v)
            for k in range(n_kept):
                # Tiles are visited from the last to the first unless there is an influence.
                e = test.kept[n_kept - 1 - k if influence == NULL and chain.n_tiles > 1 else k]
                j = e // width
                c = e % width
                t = tile_start(chain, i) + j
                if c >= contexts_at(&chain.shape, t):
                    continue
                x = row[e]
                p = x if x > 0.0 else 1.0 + x
                if known != NULL:
                    # The factor of the curvature that `treecrf.chains.partial_labels` explains.
                    p = tile_pairs(chain, i)[v * n + e]
                    smallest = min(p, 1.0 - p)
                    share = fabs(x) / smallest if fabs(x) < smallest else 1.0
                weight = weight_of(weights, chain.start + t)
                curvature = weight
                if self.bounded:
                    curvature = curvature_of(chain, influence, v, t, j, c, p) * weight * share
                elif self.curved:
                    curvature = 2.0 * p * (1.0 - p) * weight * share
                sample.add(v, chain.start, t, c,
                           random_of(test.streams[e], test.label_numbers[v]),
                           -(x * weight), curvature)

    cdef void _subtract_known(self, const Chain *chain, const Known *known, Py_ssize_t i,
                              Test *test, uint64_t key, const double[::1] weights,
                              Sample sample) noexcept nogil:
        """Prepare the test of a tile, and turn its pairs into negated residuals.

        If all labels are known, these replace the pairs at the true labels, else all known pairs.
        """
        cdef Py_ssize_t j, t, v, c, count = tile_length(chain, i), width = chain.shape.width
        cdef double weight
        cdef double *pair
        cdef const double *free_pair
        for j in range(count):
            t = tile_start(chain, i) + j
            weight = weight_of(weights, chain.start + t)
            set_position(test, j, width, mixed_with(key, t), numbers_at(test, t), weight, weight)
            if known == NULL:
                pair = tile_pairs(chain, i) + (self.labels[chain.start + t] * count + j) * width
                if width > 1:
                    pair += true_context(&chain.shape, &self.labels[chain.start], t)
                pair[0] -= 1.0
                sample.size += units_of(2.0 * fabs(pair[0]) * weight)
                continue
            for v in range(chain.shape.n_labels):
                pair = tile_pairs(&known.chain, i) + (v * count + j) * width
                free_pair = tile_pairs(chain, i) + (v * count + j) * width
                for c in range(width):
                    pair[c] = free_pair[c] - pair[c]
                    sample.size += units_of(fabs(pair[c]) * weight)

    cdef void _sample_single(self, SinglePrecision *single, const Test *test, uint64_t key,
                             const double[::1] weights, Sample sample) noexcept nogil:
        """Draw the examples of a chain in single precision, after its forward pass."""
        cdef single_chain *chain = &single.chain
        cdef Example *example
        cdef Py_ssize_t t, v, i
        cdef double p
        single_finish(chain)
        for t in range(chain.length - 1, -1, -1):
            single_backward(chain, t)
            self._test_single(single, t, test, key, weights, sample)
            if self.bounded:
                single_future(chain, t)
        if self.bounded:
            for t in range(chain.length):
                single_past(chain, t)
        for v in range(chain.n_labels if self.curved else 0):
            for i in range(sample.vectors[v].begin, sample.vectors[v].n):
                example = item(&sample.vectors[v], i)
                p = example.curvature
                if self.bounded:
                    example.curvature = single_curvature(chain, example.position - chain.start, v,
                                                         example.context, p, self.bound_share)
                else:
                    example.curvature = 2.0 * p * (1.0 - p)
                if weights is not None:
                    example.curvature *= weights[example.position]
        sample.reverse_sequence()

    cdef void _test_single(self, SinglePrecision *single, Py_ssize_t t, const Test *test,
                           uint64_t key, const double[::1] weights,
                           Sample sample) noexcept nogil:
        """Test the examples of a position, and keep some, the last one first."""
        cdef single_chain *chain = &single.chain
        cdef Py_ssize_t v, k, c, n_candidates, position = chain.start + t
        cdef Py_ssize_t label = self.labels[position]
        cdef int32_t random
        cdef double x, residual, curvature, weight = weight_of(weights, position)
        cdef double background = background_of(test.floor, weight)
        # The test in single precision may find too many examples, but not too few.
        cdef float scale = <float> (test.scale * weight * MARGIN)
        cdef float squared = <float> (background * test.scale * test.scale * MARGIN)
        cdef float *row = chain.pairs + t * chain.size
        cdef float *pair = row + label * chain.width + (self.labels[position - 1] if t else 0)
        cdef float probability = pair[0]
        fill_streams(mixed_with(key, t), numbers_at(test, t), chain.width, single.streams)
        pair[0] = probability - 1.0
        sample.size += units_of(2.0 * fabs(pair[0]) * weight)
        for v in range(chain.n_labels):
            n_candidates = single_find(row, chain.width, single.streams, test.label_numbers[v],
                                       scale, squared, single.candidates)
            for k in range(n_candidates - 1, -1, -1):
                # Test the example exactly.
                c = single.candidates[k]
                x = row[c]
                random = random_of(single.streams[c], test.label_numbers[v])
                residual = -(x * weight)
                if (random >= chances_of(residual, background, test.scale)
                        or c >= (chain.n_labels if t else 1)):
                    continue
                # The curvature of a kept example is its probability at first.
                curvature = weight
                if self.curved:
                    curvature = x if x > 0.0 else 1.0 + x
                sample.add(v, chain.start, t, c, random, residual, curvature)
            row += chain.width
        pair[0] = probability


cdef inline double weight_of(const double[::1] weights, Py_ssize_t position) noexcept nogil:
    return 1.0 if weights is None else weights[position]


cdef inline int64_t units_of(double size) noexcept nogil:
    return <int64_t> (size * SIZE_UNITS + 0.5)


# Examples of a table of residuals.

cdef enum:
    TABLE_BLOCK = 1 << 12     # residuals of a label that are tested at a time


def sample_table(const double[:, :, ::1] residuals, const double[:, :, ::1] curvature,
                 const double[::1] counts, Py_ssize_t order, const int64_t[::1] offsets,
                 const uint64_t[::1] keys, Py_ssize_t first, Py_ssize_t last,
                 uint64_t iteration_key, numbers, double mu, double floor):
    """Draw the examples of the chains ``first`` to ``last - 1`` from their residuals.

    Without ``curvature``, all examples of a position have its count, or 1 without counts. The order
    is 0 if every position has one given context. See `LikelihoodKernel.sample`.
    """
    cdef const uint32_t[::1] label_numbers = numbers[0]
    cdef const uint64_t[:, ::1] context_numbers = numbers[1]
    cdef chain_shape shape = shape_of(residuals)
    cdef Py_ssize_t i, j, t, v, k, e, c, n, length, position, width = shape.width
    cdef Py_ssize_t block = max(1, TABLE_BLOCK // width)
    cdef Sample sample = Sample(shape.n_labels, order)
    cdef uint64_t key
    cdef double weight = 1.0, bound
    cdef const double *row
    cdef Memory memory
    cdef Test test
    memset(&memory, 0, sizeof(Memory))
    test = open_test(&memory, mu, floor, False, label_numbers, context_numbers, block * width)
    with nogil:
        for i in range(first, last):
            key = mixed_with(keys[i], iteration_key)
            length = offsets[i + 1] - offsets[i]
            t = 0
            while t < length:
                position = offsets[i] + t
                n = min(block, length - t)
                for j in range(n):
                    if counts is not None:
                        weight = counts[position + j]
                    set_position(&test, j, width, mixed_with(key, t + j),
                                 numbers_at(&test, t + j), 1.0, weight)
                for v in range(shape.n_labels):
                    row = &residuals[v, position, 0]
                    sample.size += units_of_row(row, n * width)
                    for k in range(find(&test, row, n * width, v)):
                        e = test.kept[k]
                        j = e // width
                        c = e % width
                        if c >= contexts_at(&shape, t + j):
                            continue
                        bound = 1.0
                        if curvature is not None:
                            bound = curvature[v, position + j, c]
                        elif counts is not None:
                            bound = counts[position + j]
                        sample.add(v, offsets[i], t + j, c,
                                   random_of(test.streams[e], test.label_numbers[v]), row[e],
                                   bound)
                t += block
        release(&memory)
    sample.check()
    return sample
