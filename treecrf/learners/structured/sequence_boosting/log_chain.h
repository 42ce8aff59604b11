/* Forward-backward in log space, for scores of any magnitude.
 *
 * Rows of scores and transitions are those of `best_path.h`, but the label before the first position
 * may be known: `before` is its row of the transitions, the last row if there is none.
 */
#ifndef TREECRF_LOG_CHAIN_H
#define TREECRF_LOG_CHAIN_H

#include "utils/vector_math.h"

/* joint[u][v] = now[u] + transitions[u][v] + pairs[u][v] + after[v] */
TREECRF_TEMPLATE void join(const double *restrict now, const double *restrict transitions,
                           const double *restrict pairs, const double *restrict after,
                           double *restrict joint, ptrdiff_t n)
{
    for (ptrdiff_t u = 0; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            joint[u * n + v] =
                now[u] + transitions[u * n + v] + (pairs ? pairs[u * n + v] : 0.0) + after[v];
}

/* Exponentials of a whole matrix in one loop, which is fast for any number of labels. */
TREECRF_TEMPLATE void exp_in_place(double *values, ptrdiff_t n, double level)
{
    for (ptrdiff_t i = 0; i < n; i++)
        values[i] = exp_of(values[i] - level);
}

/* Logarithms of the sums over u; the next function sums over v. `highs` has room for a row. Both
 * overwrite `joint`. */
TREECRF_TEMPLATE void log_column_sums(double *restrict joint, double *restrict highs,
                                      double *restrict out, ptrdiff_t n)
{
    for (ptrdiff_t v = 0; v < n; v++)
        highs[v] = -1e300;
    for (ptrdiff_t u = 0; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            highs[v] = joint[u * n + v] > highs[v] ? joint[u * n + v] : highs[v];
    for (ptrdiff_t u = 0; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            joint[u * n + v] -= highs[v];
    exp_in_place(joint, n * n, 0.0);
    for (ptrdiff_t v = 0; v < n; v++)
        out[v] = 0.0;
    for (ptrdiff_t u = 0; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            out[v] += joint[u * n + v];
    for (ptrdiff_t v = 0; v < n; v++)
        out[v] = log_of(out[v]) + highs[v];
}

TREECRF_TEMPLATE void log_row_sums(double *restrict joint, double *restrict highs,
                                   double *restrict out, ptrdiff_t n)
{
    for (ptrdiff_t u = 0; u < n; u++) {
        double *row = joint + u * n, high = -1e300;
        for (ptrdiff_t v = 0; v < n; v++)
            high = row[v] > high ? row[v] : high;
        for (ptrdiff_t v = 0; v < n; v++)
            row[v] -= high;
        highs[u] = high;
    }
    exp_in_place(joint, n * n, 0.0);
    for (ptrdiff_t u = 0; u < n; u++) {
        double total = 0.0;
        for (ptrdiff_t v = 0; v < n; v++)
            total += joint[u * n + v];
        out[u] = total;
    }
    for (ptrdiff_t u = 0; u < n; u++)
        out[u] = log_of(out[u]) + highs[u];
}

TREECRF_TEMPLATE const double *pairs_of(const double *row, ptrdiff_t width, ptrdiff_t n)
{
    return width > n ? row + n : NULL;
}

TREECRF_TEMPLATE double log_forward_n(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                      const double *transitions, ptrdiff_t before, double *forward,
                                      double *work, ptrdiff_t n)
{
    double *joint = work, *highs = work + n * n, high = -HUGE_VAL, total = 0.0;
    const double *pairs = before < n ? pairs_of(rows, width, n) : NULL;
    for (ptrdiff_t v = 0; v < n; v++)
        forward[v] = rows[v] + transitions[before * n + v] + (pairs ? pairs[before * n + v] : 0.0);
    for (ptrdiff_t t = 1; t < length; t++) {
        const double *row = rows + t * width;
        double *after = forward + t * n;
        join(after - n, transitions, pairs_of(row, width, n), row, joint, n);
        log_column_sums(joint, highs, after, n);
    }
    forward += (length - 1) * n;
    for (ptrdiff_t v = 0; v < n; v++)
        high = forward[v] > high ? forward[v] : high;
    for (ptrdiff_t v = 0; v < n; v++)
        total += exp_of(forward[v] - high);
    return high + log_of(total);
}

/* Returns log Z. `forward` has room for n numbers per position, `work` for (n + 4) n numbers. */
TREECRF_WIDEST static double log_forward(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                         const double *transitions, ptrdiff_t n_labels,
                                         ptrdiff_t before, double *forward, double *work)
{
    TREECRF_IF_2_4_8(n_labels, return, log_forward_n, rows, length, width, transitions, before,
                     forward, work)
}

/* Add the probabilities of pairs at a position to those of labels and to the sums of pairs.
 * Overwrites `joint`. */
TREECRF_TEMPLATE void store_pairs(double *restrict joint, double log_z, double *restrict out,
                                  double *restrict own, double *restrict summed, ptrdiff_t n)
{
    exp_in_place(joint, n * n, log_z);
    for (ptrdiff_t v = 0; v < n; v++)
        out[v] = 0.0;
    for (ptrdiff_t u = 0; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            out[v] += joint[u * n + v];
    for (ptrdiff_t k = 0; k < n * n; k++)
        summed[k] += joint[k];
    if (own)
        memcpy(own, joint, (size_t)(n * n) * sizeof *own);
}

TREECRF_TEMPLATE void log_backward_n(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                     const double *transitions, ptrdiff_t before,
                                     const double *forward, double log_z, double *out,
                                     double *summed, double *work, ptrdiff_t n)
{
    double *joint = work, *after = work + n * n, *now = after + n, *zeros = now + n;
    double *highs = zeros + n;
    for (ptrdiff_t v = 0; v < n; v++)
        now[v] = zeros[v] = 0.0;
    for (ptrdiff_t k = 0; k < (n + 1) * n; k++)
        summed[k] = 0.0;
    for (ptrdiff_t t = length - 1; t > 0; t--) {
        const double *row = rows + t * width, *pairs = pairs_of(row, width, n);
        double *target = out + t * width;
        for (ptrdiff_t v = 0; v < n; v++)
            after[v] = row[v] + now[v];
        join(forward + (t - 1) * n, transitions, pairs, after, joint, n);
        store_pairs(joint, log_z, target, width > n ? target + n : NULL, summed, n);
        join(zeros, transitions, pairs, after, joint, n);
        log_row_sums(joint, highs, now, n);
    }
    for (ptrdiff_t k = n; k < width; k++)
        out[k] = 0.0;
    for (ptrdiff_t v = 0; v < n; v++) {
        double p = exp_of(forward[v] + now[v] - log_z);
        out[v] = p;
        summed[before * n + v] += p;
        if (before < n && width > n)
            out[n + before * n + v] = p;
    }
}

/* Write the probabilities of labels, and of pairs if rows are wide enough, to `out`. `summed` has the
 * shape of the transitions and receives the probabilities of pairs, summed over the positions. */
TREECRF_WIDEST static void log_backward(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                        const double *transitions, ptrdiff_t n_labels,
                                        ptrdiff_t before, const double *forward, double log_z,
                                        double *out, double *summed, double *work)
{
    TREECRF_IF_2_4_8(n_labels, , log_backward_n, rows, length, width, transitions, before, forward,
                     log_z, out, summed, work)
}

#endif
