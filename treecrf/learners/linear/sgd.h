/* Products of the attributes of one sequence and blocks of weights in single precision.
 *
 * As in linear.h, an attribute at row s has one block of n_offsets * n_labels adjacent weights, for
 * the rows s - right .. s + left. Blocks are read at random addresses and are therefore prefetched.
 */
#ifndef TREECRF_SGD_H
#define TREECRF_SGD_H

#include "learners/linear/linear.h"

#define LINE 64    /* bytes of a cache line */
#define AHEAD 4    /* attributes between a prefetch and its use */
#define TIDY -13.8 /* logarithm of the smallest factor of a block: weights stay far above underflow */

/* The attributes of all rows, in CSR format, and the stored weights of the attributes. The weights
 * of attribute a are its block times exp(rates[a] * (log_decay - bases[a])). */
struct sparse_rows {
    const int64_t *starts;
    const int32_t *attributes;
    const double *values;
    const double *rates;
    ptrdiff_t left, right, n_labels;
    float *blocks;
    double *bases;
    double log_decay;
};

/* target += x * source */
TREECRF_TEMPLATE void add_floats(float *restrict target, const float *restrict source, float x,
                                 ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            target[i + k] += x * source[i + k];
    for (; i < n; i++)
        target[i] += x * source[i];
}

static inline ptrdiff_t block_size(const struct sparse_rows *rows)
{
    return (rows->left + 1 + rows->right) * rows->n_labels;
}

static inline void prefetch_block(const struct sparse_rows *rows, int64_t k, ptrdiff_t size)
{
    const char *block = (const char *)(rows->blocks + rows->attributes[k] * size);
    for (ptrdiff_t i = 0; i < size * (ptrdiff_t)sizeof(float); i += LINE)
        TREECRF_PREFETCH(block + i);
}

static inline double factor_of(const struct sparse_rows *rows, ptrdiff_t a)
{
    return exp_of(rows->rates[a] * (rows->log_decay - rows->bases[a]));
}

/* Scores of the labels at the positions of a sequence whose first position has row `first`. */
TREECRF_WIDEST static void gather_scores(const struct sparse_rows *rows, ptrdiff_t first,
                                         ptrdiff_t length, float *scores)
{
    ptrdiff_t n = rows->n_labels, size = block_size(rows), last = first + length;
    int64_t end = rows->starts[last + rows->right];
    memset(scores, 0, (size_t)(length * n) * sizeof *scores);
    for (ptrdiff_t s = first - rows->left; s < last + rows->right; s++) {
        block_part b = part_at(s, rows->left, rows->right, n, first, last);
        for (int64_t k = rows->starts[s]; k < rows->starts[s + 1]; k++) {
            ptrdiff_t a = rows->attributes[k];
            if (k + AHEAD < end)
                prefetch_block(rows, k + AHEAD, size);
            add_floats(scores + b.row, rows->blocks + a * size + b.start,
                       (float)(rows->values[k] * factor_of(rows, a)), b.size);
        }
    }
}

/* Multiply a block so that its factor is 1. */
static inline void tidy_block(struct sparse_rows *rows, ptrdiff_t a, ptrdiff_t size)
{
    float factor = (float)factor_of(rows, a);
    for (ptrdiff_t i = 0; i < size; i++)
        rows->blocks[a * size + i] *= factor;
    rows->bases[a] = rows->log_decay;
}

/* The transposed product: add the steps of the positions of a sequence to the weights of their
 * attributes. Positions that are not `kept` have no step. */
TREECRF_WIDEST static void scatter_steps(struct sparse_rows *rows, ptrdiff_t first,
                                         ptrdiff_t length, const float *steps, const char *kept)
{
    ptrdiff_t n = rows->n_labels, size = block_size(rows), last = first + length;
    for (ptrdiff_t s = first - rows->left; s < last + rows->right; s++) {
        ptrdiff_t from = s - rows->right < first ? first : s - rows->right;
        ptrdiff_t to = s + rows->left + 1 > last ? last : s + rows->left + 1;
        while (from < to && !kept[from - first])
            from++;
        while (from < to && !kept[to - 1 - first])
            to--;
        if (from >= to)
            continue;
        ptrdiff_t skipped = (from - (s - rows->right)) * n;
        for (int64_t k = rows->starts[s]; k < rows->starts[s + 1]; k++) {
            ptrdiff_t a = rows->attributes[k];
            if (rows->rates[a] * (rows->log_decay - rows->bases[a]) < TIDY)
                tidy_block(rows, a, size);
            add_floats(rows->blocks + a * size + skipped, steps + (from - first) * n,
                       (float)(rows->values[k] / factor_of(rows, a)), (to - from) * n);
        }
    }
}

#endif
