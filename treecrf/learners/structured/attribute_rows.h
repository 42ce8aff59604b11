/* Steps of learners that look at one sequence after another, beside the scores of `_linear.h`.
 *
 * Rows, windows and blocks of weights are as explained there; row r of `deltas` is at
 * deltas + (r - first) * width.
 */
#ifndef TREECRF_ATTRIBUTE_ROWS_H
#define TREECRF_ATTRIBUTE_ROWS_H

#include "learners/linear/linear.h"

/* An attribute's block seen from some rows: its first number, how many there are, and the first of
 * these rows. */
typedef struct {
    ptrdiff_t place, size, row;
} seen_block;

static inline seen_block block_seen(ptrdiff_t s, int32_t attribute, ptrdiff_t left,
                                    ptrdiff_t right, ptrdiff_t width, ptrdiff_t first,
                                    ptrdiff_t last)
{
    ptrdiff_t from = s - right < first ? first : s - right;
    ptrdiff_t to = s + left + 1 > last ? last : s + left + 1;
    seen_block seen;
    seen.place = (attribute * (left + 1 + right) + from - (s - right)) * width;
    seen.size = (to - from) * width;
    seen.row = from - first;
    return seen;
}

/* The first row whose attributes are seen from the rows first .. last - 1, and the one after. */
static inline ptrdiff_t sight_start(ptrdiff_t first, ptrdiff_t left)
{
    return first > left ? first - left : 0;
}

static inline ptrdiff_t sight_end(ptrdiff_t last, ptrdiff_t right, ptrdiff_t n_rows)
{
    return last + right < n_rows ? last + right : n_rows;
}

/* weights += factor * (features of the rows first .. last - 1, each times its deltas) */
TREECRF_WIDEST static void collect_rows(const int64_t *starts, const int32_t *attributes,
                                        const double *values, ptrdiff_t n_rows, ptrdiff_t left,
                                        ptrdiff_t right, ptrdiff_t width, const double *deltas,
                                        double factor, ptrdiff_t first, ptrdiff_t last,
                                        double *weights)
{
    ptrdiff_t end = sight_end(last, right, n_rows);
    for (ptrdiff_t s = sight_start(first, left); s < end; s++)
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            seen_block b = block_seen(s, attributes[k], left, right, width, first, last);
            add_block(weights + b.place, deltas + b.row * width, factor * values[k], b.size);
        }
}

/* target += factor * source where the rows first .. last - 1 see weights; the source becomes 0. A
 * block that is seen again has nothing left to add. */
TREECRF_WIDEST static void move_blocks(const int64_t *starts, const int32_t *attributes,
                                       ptrdiff_t n_rows, ptrdiff_t left, ptrdiff_t right,
                                       ptrdiff_t width, double factor, ptrdiff_t first,
                                       ptrdiff_t last, double *source, double *target)
{
    ptrdiff_t end = sight_end(last, right, n_rows);
    for (ptrdiff_t s = sight_start(first, left); s < end; s++)
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            seen_block b = block_seen(s, attributes[k], left, right, width, first, last);
            add_block(target + b.place, source + b.place, factor, b.size);
            memset(source + b.place, 0, (size_t)b.size * sizeof *source);
        }
}

#endif
