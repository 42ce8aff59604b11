/* Inner loops of inference along a chain of label contexts.
 *
 * A position has n contexts, and the next one n_after: label v leads from context c to context
 * (c * K + v) mod n_after, where K is the number of labels. At full depth n = n_after, and contexts
 * that differ only in their oldest label lead to the same context: with n_ends = n_after / K,
 * contexts h * n_ends + l lead to l * K + v. Before full depth no two contexts lead to the same
 * one, and n_after = n * K.
 *
 * Scores, factors and probabilities are stored in rows of contexts, and the row of label v at a
 * position begins at `rows + v * stride`. With weights w at the position and factors f, the forward
 * step is
 *
 *     after[(c K + v) mod n_after] += w[c] f[v][c],
 *
 * and the backward step is now[c] = sum over v of f[v][c] after[(c K + v) mod n_after].
 *
 * Functions that end in _n are compiled for several numbers of labels; those without it choose one
 * of them.
 */
#ifndef TREECRF_RECURSIONS_H
#define TREECRF_RECURSIONS_H

#include "utils/vector_math.h"

/* A sum of products of weights and factors stays in the range of doubles if weights are at least
 * SMALLEST_WEIGHT, the sum of a position's weights is between SMALLEST_TOTAL and its inverse, and
 * the logarithms of the factors are between LOWEST_LOG and HIGHEST_LOG. */
#define SMALLEST_WEIGHT 1e-150
#define SMALLEST_TOTAL 1e-30
#define LOWEST_LOG (-200.0)
#define HIGHEST_LOG 100.0

/* Loops over at most this many labels are compiled for each number, see TREECRF_UP_TO_8. */
#define FEW_LABELS 8

/* Processors prefetch about 20 streams of memory at a time. Where a step reads more rows than this,
 * they are read one after the other first. */
#define MAX_STREAMS 24

/* Number of scores that are prefetched at a time: 1 KB, 16 cache lines. */
#define FETCH 128

typedef struct {
    ptrdiff_t n_labels;
    ptrdiff_t order;      /* labels in a context; 1 with order 0, where no score depends on it */
    ptrdiff_t n_contexts; /* contexts of a position after `order` labels, at full depth */
    ptrdiff_t width;      /* scores of a label at a position: n_contexts, or 1 with order 0 */
} chain_shape;

/* Number of contexts of position t of a sequence. */
static inline ptrdiff_t contexts_at(const chain_shape *shape, ptrdiff_t t)
{
    ptrdiff_t n = 1;
    if (t >= shape->order)
        return shape->n_contexts;
    while (t-- > 0)
        n *= shape->n_labels;
    return n;
}

/* Number of contexts of the next position, if this one has n. */
static inline ptrdiff_t contexts_after(const chain_shape *shape, ptrdiff_t n)
{
    return n < shape->n_contexts ? n * shape->n_labels : n;
}

/* target[i] = exp(source[i] - level). Returns 0 if an exponent other than -inf is out of range. */
static inline int factors_of(const double *restrict source, ptrdiff_t n, double level,
                             double *restrict target)
{
    uint64_t beyond = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double x = source[i] - level;
        int inside = (x >= LOWEST_LOG) & (x <= HIGHEST_LOG);
        beyond |= (uint64_t)!(inside | (x == -HUGE_VAL));
        target[i] = inside ? exp_in_range(x) : 0.0;
    }
    return beyond == 0;
}

/* The same for a long row, while prefetching the `next` one: otherwise the processor would
 * alternate between computing and waiting for memory. */
static inline int factors_of_row(const double *source, ptrdiff_t n, double level, double *target,
                                 const double *next)
{
    int near = 1;
    for (ptrdiff_t i = 0; i < n; i += FETCH) {
        ptrdiff_t size = i + FETCH <= n ? FETCH : n - i;
        for (ptrdiff_t k = 0; k < size; k += 8)
            TREECRF_PREFETCH(next + i + k);
        near &= factors_of(source + i, size, level, target + i);
    }
    return near;
}

/* Factors exp(score - level) of the `count` positions from t on, in dense rows, with 0 for contexts
 * that do not exist yet. `scores` begins with label 0 at t, and `stride` is the distance to the
 * next label. Returns 0 if scores are too far from `level`. */
TREECRF_WIDEST static int load_factors(const chain_shape *shape, const double *scores,
                                       ptrdiff_t stride, ptrdiff_t t, ptrdiff_t count, double level,
                                       double *rows)
{
    ptrdiff_t v, c, j, n, width = shape->width;
    int near = 1;
    for (v = 0; v < shape->n_labels; v++, scores += stride, rows += count * width) {
        const double *next = v + 1 < shape->n_labels ? scores + stride : scores;
        for (j = 0; j < count && (n = contexts_at(shape, t + j)) < width; j++) {
            near &= factors_of(scores + j * width, n, level, rows + j * width);
            for (c = n; c < width; c++)
                rows[j * width + c] = 0.0;
        }
        near &= factors_of_row(scores + j * width, (count - j) * width, level, rows + j * width,
                               next + j * width);
    }
    return near;
}

/* The scores themselves in the same layout, with -inf for contexts that do not exist yet. */
static inline void load_scores(const chain_shape *shape, const double *scores, ptrdiff_t stride,
                               ptrdiff_t t, ptrdiff_t count, double *rows)
{
    ptrdiff_t v, c, j, n, width = shape->width;
    for (v = 0; v < shape->n_labels; v++, scores += stride, rows += count * width) {
        memcpy(rows, scores, (size_t)(count * width) * sizeof *rows);
        for (j = 0; j < count && (n = contexts_at(shape, t + j)) < width; j++)
            for (c = n; c < width; c++)
                rows[j * width + c] = -HUGE_VAL;
    }
}

/* Sum of products in eight lanes, so that the order of additions is the same on every machine. */
TREECRF_TEMPLATE double dot_lanes(const double *restrict a, const double *restrict b, ptrdiff_t n)
{
    double x[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, rest = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
#pragma omp simd
        for (int k = 0; k < 8; k++)
            x[k] += a[i + k] * b[i + k];
    }
    for (; i < n; i++)
        rest += a[i] * b[i];
    return sum_lanes(x) + rest;
}

/* Maximum in each lane. Compilers turn loops over lanes into one instruction. */
TREECRF_TEMPLATE void larger_lanes(double *lanes, const double *others, int n)
{
#pragma omp simd
    for (int k = 0; k < n; k++)
        lanes[k] = others[k] > lanes[k] ? others[k] : lanes[k];
}

/* max(a[i] + b[i]) */
TREECRF_TEMPLATE double best_sum(const double *restrict a, const double *restrict b, ptrdiff_t n)
{
    double lanes[8], sums[8], best = a[0] + b[0];
    if (n <= FEW_LABELS) {
        for (ptrdiff_t i = 1; i < n; i++)
            best = a[i] + b[i] > best ? a[i] + b[i] : best;
        return best;
    }
#pragma omp simd
    for (int k = 0; k < 8; k++)
        lanes[k] = a[k] + b[k];
    for (ptrdiff_t i = 8; i < n; i += 8) {
        ptrdiff_t first = i + 8 <= n ? i : n - 8; /* the last eight may overlap the ones before */
#pragma omp simd
        for (int k = 0; k < 8; k++)
            sums[k] = a[first + k] + b[first + k];
        larger_lanes(lanes, sums, 8);
    }
    larger_lanes(lanes, lanes + 4, 4);
    larger_lanes(lanes, lanes + 2, 2);
    return lanes[0] > lanes[1] ? lanes[0] : lanes[1];
}

/* One step of a forward pass: from values of the n contexts at a position to values of the n_after
 * contexts at the next. They are sums of products of weights and factors or, if `best`, the highest
 * sums of scores. */
TREECRF_TEMPLATE void forward_step_n(const double *restrict now, ptrdiff_t n,
                                     const double *restrict rows, ptrdiff_t stride,
                                     double *restrict after, ptrdiff_t n_after,
                                     double *restrict work, int best, ptrdiff_t n_labels)
{
    ptrdiff_t v, c, l, h, j, n_ends = n_after / n_labels;
    double few[FEW_LABELS], *values = n_labels <= FEW_LABELS ? few : work;
    if (n < n_after) {
        for (v = 0; v < n_labels; v++)
            for (c = 0; c < n; c++) {
                double x = rows[v * stride + c];
                after[c * n_labels + v] = best ? now[c] + x : now[c] * x;
            }
    } else if (n_ends == 1) {
        for (v = 0; v < n_labels; v++) {
            const double *row = rows + v * stride;
            after[v] = best                     ? best_sum(now, row, n_labels)
                       : n_labels <= FEW_LABELS ? dot_n(now, row, n_labels)
                                                : dot_lanes(now, row, n_labels);
        }
    } else {
        for (l = 0; l < n_ends; l += n_labels)
            for (v = 0; v < n_labels; v++) {
                const double *row = rows + v * stride;
                for (j = 0; j < n_labels; j++)
                    values[j] = best ? -HUGE_VAL : 0.0;
                for (h = l; h < n; h += n_ends)
                    for (j = 0; j < n_labels; j++) {
                        double x = best ? now[h + j] + row[h + j] : now[h + j] * row[h + j];
                        values[j] = !best ? values[j] + x : x > values[j] ? x : values[j];
                    }
                for (j = 0; j < n_labels; j++)
                    after[(l + j) * n_labels + v] = values[j];
            }
    }
}

/* Whether a weight is too small for further products, though not 0. */
static inline int any_lost(const double *weights, ptrdiff_t n)
{
    uint64_t lost = 0;
    for (ptrdiff_t c = 0; c < n; c++)
        lost |= (uint64_t)((weights[c] > 0.0) & (weights[c] < SMALLEST_WEIGHT));
    return lost != 0;
}

/* Forward steps over a tile, see `forward_tile`. */
TREECRF_TEMPLATE int forward_tile_n(const chain_shape *shape, const double *rows, ptrdiff_t t,
                                    ptrdiff_t count, double *forward, double *scale, double *log_z,
                                    double *work, ptrdiff_t n_labels)
{
    ptrdiff_t j, c, n_after, n = contexts_at(shape, t), stride = count * shape->width;
    for (j = 0; j < count; j++, n = n_after, forward += shape->n_contexts) {
        double total = 0.0, *after = forward + shape->n_contexts;
        n_after = contexts_after(shape, n);
        forward_step_n(forward, n, rows + j * shape->width, stride, after, n_after, work, 0,
                       n_labels);
        for (c = 0; c < n_after; c++)
            total += after[c];
        scale[j] = 1.0;
        if (!(total >= SMALLEST_TOTAL && total <= 1.0 / SMALLEST_TOTAL)) {
            *log_z += log_of(total);
            if (total == 0.0)
                return 1;
            scale[j] = 1.0 / total;
            for (c = 0; c < n_after; c++)
                after[c] *= scale[j];
        }
        if (any_lost(after, n_after))
            return 0;
    }
    return 1;
}

/* Forward recursion over the `count` positions from t on. `rows` holds their factors, label by
 * label and position by position; `forward` holds rows of weights, starting at t. If the weights of
 * a position leave the range, they are multiplied by `scale`, and the logarithm of their sum is
 * added to `log_z`. If no label sequence is allowed, `log_z` is -inf and the recursion ends.
 * Returns 0 if weights were lost that might still matter. */
TREECRF_WIDEST static int forward_tile(const chain_shape *shape, const double *rows, ptrdiff_t t,
                                       ptrdiff_t count, double *forward, double *scale,
                                       double *log_z, double *work)
{
    TREECRF_UP_TO_8(shape->n_labels, return, forward_tile_n, shape, rows, t, count, forward, scale,
                    log_z, work)
}

/* Weights of contexts that cannot be reached must not leave the range. */
TREECRF_TEMPLATE void keep_reached(const double *restrict forward, ptrdiff_t n,
                                   double *restrict now)
{
    for (ptrdiff_t c = 0; c < n; c++)
        now[c] = forward[c] > 0.0 ? now[c] : 0.0;
}

/* One label's terms of a backward step: adds them to `now` and, if `pairs`, turns the factors into
 * probabilities of (context, label). */
TREECRF_TEMPLATE void backward_row_n(const double *restrict forward, double *restrict row,
                                     double *restrict now, const double *restrict after, int pairs,
                                     ptrdiff_t n)
{
    for (ptrdiff_t c = 0; c < n; c++) {
        double x = row[c] * after[c];
        now[c] += x;
        if (pairs)
            row[c] = forward[c] * x;
    }
}

/* A backward step over few labels, each of which leads from all contexts to the same one. */
TREECRF_TEMPLATE void backward_few_n(const double *restrict forward, ptrdiff_t n,
                                     double *restrict rows, ptrdiff_t stride,
                                     double *restrict now, const double *restrict after, int pairs,
                                     ptrdiff_t n_labels)
{
    for (ptrdiff_t c = 0; c < n; c++) {
        double total = 0.0;
        for (ptrdiff_t v = 0; v < n_labels; v++) {
            double x = rows[v * stride + c] * after[v];
            total = v ? total + x : x;
            if (pairs)
                rows[v * stride + c] = forward[c] * x;
        }
        now[c] = forward[c] > 0.0 ? total : 0.0;
    }
}

/* The same for many labels, four of which share a pass over the contexts. */
TREECRF_TEMPLATE void backward_many_n(const double *restrict forward, ptrdiff_t n,
                                         double *restrict rows, ptrdiff_t stride,
                                         double *restrict now, const double *restrict after,
                                         int pairs, ptrdiff_t n_labels)
{
    ptrdiff_t v = 0, c;
    for (c = 0; c < n; c++)
        now[c] = 0.0;
    for (; v + 4 <= n_labels; v += 4, rows += 4 * stride)
        for (c = 0; c < n; c++) {
            double x0 = rows[c] * after[v];
            double x1 = rows[stride + c] * after[v + 1];
            double x2 = rows[2 * stride + c] * after[v + 2];
            double x3 = rows[3 * stride + c] * after[v + 3];
            now[c] = (((now[c] + x0) + x1) + x2) + x3;
            if (pairs) {
                rows[c] = forward[c] * x0;
                rows[stride + c] = forward[c] * x1;
                rows[2 * stride + c] = forward[c] * x2;
                rows[3 * stride + c] = forward[c] * x3;
            }
        }
    for (; v < n_labels; v++, rows += stride)
        for (c = 0; c < n; c++) {
            double x = rows[c] * after[v];
            now[c] += x;
            if (pairs)
                rows[c] = forward[c] * x;
        }
    keep_reached(forward, n, now);
}

/* One step of the backward pass: from weights of the contexts after a position to those at it. */
TREECRF_TEMPLATE void backward_step_n(const double *restrict forward, ptrdiff_t n,
                                      double *restrict rows, ptrdiff_t stride,
                                      double *restrict now, const double *restrict after,
                                      ptrdiff_t n_after, double *restrict work, int pairs,
                                      ptrdiff_t n_labels)
{
    ptrdiff_t v, c, l, h, n_ends = n_after / n_labels;
    if (n_labels <= FEW_LABELS && n_ends == 1 && n == n_labels) {
        backward_few_n(forward, n_labels, rows, stride, now, after, pairs, n_labels);
    } else if (n_labels <= FEW_LABELS && n_ends == 1) {
        backward_few_n(forward, n, rows, stride, now, after, pairs, n_labels);
    } else if (n_ends == 1) {
        backward_many_n(forward, n, rows, stride, now, after, pairs, n_labels);
    } else {
        for (c = 0; c < n; c++)
            now[c] = 0.0;
        for (v = 0; v < n_labels; v++, rows += stride) {
            for (l = 0; l < n_ends; l++)
                work[l] = after[l * n_labels + v];
            for (h = 0; h < n; h += n_ends)
                for (l = 0; l < n_ends; l += n_labels)
                    backward_row_n(forward + h + l, rows + h + l, now + h + l, work + l, pairs,
                                   n_labels);
        }
        keep_reached(forward, n, now);
    }
}

/* Backward steps over a tile, see `backward_tile`. */
TREECRF_TEMPLATE void backward_tile_n(const chain_shape *shape, double *rows, ptrdiff_t t,
                                      ptrdiff_t count, const double *forward, const double *scale,
                                      double *backward, double *work, int pairs,
                                      ptrdiff_t n_labels)
{
    ptrdiff_t j, c, n_after = contexts_at(shape, t + count), stride = count * shape->width;
    double *scaled = work + shape->n_contexts;
    for (j = count - 1; j >= 0; j--) {
        ptrdiff_t n = contexts_at(shape, t + j);
        double *now = backward + j * shape->n_contexts, *after = now + shape->n_contexts;
        if (scale[j] != 1.0) {
            for (c = 0; c < n_after; c++)
                scaled[c] = after[c] * scale[j];
            after = scaled;
        }
        backward_step_n(forward + j * shape->n_contexts, n, rows + j * shape->width, stride, now,
                        after, n_after, work, pairs, n_labels);
        n_after = n;
    }
}

/* Backward recursion over the same positions, from the last row of `backward`, which belongs to
 * t + count, to the first. If `pairs`, the factors become probabilities of (context, label). */
TREECRF_WIDEST static void backward_tile(const chain_shape *shape, double *rows, ptrdiff_t t,
                                         ptrdiff_t count, const double *forward,
                                         const double *scale, double *backward, double *work,
                                         int pairs)
{
    TREECRF_UP_TO_8(shape->n_labels, , backward_tile_n, shape, rows, t, count, forward, scale,
                    backward, work, pairs)
}

/* target[i] = -values[i], rounded. */
TREECRF_WIDEST static void negate_rounded(const double *restrict values, ptrdiff_t n,
                                          double *restrict target)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] = rounded(-values[i]);
}

/* Steps of Viterbi's recursion over a tile, see `best_tile`. */
TREECRF_TEMPLATE void best_tile_n(const chain_shape *shape, const double *scores, ptrdiff_t stride,
                                  ptrdiff_t t, ptrdiff_t count, double *best, double *work,
                                  ptrdiff_t n_labels)
{
    ptrdiff_t j, n_after, n = contexts_at(shape, t);
    for (j = 0; j < count; j++, n = n_after, best += shape->n_contexts) {
        n_after = contexts_after(shape, n);
        forward_step_n(best, n, scores + j * shape->width, stride, best + shape->n_contexts,
                       n_after, work, 1, n_labels);
    }
}

/* The highest sum of scores to each context after each of the `count` positions from t on. `scores`
 * begins with label 0 at t; `best` holds rows of sums, the first of which belongs to t. */
TREECRF_WIDEST static void best_tile(const chain_shape *shape, const double *scores,
                                     ptrdiff_t stride, ptrdiff_t t, ptrdiff_t count, double *best,
                                     double *work)
{
    if (shape->n_labels > MAX_STREAMS)
        for (ptrdiff_t v = 0; v < shape->n_labels; v++)
            for (ptrdiff_t i = 0; i < count * shape->width; i += 8)
                (void)*(const volatile double *)(scores + v * stride + i);
    TREECRF_UP_TO_8(shape->n_labels, , best_tile_n, shape, scores, stride, t, count, best, work)
}
#endif
