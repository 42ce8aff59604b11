/* Scores of the labels at the positions of a chain: a table of all contexts, or another source that
 * computes them where they are needed.
 */
#ifndef TREECRF_SCORES_H
#define TREECRF_SCORES_H

#include "chains/recursions.h"

/* Number of arrays that a source without a table may read. */
#define MAX_SOURCE_ARRAYS 5

typedef struct score_source score_source;

/* The score of label v in context c at position t of the chain that starts at `start`. */
typedef double score_function(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                              ptrdiff_t start, ptrdiff_t t, ptrdiff_t c);

/* Loads scores as `load_rows` does, with `work_size` bytes of scratch memory. */
typedef int load_function(const chain_shape *shape, const score_source *source, ptrdiff_t start,
                          ptrdiff_t t, ptrdiff_t count, const double *level, void *work,
                          double *rows);

struct score_source {
    ptrdiff_t n_positions; /* number of positions of all sequences */
    const double *table;   /* [label, position, context]; NULL for another source */
    /* The rest is of another source. */
    score_function *score; /* returns one score */
    load_function *load;   /* loads the scores of several positions */
    ptrdiff_t work_size;   /* bytes of scratch memory that `load` needs */
    const void *arrays[MAX_SOURCE_ARRAYS]; /* what these functions read */
};

/* Score of label v in context c at position t of the chain that starts at `start`. */
static inline double score_of(const chain_shape *shape, const score_source *source, ptrdiff_t v,
                              ptrdiff_t start, ptrdiff_t t, ptrdiff_t c)
{
    if (source->table)
        return source->table[(v * source->n_positions + start + t) * shape->width + c];
    return source->score(shape, source, v, start, t, c);
}

/* Load the factors exp(score - level), or without a level the scores, of the `count` positions from
 * t on. Returns 0 if scores are too far from the level. */
static inline int load_rows(const chain_shape *shape, const score_source *source, ptrdiff_t start,
                            ptrdiff_t t, ptrdiff_t count, const double *level, void *work,
                            double *rows)
{
    const double *scores;
    ptrdiff_t stride = source->n_positions * shape->width;
    if (!source->table)
        return source->load(shape, source, start, t, count, level, work, rows);
    scores = source->table + (start + t) * shape->width;
    if (level)
        return load_factors(shape, scores, stride, t, count, *level, rows);
    load_scores(shape, scores, stride, t, count, rows);
    return 1;
}
#endif
