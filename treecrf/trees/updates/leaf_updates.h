/* Additions of leaf values to the terms of factored scores. */
#ifndef TREECRF_LEAF_UPDATES_H
#define TREECRF_LEAF_UPDATES_H

#include <stddef.h>
#include <stdint.h>

#include "trees/bitsets.h"
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

/* List the positions of the rows that two sets have in common, and fetch an address near each: entry
 * `column` of its row in a table. Writes four at a time, like `list_bits`, up to 64 too many. */
TREECRF_WIDEST static ptrdiff_t list_positions(const uint64_t *restrict a,
                                               const uint64_t *restrict b, ptrdiff_t n_words,
                                               const int32_t *restrict position_of,
                                               const int32_t *table, ptrdiff_t width,
                                               ptrdiff_t column, int32_t *restrict out)
{
    const uint64_t last = (uint64_t)1 << 63;
    ptrdiff_t n_listed = 0;
    for (ptrdiff_t w = 0; w < n_words; w++, position_of += 64) {
        uint64_t word = a[w] & b[w];
        int n = word ? count_bits(word) : 0;
        for (int listed = 0; listed < n; listed += 4)
            for (int k = 0; k < 4; k++, word &= word - 1) {
                int32_t position = position_of[lowest_bit(word | last)];
                out[n_listed + listed + k] = position;
                TREECRF_PREFETCH(table + width * position + column);
            }
        n_listed += n;
    }
    return n_listed;
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
    if (n_where == 1) {
        for (ptrdiff_t i = 0; i < n; i++)
            table[width * positions[i] + where[0]] += added[where[0]];
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t *row = table + width * positions[i];
        for (ptrdiff_t k = 0; k < n_where; k++)
            row[where[k]] += added[where[k]];
    }
}

#endif
