/* Additions of a leaf's value to the scores of its members. */
#ifndef TREECRF_LEAF_UPDATES_H
#define TREECRF_LEAF_UPDATES_H

#include <stddef.h>
#include <stdint.h>

#include "utils/bitsets.h"
#include "utils/compiler.h"

/* Words with fewer members than this are updated member by member. */
enum { FEW_MEMBERS = 12 };

/* Add a value to the sums of the members of a set. */
TREECRF_WIDEST static void add_to_members(int32_t *restrict sums, const uint64_t *restrict set,
                                          ptrdiff_t n_words, int32_t value)
{
    for (ptrdiff_t w = 0; w < n_words; w++, sums += 64) {
        uint64_t word = set[w];
        if (count_bits(word) < FEW_MEMBERS) {
            for (; word; word &= word - 1)
                sums[lowest_bit(word)] += value;
        } else {
            for (int half = 0; half < 64; half += 32) {
                uint32_t bits = (uint32_t)(word >> half);
                for (int k = 0; k < 32; k++)
                    sums[half + k] += value & -(int32_t)(bits >> k & 1);
            }
        }
    }
}

/* Add a row to rows of a table, of which `positions` lists the numbers. */
TREECRF_WIDEST static void add_to_rows(int32_t *restrict table, ptrdiff_t width,
                                       const int32_t *restrict positions, ptrdiff_t n,
                                       const int32_t *restrict added)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t *restrict row = table + width * positions[i];
        for (ptrdiff_t c = 0; c < width; c++)
            row[c] += added[c];
    }
}

/* The same where only some entries, listed in `where`, are not 0. */
static inline void add_to_entries(int32_t *restrict table, ptrdiff_t width,
                                  const int32_t *restrict positions, ptrdiff_t n,
                                  const int32_t *restrict added, const int32_t *restrict where,
                                  ptrdiff_t n_where)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t *row = table + width * positions[i];
        for (ptrdiff_t k = 0; k < n_where; k++)
            row[where[k]] += added[where[k]];
    }
}

#endif
