/* The contexts that a beam keeps, and a heap of them. */
#ifndef TREECRF_BEAM_STATES_H
#define TREECRF_BEAM_STATES_H

#include "chains/heap.h"

/* A context that a beam keeps. */
typedef struct {
    int64_t context;
    int64_t base;       /* its latest labels but the oldest, which decide where it leads */
    double weight;      /* logarithm of its forward weight */
    double probability; /* P(context) in the beam */
    double future;      /* influence on its own position and later ones, see `_curvature` */
    double past;        /* influence on earlier positions */
    double arrivals;    /* probability of the (context, label) pairs that lead to it */
    ptrdiff_t first;    /* first state of the previous position that leads to it */
    ptrdiff_t last;     /* and the one after the last */
} beam_state;

/* The worst state, which the next one replaces, is at the top. */
static inline int is_worse_state(const beam_state *a, const beam_state *b)
{
    return a->weight < b->weight || (a->weight == b->weight && a->context > b->context);
}

TREECRF_HEAP(sift_down_state, make_state_heap, beam_state, is_worse_state)
#endif
