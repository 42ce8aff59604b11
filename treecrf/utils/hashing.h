/* Hashing of 64-bit integers, the same as in utils/hashing.py. */
#ifndef TREECRF_HASHING_H
#define TREECRF_HASHING_H

#include <stddef.h>
#include <stdint.h>

#include "utils/compiler.h"

/* The step of SplitMix64 (Steele, Lea and Flood, 2014). */
static inline uint64_t scrambled(uint64_t state)
{
    state += 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return state ^ (state >> 31);
}

/* The hash of a sequence of integers, given the hash of all but the last. */
static inline uint64_t mixed_with(uint64_t hash, uint64_t part)
{
    return scrambled(hash ^ part);
}

/* A random number below n for the first of n items, below n - 1 for the second, and so on. */
TREECRF_WIDEST static void draw_ranks(uint64_t seed, const int32_t *restrict items, ptrdiff_t n,
                                      int32_t *restrict ranks)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        int64_t bits = (int64_t)(mixed_with(seed, (uint64_t)items[i]) >> 11);
        ranks[i] = (int32_t)((double)bits * 0x1p-53 * (double)(n - i));
    }
}
#endif
