/* Histograms of residuals and weights, and the scores of splits. */
#ifndef TREECRF_HISTOGRAMS_H
#define TREECRF_HISTOGRAMS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "utils/vector_math.h"

/* A histogram bin is a pair (sum of residuals, sum of weights); one instruction adds to both. */
#if defined(__GNUC__)
typedef double treecrf_pair __attribute__((vector_size(16), aligned(8), may_alias));
static inline treecrf_pair sum_of(treecrf_pair a, treecrf_pair b) { return a + b; }
#else
typedef struct {
    double first, second;
} treecrf_pair;
static inline treecrf_pair sum_of(treecrf_pair a, treecrf_pair b)
{
    a.first += b.first;
    a.second += b.second;
    return a;
}
#endif

static inline void add_pair(double *target, double first, double second)
{
    treecrf_pair value = {first, second}, *bin = (treecrf_pair *)target;
    *bin = sum_of(*bin, value);
}

/* out[i * step] = bins[0] + bins[step] + ... + bins[i * step]. Sums are exact in any order: four blocks
 * are summed at once, and the sums of the blocks before are added later. */
TREECRF_TEMPLATE void sum_up_n(const treecrf_pair *bins, treecrf_pair *out, ptrdiff_t n, ptrdiff_t step)
{
    ptrdiff_t quarter = n / 4;
    treecrf_pair sums[4] = {{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}, before;
    for (ptrdiff_t i = 0; i < quarter; i++)
        for (int k = 0; k < 4; k++) {
            ptrdiff_t e = step * (i + k * quarter);
            out[e] = sums[k] = sum_of(sums[k], bins[e]);
        }
    before = sums[0];
    for (int k = 1; k < 4; k++) {
        for (ptrdiff_t i = k * quarter; i < (k + 1) * quarter; i++)
            out[step * i] = sum_of(out[step * i], before);
        before = sum_of(before, sums[k]);
    }
    for (ptrdiff_t i = 4 * quarter; i < n; i++)
        out[step * i] = before = sum_of(before, bins[step * i]);
}

/* Sum the bins from each bin on (`suffix`) or up to each bin. */
static inline void sum_up(const double *bins, double *out, ptrdiff_t n, int suffix)
{
    const treecrf_pair *pairs = (const treecrf_pair *)bins;
    treecrf_pair *sums = (treecrf_pair *)out;
    if (suffix)
        sum_up_n(pairs + n - 1, sums + n - 1, n, -1);
    else
        sum_up_n(pairs, sums, n, 1);
}

/* Add rows of `n_lanes` values to the bins of all their codes, which are in `stretches` of neighboring
 * columns, and to the sums of all rows, if given. A bin has as many lanes. */
TREECRF_TEMPLATE void add_rows_n(double *bins, const int64_t *first, const uint8_t *codes,
                                 ptrdiff_t n_columns, const int64_t *stretches,
                                 ptrdiff_t n_stretches, const int32_t *rows, ptrdiff_t n_rows,
                                 const double *values, double *sums, ptrdiff_t n_lanes)
{
    for (ptrdiff_t i = 0; i < n_rows; i++, values += n_lanes) {
        const uint8_t *window = codes + rows[i] * n_columns;
        double lanes[8];
        memcpy(lanes, values, (size_t)n_lanes * sizeof *lanes);
        for (ptrdiff_t s = 0; s < n_stretches; s++)
            for (ptrdiff_t j = stretches[2 * s]; j < stretches[2 * s + 1]; j++) {
                double *bin = bins + n_lanes * (first[j] + window[j]);
#pragma omp simd
                for (ptrdiff_t k = 0; k < n_lanes; k++)
                    bin[k] += lanes[k];
            }
        if (sums)
            for (ptrdiff_t k = 0; k < n_lanes; k++)
                sums[k] += lanes[k];
    }
}

TREECRF_WIDEST static void add_rows(double *bins, const int64_t *first, const uint8_t *codes,
                                    ptrdiff_t n_columns, const int64_t *stretches,
                                    ptrdiff_t n_stretches, const int32_t *rows, ptrdiff_t n_rows,
                                    const double *values, double *sums, ptrdiff_t n_lanes)
{
    TREECRF_IF_2_4_8(n_lanes, , add_rows_n, bins, first, codes, n_columns, stretches, n_stretches,
                     rows, n_rows, values, sums)
}

/* Add a position to the joint bins of pairs of neighboring codes of its window. */
static inline void add_pairs(double *joint, const int64_t *bins, const int64_t *firsts,
                             const uint16_t *pairs, ptrdiff_t n, double value, double weight)
{
    for (ptrdiff_t p = 0; p < n; p++)
        add_pair(joint + 2 * (bins[p] + pairs[firsts[p]]), value, weight);
}

TREECRF_WIDEST static void subtract_from(double *restrict target, const double *restrict source,
                                         ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] -= source[i];
}

/* Score of each split: t^2 / (penalty + w) summed over its two sides, or -1 if the weight of a side is
 * 0 or less than `smallest`. `pairs` holds the sums of the side that passes the test. */
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

/* The largest of `split_scores`, computed in single precision, with one division. With finite numbers that
 * are neither huge nor tiny, the error is below 2e-6 of it; it is NaN or infinite if numbers are huge. */
TREECRF_WIDEST static float largest_split_score(const double *restrict pairs, ptrdiff_t n, double total,
                                                double weight, double penalty, double smallest)
{
    float high = -1.0f, sum = 0.0f;
#pragma omp simd reduction(max : high) reduction(+ : sum)
    for (ptrdiff_t i = 0; i < n; i++) {
        double passed = pairs[2 * i], passed_weight = pairs[2 * i + 1];
        double failed_weight = weight - passed_weight;
        double lighter = passed_weight < failed_weight ? passed_weight : failed_weight;
        float p = (float)passed, f = (float)(total - passed);
        float a = (float)(penalty + passed_weight), b = (float)(penalty + failed_weight);
        float score = (p * p * b + f * f * a) / (a * b);
        score = (lighter > 0.0) & (lighter >= smallest) ? score : -1.0f;
        sum += score;
        high = score > high ? score : high;
    }
    return sum - sum + high;
}

/* Score of examples whose value is t / w within bounds; w includes the penalty and is positive. */
static inline double bounded_score(double t, double w, double lower, double upper)
{
    double value = t / w;
    value = value > lower ? value : lower;
    value = value < upper ? value : upper;
    return value * (2.0 * t - w * value);
}

/* The same as `split_scores` for bounded values; minus infinity marks invalid splits. */
TREECRF_WIDEST static void bounded_split_scores(const double *restrict pairs, ptrdiff_t n,
                                                double total, double weight, double penalty,
                                                double smallest, double lower, double upper,
                                                double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double passed = pairs[2 * i], passed_weight = pairs[2 * i + 1];
        double failed = total - passed, failed_weight = weight - passed_weight;
        double lighter = passed_weight < failed_weight ? passed_weight : failed_weight;
        double score = bounded_score(passed, penalty + passed_weight, lower, upper)
                       + bounded_score(failed, penalty + failed_weight, lower, upper);
        out[i] = (lighter > 0.0) & (lighter >= smallest) ? score : -HUGE_VAL;
    }
}

#endif
