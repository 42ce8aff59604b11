/* Sums of several labels side by side, and the scores of splits that serve all of them. */
#ifndef TREECRF_LABEL_BLOCKS_H
#define TREECRF_LABEL_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include "utils/vector_math.h"

/* A block is up to eight labels. Its lanes are the residuals of the labels, then their weights. */
#define TREECRF_WIDTHS(width, RETURN, f, ...)                                                     \
    switch (width) {                                                                              \
        TREECRF_CASE(1, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(2, RETURN, f, __VA_ARGS__)                                                   \
        TREECRF_CASE(4, RETURN, f, __VA_ARGS__)                                                   \
    default: RETURN f(__VA_ARGS__, 8);                                                            \
    }

/* Sum over the labels of a block, in the same order on every machine. */
TREECRF_TEMPLATE double sum_of_labels(const double *x, int width)
{
    if (width == 8)
        return sum_lanes(x);
    if (width == 4)
        return (x[0] + x[2]) + (x[1] + x[3]);
    return width == 2 ? x[0] + x[1] : x[0];
}

/* Which sides of a split have examples. */
enum { SOME_PASS = 1, SOME_FAIL = 2, BOTH_SIDES = 3 };

/* Score of a label in a leaf: t^2 / (penalty + w), 0 without any weight. */
TREECRF_TEMPLATE double leaf_score(double total, double divisor)
{
    return divisor > 0.0 ? total * total / divisor : 0.0;
}

/* Score of examples in one leaf, summed over the labels of a block. */
TREECRF_TEMPLATE double block_score_n(const double *lanes, double penalty, int width)
{
    double scores[8];
    for (int k = 0; k < width; k++)
        scores[k] = leaf_score(lanes[k], penalty + lanes[width + k]);
    return sum_of_labels(scores, width);
}

static inline double block_score(const double *lanes, double penalty, int width)
{
    TREECRF_WIDTHS(width, return, block_score_n, lanes, penalty)
}

/* Score of a split whose side that passes has the sums `passed`, of examples with the sums `all`. */
TREECRF_TEMPLATE double split_score_n(const double *passed, const double *all, double penalty,
                                      uint8_t *sides, int width)
{
    double scores[8], passed_weights[8], failed_weights[8];
    for (int k = 0; k < width; k++) {
        double total = passed[k], weight = passed[width + k];
        double other = all[k] - total, other_weight = all[width + k] - weight;
        passed_weights[k] = weight;
        failed_weights[k] = other_weight;
        scores[k] = leaf_score(total, penalty + weight) + leaf_score(other, penalty + other_weight);
    }
    *sides = (uint8_t)(SOME_PASS * (sum_of_labels(passed_weights, width) > 0.0)
                       | SOME_FAIL * (sum_of_labels(failed_weights, width) > 0.0));
    return sum_of_labels(scores, width);
}

/* Add a bin to the sums of the bins before it. Returns whether there is anything in it. */
TREECRF_TEMPLATE int add_bin(double *sums, const double *bin, int n_lanes)
{
    uint64_t bits[16], any = 0;
    memcpy(bits, bin, (size_t)n_lanes * sizeof *bits);
    for (int k = 0; k < n_lanes; k++)
        any |= bits[k];
    if (!any)
        return 0;
    for (int k = 0; k < n_lanes; k++)
        sums[k] += bin[k];
    return 1;
}

/* Kinds of runs, as in `trees.growing._tests`. */
enum { EACH_BIN = 0, BINS_ABOVE = 1, BINS_UP_TO = 2 };

/* Add the scores of a block to those of the tests of a run of bins. A test has the score of the one
 * before it if there is nothing in the bin between them. */
TREECRF_TEMPLATE void score_run_n(const double *bins, ptrdiff_t n, int kind, const double *all,
                                  double penalty, double *restrict scores,
                                  uint8_t *restrict sides, int width)
{
    const int n_lanes = 2 * width;
    const ptrdiff_t step = kind == BINS_ABOVE ? -1 : 1;
    double sums[16] = {0.0}, score = 0.0;
    uint8_t side = 0;
    if (kind == EACH_BIN) {
        for (ptrdiff_t e = 0; e < n; e++) {
            scores[e] += split_score_n(bins + n_lanes * e, all, penalty, &side, width);
            sides[e] |= side;
        }
        return;
    }
    score = split_score_n(sums, all, penalty, &side, width);
    for (ptrdiff_t i = 0, e = kind == BINS_ABOVE ? n - 1 : 0; i < n; i++, e += step) {
        if (kind == BINS_ABOVE) {
            scores[e] += score;
            sides[e] |= side;
        }
        if (add_bin(sums, bins + n_lanes * e, n_lanes))
            score = split_score_n(sums, all, penalty, &side, width);
        if (kind == BINS_UP_TO) {
            scores[e] += score;
            sides[e] |= side;
        }
    }
}

TREECRF_WIDEST static void score_run(const double *bins, ptrdiff_t n, int kind, const double *all,
                                     double penalty, double *scores, uint8_t *sides, int width)
{
    TREECRF_WIDTHS(width, , score_run_n, bins, n, kind, all, penalty, scores, sides)
}

/* Sum bins of `n_lanes` lanes. */
TREECRF_WIDEST static void sum_bins(const double *bins, ptrdiff_t n, int n_lanes, double *sums)
{
    for (ptrdiff_t e = 0; e < n; e++)
        for (int k = 0; k < n_lanes; k++)
            sums[k] += bins[n_lanes * e + k];
}

/* Write a column of each row of lanes: the values of one label at some positions. */
static inline void fill_lane(double *lanes, ptrdiff_t n_lanes, const double *values,
                             const int32_t *positions, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        lanes[n_lanes * i] = values[positions[i]];
}

/* Add to the score of each position the value of its leaf. */
TREECRF_WIDEST static void add_leaf_values(double *restrict scores, const uint16_t *leaves,
                                           ptrdiff_t n, const double *values)
{
    for (ptrdiff_t i = 0; i < n; i++)
        scores[i] += values[leaves[i]];
}

#endif
