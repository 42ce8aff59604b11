/* The contexts that a beam keeps, and a heap of them. */
#ifndef TREECRF_BEAM_STATES_H
#define TREECRF_BEAM_STATES_H

#include "chains/heap.h"

/* A context that a beam keeps. */
typedef struct {
    int64_t context, base;
    double weight;         /* logarithm of its forward weight */
    double probability;
    double future, past;   /* influence on later and on earlier positions */
    double arrivals;       /* probability of the (context, label) pairs that lead here */
    ptrdiff_t first, last; /* the states of the previous position that lead here */
} beam_state;

/* The worst state, which the next one replaces, is at the top. */
static inline int is_worse_state(const beam_state *a, const beam_state *b)
{
    return a->weight < b->weight || (a->weight == b->weight && a->context > b->context);
}

TREECRF_HEAP(sift_down_state, make_state_heap, beam_state, is_worse_state)
#endif
