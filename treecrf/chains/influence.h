/* Influence of events at a position of a chain on other positions, see `_curvature.pyx`.
 *
 * There is a row of contexts for each position of a tile and for the one after its last. Pairs are
 * stored as in `recursions.h`.
 */
#ifndef TREECRF_INFLUENCE_H
#define TREECRF_INFLUENCE_H

#include "chains/recursions.h"

/* Bound of the influence of an event on positions that lie further on.
 *
 * Let values[c] be the influence of context c there: a bound of the distances between the
 * distributions given c and those given nothing, summed over the positions. Given the event, c has
 * the probability row[c] instead of p[c]. As the mean over p of the distributions given c is that
 * given nothing, the influence of the event is at most
 *
 *     sum over c of |row[c] - b p[c]| values[c]
 *
 * for every b. With b = 0, it is the mean of the values; with b = 1, it is 0 if the event changes
 * nothing.
 *
 * The sum is minimized over b until it is at most this many times the minimum, in a few steps. */
#define INFLUENCE_PRECISION 1.1
#define INFLUENCE_STEPS 8

/* Sum of |a[i] - b x[i]| and its slope in b; eight lanes make it the same on every machine. */
TREECRF_TEMPLATE double sum_of_changes(const double *restrict a, const double *restrict x,
                                       ptrdiff_t n, double b, double *slope)
{
    double sums[8] = {0.0}, slopes[8] = {0.0}, sum = 0.0, rest = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
#pragma omp simd
        for (int k = 0; k < 8; k++) {
            double change = a[i + k] - b * x[i + k];
            sums[k] += fabs(change);
            slopes[k] += change > 0.0 ? -x[i + k] : x[i + k];
        }
    }
    for (; i < n; i++) {
        double change = a[i] - b * x[i];
        sum += fabs(change);
        rest += change > 0.0 ? -x[i] : x[i];
    }
    *slope = sum_lanes(slopes) + rest;
    return sum_lanes(sums) + sum;
}

/* Influence of an event that lies before or after contexts with n `values`: `row` holds their
 * probabilities given the event, and is overwritten; `mean` their probabilities times `values`.
 *
 * The sum is convex in b. Its minimum is at least the height at which two tangents intersect; b is
 * next where they do. */
TREECRF_WIDEST static double influence_beyond(double *restrict row, const double *restrict values,
                                              const double *restrict mean, ptrdiff_t n)
{
    double low = 0.0, high = 1.0, at_low, at_high, rise_low, rise_high, least;
    for (ptrdiff_t i = 0; i < n; i++)
        row[i] *= values[i];
    at_low = sum_of_changes(row, mean, n, low, &rise_low);
    at_high = sum_of_changes(row, mean, n, high, &rise_high);
    least = at_low < at_high ? at_low : at_high;
    for (int i = 0; i < INFLUENCE_STEPS && rise_low < 0.0 && rise_high > 0.0; i++) {
        double b = (at_low - at_high + rise_high * high - rise_low * low) / (rise_high - rise_low);
        double rise, sum;
        if (!(b > low && b < high) || least <= INFLUENCE_PRECISION * (at_low + rise_low * (b - low)))
            break;
        sum = sum_of_changes(row, mean, n, b, &rise);
        least = sum < least ? sum : least;
        if (rise < 0.0)
            low = b, at_low = sum, rise_low = rise;
        else
            high = b, at_high = sum, rise_high = rise;
    }
    return least;
}

/* The smallest number with a finite inverse, about. */
#define SMALLEST_P 0x1p-1022

typedef struct {
    double bound_share;  /* the curvature is at least this share of the bound */
    double *contexts;    /* rows: probability of each context, */
    double *inverse;     /* its inverse, or 0, */
    double *future;      /* influence on this position and later ones, */
    double *past;        /* influence on earlier positions */
    double *ones;        /* row of ones */
    double *work;        /* three rows */
    double *starts;      /* for each tile, the row of `contexts` before its first position, */
    double *ends;        /* that of `future` after its last, */
    double *backward;    /* and that of the backward pass after its last */
    ptrdiff_t in_tile;   /* the tile whose rows are in memory */
} influence_rows;

/* Influence of an event of probability p on its own position. */
static inline double own_influence(double p) { return 2.0 * (1.0 - (p < 1.0 ? p : 1.0)); }

static inline double least(double a, double b) { return a < b ? a : b; }

TREECRF_TEMPLATE void sum_contexts_n(const chain_shape *shape, const double *pairs, ptrdiff_t t,
                                     ptrdiff_t count, const influence_rows *of, ptrdiff_t n_labels)
{
    ptrdiff_t j, i, n_after, n = contexts_at(shape, t), size = shape->n_contexts;
    for (j = 0; j < count; j++, n = n_after) {
        n_after = contexts_after(shape, n);
        forward_step_n(of->ones, n, pairs + j * shape->width, count * shape->width,
                       of->contexts + (j + 1) * size, n_after, of->work, 0, n_labels);
        for (i = n_after; i < size; i++)
            of->contexts[(j + 1) * size + i] = 0.0;
    }
    for (i = 0; i < (count + 1) * size; i++)
        of->inverse[i] = of->contexts[i] >= SMALLEST_P ? 1.0 / of->contexts[i] : 0.0;
}

/* Probabilities of the contexts after each position, the sums of their pairs, and all inverses. */
TREECRF_WIDEST static void sum_contexts(const chain_shape *shape, const double *pairs, ptrdiff_t t,
                                        ptrdiff_t count, const influence_rows *of)
{
    TREECRF_UP_TO_8(shape->n_labels, , sum_contexts_n, shape, pairs, t, count, of)
}

/* Sums over the next contexts of their influence times the change of their probability, given the
 * context before them: where all labels lead to one context, */
TREECRF_TEMPLATE void changes_ahead_n(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                      const double *restrict inverse, const double *restrict next,
                                      const double *restrict after, double *restrict here,
                                      ptrdiff_t n_labels)
{
    ptrdiff_t v, c;
    if (n_labels <= FEW_LABELS) {
        for (c = 0; c < n; c++) {
            double sum = 0.0;
            for (v = 0; v < n_labels; v++)
                sum += fabs(rows[v * stride + c] * inverse[c] - next[v]) * after[v];
            here[c] = sum;
        }
        return;
    }
    for (c = 0; c < n; c++)
        here[c] = 0.0;
    for (v = 0; v + 2 <= n_labels; v += 2, rows += 2 * stride)
        for (c = 0; c < n; c++)
            here[c] = (here[c] + fabs(rows[c] * inverse[c] - next[v]) * after[v])
                      + fabs(rows[stride + c] * inverse[c] - next[v + 1]) * after[v + 1];
    for (; v < n_labels; v++)
        for (c = 0; c < n; c++)
            here[c] += fabs(rows[c] * inverse[c] - next[v]) * after[v];
}

/* and where successive contexts share labels: most next contexts are then impossible. There, the
 * mean of the influences bounds them too. */
TREECRF_TEMPLATE void shared_ahead_n(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                     ptrdiff_t n_ends, const double *restrict inverse,
                                     const double *restrict next, const double *restrict after,
                                     double *restrict here, double *restrict work,
                                     ptrdiff_t n_labels)
{
    double *restrict mean = work, *restrict p = work + n, *restrict values = p + n_ends;
    double all = dot_lanes(next, after, n_ends * n_labels);
    ptrdiff_t v, c, l, k;
    for (c = 0; c < n; c++) {
        here[c] = all;
        mean[c] = 0.0;
    }
    for (v = 0; v < n_labels; v++, rows += stride) {
        for (l = 0; l < n_ends; l++) {
            p[l] = next[l * n_labels + v];
            values[l] = after[l * n_labels + v];
        }
        for (c = 0, l = 0; c < n; c += n_labels, l = l + n_labels < n_ends ? l + n_labels : 0)
            for (k = 0; k < n_labels; k++) {
                double given = rows[c + k] * inverse[c + k];
                here[c + k] += (fabs(given - p[l + k]) - p[l + k]) * values[l + k];
                mean[c + k] += given * values[l + k];
            }
    }
    for (c = 0; c < n; c++)
        here[c] = least(here[c], mean[c]);
}

TREECRF_TEMPLATE void future_row_n(const double *rows, ptrdiff_t stride, ptrdiff_t n,
                                   ptrdiff_t n_ends, const influence_rows *of, ptrdiff_t at,
                                   ptrdiff_t next, double n_positions, ptrdiff_t n_labels)
{
    const double *restrict contexts = of->contexts + at;
    double *restrict here = of->future + at;
    if (n_ends == 1)
        changes_ahead_n(rows, stride, n, of->inverse + at, of->contexts + next, of->future + next,
                        here, n_labels);
    else
        shared_ahead_n(rows, stride, n, n_ends, of->inverse + at, of->contexts + next,
                       of->future + next, here, of->work, n_labels);
    for (ptrdiff_t c = 0; c < n; c++) {
        double own = own_influence(contexts[c]);
        here[c] = least(own + here[c], own * n_positions);
    }
}

TREECRF_TEMPLATE void future_rows_n(const chain_shape *shape, const double *pairs, ptrdiff_t stride,
                                    ptrdiff_t t, ptrdiff_t first, ptrdiff_t last, ptrdiff_t length,
                                    const influence_rows *of, ptrdiff_t n_labels)
{
    for (ptrdiff_t j = last - 1; j >= first; j--) {
        ptrdiff_t n = contexts_at(shape, t + j), n_ends = contexts_after(shape, n) / n_labels;
        ptrdiff_t at = j * shape->n_contexts, next = at + shape->n_contexts;
        const double *rows = pairs + j * shape->width;
        double n_positions = (double)(length - t - j);
        if (n_labels <= FEW_LABELS && n == n_labels && n_ends == 1)
            future_row_n(rows, stride, n_labels, 1, of, j * n_labels, (j + 1) * n_labels,
                         n_positions, n_labels);
        else
            future_row_n(rows, stride, n, n_ends, of, at, next, n_positions, n_labels);
    }
}

/* Influence of the contexts before positions t + first to t + last - 1 of a chain, the last one
 * first, on the pairs from there on. */
TREECRF_WIDEST static void future_rows(const chain_shape *shape, const double *pairs,
                                       ptrdiff_t stride, ptrdiff_t t, ptrdiff_t first,
                                       ptrdiff_t last, ptrdiff_t length, const influence_rows *of)
{
    TREECRF_UP_TO_8(shape->n_labels, , future_rows_n, shape, pairs, stride, t, first, last, length,
                    of)
}

/* Sum of |row[c] * inverse - contexts[c]| * values[c]. */
TREECRF_TEMPLATE double changes_behind_n(const double *restrict row, double inverse,
                                         const double *restrict contexts,
                                         const double *restrict values, ptrdiff_t n)
{
    double x[8] = {0.0}, rest = 0.0;
    ptrdiff_t c = 0;
    if (n > FEW_LABELS)
        for (; c + 8 <= n; c += 8)
#pragma omp simd
            for (int k = 0; k < 8; k++)
                x[k] += fabs(row[c + k] * inverse - contexts[c + k]) * values[c + k];
    for (; c < n; c++)
        rest += fabs(row[c] * inverse - contexts[c]) * values[c];
    return n > FEW_LABELS ? sum_lanes(x) + rest : rest;
}

/* The same for the contexts that label v leads to, where successive contexts share labels. */
TREECRF_TEMPLATE void shared_behind_n(const double *restrict row, ptrdiff_t n, ptrdiff_t n_ends,
                                      const double *restrict inverse,
                                      const double *restrict contexts,
                                      const double *restrict values, double all, ptrdiff_t v,
                                      double *restrict after, double *restrict work,
                                      ptrdiff_t n_labels)
{
    double *restrict sums = work, *restrict mean = work + n_ends, *restrict ends = mean + n_ends;
    ptrdiff_t c, l, k;
    for (l = 0; l < n_ends; l++) {
        sums[l] = all;
        mean[l] = 0.0;
        ends[l] = inverse[l * n_labels + v];
    }
    for (c = 0, l = 0; c < n; c += n_labels, l = l + n_labels < n_ends ? l + n_labels : 0)
        for (k = 0; k < n_labels; k++) {
            double given = row[c + k] * ends[l + k], p = contexts[c + k];
            sums[l + k] += (fabs(given - p) - p) * values[c + k];
            mean[l + k] += given * values[c + k];
        }
    for (l = 0; l < n_ends; l++)
        after[l * n_labels + v] = least(sums[l], mean[l]);
}

TREECRF_TEMPLATE void past_row_n(const double *rows, ptrdiff_t stride, ptrdiff_t n,
                                 ptrdiff_t n_ends, const influence_rows *of, ptrdiff_t at,
                                 ptrdiff_t next, double n_positions, ptrdiff_t n_labels)
{
    const double *restrict contexts = of->contexts + at, *restrict past = of->past + at;
    const double *restrict inverse = of->inverse + next;
    double *restrict after = of->past + next, all = 0.0;
    if (n_ends > 1)
        all = dot_lanes(contexts, past, n);
    for (ptrdiff_t v = 0; v < n_labels; v++, rows += stride)
        if (n_ends == 1)
            after[v] = changes_behind_n(rows, inverse[v], contexts, past, n);
        else
            shared_behind_n(rows, n, n_ends, inverse, contexts, past, all, v, after, of->work,
                            n_labels);
    for (ptrdiff_t c = 0; c < n_ends * n_labels; c++) {
        double own = own_influence(of->contexts[next + c]);
        after[c] = least(own + after[c], own * n_positions);
    }
}

TREECRF_TEMPLATE void past_rows_n(const chain_shape *shape, const double *pairs, ptrdiff_t stride,
                                  ptrdiff_t t, ptrdiff_t first, ptrdiff_t last,
                                  const influence_rows *of, ptrdiff_t n_labels)
{
    for (ptrdiff_t j = first; j < last; j++) {
        ptrdiff_t n = contexts_at(shape, t + j), n_ends = contexts_after(shape, n) / n_labels;
        ptrdiff_t at = j * shape->n_contexts, next = at + shape->n_contexts;
        const double *rows = pairs + j * shape->width;
        double n_positions = (double)(t + j + 1);
        if (n_labels <= FEW_LABELS && n == n_labels && n_ends == 1)
            past_row_n(rows, stride, n_labels, 1, of, j * n_labels, (j + 1) * n_labels,
                       n_positions, n_labels);
        else
            past_row_n(rows, stride, n, n_ends, of, at, next, n_positions, n_labels);
    }
}

/* Influence of the contexts after these positions, the first one first, on the pairs up to there. */
TREECRF_WIDEST static void past_rows(const chain_shape *shape, const double *pairs,
                                     ptrdiff_t stride, ptrdiff_t t, ptrdiff_t first,
                                     ptrdiff_t last, const influence_rows *of)
{
    TREECRF_UP_TO_8(shape->n_labels, , past_rows_n, shape, pairs, stride, t, first, last, of)
}

/* Copy the future influence of the contexts that label v leads to from n contexts. */
TREECRF_TEMPLATE void copy_future_n(const double *restrict future, ptrdiff_t v, ptrdiff_t n,
                                    ptrdiff_t n_ends, double *restrict out, ptrdiff_t n_labels)
{
    for (ptrdiff_t h = 0; h < n; h += n_ends)
        for (ptrdiff_t l = 0; l < n_ends; l++)
            out[h + l] = future[l * n_labels + v];
}

/* Curvature of n pairs from their probabilities, and from the influence of the contexts before them
 * and, in `out`, after them. */
TREECRF_TEMPLATE void limit_curvatures(const double *restrict pairs, const double *restrict past,
                                       double share, ptrdiff_t n, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double p = pairs[i], own = own_influence(p), bound = share * (own + out[i] + past[i]);
        out[i] = rounded(p * (bound > own ? bound : own));
    }
}

TREECRF_TEMPLATE void store_curvatures_n(const chain_shape *shape, const double *pairs,
                                         ptrdiff_t t, ptrdiff_t count, const influence_rows *of,
                                         double *out, ptrdiff_t stride, ptrdiff_t n_labels)
{
    ptrdiff_t v, j, n, c, width = shape->width, size = shape->n_contexts, begin = 0;
    while (begin < count && contexts_at(shape, t + begin) < width)
        begin++;
    for (v = 0; v < n_labels; v++, pairs += count * width, out += stride) {
        for (j = 0; j < begin; j++) {
            n = contexts_at(shape, t + j);
            copy_future_n(of->future + (j + 1) * size, v, n, n, out + j * width, n_labels);
            limit_curvatures(pairs + j * width, of->past + j * size, of->bound_share, n,
                             out + j * width);
            for (c = n; c < width; c++)
                out[j * width + c] = 0.0;
        }
        for (; j < count; j++)
            if (n_labels <= FEW_LABELS && width == n_labels)
                copy_future_n(of->future + (j + 1) * n_labels, v, n_labels, 1, out + j * n_labels,
                              n_labels);
            else
                copy_future_n(of->future + (j + 1) * size, v, width,
                              width > n_labels ? size / n_labels : 1, out + j * width, n_labels);
        limit_curvatures(pairs + begin * width, of->past + begin * size, of->bound_share,
                         (count - begin) * width, out + begin * width);
    }
}

/* Curvature of all pairs of a tile, rounded; `out` holds those of label 0 at its first position. */
TREECRF_WIDEST static void store_curvatures(const chain_shape *shape, const double *pairs,
                                            ptrdiff_t t, ptrdiff_t count, const influence_rows *of,
                                            double *out, ptrdiff_t stride)
{
    TREECRF_UP_TO_8(shape->n_labels, , store_curvatures_n, shape, pairs, t, count, of, out, stride)
}
#endif
