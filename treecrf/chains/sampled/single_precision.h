/* Forward-backward in single precision over short chains of many labels, for samples of examples.
 *
 * All numbers of a chain of order 1 stay in the processor's cache: for every position, a row of
 * contexts for each label, padded to a multiple of SINGLE_LANES with zeros. Factors are relative to
 * the largest one of their position, and forward weights sum to 1. A factor has a relative error of
 * at most 2^-21, less than a change of the score by its unit 2^-20; sums add at most 2^-20, so that
 * the probability of a sequence of n positions has a relative error below about n * 2^-19. Chains
 * whose weights could leave the range of single precision are refused.
 *
 * Sums have SINGLE_LANES lanes, so that their order is the same on every machine.
 */
#ifndef TREECRF_SINGLE_PRECISION_H
#define TREECRF_SINGLE_PRECISION_H

#include "chains/factored/factored.h"
#include "chains/sampled/sampling.h"

#define SINGLE_LANES 8

/* Number of factors that are computed at a time: one or two registers. */
#define SINGLE_BLOCK 16

/* Compilers turn such loops into single instructions. */
#if defined(_MSC_VER)
#define SINGLE_LOOP(k, n) for (int k = 0; k < n; k++)
#else
#define SINGLE_LOOP(k, n) _Pragma("omp simd") for (int k = 0; k < n; k++)
#endif

/* Forward weights, sums of a position's weights and logarithms of factors are at least these. With
 * factors of at most 1, backward weights are then below 1e37. */
#define SINGLE_WEIGHT 1e-25f
#define SINGLE_TOTAL 1e-12f
#define SINGLE_LOG (-80)

typedef struct {
    ptrdiff_t n_labels;
    ptrdiff_t width;  /* contexts of a row, with the padding, a multiple of SINGLE_LANES */
    ptrdiff_t size;   /* numbers of a position, a multiple of SINGLE_BLOCK */
    ptrdiff_t start;  /* first position of the chain in the data */
    ptrdiff_t length; /* number of its positions */
    const int32_t *transitions; /* `factored_terms.transitions` of depths 0 and 1, in padded rows */
    double log_z;
    double path_score; /* sum of the scores of the true labels */
    float *pairs;      /* [position, label, context]: factors, then probabilities */
    float *weights;    /* [position, context]: forward weights */
    float *contexts;   /* [position, context]: probabilities */
    float *future;     /* [position, context]: influence on later positions, see `_curvature` */
    float *past;       /* [position, context]: influence on earlier positions */
    float *inverse;    /* [position]: inverse sum of the weights after it */
    float *rows;       /* three rows: backward weights, scaled weights after a position, and work */
} single_chain;

/* Sum of the lanes. */
static inline float single_sum(const float *x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* Sum of products. */
TREECRF_TEMPLATE float single_dot(const float *restrict a, const float *restrict b, ptrdiff_t width)
{
    float x[SINGLE_LANES] = {0.0f};
    for (ptrdiff_t i = 0; i < width; i += SINGLE_LANES)
        SINGLE_LOOP(k, SINGLE_LANES) x[k] += a[i + k] * b[i + k];
    return single_sum(x);
}

/* exp(units * 2^-20) for units between SINGLE_LOG * 2^20 and 0. The range is reduced with integers,
 * so that large arguments are as precise as small ones. */
static inline float single_exp(int32_t units)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float shifted = (float)units * (1.4426950408889634f * 0x1p-20f) + shift;
    float n = shifted - shift, r, p;
    uint32_t power, bits;
    r = (float)(units - (int32_t)n * 726817) * 0x1p-20f - n * (0.4980028252f * 0x1p-20f);
    p = 0.00138145f;
    p = p * r + 0.00836875f;
    p = p * r + 0.04166839f;
    p = p * r + 0.1666652f;
    p = p * r + 0.49999993f;
    p = 1.0f + (r + r * r * p);
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* Mark forbidden sums of label v at position t. */
static inline void single_forbid(const factored_terms *terms, const single_chain *chain,
                                 ptrdiff_t v, ptrdiff_t t, int32_t *restrict sums)
{
    ptrdiff_t c, k = chain->n_labels;
    const uint8_t *follows = terms->follows + v * (k + 1);
    if (terms->follows && t == 0 && !follows[k])
        sums[0] = FORBIDDEN;
    for (c = 0; terms->follows && t && c < k; c++)
        sums[c] = follows[c] ? sums[c] : FORBIDDEN;
    for (c = 0; terms->allowed && !terms->allowed[(chain->start + t) * k + v] && c < k; c++)
        sums[c] = FORBIDDEN;
}

/* Sums of the terms of label v at position t; FORBIDDEN in the padding. Raises the `highest` sum of
 * each lane. */
TREECRF_TEMPLATE void single_sums(const factored_terms *terms, ptrdiff_t n_positions,
                                  const single_chain *chain, ptrdiff_t v, ptrdiff_t t,
                                  int32_t *restrict sums, int32_t *restrict highest)
{
    ptrdiff_t c, k = chain->n_labels, width = chain->width;
    ptrdiff_t row = v * n_positions + chain->start + t;
    const int32_t *restrict transitions = chain->transitions + ((t > 0) * k + v) * width;
    uint32_t state = (uint32_t)terms->state[row];
    if (terms->rest) {
        const int32_t *restrict rest = terms->rest + row * k;
        /* Whole registers are faster, and only the last rows have nothing after them. */
        ptrdiff_t n = row * k + width <= k * k * n_positions ? width : k;
        for (c = 0; c < n; c++)
            sums[c] = (int32_t)(state + (uint32_t)transitions[c] + (uint32_t)rest[c]);
        /* The row of the next label is far away in memory. */
        for (c = 0; v + 1 < k && c < k; c += 16)
            TREECRF_PREFETCH(rest + n_positions * k + c);
    } else {
        for (c = 0; c < width; c++)
            sums[c] = (int32_t)(state + (uint32_t)transitions[c]);
    }
    if (terms->follows || terms->allowed)
        single_forbid(terms, chain, v, t, sums);
    for (c = t ? k : 1; c < width; c++)
        sums[c] = FORBIDDEN;
    for (c = 0; c < width; c += SINGLE_LANES)
        SINGLE_LOOP(j, SINGLE_LANES)
            highest[j] = sums[c + j] > highest[j] ? sums[c + j] : highest[j];
}

/* Turn n sums into factors relative to `level`; returns whether none is too small. */
TREECRF_TEMPLATE int single_factors(float *values, ptrdiff_t n, int32_t level)
{
    int32_t lowest = level + SINGLE_LOG * (1 << 20), any[SINGLE_BLOCK] = {0};
    for (ptrdiff_t i = 0; i < n; i += SINGLE_BLOCK) {
        int32_t sums[SINGLE_BLOCK];
        float factors[SINGLE_BLOCK];
        memcpy(sums, values + i, sizeof sums);
        SINGLE_LOOP(k, SINGLE_BLOCK)
        {
            float factor = single_exp((sums[k] > lowest ? sums[k] : lowest) - level);
            any[k] |= (sums[k] < lowest) & (sums[k] != FORBIDDEN);
            factors[k] = sums[k] >= lowest ? factor : 0.0f;
        }
        memcpy(values + i, factors, sizeof factors);
    }
    for (int k = 1; k < SINGLE_BLOCK; k++)
        any[0] |= any[k];
    return !any[0];
}

/* Load all factors, and the sum of the scores along the labels of the positions; `highest` has
 * SINGLE_LANES numbers for each position. */
TREECRF_WIDEST static int single_load(single_chain *chain, const score_source *source,
                                      const int32_t *labels, int32_t *highest)
{
    factored_terms terms = terms_of(source);
    ptrdiff_t v, t, i, n = chain->n_labels * chain->width;
    chain->log_z = chain->path_score = 0.0;
    labels += chain->start;
    for (t = 0; t < chain->length * SINGLE_LANES; t++)
        highest[t] = FORBIDDEN;
    for (v = 0; v < chain->n_labels; v++)
        for (t = 0; t < chain->length; t++)
            single_sums(&terms, source->n_positions, chain, v, t,
                        (int32_t *)(void *)(chain->pairs + t * chain->size + v * chain->width),
                        highest + t * SINGLE_LANES);
    for (t = 0; t < chain->length; t++) {
        int32_t level = FORBIDDEN, *sums = (int32_t *)(void *)(chain->pairs + t * chain->size);
        int32_t own = sums[labels[t] * chain->width + (t ? labels[t - 1] : 0)];
        chain->path_score += own == FORBIDDEN ? -HUGE_VAL : own * SCORE_UNIT;
        for (i = 0; i < SINGLE_LANES; i++)
            level = highest[t * SINGLE_LANES + i] > level ? highest[t * SINGLE_LANES + i] : level;
        for (i = n; i < chain->size; i++)
            sums[i] = FORBIDDEN;
        if (level < INT32_MIN / 2 || !single_factors(chain->pairs + t * chain->size, n, level))
            return 0;
        chain->log_z += level * SCORE_UNIT;
    }
    return 1;
}

/* Forward pass over the factors; returns whether all weights are in range. */
TREECRF_WIDEST static int single_forward(single_chain *chain)
{
    ptrdiff_t v, c, t, k = chain->n_labels, width = chain->width;
    float *now = chain->weights;
    for (c = 0; c < width; c++)
        now[c] = c == 0;
    for (t = 0; t < chain->length; t++, now += width) {
        const float *pairs = chain->pairs + t * chain->size;
        float *after = now + width, lanes[SINGLE_LANES] = {0.0f}, total, inverse;
        uint32_t lost = 0;
        for (v = 0; v < k; v++)
            after[v] = single_dot(now, pairs + v * width, width);
        for (v = k; v < width; v++)
            after[v] = 0.0f;
        for (c = 0; c < width; c += SINGLE_LANES)
            SINGLE_LOOP(j, SINGLE_LANES) lanes[j] += after[c + j];
        total = single_sum(lanes);
        if (!(total >= SINGLE_TOTAL))
            return 0;
        inverse = 1.0f / total;
        for (c = 0; c < width; c++) {
            after[c] *= inverse;
            lost |= (uint32_t)((after[c] > 0.0f) & (after[c] < SINGLE_WEIGHT));
        }
        if (lost)
            return 0;
        chain->inverse[t] = inverse;
        chain->log_z += log_of((double)total);
    }
    return 1;
}

/* Begin the backward pass: the backward weights after the last position are 1. */
static inline void single_finish(single_chain *chain)
{
    ptrdiff_t c, width = chain->width;
    const float *weights = chain->weights + chain->length * width;
    for (c = 0; c < width; c++) {
        chain->rows[c] = weights[c] > 0.0f;
        chain->contexts[chain->length * width + c] = weights[c];
        chain->future[chain->length * width + c] = 0.0f;
    }
}

/* Backward pass over position t, whose factors become probabilities. */
TREECRF_WIDEST static void single_backward(single_chain *chain, ptrdiff_t t)
{
    ptrdiff_t v, c, k = chain->n_labels, width = chain->width;
    const float *restrict weights = chain->weights + t * width;
    float *restrict now = chain->rows + 2 * width, *restrict after = chain->rows + width;
    float *restrict rows = chain->pairs + t * chain->size;
    for (c = 0; c < width; c++) {
        after[c] = chain->rows[c] * chain->inverse[t];
        now[c] = 0.0f;
    }
    for (v = 0; v + 2 <= k; v += 2, rows += 2 * width)
        for (c = 0; c < width; c++) {
            float x = rows[c] * after[v], y = rows[width + c] * after[v + 1];
            now[c] = (now[c] + x) + y;
            rows[c] = weights[c] * x;
            rows[width + c] = weights[c] * y;
        }
    for (; v < k; v++)
        for (c = 0; c < width; c++) {
            float x = rows[c] * after[v];
            now[c] += x;
            rows[c] = weights[c] * x;
        }
    for (c = 0; c < width; c++) {
        /* Weights of contexts that cannot be reached must not leave the range. */
        chain->rows[c] = weights[c] > 0.0f ? now[c] : 0.0f;
        chain->contexts[t * width + c] = weights[c] * chain->rows[c];
    }
}

static inline float single_inverse(float p) { return p > 1e-37f ? 1.0f / p : 0.0f; }

static inline float single_own(float p) { return 2.0f * (1.0f - (p < 1.0f ? p : 1.0f)); }

static inline float single_least(float a, float b) { return a < b ? a : b; }

/* Influence of the contexts at position t on the pairs from t on, as in `_curvature`. */
TREECRF_WIDEST static void single_future(single_chain *chain, ptrdiff_t t)
{
    ptrdiff_t v, c, k = chain->n_labels, width = chain->width;
    const float *restrict contexts = chain->contexts + t * width;
    const float *restrict row = chain->pairs + t * chain->size;
    const float *restrict next = contexts + width;
    const float *restrict after = chain->future + (t + 1) * width;
    float *restrict here = chain->future + t * width, *restrict inverse = chain->rows + width;
    for (c = 0; c < width; c++) {
        here[c] = 0.0f;
        inverse[c] = single_inverse(contexts[c]);
    }
    for (v = 0; v + 2 <= k; v += 2, row += 2 * width)
        for (c = 0; c < width; c++)
            here[c] = (here[c] + fabsf(row[c] * inverse[c] - next[v]) * after[v])
                      + fabsf(row[width + c] * inverse[c] - next[v + 1]) * after[v + 1];
    for (; v < k; v++)
        for (c = 0; c < width; c++)
            here[c] += fabsf(row[c] * inverse[c] - next[v]) * after[v];
    for (c = 0; c < width; c++) {
        float own = single_own(contexts[c]);
        here[c] = single_least(own + here[c], own * (float)(chain->length - t));
    }
}

/* The same for the pairs before t + 1. */
TREECRF_WIDEST static void single_past(single_chain *chain, ptrdiff_t t)
{
    ptrdiff_t v, c, k = chain->n_labels, width = chain->width;
    const float *restrict contexts = chain->contexts + t * width;
    const float *restrict row = chain->pairs + t * chain->size;
    const float *restrict here = chain->past + t * width;
    float *restrict after = chain->past + (t + 1) * width;
    if (t == 0)
        for (c = 0; c < width; c++)
            chain->past[c] = 0.0f;
    for (v = 0; v < k; v++, row += width) {
        float lanes[SINGLE_LANES] = {0.0f}, p = contexts[width + v], own = single_own(p);
        float inverse = single_inverse(p);
        for (c = 0; c < width; c += SINGLE_LANES)
            SINGLE_LOOP(j, SINGLE_LANES)
                lanes[j] += fabsf(row[c + j] * inverse - contexts[c + j]) * here[c + j];
        after[v] = single_least(own + single_sum(lanes), own * (float)(t + 1));
    }
    for (v = k; v < width; v++)
        after[v] = 0.0f;
}

/* Curvature of the pair of label v and context c at position t, see `_curvature`. */
static inline double single_curvature(const single_chain *chain, ptrdiff_t t, ptrdiff_t v,
                                      ptrdiff_t c, double p, double bound_share)
{
    double own = 2.0 * (1.0 - (p < 1.0 ? p : 1.0));
    double limit = bound_share * (own + chain->future[(t + 1) * chain->width + v] +
                                  chain->past[t * chain->width + c]);
    return p * (own > limit ? own : limit);
}

/* Bit b of marks[j] shows whether the pair b * SINGLE_LANES + j might be kept. */
TREECRF_TEMPLATE void single_marks(const float *restrict row, ptrdiff_t width,
                                   const uint32_t *restrict streams, uint32_t v, float scale,
                                   float background, uint32_t *restrict marks, int with_background)
{
    uint32_t bit = 1;
    for (ptrdiff_t i = 0; i < width; i += SINGLE_LANES, bit <<= 1)
        SINGLE_LOOP(j, SINGLE_LANES)
        {
            float chances = fabsf(row[i + j]) * scale;
            if (with_background)
                chances = sqrtf(chances * chances + background);
            marks[j] |= -(uint32_t)((float)random_of(streams[i + j], v) <= chances) & bit;
        }
}

/* Numbers of the pairs of label v, in ascending order, that might be kept: the test is rounded.
 * `scale` includes the weight of the position; `background` is as in `chances_of`, but scaled. */
TREECRF_WIDEST static ptrdiff_t single_find(const float *row, ptrdiff_t width,
                                            const uint32_t *streams, uint32_t v, float scale,
                                            float background, int32_t *restrict found)
{
    uint32_t marks[SINGLE_LANES] = {0}, any = 0;
    ptrdiff_t i, n_found = 0;
    if (background > 0.0f)
        single_marks(row, width, streams, v, scale, background, marks, 1);
    else
        single_marks(row, width, streams, v, scale, background, marks, 0);
    for (int j = 0; j < SINGLE_LANES; j++)
        any |= marks[j];
    for (i = 0; any; i += SINGLE_LANES, any >>= 1)
        for (int j = 0; (any & 1) && j < SINGLE_LANES; j++) {
            found[n_found] = (int32_t)(i + j);
            n_found += marks[j] >> (i / SINGLE_LANES) & 1;
        }
    return n_found;
}
#endif
