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
TREECRF_TEMPLATE double dot_of_few(const double *restrict a, const double *restrict b, ptrdiff_t n)
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
        return dot_of_few(a, b, n);
    ptrdiff_t half = n / 2 - n / 2 % 8;
    return pairwise_dot(a, b, half) + pairwise_dot(a + half, b + half, n - half);
}

TREECRF_WIDEST static void add_vector(double *target, const double *source, double x, ptrdiff_t n)
{
    add_block(target, source, x, n);
}

/* The slice of each block at row s that applies to the rows first .. last - 1. */
typedef struct {
    ptrdiff_t start; /* index of its first weight in the block */
    ptrdiff_t size;  /* number of weights */
    ptrdiff_t row;   /* index of the scores of the first row that they apply to */
} block_slice;

static inline block_slice slice_at(ptrdiff_t s, ptrdiff_t left, ptrdiff_t right, ptrdiff_t width,
                                   ptrdiff_t first, ptrdiff_t last)
{
    ptrdiff_t from = s - right < first ? first : s - right;
    ptrdiff_t to = s + left + 1 > last ? last : s + left + 1;
    block_slice slice;
    slice.start = (from - (s - right)) * width;
    slice.size = (to - from) * width;
    slice.row = (from - first) * width;
    return slice;
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
        block_slice b = slice_at(s, left, right, width, first, last);
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
        block_slice b = slice_at(s, left, right, width, first, last);
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
        block_slice b = slice_at(s, left, right, width, first, last);
        for (int64_t k = starts[s]; k < starts[s + 1]; k++) {
            ptrdiff_t start = attributes[k] * block + b.start;
            add_block(target + start, source + start, factor, b.size);
            memset(source + start, 0, (size_t)b.size * sizeof *source);
        }
    }
}

/* Weights in single precision, for stochastic gradient steps on one sequence. Their blocks are read at
 * random addresses and are therefore prefetched. */
#define CACHE_LINE 64 /* bytes */
/* Number of attributes between a prefetch and its use: far enough for the memory to answer, near
 * enough for the block to be in the cache still. */
#define PREFETCH_DISTANCE 4
/* Logarithm of the smallest factor of a block, about 1e-6: stored weights are larger by its inverse, and
 * must stay far from the limits of single precision. */
#define MIN_LOG_FACTOR -13.8

/* The attributes of all rows, in CSR format, and the stored weights of the attributes. The weights
 * of attribute a are its block times exp(rates[a] * (log_decay - bases[a])). */
struct sparse_rows {
    const int64_t *starts;     /* first entry of each row */
    const int32_t *attributes; /* attribute of each entry */
    const double *values;      /* value of each entry */
    const double *rates;       /* factor of the penalty on the weights of each attribute */
    ptrdiff_t left;            /* number of rows in the window before a row */
    ptrdiff_t right;           /* number of rows in the window after a row */
    ptrdiff_t n_labels;
    float *blocks;    /* [attribute, offset, label]: stored weights */
    double *bases;    /* of each attribute: log_decay when its factor was 1 */
    double log_decay; /* sum of the logarithms of the factors of all steps */
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
    for (ptrdiff_t i = 0; i < size * (ptrdiff_t)sizeof(float); i += CACHE_LINE)
        TREECRF_PREFETCH(block + i);
}

static inline double block_factor(const struct sparse_rows *rows, ptrdiff_t a)
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
        block_slice b = slice_at(s, rows->left, rows->right, n, first, last);
        for (int64_t k = rows->starts[s]; k < rows->starts[s + 1]; k++) {
            ptrdiff_t a = rows->attributes[k];
            if (k + PREFETCH_DISTANCE < end)
                prefetch_block(rows, k + PREFETCH_DISTANCE, size);
            add_floats(scores + b.row, rows->blocks + a * size + b.start,
                       (float)(rows->values[k] * block_factor(rows, a)), b.size);
        }
    }
}

/* Multiply a block so that its factor is 1. */
static inline void reset_block(struct sparse_rows *rows, ptrdiff_t a, ptrdiff_t size)
{
    float factor = (float)block_factor(rows, a);
    for (ptrdiff_t i = 0; i < size; i++)
        rows->blocks[a * size + i] *= factor;
    rows->bases[a] = rows->log_decay;
}

/* The transposed product: add the steps of the positions of a sequence to the weights of their
 * attributes. Positions without `has_step` have none. */
TREECRF_WIDEST static void scatter_steps(struct sparse_rows *rows, ptrdiff_t first,
                                         ptrdiff_t length, const float *steps, const char *has_step)
{
    ptrdiff_t n = rows->n_labels, size = block_size(rows), last = first + length;
    for (ptrdiff_t s = first - rows->left; s < last + rows->right; s++) {
        ptrdiff_t from = s - rows->right < first ? first : s - rows->right;
        ptrdiff_t to = s + rows->left + 1 > last ? last : s + rows->left + 1;
        while (from < to && !has_step[from - first])
            from++;
        while (from < to && !has_step[to - 1 - first])
            to--;
        if (from >= to)
            continue;
        ptrdiff_t skipped = (from - (s - rows->right)) * n;
        for (int64_t k = rows->starts[s]; k < rows->starts[s + 1]; k++) {
            ptrdiff_t a = rows->attributes[k];
            if (rows->rates[a] * (rows->log_decay - rows->bases[a]) < MIN_LOG_FACTOR)
                reset_block(rows, a, size);
            add_floats(rows->blocks + a * size + skipped, steps + (from - first) * n,
                       (float)(rows->values[k] / block_factor(rows, a)), (to - from) * n);
        }
    }
}

#endif
