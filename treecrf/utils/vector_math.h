/* Vector loops that Cython cannot express.
 *
 * Exponential and logarithm are written with plain arithmetic and bit operations only, so that the
 * compiler vectorises them at every register width and the result is the same to the last bit on
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

/* exp(x) for x between -700 and 700. The error stays within one unit in the last place:
 * x = n ln 2 + r, |r| <= ln 2 / 2, and in r a polynomial 1 + r + r^2 q(r), q interpolating at
 * Chebyshev's points. Even and odd powers are summed apart: two short chains of operations keep the
 * processor busier than one long one. */
static inline double exp_in_range(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double shifted = x * 1.4426950408889634 + shift; /* its low bits hold n */
    double n = shifted - shift;
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double s = r * r, even = 2.7620201591031547e-07, odd = 2.5100472505694996e-08, p;
    uint64_t power, bits;
    even = even * s + 2.4801521057868204e-05;
    odd = odd * s + 2.7557268276905696e-06;
    even = even * s + 0.0013888888917367081;
    odd = odd * s + 0.00019841269863171557;
    even = even * s + 0.041666666666623824;
    odd = odd * s + 0.008333333333330039;
    even = even * s + 0.5;
    odd = odd * s + 0.16666666666666669;
    p = 1.0 + (r + s * (even + r * odd));
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 52; /* p * 2^n */
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* exp(x) for x below 700; 0 below -708, where doubles end, and for NaN. */
static inline double exp_of(double x) { return x > -708.0 ? exp_in_range(x) : 0.0; }

/* log(x) for x from 1e-300 on, -inf for 0; within one unit in the last place. x = 2^n (1 + f), with
 * 1 + f between the square roots of 1/2 and 2; log(1 + f) is a series in s = f / (2 + f). */
static inline double log_of(double x)
{
    const uint64_t half_root = 0x3FE6A09E667F3BCD, one = 0x3FF0000000000000;
    const double shift = 6755399441055744.0;
    uint64_t bits, power, shift_bits;
    double n, f, s, z, series, half_square;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    power = (bits - half_root + one) >> 52; /* n + 1023 */
    bits -= (power - 1023) << 52;
    memcpy(&f, &bits, sizeof f);
    power += shift_bits;
    memcpy(&n, &power, sizeof n);
    n -= shift + 1023.0;
    f -= 1.0;
    s = f / (2.0 + f);
    z = s * s;
    series = 0.14616449685043406;
    series = series * z + 0.15331721600556042;
    series = series * z + 0.18182889125261723;
    series = series * z + 0.2222221113479508;
    series = series * z + 0.28571428625975487;
    series = series * z + 0.39999999999899505;
    series = series * z + 0.666666666666667;
    half_square = 0.5 * f * f;
    f -= half_square - (s * (half_square + series * z) + n * 1.90821492927058770002e-10);
    return x > 0.0 ? n * 0.693147180369123816490 + f : -HUGE_VAL;
}

/* values[i] = exp(values[i] - highest), where no value is above highest. */
TREECRF_WIDEST static void exp_below(double *values, ptrdiff_t n, double highest)
{
    for (ptrdiff_t i = 0; i < n; i++)
        values[i] = exp_of(values[i] - highest);
}

TREECRF_WIDEST static void log_in_place(double *values, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        values[i] = log_of(values[i]);
}

/* The largest value; -inf of none. */
TREECRF_WIDEST static double largest(const double *values, ptrdiff_t n)
{
    double high = -HUGE_VAL;
#pragma omp simd reduction(max : high)
    for (ptrdiff_t i = 0; i < n; i++)
        high = values[i] > high ? values[i] : high;
    return high;
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
    case 7: RETURN f(__VA_ARGS__, 7); break;                                                      \
    case 8: RETURN f(__VA_ARGS__, 8); break;                                                      \
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

/* Number of bits that two sets have in common. */
TREECRF_WIDEST static ptrdiff_t count_common(const uint64_t *a, const uint64_t *b, ptrdiff_t n)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        count += count_bits(a[i] & b[i]);
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

/* Part a list of entries of eight bytes, whose first four are a place in sets of bits: those in
 * `misses` go to `lost`, of the others those in `takes` to `taken`, the rest stay. Each is written to
 * all three lists, and one of them keeps it. */
TREECRF_WIDEST static void part_list(void *list, ptrdiff_t n, const uint64_t *takes,
                                     const uint64_t *misses, void *taken, void *lost,
                                     ptrdiff_t *n_taken, ptrdiff_t *n_lost)
{
    char *left = list, *to_taken = taken, *to_lost = lost;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t entry, is_lost, is_left;
        uint32_t place;
        memcpy(&entry, (char *)list + 8 * i, 8);
        memcpy(&place, (char *)list + 8 * i, 4);
        is_lost = misses[place >> 6] >> (place & 63) & 1;
        is_left = ~(takes[place >> 6] >> (place & 63)) & 1 & ~is_lost;
        memcpy(left, &entry, 8);
        memcpy(to_lost, &entry, 8);
        memcpy(to_taken, &entry, 8);
        left += 8 * is_left;
        to_lost += 8 * is_lost;
        to_taken += 8 * (1 - is_left - is_lost);
    }
    *n_taken = (to_taken - (char *)taken) / 8;
    *n_lost = (to_lost - (char *)lost) / 8;
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

/* Members of `among` for which all literals hold: a literal is twice the place of a column of bits,
 * plus 1 if the bit must be set. Returns whether there may be any. */
enum { HELD_WORDS = 8 };

TREECRF_WIDEST static int all_hold(const uint64_t *restrict columns,
                                   const int32_t *restrict literals, ptrdiff_t n,
                                   const uint64_t *restrict among, uint64_t *restrict held)
{
    uint64_t words[HELD_WORDS], any = 1;
    memcpy(words, among, sizeof words);
    for (ptrdiff_t i = 0; i < n && any; i += 4) {
        ptrdiff_t end = i + 4 < n ? i + 4 : n;
        for (ptrdiff_t k = i; k < end; k++) {
            const uint64_t *column = columns + HELD_WORDS * (literals[k] >> 1);
            uint64_t flip = (uint64_t)(literals[k] & 1) - 1;
            for (int w = 0; w < HELD_WORDS; w++)
                words[w] &= column[w] ^ flip;
        }
        any = 0;
        for (int w = 0; w < HELD_WORDS; w++)
            any |= words[w];
    }
    memcpy(held, words, sizeof words);
    return any != 0;
}

/* Leave in a set those that pass a test, and put the others elsewhere. Returns 1 if some pass, plus 2
 * if some fail. */
TREECRF_WIDEST static int split_bits(uint64_t *restrict set, const uint64_t *restrict test,
                                     ptrdiff_t n, uint64_t *restrict failed)
{
    uint64_t any_passed = 0, any_failed = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        failed[i] = set[i] & ~test[i];
        set[i] &= test[i];
        any_passed |= set[i];
        any_failed |= failed[i];
    }
    return (any_passed != 0) + 2 * (any_failed != 0);
}

TREECRF_WIDEST static void join_bits(uint64_t *restrict target, const uint64_t *restrict source,
                                     ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] |= source[i];
}

/* Planes of bits as a byte for each place: bit k of the byte comes from plane k. Eight places at a
 * time are a matrix of 8 by 8 bits, which is turned around by swapping ever larger parts. */
enum { N_PLANES = 8, N_VALUES = 1 << N_PLANES };

TREECRF_WIDEST static void bytes_of_planes(const uint64_t *planes, ptrdiff_t stride,
                                           ptrdiff_t n_words, uint8_t *out)
{
    const uint8_t *bytes = (const uint8_t *)planes;
    for (ptrdiff_t i = 0; i < 8 * n_words; i++) {
        uint64_t x = 0, t;
        for (int k = 0; k < N_PLANES; k++)
            x |= (uint64_t)bytes[8 * stride * k + i] << (8 * k);
        t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
        x ^= t ^ (t << 7);
        t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
        x ^= t ^ (t << 14);
        t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
        x ^= t ^ (t << 28);
        memcpy(out + 8 * i, &x, 8);
    }
}

/* Add to each target a value from each of several tables, which begin N_VALUES after another; the
 * places of a table begin `stride` after those of the one before. Vectors would only be in the way:
 * the values come from memory one by one. */
enum { AT_ONCE = 4 };

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-vectorize", "no-tree-slp-vectorize")))
#endif
static void look_up(double *restrict target, const double *restrict tables,
                    const uint8_t *restrict places, ptrdiff_t stride, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] += (tables[places[i]] + tables[N_VALUES + places[stride + i]])
                     + (tables[2 * N_VALUES + places[2 * stride + i]]
                        + tables[3 * N_VALUES + places[3 * stride + i]]);
}

/* target += source */
TREECRF_WIDEST static void add_to(double *restrict target, const double *restrict source,
                                  ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] += source[i];
}

#endif
