/* Products of sparse rows of attributes and dense blocks of weights.
 *
 * An attribute at row s contributes to the scores of the rows s - right .. s + left. Its weights for
 * them are adjacent, `width` numbers per row, and are added to the scores of these rows at once, as
 * one block of n_offsets * width numbers, where n_offsets = left + 1 + right. Values may be NULL if
 * all are 1.
 */
#ifndef TREECRF_LINEAR_H
#define TREECRF_LINEAR_H

#include "utils/vector_math.h"

/* target += x * source */
TREECRF_TEMPLATE void add_block(double *restrict target, const double *restrict source, double x,
                                ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            target[i + k] += x * source[i + k];
    for (; i < n; i++)
        target[i] += x * source[i];
}

/* The sum of products, added in halves, and in eight sums within 128 numbers: in the same order, and
 * with the same rounding errors, as NumPy sums contiguous numbers. */
TREECRF_TEMPLATE double dot_of_leaf(const double *restrict a, const double *restrict b, ptrdiff_t n)
{
    double sums[8] = {0.0}, total;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += a[i + k] * b[i + k];
    total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < n; i++)
        total += a[i] * b[i];
    return total;
}

TREECRF_WIDEST static double pairwise_dot(const double *a, const double *b, ptrdiff_t n)
{
    if (n <= 128)
        return dot_of_leaf(a, b, n);
    ptrdiff_t half = n / 2 - n / 2 % 8;
    return pairwise_dot(a, b, half) + pairwise_dot(a + half, b + half, n - half);
}

TREECRF_WIDEST static void add_vector(double *target, const double *source, double x, ptrdiff_t n)
{
    add_block(target, source, x, n);
}

/* The part of each block at row s that applies to the rows first .. last - 1: index of its first
 * weight, number of weights, and index of the scores of the first of these rows. */
typedef struct {
    ptrdiff_t start, size, row;
} block_part;

static inline block_part part_at(ptrdiff_t s, ptrdiff_t left, ptrdiff_t right, ptrdiff_t width,
                                 ptrdiff_t first, ptrdiff_t last)
{
    ptrdiff_t from = s - right < first ? first : s - right;
    ptrdiff_t to = s + left + 1 > last ? last : s + left + 1;
    block_part part = {(from - (s - right)) * width, (to - from) * width, (from - first) * width};
    return part;
}

/* The rows in the windows of the rows first .. last - 1: the first of them, and one past the last. */
static inline ptrdiff_t window_start(ptrdiff_t first, ptrdiff_t left)
{
    return first > left ? first - left : 0;
}

static inline ptrdiff_t window_end(ptrdiff_t last, ptrdiff_t right, ptrdiff_t n_rows)
{
    return last + right < n_rows ? last + right : n_rows;
}

/* Add the attributes in the windows of the rows first .. last - 1 to their scores, which are in
 * `target` from the first of these rows on. */
TREECRF_WIDEST static void add_rows(const int64_t *starts, const int32_t *attributes,
                                    const double *values, ptrdiff_t n_rows, ptrdiff_t left,
                                    ptrdiff_t right, ptrdiff_t width, const double *weights,
                                    ptrdiff_t first, ptrdiff_t last, double *target)
{
    ptrdiff_t block = (left + 1 + right) * width, end = window_end(last, right, n_rows);
    for (ptrdiff_t s = window_start(first, left); s < end; s++) {
        block_part b = part_at(s, left, right, width, first, last);
        for (int64_t k = starts[s]; k < starts[s + 1]; k++)
            add_block(target + b.row, weights + attributes[k] * block + b.start,
                      values ? values[k] : 1.0, b.size);
    }
}

/* Transpose `add_rows`: add to each weight of the attributes `low` .. `high` - 1 its attribute's values
 * times the deltas of the rows, in the order of the rows. */
TREECRF_WIDEST static void collect_rows(const int64_t *starts, const int32_t *attributes,
                                        const double *values, ptrdiff_t n_rows, ptrdiff_t left,
                                        ptrdiff_t right, ptrdiff_t width, const double *deltas,
                                        ptrdiff_t first, ptrdiff_t last, ptrdiff_t low,
                                        ptrdiff_t high, double *weights)
{
    ptrdiff_t block = (left + 1 + right) * width, end = window_end(last, right, n_rows);
    for (ptrdiff_t s = window_start(first, left); s < end; s++) {
        block_part b = part_at(s, left, right, width, first, last);
        for (int64_t k = starts[s]; k < starts[s + 1]; k++)
            if (attributes[k] >= low && attributes[k] < high)
                add_block(weights + attributes[k] * block + b.start, deltas + b.row,
                          values ? values[k] : 1.0, b.size);
    }
}

/* target += factor * source for all weights that score the rows first .. last - 1. The source is set
 * to 0, so that a block that occurs again adds nothing. */
TREECRF_WIDEST static void move_blocks(const int64_t *starts, const int32_t *attributes,
                                       ptrdiff_t n_rows, ptrdiff_t left, ptrdiff_t right,
                                       ptrdiff_t width, double factor, ptrdiff_t first,
                                       ptrdiff_t last, double *source, double *target)
{
    ptrdiff_t block = (left + 1 + right) * width, end = window_end(last, right, n_rows);
    for (ptrdiff_t s = window_start(first, left); s < end; s++) {
        block_part b = part_at(s, left, right, width, first, last);
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            ptrdiff_t start = attributes[k] * block + b.start;
            add_block(target + start, source + start, factor, b.size);
            memset(source + start, 0, (size_t)b.size * sizeof *source);
        }
    }
}

#endif
