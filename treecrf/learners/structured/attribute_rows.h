/* Updates of weights by learners that visit one sequence at a time.
 *
 * Rows, windows and blocks of weights are those of `linear.h`, which computes the scores. Row r of
 * `deltas` is at deltas + (r - first) * width.
 */
#ifndef TREECRF_ATTRIBUTE_ROWS_H
#define TREECRF_ATTRIBUTE_ROWS_H

#include "learners/linear/linear.h"

/* The part of an attribute's block of weights that applies to a range of rows: index of its first
 * weight, number of weights, and the first of these rows, counted from the start of the range. */
typedef struct {
    ptrdiff_t start, size, row;
} block_part;

static inline block_part part_of(ptrdiff_t s, int32_t attribute, ptrdiff_t left, ptrdiff_t right,
                                 ptrdiff_t width, ptrdiff_t first, ptrdiff_t last)
{
    ptrdiff_t from = s - right < first ? first : s - right;
    ptrdiff_t to = s + left + 1 > last ? last : s + left + 1;
    block_part part;
    part.start = (attribute * (left + 1 + right) + from - (s - right)) * width;
    part.size = (to - from) * width;
    part.row = from - first;
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

/* weights += the sum over the rows first .. last - 1 of their features times their deltas */
TREECRF_WIDEST static void collect_rows(const int64_t *starts, const int32_t *attributes,
                                        const double *values, ptrdiff_t n_rows, ptrdiff_t left,
                                        ptrdiff_t right, ptrdiff_t width, const double *deltas,
                                        ptrdiff_t first, ptrdiff_t last, double *weights)
{
    ptrdiff_t end = window_end(last, right, n_rows);
    for (ptrdiff_t s = window_start(first, left); s < end; s++)
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            block_part b = part_of(s, attributes[k], left, right, width, first, last);
            add_block(weights + b.start, deltas + b.row * width, values[k], b.size);
        }
}

/* target += factor * source for all weights that score the rows first .. last - 1. The source is set
 * to 0, so that a block that occurs again adds nothing. */
TREECRF_WIDEST static void move_blocks(const int64_t *starts, const int32_t *attributes,
                                       ptrdiff_t n_rows, ptrdiff_t left, ptrdiff_t right,
                                       ptrdiff_t width, double factor, ptrdiff_t first,
                                       ptrdiff_t last, double *source, double *target)
{
    ptrdiff_t end = window_end(last, right, n_rows);
    for (ptrdiff_t s = window_start(first, left); s < end; s++)
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            block_part b = part_of(s, attributes[k], left, right, width, first, last);
            add_block(target + b.start, source + b.start, factor, b.size);
            memset(source + b.start, 0, (size_t)b.size * sizeof *source);
        }
}

#endif
