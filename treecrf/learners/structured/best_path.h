/* Viterbi decoding for learners that visit one sequence at a time.
 *
 * Each position has a row of scores: one for each label and, if rows are wider, one for each pair of
 * labels after these, (u, v) at n * (1 + u) + v. `transitions` holds scores of pairs that are the
 * same at all positions; its last row is for first positions.
 */
#ifndef TREECRF_BEST_PATH_H
#define TREECRF_BEST_PATH_H

#include "utils/vector_math.h"

/* after[v] = max over u of now[u] + transitions[u][v] (+ pairs[u][v]); from[v] is the first such u. */
TREECRF_TEMPLATE void best_step(const double *restrict now, const double *restrict transitions,
                                const double *restrict pairs, double *restrict after,
                                int32_t *restrict from, ptrdiff_t n)
{
    for (ptrdiff_t v = 0; v < n; v++) {
        after[v] = now[0] + transitions[v] + (pairs ? pairs[v] : 0.0);
        from[v] = 0;
    }
    for (ptrdiff_t u = 1; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++) {
            double x = now[u] + transitions[u * n + v] + (pairs ? pairs[u * n + v] : 0.0);
            from[v] = x > after[v] ? (int32_t)u : from[v];
            after[v] = x > after[v] ? x : after[v];
        }
}

TREECRF_TEMPLATE double best_path_n(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                    const double *transitions, double *work, int32_t *from,
                                    int32_t *out, ptrdiff_t n)
{
    double *now = work, *after = work + n, *other;
    int32_t best = 0;
    for (ptrdiff_t v = 0; v < n; v++)
        now[v] = rows[v] + transitions[n * n + v];
    for (ptrdiff_t t = 1; t < length; t++) {
        const double *row = rows + t * width;
        best_step(now, transitions, width > n ? row + n : NULL, after, from + t * n, n);
        for (ptrdiff_t v = 0; v < n; v++)
            after[v] += row[v];
        other = now;
        now = after;
        after = other;
    }
    for (int32_t v = 1; v < n; v++)
        best = now[v] > now[best] ? v : best;
    out[length - 1] = best;
    for (ptrdiff_t t = length - 1; t > 0; t--)
        out[t - 1] = from[t * n + out[t]];
    return now[best];
}

/* Write the best label sequence to `out` and return its score. Among equal scores the lowest last
 * label wins, then the lowest label before it, and so on. `work` has room for 2 n_labels numbers,
 * `from` for n_labels numbers per position. */
TREECRF_WIDEST static double best_path(const double *rows, ptrdiff_t length, ptrdiff_t width,
                                       const double *transitions, ptrdiff_t n_labels, double *work,
                                       int32_t *from, int32_t *out)
{
    TREECRF_UP_TO_4(n_labels, return, best_path_n, rows, length, width, transitions, work, from, out)
}

#endif
