/* Influence of events at a position of a chain on other positions, see `_curvature.pyx`.
 *
 * Rows hold a number for each context of a position. There is a row for each position of a tile,
 * and one for the position after its last. Pairs (context, label) are stored as in `recursions.h`.
 */
#ifndef TREECRF_INFLUENCE_H
#define TREECRF_INFLUENCE_H

#include "chains/recursions.h"

/* Bound of the influence of an event on positions that lie further on.
 *
 * Let values[c] be the influence of context c there: the sum over the positions of a bound on the
 * distance between their distribution given c and their distribution given nothing. Given the
 * event, c has the probability row[c] instead of p[c]. Averaged over p, the distributions given c
 * are the distribution given nothing. The influence of the event is therefore at most
 *
 *     sum over c of |row[c] - b p[c]| values[c]
 *
 * for every b. With b = 0, it is the mean of the values; with b = 1, it is 0 if the event changes
 * nothing.
 *
 * The sum is minimized over b until it is at most INFLUENCE_PRECISION times the minimum, or for
 * INFLUENCE_STEPS steps. A looser bound would make shorter Newton steps, a tighter one takes more
 * time. */
#define INFLUENCE_PRECISION 1.1
#define INFLUENCE_STEPS 8

/* Sum of |a[i] - b x[i]| and its derivative with respect to b. Eight lanes keep the order of the
 * additions the same on every machine. */
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

/* Multiply a[i] >= 0 by values[i], and return the sums of a[i] and of |a[i] - x[i]| with their
 * derivatives: those of `sum_of_changes` with b = 0 and 1, in one pass. */
TREECRF_TEMPLATE void sums_at_ends(double *restrict a, const double *restrict values,
                                   const double *restrict x, ptrdiff_t n, double *restrict ends,
                                   double *restrict rises)
{
    double lows[8] = {0.0}, low_rises[8] = {0.0}, highs[8] = {0.0}, high_rises[8] = {0.0};
    double low = 0.0, low_rise = 0.0, high = 0.0, high_rise = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
#pragma omp simd
        for (int k = 0; k < 8; k++) {
            double product = a[i + k] * values[i + k], change = product - x[i + k];
            a[i + k] = product;
            lows[k] += product;
            low_rises[k] += product > 0.0 ? -x[i + k] : x[i + k];
            highs[k] += fabs(change);
            high_rises[k] += change > 0.0 ? -x[i + k] : x[i + k];
        }
    }
    for (; i < n; i++) {
        double product = a[i] * values[i], change = product - x[i];
        a[i] = product;
        low += product;
        low_rise += product > 0.0 ? -x[i] : x[i];
        high += fabs(change);
        high_rise += change > 0.0 ? -x[i] : x[i];
    }
    ends[0] = sum_lanes(lows) + low;
    rises[0] = sum_lanes(low_rises) + low_rise;
    ends[1] = sum_lanes(highs) + high;
    rises[1] = sum_lanes(high_rises) + high_rise;
}

/* Influence of an event that lies before or after contexts with n `values`: `row` holds their
 * probabilities given the event, and is overwritten; `mean` their probabilities times `values`.
 *
 * The sum is convex in b. Its minimum is at least the height at which two tangents intersect; b is
 * next where they do. */
TREECRF_WIDEST static double influence_beyond(double *restrict row, const double *restrict values,
                                              const double *restrict mean, ptrdiff_t n)
{
    double low = 0.0, high = 1.0, ends[2], rises[2], at_low, at_high, rise_low, rise_high, least;
    sums_at_ends(row, values, mean, n, ends, rises);
    at_low = ends[0];
    at_high = ends[1];
    rise_low = rises[0];
    rise_high = rises[1];
    least = at_low < at_high ? at_low : at_high;
    for (int i = 0; i < INFLUENCE_STEPS && rise_low < 0.0 && rise_high > 0.0; i++) {
        double b = (at_low - at_high + rise_high * high - rise_low * low) / (rise_high - rise_low);
        double rise, sum;
        double minimum = at_low + rise_low * (b - low); /* the true one is not lower */
        if (!(b > low && b < high) || least <= INFLUENCE_PRECISION * minimum)
            break;
        sum = sum_of_changes(row, mean, n, b, &rise);
        least = sum < least ? sum : least;
        if (rise < 0.0) {
            low = b;
            at_low = sum;
            rise_low = rise;
        } else {
            high = b;
            at_high = sum;
            rise_high = rise;
        }
    }
    return least;
}

/* The smallest number with a finite inverse, about. */
#define SMALLEST_P 0x1p-1022

typedef struct {
    double bound_share; /* the curvature is at least this fraction of the bound */
    double *contexts;   /* rows: probability of each context */
    double *inverse;    /* rows: its inverse, or 0 if that is not finite */
    double *future;     /* rows: influence of each context on its own position and later ones */
    double *past;       /* rows: influence of each context on earlier positions */
    double *ones;       /* one row of ones */
    double *work;       /* three rows of scratch memory */
    double *starts;     /* for each tile, the row of `contexts` of its first position */
    double *ends;       /* for each tile, the row of `future` after its last position */
    double *backward;   /* for each tile, the row of the backward pass after its last position */
    ptrdiff_t in_tile;  /* the tile whose rows are in memory */
} influence_rows;

/* Influence of an event of probability p on its own position. */
static inline double own_influence(double p) { return 2.0 * (1.0 - (p < 1.0 ? p : 1.0)); }

/* The smaller of two numbers. */
static inline double least(double a, double b) { return a < b ? a : b; }

TREECRF_TEMPLATE void sum_contexts_n(const chain_shape *shape, const double *pairs, ptrdiff_t t,
                                     ptrdiff_t count, const influence_rows *influence,
                                     ptrdiff_t n_labels)
{
    ptrdiff_t j, i, n_after, n = contexts_at(shape, t), size = shape->n_contexts;
    for (j = 0; j < count; j++, n = n_after) {
        n_after = contexts_after(shape, n);
        forward_step_n(influence->ones, n, pairs + j * shape->width, count * shape->width,
                       influence->contexts + (j + 1) * size, n_after, influence->work, 0, n_labels);
        for (i = n_after; i < size; i++)
            influence->contexts[(j + 1) * size + i] = 0.0;
    }
    for (i = 0; i < (count + 1) * size; i++) {
        double p = influence->contexts[i];
        influence->inverse[i] = p >= SMALLEST_P ? 1.0 / p : 0.0;
    }
}

/* Probabilities of the contexts after each position, the sums of their pairs, and all inverses. */
TREECRF_WIDEST static void sum_contexts(const chain_shape *shape, const double *pairs, ptrdiff_t t,
                                        ptrdiff_t count, const influence_rows *influence)
{
    TREECRF_UP_TO_8(shape->n_labels, , sum_contexts_n, shape, pairs, t, count, influence)
}

/* For each context c of a position, the sum over the next contexts of
 *
 *     |P(next | c) - P(next)| * influence of the next context.
 *
 * This is for chains of order 1, in which each label leads to one context. */
TREECRF_TEMPLATE void changes_ahead_n(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                      const double *restrict inverse, const double *restrict next,
                                      const double *restrict after, double *restrict sums,
                                      ptrdiff_t n_labels)
{
    ptrdiff_t v, c;
    if (n_labels <= FEW_LABELS) {
        for (c = 0; c < n; c++) {
            double sum = 0.0;
            for (v = 0; v < n_labels; v++)
                sum += fabs(rows[v * stride + c] * inverse[c] - next[v]) * after[v];
            sums[c] = sum;
        }
        return;
    }
    for (c = 0; c < n; c++)
        sums[c] = 0.0;
    for (v = 0; v + 2 <= n_labels; v += 2, rows += 2 * stride)
        for (c = 0; c < n; c++)
            sums[c] = (sums[c] + fabs(rows[c] * inverse[c] - next[v]) * after[v])
                      + fabs(rows[stride + c] * inverse[c] - next[v + 1]) * after[v + 1];
    for (; v < n_labels; v++)
        for (c = 0; c < n; c++)
            sums[c] += fabs(rows[c] * inverse[c] - next[v]) * after[v];
}

/* The same where successive contexts share labels, so that most next contexts are impossible. Their
 * influence, weighted by P(next | c), is a second bound, and often the lower one. */
TREECRF_TEMPLATE void shared_ahead_n(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                     ptrdiff_t n_ends, const double *restrict inverse,
                                     const double *restrict next, const double *restrict after,
                                     double *restrict sums, double *restrict work,
                                     ptrdiff_t n_labels)
{
    double *restrict mean = work, *restrict p = work + n, *restrict values = p + n_ends;
    double all = dot_lanes(next, after, n_ends * n_labels);
    ptrdiff_t v, c, l, k;
    for (c = 0; c < n; c++) {
        sums[c] = all;
        mean[c] = 0.0;
    }
    for (v = 0; v < n_labels; v++, rows += stride) {
        for (l = 0; l < n_ends; l++) {
            p[l] = next[l * n_labels + v];
            values[l] = after[l * n_labels + v];
        }
        for (c = 0, l = 0; c < n; c += n_labels, l = l + n_labels < n_ends ? l + n_labels : 0)
            for (k = 0; k < n_labels; k++) {
                double conditional = rows[c + k] * inverse[c + k];
                sums[c + k] += (fabs(conditional - p[l + k]) - p[l + k]) * values[l + k];
                mean[c + k] += conditional * values[l + k];
            }
    }
    for (c = 0; c < n; c++)
        sums[c] = least(sums[c], mean[c]);
}

/* Influence of the contexts of one position on its own and later positions, from the next row. */
TREECRF_TEMPLATE void future_row_n(const double *rows, ptrdiff_t stride, ptrdiff_t n,
                                   ptrdiff_t n_ends, const influence_rows *influence, ptrdiff_t at,
                                   ptrdiff_t next, double n_positions, ptrdiff_t n_labels)
{
    const double *restrict contexts = influence->contexts + at;
    double *restrict future = influence->future + at;
    if (n_ends == 1)
        changes_ahead_n(rows, stride, n, influence->inverse + at, influence->contexts + next,
                        influence->future + next, future, n_labels);
    else
        shared_ahead_n(rows, stride, n, n_ends, influence->inverse + at, influence->contexts + next,
                       influence->future + next, future, influence->work, n_labels);
    for (ptrdiff_t c = 0; c < n; c++) {
        double own = own_influence(contexts[c]);
        future[c] = least(own + future[c], own * n_positions);
    }
}

TREECRF_TEMPLATE void future_rows_n(const chain_shape *shape, const double *pairs, ptrdiff_t stride,
                                    ptrdiff_t t, ptrdiff_t first, ptrdiff_t last, ptrdiff_t length,
                                    const influence_rows *influence, ptrdiff_t n_labels)
{
    for (ptrdiff_t j = last - 1; j >= first; j--) {
        ptrdiff_t n = contexts_at(shape, t + j), n_ends = contexts_after(shape, n) / n_labels;
        ptrdiff_t at = j * shape->n_contexts, next = at + shape->n_contexts;
        const double *rows = pairs + j * shape->width;
        double n_positions = (double)(length - t - j);
        if (n_labels <= FEW_LABELS && n == n_labels && n_ends == 1)
            future_row_n(rows, stride, n_labels, 1, influence, j * n_labels, (j + 1) * n_labels,
                         n_positions, n_labels);
        else
            future_row_n(rows, stride, n, n_ends, influence, at, next, n_positions, n_labels);
    }
}

/* Influence of the contexts of positions t + first to t + last - 1 of a chain on the pairs from
 * there on. The last position comes first. */
TREECRF_WIDEST static void future_rows(const chain_shape *shape, const double *pairs,
                                       ptrdiff_t stride, ptrdiff_t t, ptrdiff_t first,
                                       ptrdiff_t last, ptrdiff_t length,
                                       const influence_rows *influence)
{
    TREECRF_UP_TO_8(shape->n_labels, , future_rows_n, shape, pairs, stride, t, first, last, length,
                    influence)
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
            double conditional = row[c + k] * ends[l + k], p = contexts[c + k];
            sums[l + k] += (fabs(conditional - p) - p) * values[c + k];
            mean[l + k] += conditional * values[c + k];
        }
    for (l = 0; l < n_ends; l++)
        after[l * n_labels + v] = least(sums[l], mean[l]);
}

/* Influence of the contexts after a position on it and earlier ones, from the row before. */
TREECRF_TEMPLATE void past_row_n(const double *rows, ptrdiff_t stride, ptrdiff_t n,
                                 ptrdiff_t n_ends, const influence_rows *influence, ptrdiff_t at,
                                 ptrdiff_t next, double n_positions, ptrdiff_t n_labels)
{
    const double *restrict contexts = influence->contexts + at;
    const double *restrict past = influence->past + at;
    const double *restrict inverse = influence->inverse + next;
    double *restrict after = influence->past + next, all = 0.0;
    if (n_ends > 1)
        all = dot_lanes(contexts, past, n);
    for (ptrdiff_t v = 0; v < n_labels; v++, rows += stride)
        if (n_ends == 1)
            after[v] = changes_behind_n(rows, inverse[v], contexts, past, n);
        else
            shared_behind_n(rows, n, n_ends, inverse, contexts, past, all, v, after,
                            influence->work, n_labels);
    for (ptrdiff_t c = 0; c < n_ends * n_labels; c++) {
        double own = own_influence(influence->contexts[next + c]);
        after[c] = least(own + after[c], own * n_positions);
    }
}

TREECRF_TEMPLATE void past_rows_n(const chain_shape *shape, const double *pairs, ptrdiff_t stride,
                                  ptrdiff_t t, ptrdiff_t first, ptrdiff_t last,
                                  const influence_rows *influence, ptrdiff_t n_labels)
{
    for (ptrdiff_t j = first; j < last; j++) {
        ptrdiff_t n = contexts_at(shape, t + j), n_ends = contexts_after(shape, n) / n_labels;
        ptrdiff_t at = j * shape->n_contexts, next = at + shape->n_contexts;
        const double *rows = pairs + j * shape->width;
        double n_positions = (double)(t + j + 1);
        if (n_labels <= FEW_LABELS && n == n_labels && n_ends == 1)
            past_row_n(rows, stride, n_labels, 1, influence, j * n_labels, (j + 1) * n_labels,
                       n_positions, n_labels);
        else
            past_row_n(rows, stride, n, n_ends, influence, at, next, n_positions, n_labels);
    }
}

/* Influence of the contexts after these positions on the pairs up to there, from the first on. */
TREECRF_WIDEST static void past_rows(const chain_shape *shape, const double *pairs,
                                     ptrdiff_t stride, ptrdiff_t t, ptrdiff_t first,
                                     ptrdiff_t last, const influence_rows *influence)
{
    TREECRF_UP_TO_8(shape->n_labels, , past_rows_n, shape, pairs, stride, t, first, last, influence)
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
                                         ptrdiff_t t, ptrdiff_t count,
                                         const influence_rows *influence, double *out,
                                         ptrdiff_t stride, ptrdiff_t n_labels)
{
    ptrdiff_t v, j, n, c, width = shape->width, size = shape->n_contexts, begin = 0;
    while (begin < count && contexts_at(shape, t + begin) < width)
        begin++;
    for (v = 0; v < n_labels; v++, pairs += count * width, out += stride) {
        for (j = 0; j < begin; j++) {
            n = contexts_at(shape, t + j);
            copy_future_n(influence->future + (j + 1) * size, v, n, n, out + j * width, n_labels);
            limit_curvatures(pairs + j * width, influence->past + j * size,
                             influence->bound_share, n, out + j * width);
            for (c = n; c < width; c++)
                out[j * width + c] = 0.0;
        }
        for (; j < count; j++)
            if (n_labels <= FEW_LABELS && width == n_labels)
                copy_future_n(influence->future + (j + 1) * n_labels, v, n_labels, 1,
                              out + j * n_labels, n_labels);
            else
                copy_future_n(influence->future + (j + 1) * size, v, width,
                              width > n_labels ? size / n_labels : 1, out + j * width, n_labels);
        limit_curvatures(pairs + begin * width, influence->past + begin * size,
                         influence->bound_share, (count - begin) * width, out + begin * width);
    }
}

/* Curvature of all pairs of a tile, rounded. `out` begins with label 0 at the first position. */
TREECRF_WIDEST static void store_curvatures(const chain_shape *shape, const double *pairs,
                                            ptrdiff_t t, ptrdiff_t count,
                                            const influence_rows *influence, double *out,
                                            ptrdiff_t stride)
{
    TREECRF_UP_TO_8(shape->n_labels, , store_curvatures_n, shape, pairs, t, count, influence, out,
                    stride)
}
#endif
