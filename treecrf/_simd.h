/* Vector loops that Cython cannot express.
 *
 * The exponential is written with additions, multiplications and bit operations only, so that the
 * compiler vectorises it at every register width and the result is the same to the last bit on
 * every machine, whichever width it has: a tree must not depend on the processor that grew it.
 */
#ifndef TREECRF_SIMD_H
#define TREECRF_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TREECRF_WIDEST                                                                            \
    __attribute__((unused, target_clones("arch=x86-64-v4", "avx2", "default")))
#elif defined(__GNUC__)
#define TREECRF_WIDEST __attribute__((unused))
#else
#define TREECRF_WIDEST
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#define restrict __restrict
static inline int lowest_bit(uint64_t word)
{
    unsigned long index;
    _BitScanForward64(&index, word);
    return (int)index;
}
#else
static inline int lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
#endif

static inline int count_bits(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return (int)(((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

/* exp(x) for x <= 0; 0 below -708, where doubles end. The error stays within one unit in the
 * last place: x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor polynomial of degree 13 in r. */
static inline double exp_of_nonpositive(double x)
{
    const double lowest = -708.0, shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double clamped = x > lowest ? x : lowest;
    double shifted = clamped * 1.4426950408889634 + shift; /* its low bits hold n */
    double n = shifted - shift;
    double r = (clamped - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    int64_t power, bits;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += (int64_t)((uint64_t)power << 52); /* p * 2^n */
    memcpy(&p, &bits, sizeof p);
    return x > lowest ? p : 0.0;
}

/* values[i] = exp(values[i] - highest), where no value is above highest. */
TREECRF_WIDEST static void exp_below(double *values, ptrdiff_t n, double highest)
{
    for (ptrdiff_t i = 0; i < n; i++)
        values[i] = exp_of_nonpositive(values[i] - highest);
}

/* The smallest and the largest value. Eight lanes, because compilers do not reorder a minimum or maximum by themselves. */
TREECRF_WIDEST static void find_range(const double *values, ptrdiff_t n, double *lowest,
                                      double *highest)
{
    double low[8], high[8];
    ptrdiff_t i, whole = n & ~(ptrdiff_t)7;
    int k;
    for (k = 0; k < 8; k++) {
        low[k] = HUGE_VAL;
        high[k] = -HUGE_VAL;
    }
    for (i = 0; i < whole; i += 8) {
        for (k = 0; k < 8; k++)
            high[k] = values[i + k] > high[k] ? values[i + k] : high[k];
        for (k = 0; k < 8; k++)
            low[k] = values[i + k] < low[k] ? values[i + k] : low[k];
    }
    for (; i < n; i++) {
        high[0] = values[i] > high[0] ? values[i] : high[0];
        low[0] = values[i] < low[0] ? values[i] : low[0];
    }
    for (k = 1; k < 8; k++) {
        high[0] = high[k] > high[0] ? high[k] : high[0];
        low[0] = low[k] < low[0] ? low[k] : low[0];
    }
    *highest = high[0];
    *lowest = low[0];
}

/* Loops over few labels are the common case, and several times faster where the compiler knows the
 * number. A function f(..., n) defined as TREECRF_TEMPLATE is compiled once for each small n. */
#if defined(_MSC_VER)
#define TREECRF_TEMPLATE static __forceinline
#else
#define TREECRF_TEMPLATE static inline __attribute__((always_inline))
#endif
#define TREECRF_BY_SIZE(n, RETURN, f, ...)                                                        \
    switch (n) {                                                                                  \
    case 1: RETURN f(__VA_ARGS__, 1); break;                                                      \
    case 2: RETURN f(__VA_ARGS__, 2); break;                                                      \
    case 3: RETURN f(__VA_ARGS__, 3); break;                                                      \
    case 4: RETURN f(__VA_ARGS__, 4); break;                                                      \
    case 5: RETURN f(__VA_ARGS__, 5); break;                                                      \
    case 6: RETURN f(__VA_ARGS__, 6); break;                                                      \
    default: RETURN f(__VA_ARGS__, n);                                                            \
    }

/* target += weight * source */
TREECRF_TEMPLATE void add_scaled_n(double *restrict target, const double *restrict source,
                                   double weight, ptrdiff_t n)
{
    for (ptrdiff_t v = 0; v < n; v++)
        target[v] += weight * source[v];
}

static inline void add_scaled(double *target, const double *source, double weight, ptrdiff_t n)
{
    TREECRF_BY_SIZE(n, , add_scaled_n, target, source, weight)
}

/* Sum of the products of two rows. */
TREECRF_TEMPLATE double dot_n(const double *restrict a, const double *restrict b, ptrdiff_t n)
{
    double total = 0.0;
    for (ptrdiff_t v = 0; v < n; v++)
        total += a[v] * b[v];
    return total;
}

static inline double dot(const double *a, const double *b, ptrdiff_t n)
{
    TREECRF_BY_SIZE(n, return, dot_n, a, b)
}

/* Rows of labels, rows[c * n_labels + v], to class-major order, target[v * stride + c], negated and
 * rounded: adding and subtracting `round` cuts off the low digits. */
TREECRF_TEMPLATE void store_negative_n(const double *restrict rows, ptrdiff_t n, double round,
                                       double *restrict target, ptrdiff_t stride,
                                       ptrdiff_t n_labels)
{
    for (ptrdiff_t v = 0; v < n_labels; v++)
        for (ptrdiff_t c = 0; c < n; c++)
            target[v * stride + c] = (round - rows[c * n_labels + v]) - round;
}

static inline void store_negative(const double *rows, ptrdiff_t n, double round, double *target,
                                  ptrdiff_t stride, ptrdiff_t n_labels)
{
    TREECRF_BY_SIZE(n_labels, , store_negative_n, rows, n, round, target, stride)
}

/* One position of the forward recursion: n contexts of weights `now`, each with a row of factors
 * for the n_labels labels, lead to n_after contexts; label v of context c leads to context
 * (c n_labels + v) mod n_after. Returns the sum of the new weights. */
TREECRF_TEMPLATE double forward_step_n(const double *restrict now, ptrdiff_t n,
                                       const double *restrict rows, double *restrict after,
                                       ptrdiff_t n_after, ptrdiff_t n_labels)
{
    double total = 0.0;
    ptrdiff_t c, v, base;
    for (c = 0; c * n_labels < n_after; c++)
        for (v = 0; v < n_labels; v++)
            after[c * n_labels + v] = now[c] * rows[c * n_labels + v];
    for (base = 0; c < n; c++, base = base + n_labels < n_after ? base + n_labels : 0)
        for (v = 0; v < n_labels; v++)
            after[base + v] += now[c] * rows[c * n_labels + v];
    for (c = 0; c < n_after; c++)
        total += after[c];
    return total;
}

static inline double forward_step(const double *now, ptrdiff_t n, const double *rows,
                                  double *after, ptrdiff_t n_after, ptrdiff_t n_labels)
{
    TREECRF_BY_SIZE(n_labels, return, forward_step_n, now, n, rows, after, n_after)
}

/* One position of the backward recursion: `now` from `after`; the rows of factors become
 * probabilities, given the forward weights. */
TREECRF_TEMPLATE void backward_step_n(const double *restrict forward, ptrdiff_t n,
                                      double *restrict rows, double *restrict now,
                                      const double *restrict after, ptrdiff_t n_after,
                                      ptrdiff_t n_labels)
{
    ptrdiff_t base = 0;
    for (ptrdiff_t c = 0; c < n; c++, base = base + n_labels < n_after ? base + n_labels : 0) {
        double total = 0.0, *row = rows + c * n_labels;
        for (ptrdiff_t v = 0; v < n_labels; v++) {
            double x = row[v] * after[base + v];
            total += x;
            row[v] = forward[c] * x;
        }
        now[c] = total;
    }
}

static inline void backward_step(const double *forward, ptrdiff_t n, double *rows, double *now,
                                 const double *after, ptrdiff_t n_after, ptrdiff_t n_labels)
{
    TREECRF_BY_SIZE(n_labels, , backward_step_n, forward, n, rows, now, after, n_after)
}

/* A histogram bin is a pair (sum of residuals, sum of weights), added to in one instruction. */
#if defined(__SSE2__)
#include <emmintrin.h>
static inline void add_pair(double *target, double first, double second)
{
    _mm_storeu_pd(target, _mm_add_pd(_mm_loadu_pd(target), _mm_set_pd(second, first)));
}
#else
static inline void add_pair(double *target, double first, double second)
{
    target[0] += first;
    target[1] += second;
}
#endif

/* Add a position to the bins of all codes of its window. */
static inline void add_window(double *bins, const int64_t *first, const uint8_t *codes,
                              ptrdiff_t n, double value, double weight)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= n; j += 4) {
        add_pair(bins + 2 * (first[j] + codes[j]), value, weight);
        add_pair(bins + 2 * (first[j + 1] + codes[j + 1]), value, weight);
        add_pair(bins + 2 * (first[j + 2] + codes[j + 2]), value, weight);
        add_pair(bins + 2 * (first[j + 3] + codes[j + 3]), value, weight);
    }
    for (; j < n; j++)
        add_pair(bins + 2 * (first[j] + codes[j]), value, weight);
}

/* The same for the joint bins of pairs of neighbouring codes. */
static inline void add_pairs(double *joint, const int64_t *bins, const int64_t *widths,
                             const int64_t *places, const uint8_t *codes, ptrdiff_t n,
                             double value, double weight)
{
    for (ptrdiff_t p = 0; p < n; p++) {
        const uint8_t *pair = codes + places[p];
        add_pair(joint + 2 * (bins[p] + pair[0] * widths[p] + pair[1]), value, weight);
    }
}

TREECRF_WIDEST static void subtract_from(double *restrict target, const double *restrict source,
                                         ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] -= source[i];
}

/* Score of each split: t^2 / (penalty + w) summed over its two sides, -1 where a side weighs
 * nothing or less than `smallest`. `pairs` are the sums of the side that passes the test. */
TREECRF_WIDEST static void split_scores(const double *restrict pairs, ptrdiff_t n, double total,
                                        double weight, double penalty, double smallest,
                                        double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double passed = pairs[2 * i], passed_weight = pairs[2 * i + 1];
        double failed = total - passed, failed_weight = weight - passed_weight;
        double lighter = passed_weight < failed_weight ? passed_weight : failed_weight;
        double score = passed * passed / (penalty + passed_weight)
                       + failed * failed / (penalty + failed_weight);
        out[i] = (lighter > 0.0) & (lighter >= smallest) ? score : -1.0;
    }
}

/* Bit i of `out` tells whether (values[i] & mask) == low, for n_words * 64 bytes. */
static inline void bytes_equal(const uint8_t *values, ptrdiff_t n_words, uint8_t mask, uint8_t low,
                               uint64_t *out)
{
    for (ptrdiff_t w = 0; w < n_words; w++, values += 64) {
        uint64_t word = 0;
#if defined(__SSE2__)
        for (int k = 0; k < 4; k++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(values + 16 * k));
            x = _mm_cmpeq_epi8(_mm_and_si128(x, _mm_set1_epi8((char)mask)),
                               _mm_set1_epi8((char)low));
            word |= (uint64_t)(uint32_t)_mm_movemask_epi8(x) << (16 * k);
        }
#else
        for (int k = 0; k < 64; k++)
            word |= (uint64_t)((values[k] & mask) == low) << k;
#endif
        out[w] = word;
    }
}

/* Bit i of `out` tells whether values[i] > low. */
static inline void bytes_above(const uint8_t *values, ptrdiff_t n_words, uint8_t low,
                               uint64_t *out)
{
    for (ptrdiff_t w = 0; w < n_words; w++, values += 64) {
        uint64_t word = 0;
#if defined(__SSE2__)
        for (int k = 0; k < 4; k++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(values + 16 * k));
            x = _mm_cmpeq_epi8(_mm_subs_epu8(x, _mm_set1_epi8((char)low)), _mm_setzero_si128());
            word |= (uint64_t)(uint32_t)(0xFFFF ^ _mm_movemask_epi8(x)) << (16 * k);
        }
#else
        for (int k = 0; k < 64; k++)
            word |= (uint64_t)(values[k] > low) << k;
#endif
        out[w] = word;
    }
}

/* Take from a set of bits those that are in `taken` too, and leave only these there. Returns their
 * number. */
TREECRF_WIDEST static ptrdiff_t take_bits(uint64_t *restrict words, uint64_t *restrict taken,
                                          ptrdiff_t n)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        taken[i] &= words[i];
        words[i] ^= taken[i];
        count += count_bits(taken[i]);
    }
    return count;
}

/* List the places of the set bits, ascending. Writes them by fours, because a loop that ends with
 * the last bit of a word is mispredicted once a word: up to 64 entries after the last are garbage. */
TREECRF_WIDEST static void list_bits(const uint64_t *words, ptrdiff_t n_words, int32_t *out)
{
    const uint64_t last = (uint64_t)1 << 63;
    for (ptrdiff_t i = 0; i < n_words; i++) {
        uint64_t word = words[i];
        int n = count_bits(word);
        for (int listed = 0; listed < n; listed += 4)
            for (int k = 0; k < 4; k++, word &= word - 1)
                out[listed + k] = (int32_t)(64 * i + lowest_bit(word | last));
        out += n;
    }
}

/* Part a set of bits by a test. Returns 1 if some pass, plus 2 if some fail. */
TREECRF_WIDEST static int part_bits(const uint64_t *restrict parent, const uint64_t *restrict test,
                                    ptrdiff_t n, uint64_t *restrict passed,
                                    uint64_t *restrict failed)
{
    uint64_t any_passed = 0, any_failed = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        passed[i] = parent[i] & test[i];
        failed[i] = parent[i] & ~test[i];
        any_passed |= passed[i];
        any_failed |= failed[i];
    }
    return (any_passed != 0) + 2 * (any_failed != 0);
}

#endif
