/* Scores of the labels at the positions of a chain: a table, or a sum of parts.
 *
 * Parts are integers in units of 2^-20, so that their sums are exact and both sources give the same
 * scores to the last bit.
 */
#ifndef TREECRF_PARTS_H
#define TREECRF_PARTS_H

#include "chains/recursions.h"

#define SCORE_UNIT 0x1p-20

/* The sum of the parts of a forbidden label; the callers keep other sums away from it. */
#define FORBIDDEN INT32_MIN

/* Number of sums that are computed before their exponentials. */
#define PARTS_CHUNK 1024

typedef struct {
    ptrdiff_t n_positions;
    const double *table;        /* [label, position, context]; NULL if there are parts */
    const int32_t *state;       /* [label, position] */
    const int32_t *transitions; /* [number of previous labels, label, context] */
    const int32_t *rest;        /* [label, position, context]; NULL if all are 0 */
    const uint8_t *follows;     /* [label, previous label; none at the end]: allowed; NULL: all */
    const uint8_t *allowed;     /* [position, label]; NULL if all are allowed */
} score_source;

static inline ptrdiff_t depth_at(const chain_shape *shape, ptrdiff_t t)
{
    return t < shape->order ? t : shape->order;
}

/* The parts of label v that do not depend on the position, at position t of a chain. */
static inline const int32_t *transitions_at(const chain_shape *shape, const score_source *source,
                                            ptrdiff_t v, ptrdiff_t t)
{
    return source->transitions + (depth_at(shape, t) * shape->n_labels + v) * shape->width;
}

static inline int is_allowed(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                             ptrdiff_t start, ptrdiff_t t, ptrdiff_t c)
{
    ptrdiff_t k = shape->n_labels, before = t ? c % k : k;
    return (!source->follows || source->follows[v * (k + 1) + before])
           && (!source->allowed || source->allowed[(start + t) * k + v]);
}

/* Score of label v in context c at position t of the chain that starts at `start`. */
static inline double score_of(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                              ptrdiff_t start, ptrdiff_t t, ptrdiff_t c)
{
    ptrdiff_t row = v * source->n_positions + start + t;
    uint32_t sum;
    if (source->table)
        return source->table[row * shape->width + c];
    if (!is_allowed(shape, source, v, start, t, c))
        return -HUGE_VAL;
    sum = (uint32_t)source->state[row] + (uint32_t)transitions_at(shape, source, v, t)[c];
    if (source->rest)
        sum += (uint32_t)source->rest[row * shape->width + c];
    return (int32_t)sum * SCORE_UNIT;
}

/* Sums of the parts in the n contexts of several positions. Single sums may leave the range. */
TREECRF_TEMPLATE void sum_parts_n(const int32_t *restrict state,
                                  const int32_t *restrict transitions,
                                  const int32_t *restrict rest, ptrdiff_t count,
                                  int32_t *restrict sums, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < count; j++)
        for (ptrdiff_t c = 0; c < n; c++) {
            uint32_t sum = (uint32_t)state[j] + (uint32_t)transitions[c];
            if (rest)
                sum += (uint32_t)rest[j * n + c];
            sums[j * n + c] = (int32_t)sum;
        }
}

/* Mark the sums of forbidden labels. */
TREECRF_TEMPLATE void forbid(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                             ptrdiff_t start, ptrdiff_t t, ptrdiff_t count, ptrdiff_t n,
                             int32_t *restrict sums)
{
    ptrdiff_t j, h, k, n_labels = shape->n_labels;
    for (j = 0; source->follows && j < count; j++) {
        const uint8_t *follows = source->follows + v * (n_labels + 1);
        if (t + j == 0)
            sums[0] = follows[n_labels] ? sums[0] : FORBIDDEN;
        else
            for (h = j * n; h < (j + 1) * n; h += n_labels)
                for (k = 0; k < n_labels; k++)
                    sums[h + k] = follows[k] ? sums[h + k] : FORBIDDEN;
    }
    if (source->allowed)
        for (j = 0; j < count; j++)
            if (!source->allowed[(start + t + j) * n_labels + v])
                for (k = 0; k < n; k++)
                    sums[j * n + k] = FORBIDDEN;
}

/* Sums for the n contexts of the `count` positions from t on, all of which have as many. */
TREECRF_TEMPLATE void sum_parts(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                                ptrdiff_t start, ptrdiff_t t, ptrdiff_t count, ptrdiff_t n,
                                int32_t *sums)
{
    ptrdiff_t row = v * source->n_positions + start + t;
    const int32_t *state = source->state + row;
    const int32_t *transitions = transitions_at(shape, source, v, t);
    if (source->rest) {
        const int32_t *rest = source->rest + row * shape->width;
        TREECRF_UP_TO_8(n, , sum_parts_n, state, transitions, rest, count, sums)
    } else {
        TREECRF_UP_TO_8(n, , sum_parts_n, state, transitions, NULL, count, sums)
    }
    if (source->follows || source->allowed)
        forbid(shape, source, v, start, t, count, n, sums);
}

/* target[i] = the score of sums[i]. */
TREECRF_TEMPLATE void scores_of_sums(const int32_t *restrict sums, ptrdiff_t n,
                                     double *restrict target)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] = sums[i] == FORBIDDEN ? -HUGE_VAL : sums[i] * SCORE_UNIT;
}

/* target[i] = exp(score - level), as by `factors_of`. */
TREECRF_TEMPLATE int factors_of_sums(const int32_t *restrict sums, ptrdiff_t n, double level,
                                     double *restrict target)
{
    uint64_t beyond = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double x = sums[i] * SCORE_UNIT - level;
        int forbidden = sums[i] == FORBIDDEN;
        int inside = (x >= LOWEST_LOG) & (x <= HIGHEST_LOG) & !forbidden;
        beyond |= (uint64_t)!(inside | forbidden);
        target[i] = inside ? exp_in_range(x) : 0.0;
    }
    return beyond == 0;
}

/* Number of positions from t on, at most `count`, that have as many contexts and whose sums are
 * computed at a time. */
static inline ptrdiff_t chunk_length(const chain_shape *shape, ptrdiff_t t, ptrdiff_t count)
{
    ptrdiff_t size = PARTS_CHUNK / shape->width;
    if (t < shape->order || size < 1)
        size = 1;
    return size < count ? size : count;
}

/* Number of sums that fit in a chunk. */
static inline ptrdiff_t chunk_size(const chain_shape *shape)
{
    return shape->width > PARTS_CHUNK ? shape->width : PARTS_CHUNK;
}

/* As `load_factors`, or without a level as `load_scores`, from parts. `sums` has the size of a
 * chunk. */
TREECRF_WIDEST static int load_parts(const chain_shape *shape, const score_source *source,
                                     ptrdiff_t start, ptrdiff_t t, ptrdiff_t count,
                                     const double *level, int32_t *sums, double *rows)
{
    ptrdiff_t v, c, j, m, width = shape->width;
    int near = 1;
    for (v = 0; v < shape->n_labels; v++, rows += count * width)
        for (j = 0; j < count; j += m) {
            ptrdiff_t n = contexts_at(shape, t + j);
            m = chunk_length(shape, t + j, count - j);
            sum_parts(shape, source, v, start, t + j, m, n, sums);
            if (level)
                near &= factors_of_sums(sums, m * n, *level, rows + j * width);
            else
                scores_of_sums(sums, m * n, rows + j * width);
            for (c = n; c < width; c++)
                rows[j * width + c] = level ? 0.0 : -HUGE_VAL;
        }
    return near;
}

/* Load the factors, or without a level the scores, of the `count` positions from t on. */
static inline int load_rows(const chain_shape *shape, const score_source *source, ptrdiff_t start,
                            ptrdiff_t t, ptrdiff_t count, const double *level, int32_t *sums,
                            double *rows)
{
    const double *scores;
    ptrdiff_t stride = source->n_positions * shape->width;
    if (!source->table)
        return load_parts(shape, source, start, t, count, level, sums, rows);
    scores = source->table + (start + t) * shape->width;
    if (level)
        return load_factors(shape, scores, stride, t, count, *level, rows);
    load_scores(shape, scores, stride, t, count, rows);
    return 1;
}
#endif
