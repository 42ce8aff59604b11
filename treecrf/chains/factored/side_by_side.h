/* Forward-backward over several sequences of order 1 at a time, with constant transitions.
 *
 * With a matrix E of exponentials of transition scores and factors F of exponentials of the scores
 * of labels at positions, the weights of the labels at a position follow from those before by
 *
 *     a[t][v] = F[t][v] * sum over u of a[t - 1][u] E[u][v],
 *
 * divided by their sum, and backward from b[t - 1][u] = sum over v of E[u][v] B[t][v] with
 * B[t][v] = F[t][v] b[t][v] / sum. Labels then have the probabilities q = a b, and pairs of labels
 * a[t - 1][u] E[u][v] B[t][v]. A sum over the positions of a sequence needs no table of pairs.
 *
 * LANES sequences of similar lengths are computed side by side, each in a lane of vector registers.
 * A number of a label at a position is stored for all of them: [position][label][lane]. In each
 * lane operations have the same order whatever the other lanes hold. Beyond the end of its
 * sequence, a lane has weights of 0.
 */
#ifndef TREECRF_SIDE_BY_SIDE_H
#define TREECRF_SIDE_BY_SIDE_H

#include "chains/factored/factored.h"
#include "chains/influence.h"

#define LANES 8

/* Compilers turn such loops into single instructions. */
#if defined(_MSC_VER)
#define EACH_LANE(k) for (int k = 0; k < LANES; k++)
#else
#define EACH_LANE(k) _Pragma("omp simd") for (int k = 0; k < LANES; k++)
#endif

/* Number of labels that share a pass over all labels. */
#define BLOCK 4

/* Logarithms of the factors of transitions and of positions are at least this: products of two
 * of them and the smallest weight, 1e-150, stay in the range of doubles. */
#define LOWEST_FACTOR (-150.0)

/* Numbers of labels at positions that are read again and again fit in the fastest cache. */
#define CACHED 256

typedef struct {
    ptrdiff_t n_labels;
    ptrdiff_t n_positions;  /* of all sequences */
    const double *factors;  /* E [previous label][label], at most 1; 0 if forbidden */
    double level;           /* score of a transition whose factor is 1 */
    int is_curved;          /* whether there is a curvature */
    double bound_share;     /* see `influence.h`; 0 without a bound */
    ptrdiff_t n;            /* number of sequences, at most LANES */
    ptrdiff_t longest;      /* positions of the longest of them */
    ptrdiff_t start[LANES]; /* first position of each */
    ptrdiff_t length[LANES];
    int is_lost[LANES];     /* whether a lane left the range of scaled weights */
    double log_z[LANES];
    double *forward;        /* a */
    double *ahead;          /* F, then B */
    double *backward;       /* b */
    double *future;         /* influence of a label on later positions, see `_curvature` */
    double *past;           /* influence of a label on its own position and earlier ones */
    double *rows;           /* two rows */
    double *inverse;        /* [position][lane]: 1 / sum of the weights; weights of positions later */
} lane_group;

/* A row of a position. */
static inline double *lane_row(const lane_group *group, double *rows, ptrdiff_t t)
{
    return rows + t * group->n_labels * LANES;
}

/* Exponentials of transition scores [previous label][label], divided by the largest. Returns 0 if
 * they are too far apart. */
static inline int transition_factors(const factored_terms *terms, ptrdiff_t n_labels,
                                     double *factors, double *level)
{
    ptrdiff_t u, v, k = n_labels;
    const int32_t *units = terms->transitions + k * k;
    int32_t highest = FORBIDDEN;
    int near = 1;
    for (v = 0; v < k; v++)
        for (u = 0; u < k; u++)
            if ((!terms->follows || terms->follows[v * (k + 1) + u]) && units[v * k + u] > highest)
                highest = units[v * k + u];
    if (highest == FORBIDDEN)
        highest = 0;
    *level = highest * SCORE_UNIT;
    for (v = 0; v < k; v++)
        for (u = 0; u < k; u++) {
            double x = units[v * k + u] * SCORE_UNIT - *level;
            int is_allowed = !terms->follows || terms->follows[v * (k + 1) + u];
            near &= !is_allowed | (x >= LOWEST_FACTOR);
            factors[u * k + v] = is_allowed && x >= LOWEST_FACTOR ? exp_in_range(x) : 0.0;
        }
    return near;
}

/* Scores of the labels at the positions of the lanes, -inf for forbidden labels. */
static inline void load_lanes(const lane_group *group, const factored_terms *terms)
{
    ptrdiff_t k, t, v, n = group->n_labels;
    memset(group->ahead, 0, (size_t)(group->longest * n * LANES) * sizeof(double));
    for (k = 0; k < group->n; k++)
        for (v = 0; v < n; v++) {
            const int32_t *state = terms->state + v * group->n_positions + group->start[k];
            double *x = group->ahead + v * LANES + k;
            int begins = !terms->follows || terms->follows[v * (n + 1) + n];
            for (t = 0; t < group->length[k]; t++)
                x[t * n * LANES] = state[t] * SCORE_UNIT;
            x[0] = (state[0] + (double)terms->transitions[v * n]) * SCORE_UNIT;
            if (!begins)
                x[0] = -HUGE_VAL;
            for (t = 0; terms->allowed && t < group->length[k]; t++)
                if (!terms->allowed[(group->start[k] + t) * n + v])
                    x[t * n * LANES] = -HUGE_VAL;
        }
}

/* Turn the scores of position t into factors, divided by the largest one. */
TREECRF_TEMPLATE void factors_of_lanes(lane_group *group, ptrdiff_t t, double *restrict level)
{
    ptrdiff_t v, n = group->n_labels;
    double *restrict x = lane_row(group, group->ahead, t), beyond[LANES] = {0.0};
    EACH_LANE(k) level[k] = -HUGE_VAL;
    for (v = 0; v < n; v++)
        EACH_LANE(k) level[k] = x[v * LANES + k] > level[k] ? x[v * LANES + k] : level[k];
    EACH_LANE(k) level[k] = level[k] > -HUGE_VAL ? level[k] : 0.0;
    for (v = 0; v < n; v++)
        EACH_LANE(k)
        {
            double y = x[v * LANES + k] - level[k];
            double inside = y >= LOWEST_FACTOR ? 1.0 : 0.0;
            beyond[k] += (y < LOWEST_FACTOR) & (y > -HUGE_VAL) ? 1.0 : 0.0;
            x[v * LANES + k] = inside * exp_in_range(y >= LOWEST_FACTOR ? y : 0.0);
        }
    for (int k = 0; k < LANES; k++)
        group->is_lost[k] |= beyond[k] > 0.0;
}

/* out[v] = sum over u of row[u] E[u][v] */
TREECRF_TEMPLATE void times_factors(const double *restrict factors, const double *restrict row,
                                    double *restrict out, ptrdiff_t n)
{
    ptrdiff_t u, v = 0;
    for (; v + BLOCK <= n; v += BLOCK) {
        double s0[LANES] = {0.0}, s1[LANES] = {0.0}, s2[LANES] = {0.0}, s3[LANES] = {0.0};
        for (u = 0; u < n; u++) {
            const double *restrict e = factors + u * n + v, *restrict x = row + u * LANES;
            double e0 = e[0], e1 = e[1], e2 = e[2], e3 = e[3];
            EACH_LANE(k)
            {
                s0[k] += x[k] * e0;
                s1[k] += x[k] * e1;
                s2[k] += x[k] * e2;
                s3[k] += x[k] * e3;
            }
        }
        memcpy(out + v * LANES, s0, sizeof s0);
        memcpy(out + (v + 1) * LANES, s1, sizeof s1);
        memcpy(out + (v + 2) * LANES, s2, sizeof s2);
        memcpy(out + (v + 3) * LANES, s3, sizeof s3);
    }
    for (; v < n; v++) {
        double s[LANES] = {0.0};
        for (u = 0; u < n; u++)
            EACH_LANE(k) s[k] += row[u * LANES + k] * factors[u * n + v];
        memcpy(out + v * LANES, s, sizeof s);
    }
}

/* out[u] = sum over v of E[u][v] row[v] */
TREECRF_TEMPLATE void factors_times(const double *restrict factors, const double *restrict row,
                                    double *restrict out, ptrdiff_t n)
{
    ptrdiff_t u = 0, v;
    for (; u + BLOCK <= n; u += BLOCK) {
        double s0[LANES] = {0.0}, s1[LANES] = {0.0}, s2[LANES] = {0.0}, s3[LANES] = {0.0};
        const double *restrict e = factors + u * n;
        for (v = 0; v < n; v++) {
            const double *restrict x = row + v * LANES;
            double e0 = e[v], e1 = e[n + v], e2 = e[2 * n + v], e3 = e[3 * n + v];
            EACH_LANE(k)
            {
                s0[k] += x[k] * e0;
                s1[k] += x[k] * e1;
                s2[k] += x[k] * e2;
                s3[k] += x[k] * e3;
            }
        }
        memcpy(out + u * LANES, s0, sizeof s0);
        memcpy(out + (u + 1) * LANES, s1, sizeof s1);
        memcpy(out + (u + 2) * LANES, s2, sizeof s2);
        memcpy(out + (u + 3) * LANES, s3, sizeof s3);
    }
    for (; u < n; u++) {
        double s[LANES] = {0.0};
        for (v = 0; v < n; v++)
            EACH_LANE(k) s[k] += row[v * LANES + k] * factors[u * n + v];
        memcpy(out + u * LANES, s, sizeof s);
    }
}

/* One step of the forward pass. */
TREECRF_TEMPLATE void forward_lanes_n(lane_group *group, ptrdiff_t t, ptrdiff_t n)
{
    double *restrict now = lane_row(group, group->forward, t);
    const double *restrict x = lane_row(group, group->ahead, t);
    double *restrict inverse = group->inverse + t * LANES;
    double level[LANES], total[LANES] = {0.0}, active[LANES], lost[LANES] = {0.0};
    ptrdiff_t v;
    factors_of_lanes(group, t, level);
    if (t)
        times_factors(group->factors, now - n * LANES, now, n);
    for (v = 0; v < n; v++)
        EACH_LANE(k)
        {
            double y = t ? now[v * LANES + k] * x[v * LANES + k] : x[v * LANES + k];
            now[v * LANES + k] = y;
            total[k] += y;
        }
    for (int k = 0; k < LANES; k++) {
        active[k] = t < group->length[k];
        group->is_lost[k] |= t < group->length[k] && !(total[k] > 0.0);
    }
    EACH_LANE(k)
    {
        double logarithm;
        total[k] = (active[k] > 0.0) & (total[k] > 0.0) ? total[k] : 1.0;
        inverse[k] = active[k] / total[k];
        logarithm = log_of(total[k]) + level[k] + (t ? group->level : 0.0);
        group->log_z[k] += active[k] > 0.0 ? logarithm : 0.0;
    }
    for (v = 0; v < n; v++)
        EACH_LANE(k)
        {
            double y = now[v * LANES + k] * inverse[k];
            now[v * LANES + k] = y;
            lost[k] += (y > 0.0) & (y < SMALLEST_WEIGHT) ? 1.0 : 0.0;
        }
    for (int k = 0; k < LANES; k++)
        group->is_lost[k] |= lost[k] > 0.0;
}

/* One step of the backward pass: b at t, and B there. */
TREECRF_TEMPLATE void backward_lanes_n(lane_group *group, ptrdiff_t t, ptrdiff_t n)
{
    double *restrict now = lane_row(group, group->backward, t);
    double *restrict ahead = lane_row(group, group->ahead, t);
    const double *restrict weights = lane_row(group, group->forward, t);
    const double *restrict inverse = group->inverse + t * LANES;
    double is_last[LANES];
    ptrdiff_t v;
    for (int k = 0; k < LANES; k++)
        is_last[k] = t == group->length[k] - 1;
    if (t + 1 < group->longest)
        factors_times(group->factors, ahead + n * LANES, now, n);
    for (v = 0; v < n; v++)
        EACH_LANE(k)
        {
            double y = is_last[k] > 0.0 ? 1.0 : now[v * LANES + k];
            y = weights[v * LANES + k] > 0.0 ? y : 0.0;
            now[v * LANES + k] = y;
            ahead[v * LANES + k] *= y * inverse[k];
        }
}

/* Products of probabilities q and numbers of a position, and of `other` numbers and these. */
TREECRF_TEMPLATE void lane_products(const lane_group *group, ptrdiff_t t, double *numbers,
                                    double *other, ptrdiff_t n)
{
    const double *restrict values = lane_row(group, numbers, t);
    const double *restrict a = lane_row(group, group->forward, t);
    const double *restrict b = lane_row(group, group->backward, t);
    const double *restrict x = lane_row(group, other, t);
    double *restrict q = group->rows, *restrict y = group->rows + n * LANES;
    for (ptrdiff_t i = 0; i < n * LANES; i++) {
        q[i] = a[i] * b[i] * values[i];
        y[i] = x[i] * values[i];
    }
}

/* Influence of the labels at t on later positions, from that at t + 1; see `future_rows`. */
TREECRF_TEMPLATE void future_lanes_n(lane_group *group, ptrdiff_t t, ptrdiff_t n)
{
    double *restrict future = lane_row(group, group->future, t);
    const double *restrict a = lane_row(group, group->forward, t);
    const double *restrict b = lane_row(group, group->backward, t);
    const double *restrict q = group->rows, *restrict y = group->rows + n * LANES;
    double n_later[LANES];
    ptrdiff_t u, v;
    for (int k = 0; k < LANES; k++)
        n_later[k] = t + 1 < group->length[k] ? (double)(group->length[k] - t - 1) : 0.0;
    if (t + 1 < group->longest)
        lane_products(group, t + 1, group->future, group->ahead, n);
    for (u = 0; u < n; u++) {
        double sums[LANES] = {0.0}, weight[LANES];
        const double *restrict e = group->factors + u * n;
        memcpy(weight, b + u * LANES, sizeof weight);
        for (v = 0; v < n && t + 1 < group->longest; v++) {
            double factor = e[v];
            EACH_LANE(k)
                sums[k] += fabs(factor * y[v * LANES + k] - weight[k] * q[v * LANES + k]);
        }
        EACH_LANE(k)
        {
            double own = own_influence(a[u * LANES + k] * weight[k]);
            double beyond = weight[k] >= 1e-300 ? sums[k] / weight[k] : 0.0;
            future[u * LANES + k] = least(own + beyond, own * n_later[k]);
        }
    }
}

/* Influence of the labels at t on their own position and earlier ones; see `past_rows`. */
TREECRF_TEMPLATE void past_lanes_n(lane_group *group, ptrdiff_t t, ptrdiff_t n)
{
    double *restrict past = lane_row(group, group->past, t);
    const double *restrict a = lane_row(group, group->forward, t);
    const double *restrict b = lane_row(group, group->backward, t);
    const double *restrict ahead = lane_row(group, group->ahead, t);
    const double *restrict q = group->rows, *restrict y = group->rows + n * LANES;
    double n_earlier = (double)(t + 1);
    ptrdiff_t u, v;
    if (t)
        lane_products(group, t - 1, group->past, group->forward, n);
    for (v = 0; v < n; v++) {
        double sums[LANES] = {0.0}, z[LANES], p[LANES];
        EACH_LANE(k)
        {
            p[k] = a[v * LANES + k] * b[v * LANES + k];
            z[k] = ahead[v * LANES + k] >= 1e-300 ? p[k] / ahead[v * LANES + k] : 0.0;
        }
        for (u = 0; u < n && t; u++) {
            double factor = group->factors[u * n + v];
            EACH_LANE(k) sums[k] += fabs(factor * y[u * LANES + k] - z[k] * q[u * LANES + k]);
        }
        EACH_LANE(k)
        {
            double own = own_influence(p[k]), beyond = z[k] >= 1e-300 ? sums[k] / z[k] : 0.0;
            past[v * LANES + k] = least(own + beyond, own * n_earlier);
        }
    }
}

/* Remove the weights of a lane. */
static inline void clear_lane(const lane_group *group, ptrdiff_t k)
{
    for (ptrdiff_t i = k; i < group->longest * group->n_labels * LANES; i += LANES)
        group->forward[i] = group->ahead[i] = 0.0;
}

/* Forward pass over all lanes. */
TREECRF_WIDEST static void forward_lanes(lane_group *group)
{
    for (ptrdiff_t t = 0; t < group->longest; t++)
        TREECRF_UP_TO_8(group->n_labels, , forward_lanes_n, group, t)
}

/* Backward pass, and the influence of labels if the curvature has a bound. */
TREECRF_WIDEST static void backward_lanes(lane_group *group)
{
    ptrdiff_t t;
    for (t = group->longest - 1; t >= 0; t--)
        TREECRF_UP_TO_8(group->n_labels, , backward_lanes_n, group, t)
    if (!group->is_curved || group->bound_share == 0.0)
        return;
    for (t = group->longest - 1; t >= 0; t--)
        TREECRF_UP_TO_8(group->n_labels, , future_lanes_n, group, t)
    for (t = 0; t < group->longest; t++)
        TREECRF_UP_TO_8(group->n_labels, , past_lanes_n, group, t)
}

/* Curvature of the score of a label of probability p: its own, or a share of the bound. */
static inline double curvature_of_label(double p, double share, double influence)
{
    double own = own_influence(p), bound = share * influence;
    return rounded(p * (bound > own ? bound : own));
}

/* Residuals and curvature of label v in lane k, `residuals` and `curvature` begin at its start.
 * True labels are added later. */
static inline void store_lane(const lane_group *group, ptrdiff_t k, ptrdiff_t v,
                              double *restrict residuals, double *restrict curvature)
{
    ptrdiff_t step = group->n_labels * LANES, i = v * LANES + k;
    int bounded = group->bound_share > 0.0;
    for (ptrdiff_t t = 0; t < group->length[k]; t++, i += step) {
        double p = group->forward[i] * group->backward[i];
        residuals[t] = rounded(-p);
        if (curvature)
            curvature[t] = curvature_of_label(
                p, group->bound_share, bounded ? group->future[i] + group->past[i] : 0.0);
    }
}

/* Sums over the positions of each lane for labels u, v: of a B, and with curvature of (a B)^2 and of
 * a B times the influence of u on earlier and of v on later positions; all times the weights. */
TREECRF_TEMPLATE void sum_pair(const lane_group *group, ptrdiff_t u, ptrdiff_t v, int is_weighted,
                               int curved, int bounded, double *restrict pairs,
                               double *restrict squares, double *restrict influences)
{
    ptrdiff_t step = group->n_labels * LANES;
    const double *restrict a = group->forward + u * LANES;
    const double *restrict b = group->ahead + step + v * LANES;
    const double *restrict past = group->past + u * LANES;
    const double *restrict future = group->future + step + v * LANES;
    const double *restrict weights = group->inverse + LANES;
    double s0[LANES] = {0.0}, s1[LANES] = {0.0}, s2[LANES] = {0.0};
    for (ptrdiff_t t = 1; t < group->longest; t++) {
        EACH_LANE(k)
        {
            double p = a[k] * b[k], weighted = is_weighted ? p * weights[k] : p;
            s0[k] += weighted;
            if (curved)
                s1[k] += weighted * p;
            if (bounded)
                s2[k] += weighted * (past[k] + future[k]);
        }
        a += step;
        b += step;
        past += step;
        future += step;
        weights += LANES;
    }
    memcpy(pairs, s0, sizeof s0);
    memcpy(squares, s1, sizeof s1);
    memcpy(influences, s2, sizeof s2);
}

/* Round the sums of each lane to a multiple of the unit in `shift`, see `rounded`, and add them. */
TREECRF_TEMPLATE double sum_rounded(const double *restrict x, double shift)
{
    double lanes[LANES];
    EACH_LANE(k) lanes[k] = (x[k] + shift) - shift;
    return sum_lanes(lanes);
}

/* Add the rounded sums of one pair with factor e. */
TREECRF_TEMPLATE void add_pair(double *restrict s0, double *restrict s1, double *restrict s2,
                               double e, double shift, double wide_shift, int curved, int bounded,
                               double *restrict sums, ptrdiff_t size)
{
    EACH_LANE(k)
    {
        s0[k] *= e;
        s1[k] = 2.0 * (s0[k] - e * e * s1[k]);
        s2[k] *= e;
    }
    sums[0] += sum_rounded(s0, shift);
    if (curved)
        sums[size] += sum_rounded(s1, shift);
    if (bounded)
        sums[2 * size] += sum_rounded(s2, wide_shift);
}

TREECRF_TEMPLATE void sum_pairs_n(const lane_group *group, int is_weighted, int curved, int bounded,
                                  double shift, double wide_shift, double *sums, ptrdiff_t size,
                                  ptrdiff_t n)
{
    ptrdiff_t u, v, first, last, step = CACHED / group->longest + 1;
    for (first = 0; first < n; first = last) {
        last = first + step < n ? first + step : n;
        for (u = 0; u < n; u++)
            for (v = first; v < last; v++) {
                double s0[LANES], s1[LANES], s2[LANES], e = group->factors[u * n + v];
                if (e == 0.0)
                    continue;
                sum_pair(group, u, v, is_weighted, curved, bounded, s0, s1, s2);
                add_pair(s0, s1, s2, e, shift, wide_shift, curved, bounded, sums + v * n + u, size);
            }
    }
}

/* Sums of the first labels of the sequences, as for pairs: their contexts have one number. */
TREECRF_TEMPLATE void sum_first(const lane_group *group, int curved, int bounded, double shift,
                                double wide_shift, double *sums, ptrdiff_t size)
{
    for (ptrdiff_t v = 0; v < group->n_labels; v++) {
        double s0[LANES], s1[LANES], s2[LANES];
        EACH_LANE(k)
        {
            double p = group->forward[v * LANES + k] * group->backward[v * LANES + k];
            s0[k] = p * group->inverse[k];
            s1[k] = p * s0[k];
            s2[k] = bounded ? s0[k] * group->future[v * LANES + k] : 0.0;
        }
        add_pair(s0, s1, s2, 1.0, shift, wide_shift, curved, bounded, sums + v * group->n_labels,
                 size);
    }
}

/* Add the sums over all pairs, each sequence rounded to multiples of the units: of probabilities,
 * of their own curvature, and of their influence on other positions. Each of the three has `size`
 * numbers, [number of previous labels, 0 or 1][label][previous label]. `inverse` holds the weights
 * of the positions, 0 in lanes that do not count. */
TREECRF_WIDEST static void sum_pairs(const lane_group *group, int is_weighted, double shift,
                                     double wide_shift, double *sums)
{
    ptrdiff_t n = group->n_labels, size = 2 * n * n;
    double *later = sums + n * n;
    int curved = group->is_curved, bounded = curved && group->bound_share > 0.0;
    sum_first(group, curved, bounded, shift, wide_shift, sums, size);
    if (is_weighted) {
        TREECRF_UP_TO_4(n, , sum_pairs_n, group, 1, curved, bounded, shift, wide_shift, later, size)
    } else if (bounded) {
        TREECRF_UP_TO_8(n, , sum_pairs_n, group, 0, 1, 1, shift, wide_shift, later, size)
    } else {
        TREECRF_UP_TO_4(n, , sum_pairs_n, group, 0, curved, 0, shift, wide_shift, later, size)
    }
}
#endif
