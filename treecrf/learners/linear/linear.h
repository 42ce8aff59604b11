/* Products of sparse rows of attributes and dense blocks of weights.
 *
 * An attribute at row s contributes to the scores of the rows s - right .. s + left. Its weights for
 * them are adjacent, `width` numbers per row, and are added to the scores of these rows at once, as
 * one block of n_offsets * width numbers, where n_offsets = left + 1 + right.
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

/* Add the attributes in the windows of the rows first .. last - 1 to their scores. Row r of `target`
 * is at target + (r - first) * width. */
TREECRF_WIDEST static void add_rows(const int64_t *starts, const int32_t *attributes,
                                    const double *values, ptrdiff_t n_rows, ptrdiff_t left,
                                    ptrdiff_t right, ptrdiff_t width, const double *weights,
                                    ptrdiff_t first, ptrdiff_t last, double *target)
{
    ptrdiff_t block = (left + 1 + right) * width;
    ptrdiff_t s = first > left ? first - left : 0;
    ptrdiff_t end = last + right < n_rows ? last + right : n_rows;
    for (; s < end; s++) {
        ptrdiff_t from = s - right < first ? first : s - right;
        ptrdiff_t to = s + left + 1 > last ? last : s + left + 1;
        ptrdiff_t skipped = (from - (s - right)) * width;
        for (int64_t k = starts[s]; k < starts[s + 1]; k++)
            add_block(target + (from - first) * width, weights + attributes[k] * block + skipped,
                      values[k], (to - from) * width);
    }
}

/* The transposed product for the attributes first .. last - 1: sums of the blocks of all rows that
 * have them. The block of row s is at deltas + s * width. Sums run in the order of the rows, whichever
 * range of attributes is computed. */
TREECRF_WIDEST static void add_columns(const int64_t *starts, const int32_t *rows,
                                       const double *values, ptrdiff_t n_offsets, ptrdiff_t width,
                                       const double *deltas, ptrdiff_t first, ptrdiff_t last,
                                       double *gradient)
{
    ptrdiff_t block = n_offsets * width;
    for (ptrdiff_t a = first; a < last; a++) {
        double *target = gradient + a * block;
        memset(target, 0, (size_t)block * sizeof *target);
        for (int64_t k = starts[a]; k < starts[a + 1]; k++)
            add_block(target, deltas + rows[k] * width, values[k], block);
    }
}

#endif
