/* Rounding to multiples of 2^-32, whose sums are exact. */
#ifndef TREECRF_ROUNDING_H
#define TREECRF_ROUNDING_H

/* 1.5 * 2^20: a sum with this number has no digits below 2^-32. */
#define SHIFT_TO_INTEGER 1572864.0

/* The multiple of 2^-32 nearest to x. */
static inline double rounded(double x)
{
    return (x + SHIFT_TO_INTEGER) - SHIFT_TO_INTEGER;
}
#endif
