/* Bound of the influence of an event on positions that lie further on.
 *
 * Let values[c] be the influence of context c there: a bound of the distances between the
 * distributions given c and those given nothing, summed over the positions. Given the event, c has
 * the probability row[c] instead of p[c]. As the mean over p of the distributions given c is that
 * given nothing, the influence of the event is at most
 *
 *     sum over c of |row[c] - b p[c]| values[c]
 *
 * for every b. With b = 0, it is the mean of the values; with b = 1, it is 0 if the event changes
 * nothing.
 */
#ifndef TREECRF_INFLUENCE_H
#define TREECRF_INFLUENCE_H

#include "utils/vector_math.h"

/* The sum is minimized over b until it is at most this many times the minimum, in a few steps. */
#define INFLUENCE_PRECISION 1.1
#define INFLUENCE_STEPS 8

/* Sum of |a[i] - b x[i]| and its slope in b; eight lanes make it the same on every machine. */
TREECRF_TEMPLATE double sum_of_changes(const double *restrict a, const double *restrict x,
                                       ptrdiff_t n, double b, double *slope)
{
    double sums[8] = {0.0}, slopes[8] = {0.0}, sum = 0.0, rest = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
#pragma omp simd
        for (int k = 0; k < 8; k++) {
            double change = a[i + k] - b * x[i + k];
            sums[k] += fabs(change);
            slopes[k] += change > 0.0 ? -x[i + k] : x[i + k];
        }
    }
    for (; i < n; i++) {
        double change = a[i] - b * x[i];
        sum += fabs(change);
        rest += change > 0.0 ? -x[i] : x[i];
    }
    *slope = sum_lanes(slopes) + rest;
    return sum_lanes(sums) + sum;
}

/* Influence of an event that lies before or after contexts with n `values`: `row` holds their
 * probabilities given the event, and is overwritten; `mean` their probabilities times `values`.
 *
 * The sum is convex in b. Its minimum is at least the height at which two tangents intersect; b is
 * next where they do. */
TREECRF_WIDEST static double influence_beyond(double *restrict row, const double *restrict values,
                                              const double *restrict mean, ptrdiff_t n)
{
    double low = 0.0, high = 1.0, at_low, at_high, rise_low, rise_high, least;
    for (ptrdiff_t i = 0; i < n; i++)
        row[i] *= values[i];
    at_low = sum_of_changes(row, mean, n, low, &rise_low);
    at_high = sum_of_changes(row, mean, n, high, &rise_high);
    least = at_low < at_high ? at_low : at_high;
    for (int i = 0; i < INFLUENCE_STEPS && rise_low < 0.0 && rise_high > 0.0; i++) {
        double b = (at_low - at_high + rise_high * high - rise_low * low) / (rise_high - rise_low);
        double rise, sum;
        if (!(b > low && b < high) || least <= INFLUENCE_PRECISION * (at_low + rise_low * (b - low)))
            break;
        sum = sum_of_changes(row, mean, n, b, &rise);
        least = sum < least ? sum : least;
        if (rise < 0.0)
            low = b, at_low = sum, rise_low = rise;
        else
            high = b, at_high = sum, rise_high = rise;
    }
    return least;
}
#endif
