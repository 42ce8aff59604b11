/* Vectors of the values of all labels, in units of 2^-20, and their sums at many positions. */
#ifndef TREECRF_VECTORS_H
#define TREECRF_VECTORS_H

#include "trees/bitsets.h"

/* Sizes of vectors are multiples of this number of values, so that loops have no rest. */
#define VECTOR_LANES 8
/* Elements of a word that are listed at a time. */
#define LISTED_AT_ONCE 4

/* List the elements of a set with few elements a word; returns their number. Up to LISTED_AT_ONCE
 * entries after the last are garbage. Branches that depend on the number of elements of a word would
 * be mispredicted, so that some are listed of each word. */
static inline ptrdiff_t list_sparse(const uint64_t *words, ptrdiff_t n_words, int32_t *out)
{
    const uint64_t last = (uint64_t)1 << 63;
    int32_t *end = out;
    for (ptrdiff_t w = 0; w < n_words; w++) {
        uint64_t word = words[w];
        int n = count_bits(word), listed = 0;
        do {
            for (int k = 0; k < LISTED_AT_ONCE; k++, word &= word - 1)
                end[listed + k] = (int32_t)(64 * w + lowest_bit(word | last));
            listed += LISTED_AT_ONCE;
        } while (listed < n);
        end += n;
    }
    return end - out;
}

/* Add a vector to the rows of the elements of a set; `members` has room to list them. */
TREECRF_WIDEST static void add_to_rows(const uint64_t *words, ptrdiff_t n_words,
                                       const int32_t *restrict vector, ptrdiff_t size,
                                       int32_t *restrict members, int32_t *restrict rows)
{
    ptrdiff_t n = list_sparse(words, n_words, members);
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t *restrict row = rows + members[i] * size;
        for (ptrdiff_t k = 0; k < size; k += VECTOR_LANES)
            for (ptrdiff_t lane = 0; lane < VECTOR_LANES; lane++)
                row[k + lane] += vector[k + lane];
    }
}

#endif
