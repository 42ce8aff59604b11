/* Random choices of examples by the sizes of their residuals, see `_sampling.pyx`. */
#ifndef TREECRF_SAMPLING_H
#define TREECRF_SAMPLING_H

#include "utils/hashing.h"
#include "utils/vector_math.h"

/* Random numbers are integers below this one. */
#define N_RANDOM 2147483648.0

/* Examples that are tested before any of them is looked at. */
#define TEST_GROUP 32

/* streams[c] = start of the random numbers of the context with numbers[c] at the position with this
 * key. */
TREECRF_WIDEST static void fill_streams(uint64_t key, const uint64_t *restrict numbers,
                                        ptrdiff_t n, uint32_t *restrict streams)
{
    for (ptrdiff_t c = 0; c < n; c++)
        streams[c] = (uint32_t)(mixed_with(key, numbers[c]) >> 32);
}

/* The random number of the label with number v, by the hash "lowbias32" (Wellons, 2018). */
static inline int32_t random_of(uint32_t stream, uint32_t v)
{
    uint32_t x = stream + v * 0x9E3779B9u;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return (int32_t)((x ^ (x >> 16)) >> 1);
}

/* Number of the random numbers for which an example is kept; not rounded up, and not limited.
 * `background` is the square of the size that every example has at least. */
static inline double chances_of(double residual, double background, double scale)
{
    return (background > 0.0 ? sqrt(residual * residual + background) : fabs(residual)) * scale;
}

/* Factor that makes up for the examples that are not kept. */
static inline double factor_of(double chances)
{
    return chances < N_RANDOM ? N_RANDOM / ceil(chances) : 1.0;
}

/* Indices of the examples of the label with number v that are kept, in ascending order. The residuals are
 * `rows[i] * weights[i]`, except for their sign; without `weights` and `backgrounds`, they are 1
 * and 0. */
TREECRF_TEMPLATE ptrdiff_t find_kept_n(const double *restrict row,
                                       const uint32_t *restrict streams,
                                       const double *restrict weights,
                                       const double *restrict backgrounds, ptrdiff_t n, uint32_t v,
                                       double scale, int32_t *restrict found, int weighted)
{
    ptrdiff_t i, k, n_found = 0;
    for (i = 0; i < n; i += TEST_GROUP) {
        ptrdiff_t size = i + TEST_GROUP <= n ? TEST_GROUP : n - i;
        uint64_t any = 0;
        for (k = i; k < i + size; k++) {
            double chances = weighted ? chances_of(row[k] * weights[k], backgrounds[k], scale)
                                      : fabs(row[k]) * scale;
            any |= (uint64_t)(random_of(streams[k], v) < chances);
        }
        for (k = i; any && k < i + size; k++) {
            double chances = weighted ? chances_of(row[k] * weights[k], backgrounds[k], scale)
                                      : fabs(row[k]) * scale;
            if (random_of(streams[k], v) < chances)
                found[n_found++] = (int32_t)k;
        }
    }
    return n_found;
}

TREECRF_WIDEST static ptrdiff_t find_kept(const double *row, const uint32_t *streams,
                                          const double *weights, const double *backgrounds,
                                          ptrdiff_t n, uint32_t v, double scale, int32_t *found)
{
    if (weights)
        return find_kept_n(row, streams, weights, backgrounds, n, v, scale, found, 1);
    return find_kept_n(row, streams, weights, backgrounds, n, v, scale, found, 0);
}

/* Sum of the absolute values in units of 2^-30, each rounded to an integer. */
TREECRF_WIDEST static int64_t units_of_row(const double *row, ptrdiff_t n)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: sums with it are integers */
    int64_t total = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        total += (int64_t)((fabs(row[i]) * 1073741824.0 + shift) - shift);
    return total;
}
#endif
