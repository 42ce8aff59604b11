/* Vector arithmetic that Cython cannot express.
 *
 * The exponential and the logarithm consist of plain arithmetic and bit operations only. The compiler
 * can therefore vectorize them at every register width, and the result is the same to the last bit on
 * every machine: a tree must not depend on the processor that grew it.
 */
#ifndef TREECRF_VECTOR_MATH_H
#define TREECRF_VECTOR_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "utils/compiler.h"

#if defined(_MSC_VER)
#define TREECRF_TEMPLATE static __forceinline
#else
#define TREECRF_TEMPLATE static inline __attribute__((always_inline))
#endif

/* exp(x) for x between -700 and 700. The error is at most one unit in the last place:
 * x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) is a polynomial 1 + r + r^2 q(r), where q
 * interpolates at Chebyshev nodes. Even and odd powers are summed separately, because two short
 * chains of operations keep the processor busier than a long one. */
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

/* exp(x) for x below 700; 0 below -708, where doubles underflow, and for NaN. */
static inline double exp_of(double x) { return x > -708.0 ? exp_in_range(x) : 0.0; }

/* log(x) for x >= 1e-300, -inf for 0. The error is at most one unit in the last place:
 * x = 2^n (1 + f) with 1 + f between the square roots of 1/2 and 2, and log(1 + f) is a series in
 * s = f / (2 + f). */
TREECRF_TEMPLATE double log_of(double x)
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

/* 1.5 * 2^20: a sum with this number has no digits below 2^-32. */
#define SHIFT_TO_INTEGER 1572864.0

/* The multiple of 2^-32 nearest to x; sums of such numbers are exact. */
static inline double rounded(double x)
{
    return (x + SHIFT_TO_INTEGER) - SHIFT_TO_INTEGER;
}

/* Sum of eight lanes, in the same order on every machine. */
static inline double sum_lanes(const double *x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* values[i] = exp(values[i] - highest), where no value exceeds highest. */
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

/* The largest value; -inf if n is 0. */
TREECRF_WIDEST static double largest(const double *values, ptrdiff_t n)
{
    double high = -HUGE_VAL;
#pragma omp simd reduction(max : high)
    for (ptrdiff_t i = 0; i < n; i++)
        high = values[i] > high ? values[i] : high;
    return high;
}

/* Loops over few labels are common, and faster if their number is known at compile time. A function
 * f(..., n) defined as TREECRF_TEMPLATE is compiled once for each number in one of the lists below.
 * Use a longer list only if a benchmark shows a gain, since every case takes time to compile. */
#define TREECRF_CASE(n, RETURN, f, ...) case n: RETURN f(__VA_ARGS__, n); break;
#define TREECRF_UP_TO_4(n, RETURN, f, ...)                                                        \
    switch (n) {                                                                                  \
        TREECRF_CASE(1, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(2, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(3, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(4, RETURN, f, __VA_ARGS__)                                                   \
    default: RETURN f(__VA_ARGS__, n);                                                            \
    }
#define TREECRF_UP_TO_8(n, RETURN, f, ...)                                                        \
    switch (n) {                                                                                  \
        TREECRF_CASE(2, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(3, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(4, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(5, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(6, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(7, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(8, RETURN, f, __VA_ARGS__)                                                   \
    default: RETURN f(__VA_ARGS__, n);                                                            \
    }
#define TREECRF_IF_2_4_8(n, RETURN, f, ...)                                                       \
    switch (n) {                                                                                  \
        TREECRF_CASE(2, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(4, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(8, RETURN, f, __VA_ARGS__)                                                   \
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
    TREECRF_UP_TO_4(n, , add_scaled_n, target, source, weight)
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
    TREECRF_UP_TO_4(n, return, dot_n, a, b)
}

#endif
