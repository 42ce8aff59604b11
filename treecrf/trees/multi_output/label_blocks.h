/* Sums of several labels side by side, and the scores of splits that serve all of them. */
#ifndef TREECRF_LABEL_BLOCKS_H
#define TREECRF_LABEL_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include "trees/bitsets.h"
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

/* bin += lanes */
TREECRF_TEMPLATE void add_lanes_to(double *restrict bin, const double *restrict lanes, int n_lanes)
{
#pragma omp simd
    for (int k = 0; k < n_lanes; k++)
        bin[k] += lanes[k];
}

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
                                      int width)
{
    double scores[8];
#pragma omp simd
    for (int k = 0; k < width; k++) {
        double total = passed[k], weight = passed[width + k];
        scores[k] = leaf_score(total, penalty + weight)
                    + leaf_score(all[k] - total, penalty + (all[width + k] - weight));
    }
    return sum_of_labels(scores, width);
}

/* Whether there is anything in a bin. Its bits are read in place: a copy would be stored and read back
 * in pieces of different sizes, which processors cannot forward. */
#if defined(__GNUC__)
typedef uint64_t treecrf_bits __attribute__((may_alias));
#else
typedef uint64_t treecrf_bits;
#endif

TREECRF_TEMPLATE int is_filled(const double *bin, int n_lanes)
{
    const treecrf_bits *bits = (const treecrf_bits *)bin;
    uint64_t any = 0;
#pragma omp simd reduction(| : any)
    for (int k = 0; k < n_lanes; k++)
        any |= bits[k];
    return any != 0;
}

/* Kinds of runs, as in `trees.growing._tests`. */
enum { EACH_BIN = 0, BINS_ABOVE = 1, BINS_UP_TO = 2 };

/* Add the scores of a block to those of the tests of a run of bins. If there is nothing in a bin, no
 * example passes its own test, or other tests have the score of the test before. */
TREECRF_TEMPLATE void score_run_n(const double *bins, ptrdiff_t n, int kind, const double *all,
                                  double penalty, double *restrict scores, int width)
{
    const int n_lanes = 2 * width;
    const double unsplit = block_score_n(all, penalty, width);
    double sums[16] = {0.0}, score = unsplit;
    if (kind == EACH_BIN)
        for (ptrdiff_t e = 0; e < n; e++) {
            const double *bin = bins + n_lanes * e;
            score = is_filled(bin, n_lanes) ? split_score_n(bin, all, penalty, width) : unsplit;
            scores[e] += score;
        }
    else
        for (ptrdiff_t i = 0; i < n; i++) {
            ptrdiff_t e = kind == BINS_ABOVE ? n - 1 - i : i;
            const double *bin = bins + n_lanes * e;
            if (kind == BINS_ABOVE)
                scores[e] += score;
            if (is_filled(bin, n_lanes)) {
                add_lanes_to(sums, bin, n_lanes);
                score = split_score_n(sums, all, penalty, width);
            }
            if (kind == BINS_UP_TO)
                scores[e] += score;
        }
}

TREECRF_WIDEST static void score_run(const double *bins, ptrdiff_t n, int kind, const double *all,
                                     double penalty, double *scores, int width)
{
    TREECRF_WIDTHS(width, , score_run_n, bins, n, kind, all, penalty, scores)
}

/* Sum bins of `n_lanes` lanes. */
TREECRF_WIDEST static void sum_bins(const double *bins, ptrdiff_t n, int n_lanes, double *sums)
{
    for (ptrdiff_t e = 0; e < n; e++)
        for (int k = 0; k < n_lanes; k++)
            sums[k] += bins[n_lanes * e + k];
}

/* Sum the lanes of some positions. */
TREECRF_WIDEST static void sum_positions(const double *table, const int32_t *positions,
                                         ptrdiff_t n, int n_lanes, double *sums)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < n_lanes; k++)
            sums[k] += table[n_lanes * (ptrdiff_t)positions[i] + k];
}

/* Members of a node: rows, and where their lanes are in a table. */
typedef struct {
    const int32_t *rows;
    const int32_t *positions;
    ptrdiff_t n;
    const double *table;
} label_members;

/* Lanes are fetched from memory this many members ahead. */
enum { LANES_AHEAD = 6 };

TREECRF_TEMPLATE const double *lanes_of(const label_members *members, ptrdiff_t i, int n_lanes)
{
    if (i + LANES_AHEAD < members->n) {
        const double *next = members->table
                             + n_lanes * (ptrdiff_t)members->positions[i + LANES_AHEAD];
        TREECRF_PREFETCH(next);
        if (n_lanes > 8)
            TREECRF_PREFETCH(next + 8);
    }
    return members->table + n_lanes * (ptrdiff_t)members->positions[i];
}

/* Add the lanes of members to the bins of all their codes, which are in `stretches` of neighboring
 * columns. */
TREECRF_TEMPLATE void add_label_codes_n(double *bins, const int64_t *first, const uint8_t *codes,
                                        ptrdiff_t n_columns, const int64_t *stretches,
                                        ptrdiff_t n_stretches, const label_members *members,
                                        int width)
{
    const int n_lanes = 2 * width;
    for (ptrdiff_t i = 0; i < members->n; i++) {
        const uint8_t *window = codes + members->rows[i] * n_columns;
        const double *source = lanes_of(members, i, n_lanes);
        double lanes[16];
        /* The addition keeps compilers from copying in pieces of another size than they read. */
#pragma omp simd
        for (int k = 0; k < n_lanes; k++)
            lanes[k] = source[k] + 0.0;
        for (ptrdiff_t s = 0; s < n_stretches; s++)
            for (ptrdiff_t j = stretches[2 * s]; j < stretches[2 * s + 1]; j++)
                add_lanes_to(bins + n_lanes * (first[j] + window[j]), lanes, n_lanes);
    }
}

TREECRF_WIDEST static void add_label_codes(double *bins, const int64_t *first,
                                           const uint8_t *codes, ptrdiff_t n_columns,
                                           const int64_t *stretches, ptrdiff_t n_stretches,
                                           const label_members *members, int width)
{
    TREECRF_WIDTHS(width, , add_label_codes_n, bins, first, codes, n_columns, stretches,
                   n_stretches, members)
}

/* Add the lanes of members to the bins that their rows list. */
TREECRF_TEMPLATE void add_label_lists_n(double *bins, const int64_t *starts, const int32_t *listed,
                                        const label_members *members, int width)
{
    const int n_lanes = 2 * width;
    for (ptrdiff_t i = 0; i < members->n; i++) {
        const int64_t *row = starts + members->rows[i];
        const double *lanes = lanes_of(members, i, n_lanes);
        for (int64_t e = row[0]; e < row[1]; e++)
            add_lanes_to(bins + n_lanes * (ptrdiff_t)listed[e], lanes, n_lanes);
    }
}

TREECRF_WIDEST static void add_label_lists(double *bins, const int64_t *starts,
                                           const int32_t *listed, const label_members *members,
                                           int width)
{
    TREECRF_WIDTHS(width, , add_label_lists_n, bins, starts, listed, members)
}

/* Bytes of bits that are counted together. Members in a row often have the same byte, and each addition
 * to its bin waits for the one before; those to the bins of other bytes do not. */
enum { BYTES_AT_ONCE = 4 };

/* Add the lanes of members to the bins of the bits that are set in some bytes, by a histogram of each
 * byte, which is then folded into the sums of its eight bits. One addition for each member serves eight
 * features. `columns` are the bytes of all rows. */
TREECRF_TEMPLATE void add_label_bytes_n(double *const *bins, const uint8_t *const *columns,
                                        int n_bytes, double *joint, const label_members *members,
                                        int width)
{
    const int n_lanes = 2 * width;
    const ptrdiff_t size = 256 * n_lanes;
    memset(joint, 0, (size_t)(n_bytes * size) * sizeof *joint);
    for (ptrdiff_t i = 0; i < members->n; i++) {
        const double *lanes = lanes_of(members, i, n_lanes);
        for (int b = 0; b < n_bytes; b++)
            add_lanes_to(joint + b * size + n_lanes * columns[b][members->rows[i]], lanes, n_lanes);
    }
    for (int b = 0; b < n_bytes; b++, joint += size)
        for (int bit = 7; bit >= 0; bit--) {
            const double *upper = joint + ((ptrdiff_t)n_lanes << bit); /* this bit is the highest */
            for (ptrdiff_t i = 0; i < 1 << bit; i++) {
                add_lanes_to(bins[b] + n_lanes * bit, upper + n_lanes * i, n_lanes);
                add_lanes_to(joint + n_lanes * i, upper + n_lanes * i, n_lanes);
            }
        }
}

TREECRF_WIDEST static void add_label_bytes(double *const *bins, const uint8_t *const *columns,
                                           int n_bytes, double *joint,
                                           const label_members *members, int width)
{
    TREECRF_WIDTHS(width, , add_label_bytes_n, bins, columns, n_bytes, joint, members)
}

/* List the bins of the bits that are set in a byte, from its first bin on; returns their number. Up to
 * three entries after the last one are garbage. */
static inline ptrdiff_t list_byte(uint64_t byte, int32_t first_bin, int32_t *out)
{
    int n = count_bits(byte);
    list_word(byte, n, first_bin, out);
    return n;
}

/* Write the values of some labels side by side: lane k of each position is its value in row k. */
TREECRF_TEMPLATE void write_lanes_n(double *restrict table, const double *restrict values,
                                    ptrdiff_t n_labels, ptrdiff_t n_positions, int width)
{
    for (ptrdiff_t i = 0; i < n_positions; i++, table += 2 * width)
        for (int k = 0; k < width; k++)
            table[k] = k < n_labels ? values[k * n_positions + i] : 0.0;
}

TREECRF_WIDEST static void write_lanes(double *table, const double *values, ptrdiff_t n_labels,
                                       ptrdiff_t n_positions, int width)
{
    if (n_labels == width)
        TREECRF_WIDTHS(width, , write_lanes_n, table, values, width, n_positions)
    else
        TREECRF_WIDTHS(width, , write_lanes_n, table, values, n_labels, n_positions)
}

/* Add to the score of each position the value of its leaf. */
TREECRF_WIDEST static void add_leaf_values(double *restrict scores, const uint16_t *leaves,
                                           ptrdiff_t n, const double *values)
{
    for (ptrdiff_t i = 0; i < n; i++)
        scores[i] += values[leaves[i]];
}

#endif
