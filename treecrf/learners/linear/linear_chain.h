/* Forward-backward along chains whose transitions are the same at all positions.
 *
 * The score of label v at t after label u is rows[t][v] + transitions[u][v]. The exponentials of the
 * transitions are computed once for all positions, so that a position costs K exponentials instead of
 * K * K. The scores of each position are relative to their maximum, and so are the transitions. If
 * neither spreads by more than MAX_SPREAD, no weight underflows; otherwise the recursions run in log
 * space.
 *
 * Forbidden labels and transitions have the score -inf, and the weight 0. If the only allowed paths
 * have weights that underflow, the recursions run in log space, too.
 */
#ifndef TREECRF_LINEAR_CHAIN_H
#define TREECRF_LINEAR_CHAIN_H

#include "utils/vector_math.h"

/* With SMALLEST_SUM, the weights of a position are above exp(-2 * 100) * 1e-30, about 1e-117. */
#define MAX_SPREAD 100.0
#define SMALLEST_SUM 1e-30
/* Only forbidden labels and transitions can reduce the sum of the weights of a position to less. */
#define UNDERFLOW_SUM 1e-100

/* Shift the scores of each position to a maximum of 0. Returns whether all are within MAX_SPREAD,
 * except those that are -inf. */
TREECRF_TEMPLATE int level_rows_n(double *rows, ptrdiff_t length, ptrdiff_t n)
{
    double lowest = 0.0;
    for (ptrdiff_t t = 0; t < length; t++, rows += n) {
        double high = rows[0];
        for (ptrdiff_t v = 1; v < n; v++)
            high = rows[v] > high ? rows[v] : high;
        for (ptrdiff_t v = 0; v < n; v++) {
            rows[v] -= high;
            lowest = rows[v] < lowest && rows[v] > -HUGE_VAL ? rows[v] : lowest;
        }
    }
    return lowest >= -MAX_SPREAD;
}

TREECRF_WIDEST static int level_rows(double *rows, ptrdiff_t length, ptrdiff_t n_labels)
{
    TREECRF_UP_TO_8(n_labels, return, level_rows_n, rows, length)
}

/* after = factors * (now times the matrix of transitions) */
TREECRF_TEMPLATE void step_forward_n(const double *restrict now, const double *restrict transitions,
                                     const double *restrict factors, double *restrict after,
                                     ptrdiff_t n)
{
    for (ptrdiff_t v = 0; v < n; v++)
        after[v] = now[0] * transitions[v];
    for (ptrdiff_t u = 1; u < n; u++)
        for (ptrdiff_t v = 0; v < n; v++)
            after[v] += now[u] * transitions[u * n + v];
    for (ptrdiff_t v = 0; v < n; v++)
        after[v] *= factors[v];
}

TREECRF_TEMPLATE double forward_chain_n(const double *factors, ptrdiff_t length,
                                        const double *transitions, double *forward, double *scale,
                                        ptrdiff_t n)
{
    double log_z = 0.0;
    for (ptrdiff_t t = 0; t < length; t++) {
        double *after = forward + t * n, total = 0.0;
        if (t == 0)
            memcpy(after, factors, (size_t)n * sizeof *after);
        else
            step_forward_n(after - n, transitions, factors + t * n, after, n);
        for (ptrdiff_t v = 0; v < n; v++)
            total += after[v];
        scale[t] = 1.0;
        if (total < UNDERFLOW_SUM)
            return -HUGE_VAL;
        int is_extreme = total < SMALLEST_SUM || total > 1.0 / SMALLEST_SUM;
        /* In one place: if the compiler did not inline it, calls from wide code would be slow. */
        if (is_extreme || t == length - 1)
            log_z += log_of(total);
        if (is_extreme) {
            scale[t] = 1.0 / total;
            for (ptrdiff_t v = 0; v < n; v++)
                after[v] *= scale[t];
        }
    }
    return log_z;
}

/* Returns log Z of a sequence, or -inf if it underflows. `factors` are the exponentials of its scores,
 * and `transitions` those of the transitions. `forward` receives the weights of each position, and
 * `scale` the factors that the weights were multiplied by. */
TREECRF_WIDEST static double forward_chain(const double *factors, ptrdiff_t length,
                                           const double *transitions, ptrdiff_t n_labels,
                                           double *forward, double *scale)
{
    TREECRF_UP_TO_8(n_labels, return, forward_chain_n, factors, length, transitions, forward, scale)
}

/* now = (the matrix of transitions) * after; pairs += forward * after */
TREECRF_TEMPLATE void step_backward_n(const double *restrict transitions,
                                      const double *restrict after, const double *restrict forward,
                                      double *restrict now, double *restrict pairs, ptrdiff_t n)
{
    for (ptrdiff_t u = 0; u < n; u++) {
        double total = 0.0;
        for (ptrdiff_t v = 0; v < n; v++) {
            total += transitions[u * n + v] * after[v];
            pairs[u * n + v] += forward[u] * after[v];
        }
        now[u] = total;
    }
}

TREECRF_TEMPLATE void backward_chain_n(double *rows, ptrdiff_t length, const double *transitions,
                                       const double *forward, const double *scale, double weight,
                                       double *pairs, double *work, ptrdiff_t n)
{
    double *now = work, *after = work + n, total = 0.0;
    for (ptrdiff_t v = 0; v < n; v++)
        total += forward[(length - 1) * n + v];
    for (ptrdiff_t v = 0; v < n; v++)
        now[v] = weight / total;
    for (ptrdiff_t t = length - 1; t >= 0; t--) {
        double *row = rows + t * n;
        const double *here = forward + t * n;
        for (ptrdiff_t v = 0; v < n; v++) {
            after[v] = row[v] * now[v] * scale[t];
            row[v] = -(here[v] * now[v]);
        }
        if (t > 0)
            step_backward_n(transitions, after, here - n, now, pairs, n);
    }
}

/* Replace the factors in `rows` by -weight * P(label). Adds to `pairs` the sum over the positions of
 * weight * P(previous label, label), divided by `transitions`. */
TREECRF_WIDEST static void backward_chain(double *rows, ptrdiff_t length, const double *transitions,
                                          ptrdiff_t n_labels, const double *forward,
                                          const double *scale, double weight, double *pairs,
                                          double *work)
{
    TREECRF_UP_TO_8(n_labels, , backward_chain_n, rows, length, transitions, forward, scale, weight,
                    pairs, work)
}

/* log sum(exp(values + others)) */
static inline double log_sum_of(const double *values, const double *others, ptrdiff_t stride,
                                ptrdiff_t n)
{
    double high = -HUGE_VAL, total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double x = values[i] + others[i * stride];
        high = x > high ? x : high;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        total += exp_of(values[i] + others[i * stride] - high);
    return high + log_of(total);
}

/* Like `forward_chain`, but in log space. `rows` and `transitions` are scores, and `forward` receives
 * logarithms with a maximum of 0 at each position. */
static inline double log_forward_chain(const double *rows, ptrdiff_t length,
                                       const double *transitions, ptrdiff_t n, double *forward)
{
    double log_z = 0.0, ends = 0.0, high;
    for (ptrdiff_t t = 0; t < length; t++) {
        double *after = forward + t * n;
        high = -HUGE_VAL;
        for (ptrdiff_t v = 0; v < n; v++) {
            after[v] = rows[t * n + v];
            if (t > 0)
                after[v] += log_sum_of(after - n, transitions + v, n, n);
            high = after[v] > high ? after[v] : high;
        }
        for (ptrdiff_t v = 0; v < n; v++)
            after[v] -= high;
        log_z += high;
    }
    return log_z + log_sum_of(forward + (length - 1) * n, &ends, 0, n);
}

/* Like `backward_chain`, but in log space. Adds weight * P(previous label, label) to `expected`. */
static inline void log_backward_chain(double *rows, ptrdiff_t length, const double *transitions,
                                      ptrdiff_t n, const double *forward, double weight,
                                      double *expected, double *work)
{
    double *now = work, *after = work + n, log_total, high;
    for (ptrdiff_t v = 0; v < n; v++)
        now[v] = 0.0;
    for (ptrdiff_t t = length - 1; t >= 0; t--) {
        double *row = rows + t * n;
        const double *here = forward + t * n;
        log_total = log_sum_of(here, now, 1, n);
        for (ptrdiff_t v = 0; v < n; v++) {
            after[v] = row[v] + now[v];
            row[v] = -(weight * exp_of(here[v] + now[v] - log_total));
        }
        if (t == 0)
            return;
        high = -HUGE_VAL;
        for (ptrdiff_t u = 0; u < n; u++) {
            now[u] = log_sum_of(transitions + u * n, after, 1, n);
            high = now[u] > high ? now[u] : high;
        }
        log_total = log_sum_of(here - n, now, 1, n);
        for (ptrdiff_t u = 0; u < n; u++)
            for (ptrdiff_t v = 0; v < n; v++)
                expected[u * n + v] +=
                    weight * exp_of(here[u - n] + transitions[u * n + v] + after[v] - log_total);
        for (ptrdiff_t u = 0; u < n; u++)
            now[u] -= high;
    }
}


/* Steps of Viterbi's recursion: `best` receives the highest sums of scores up to each label. */
TREECRF_TEMPLATE void best_sums_n(const double *rows, ptrdiff_t length,
                                  const double *restrict transitions, double *best, ptrdiff_t n)
{
    for (ptrdiff_t v = 0; v < n; v++)
        best[v] = rows[v] + transitions[n * n + v];
    for (ptrdiff_t t = 1; t < length; t++) {
        const double *restrict row = rows + t * n, *restrict now = best + (t - 1) * n;
        double *restrict after = best + t * n;
        for (ptrdiff_t v = 0; v < n; v++)
            after[v] = now[0] + (row[v] + transitions[v]);
        for (ptrdiff_t u = 1; u < n; u++)
            for (ptrdiff_t v = 0; v < n; v++) {
                double sum = now[u] + (row[v] + transitions[u * n + v]);
                after[v] = sum > after[v] ? sum : after[v];
            }
    }
}

TREECRF_WIDEST static void best_sums(const double *rows, ptrdiff_t length,
                                     const double *transitions, double *best, ptrdiff_t n_labels)
{
    TREECRF_UP_TO_8(n_labels, , best_sums_n, rows, length, transitions, best)
}
#endif
