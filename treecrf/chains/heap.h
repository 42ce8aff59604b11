/* Binary heaps of the items that decoding ranks: the first item stands at the top. */
#ifndef TREECRF_HEAP_H
#define TREECRF_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* Defines two functions of a heap of n items, where `before(a, b)` is true if a belongs above b:
 * `sift_down(heap, n, i)` restores a heap in which only item i may stand too high, and
 * `make_heap(heap, n)` makes one of any items. */
#define TREECRF_HEAP(sift_down, make_heap, item, before)                                           \
    static inline void sift_down(item *heap, ptrdiff_t n, ptrdiff_t i)                             \
    {                                                                                              \
        item moved = heap[i];                                                                      \
        for (ptrdiff_t child = 2 * i + 1; child < n; child = 2 * i + 1) {                          \
            if (child + 1 < n && before(&heap[child + 1], &heap[child]))                           \
                child++;                                                                           \
            if (!before(&heap[child], &moved))                                                     \
                break;                                                                             \
            heap[i] = heap[child];                                                                 \
            i = child;                                                                             \
        }                                                                                          \
        heap[i] = moved;                                                                           \
    }                                                                                              \
    static inline void make_heap(item *heap, ptrdiff_t n)                                          \
    {                                                                                              \
        for (ptrdiff_t i = n / 2 - 1; i >= 0; i--)                                                 \
            sift_down(heap, n, i);                                                                 \
    }

/* The best label sequence that a list still offers, and the step from the list's context. */
typedef struct {
    double score;     /* score of the label sequence with the step */
    double added;     /* score of the step */
    ptrdiff_t step;   /* number of the step: of equal scores, the lowest comes first */
    ptrdiff_t source; /* number of the list */
    ptrdiff_t rank;   /* rank of the label sequence in the list */
} candidate;

/* The best candidate is at the top. */
static inline int is_better_candidate(const candidate *a, const candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->step < b->step);
}

TREECRF_HEAP(sift_down_candidate, make_candidate_heap, candidate, is_better_candidate)
#endif
