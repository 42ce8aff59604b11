/* Factored scores of the labels at the positions of a chain: sums of terms.
 *
 * Terms are integers in units of 2^-20, so that their sums are exact, and equal to the scores of a
 * table to the last bit.
 */
#ifndef TREECRF_FACTORED_H
#define TREECRF_FACTORED_H

#include "chains/scores.h"

#define SCORE_UNIT 0x1p-20

/* The sum of the terms of a forbidden label; the callers keep other sums away from it. */
#define FORBIDDEN INT32_MIN

/* Number of sums that are computed before their exponentials: 4 KB, which stay in a fast cache. */
#define SUMS_CHUNK 1024

typedef struct {
    const int32_t *state;       /* [label, position] */
    const int32_t *transitions; /* [number of previous labels, label, context] */
    const int32_t *rest;        /* [label, position, context]; NULL if all are 0 */
    const uint8_t *follows;     /* [label, previous label; none at the end]: allowed; NULL: all */
    const uint8_t *allowed;     /* [position, label]; NULL if all are allowed */
} factored_terms;

/* The arrays of a source, in the order of the struct. */
static inline factored_terms terms_of(const score_source *source)
{
    factored_terms terms;
    terms.state = (const int32_t *)source->arrays[0];
    terms.transitions = (const int32_t *)source->arrays[1];
    terms.rest = (const int32_t *)source->arrays[2];
    terms.follows = (const uint8_t *)source->arrays[3];
    terms.allowed = (const uint8_t *)source->arrays[4];
    return terms;
}

static inline ptrdiff_t depth_at(const chain_shape *shape, ptrdiff_t t)
{
    return t < shape->order ? t : shape->order;
}

/* The terms of label v that do not depend on the position, at position t of a chain. */
static inline const int32_t *transitions_at(const chain_shape *shape, const factored_terms *terms,
                                            ptrdiff_t v, ptrdiff_t t)
{
    return terms->transitions + (depth_at(shape, t) * shape->n_labels + v) * shape->width;
}

static inline int is_allowed(const chain_shape *shape, const factored_terms *terms, ptrdiff_t v,
                             ptrdiff_t start, ptrdiff_t t, ptrdiff_t c)
{
    ptrdiff_t k = shape->n_labels, before = t ? c % k : k;
    return (!terms->follows || terms->follows[v * (k + 1) + before])
           && (!terms->allowed || terms->allowed[(start + t) * k + v]);
}

/* Score of label v in context c at position t of the chain that starts at `start`. */
static double factored_score(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                             ptrdiff_t start, ptrdiff_t t, ptrdiff_t c)
{
    factored_terms terms = terms_of(source);
    ptrdiff_t row = v * source->n_positions + start + t;
    uint32_t sum;
    if (!is_allowed(shape, &terms, v, start, t, c))
        return -HUGE_VAL;
    sum = (uint32_t)terms.state[row] + (uint32_t)transitions_at(shape, &terms, v, t)[c];
    if (terms.rest)
        sum += (uint32_t)terms.rest[row * shape->width + c];
    return (int32_t)sum * SCORE_UNIT;
}

/* Sums of the terms in the n contexts of several positions. Single sums may leave the range. */
TREECRF_TEMPLATE void sum_terms_n(const int32_t *restrict state,
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
TREECRF_TEMPLATE void forbid(const chain_shape *shape, const factored_terms *terms, ptrdiff_t v,
                             ptrdiff_t start, ptrdiff_t t, ptrdiff_t count, ptrdiff_t n,
                             int32_t *restrict sums)
{
    ptrdiff_t j, h, k, n_labels = shape->n_labels;
    for (j = 0; terms->follows && j < count; j++) {
        const uint8_t *follows = terms->follows + v * (n_labels + 1);
        if (t + j == 0)
            sums[0] = follows[n_labels] ? sums[0] : FORBIDDEN;
        else
            for (h = j * n; h < (j + 1) * n; h += n_labels)
                for (k = 0; k < n_labels; k++)
                    sums[h + k] = follows[k] ? sums[h + k] : FORBIDDEN;
    }
    if (terms->allowed)
        for (j = 0; j < count; j++)
            if (!terms->allowed[(start + t + j) * n_labels + v])
                for (k = 0; k < n; k++)
                    sums[j * n + k] = FORBIDDEN;
}

/* Sums for the n contexts of the `count` positions from t on, all of which have as many. */
TREECRF_TEMPLATE void sum_terms(const chain_shape *shape, const score_source *source,
                                const factored_terms *terms, ptrdiff_t v, ptrdiff_t start,
                                ptrdiff_t t, ptrdiff_t count, ptrdiff_t n, int32_t *sums)
{
    ptrdiff_t row = v * source->n_positions + start + t;
    const int32_t *state = terms->state + row;
    const int32_t *transitions = transitions_at(shape, terms, v, t);
    if (terms->rest) {
        const int32_t *rest = terms->rest + row * shape->width;
        TREECRF_UP_TO_8(n, , sum_terms_n, state, transitions, rest, count, sums)
    } else {
        TREECRF_UP_TO_8(n, , sum_terms_n, state, transitions, NULL, count, sums)
    }
    if (terms->follows || terms->allowed)
        forbid(shape, terms, v, start, t, count, n, sums);
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
    ptrdiff_t size = SUMS_CHUNK / shape->width;
    if (t < shape->order || size < 1)
        size = 1;
    return size < count ? size : count;
}

/* Bytes of the sums that fit in a chunk. */
static inline ptrdiff_t chunk_bytes(const chain_shape *shape)
{
    ptrdiff_t size = shape->width > SUMS_CHUNK ? shape->width : SUMS_CHUNK;
    return size * (ptrdiff_t)sizeof(int32_t);
}

TREECRF_WIDEST static int load_terms(const chain_shape *shape, const score_source *source,
                                     ptrdiff_t start, ptrdiff_t t, ptrdiff_t count,
                                     const double *level, int32_t *sums, double *rows)
{
    factored_terms terms = terms_of(source);
    ptrdiff_t v, c, j, m, width = shape->width;
    int near = 1;
    for (v = 0; v < shape->n_labels; v++, rows += count * width)
        for (j = 0; j < count; j += m) {
            ptrdiff_t n = contexts_at(shape, t + j);
            m = chunk_length(shape, t + j, count - j);
            sum_terms(shape, source, &terms, v, start, t + j, m, n, sums);
            if (level)
                near &= factors_of_sums(sums, m * n, *level, rows + j * width);
            else
                scores_of_sums(sums, m * n, rows + j * width);
            for (c = n; c < width; c++)
                rows[j * width + c] = level ? 0.0 : -HUGE_VAL;
        }
    return near;
}

/* As `load_factors`, or without a level as `load_scores`, from terms. `work` has the size of a
 * chunk. */
static int load_factored(const chain_shape *shape, const score_source *source, ptrdiff_t start,
                         ptrdiff_t t, ptrdiff_t count, const double *level, void *work,
                         double *rows)
{
    return load_terms(shape, source, start, t, count, level, (int32_t *)work, rows);
}

/* Describe terms as a source of the scores of chains. */
static inline void set_terms(score_source *source, const chain_shape *shape, ptrdiff_t n_positions,
                             const factored_terms *terms)
{
    source->n_positions = n_positions;
    source->table = NULL;
    source->score = factored_score;
    source->load = load_factored;
    source->work_size = chunk_bytes(shape);
    source->arrays[0] = terms->state;
    source->arrays[1] = terms->transitions;
    source->arrays[2] = terms->rest;
    source->arrays[3] = terms->follows;
    source->arrays[4] = terms->allowed;
}
#endif
