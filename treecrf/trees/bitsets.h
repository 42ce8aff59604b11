/* Sets as bits of 64-bit words. */
#ifndef TREECRF_BITSETS_H
#define TREECRF_BITSETS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "utils/compiler.h"

#if defined(TREECRF_AVX512)
#include <immintrin.h>

static inline int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}
#endif

#if defined(_MSC_VER)
#include <intrin.h>
static inline int lowest_bit(uint64_t word)
{
    unsigned long index;
    _BitScanForward64(&index, word);
    return (int)index;
}
#else
static inline int lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
#endif

static inline int count_bits(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return (int)(((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

#if defined(TREECRF_AVX512)
/* `bytes_equal` for 64 bytes at a time. */
TREECRF_AVX512 static void bytes_equal_wide(const uint8_t *values, ptrdiff_t n_words, uint8_t mask,
                                            uint8_t low, uint64_t *out)
{
    const __m512i masks = _mm512_set1_epi8((char)mask), lows = _mm512_set1_epi8((char)low);
    for (ptrdiff_t w = 0; w < n_words; w++, values += 64) {
        __m512i masked = _mm512_and_si512(_mm512_loadu_si512(values), masks);
        out[w] = _mm512_cmpeq_epi8_mask(masked, lows);
    }
}
#endif

/* Set bit i of `out` if (values[i] & mask) == low, for n_words * 64 bytes. */
static inline void bytes_equal(const uint8_t *values, ptrdiff_t n_words, uint8_t mask, uint8_t low,
                               uint64_t *out)
{
#if defined(TREECRF_AVX512)
    if (has_avx512()) {
        bytes_equal_wide(values, n_words, mask, low, out);
        return;
    }
#endif
    for (ptrdiff_t w = 0; w < n_words; w++, values += 64) {
        uint64_t word = 0;
#if defined(__SSE2__)
        for (int k = 0; k < 4; k++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(values + 16 * k));
            x = _mm_cmpeq_epi8(_mm_and_si128(x, _mm_set1_epi8((char)mask)),
                               _mm_set1_epi8((char)low));
            word |= (uint64_t)(uint32_t)_mm_movemask_epi8(x) << (16 * k);
        }
#else
        for (int k = 0; k < 64; k++)
            word |= (uint64_t)((values[k] & mask) == low) << k;
#endif
        out[w] = word;
    }
}

/* Set bit i of `out` if values[i] > low. */
static inline void bytes_above(const uint8_t *values, ptrdiff_t n_words, uint8_t low,
                               uint64_t *out)
{
    for (ptrdiff_t w = 0; w < n_words; w++, values += 64) {
        uint64_t word = 0;
#if defined(__SSE2__)
        for (int k = 0; k < 4; k++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(values + 16 * k));
            x = _mm_cmpeq_epi8(_mm_subs_epu8(x, _mm_set1_epi8((char)low)), _mm_setzero_si128());
            word |= (uint64_t)(uint32_t)(0xFFFF ^ _mm_movemask_epi8(x)) << (16 * k);
        }
#else
        for (int k = 0; k < 64; k++)
            word |= (uint64_t)(values[k] > low) << k;
#endif
        out[w] = word;
    }
}

/* Move the common elements of two sets: remove them from `words`, and remove all others from `taken`.
 * Returns their number. */
TREECRF_WIDEST static ptrdiff_t take_bits(uint64_t *restrict words, uint64_t *restrict taken,
                                          ptrdiff_t n)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        taken[i] &= words[i];
        words[i] ^= taken[i];
        count += count_bits(taken[i]);
    }
    return count;
}

/* Number of elements that two sets have in common. */
TREECRF_WIDEST static ptrdiff_t count_common(const uint64_t *a, const uint64_t *b, ptrdiff_t n)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        count += count_bits(a[i] & b[i]);
    return count;
}

/* List the bits of a word. Writes four at a time, because a loop that ends with the last bit is
 * mispredicted once per word. */
static inline void list_word(uint64_t word, int n, int32_t first, int32_t *out)
{
    const uint64_t last = (uint64_t)1 << 63;
    for (int listed = 0; listed < n; listed += 4)
        for (int k = 0; k < 4; k++, word &= word - 1)
            out[listed + k] = (int32_t)(first + lowest_bit(word | last));
}

TREECRF_WIDEST static void list_one_by_one(const uint64_t *words, ptrdiff_t n_words, int32_t *out)
{
    for (ptrdiff_t i = 0; i < n_words; i++) {
        int n = count_bits(words[i]);
        list_word(words[i], n, (int32_t)(64 * i), out);
        out += n;
    }
}

#if defined(TREECRF_AVX512)
/* The same with an instruction that moves the numbers of the bits together, for words with many. */
TREECRF_AVX512 static void list_sixteen(const uint64_t *words, ptrdiff_t n_words, int32_t *out)
{
    const __m512i first = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (ptrdiff_t i = 0; i < n_words; i++) {
        uint64_t word = words[i];
        int n = __builtin_popcountll(word);
        if (n <= 12) {
            list_word(word, n, (int32_t)(64 * i), out);
            out += n;
            continue;
        }
        for (int k = 0; k < 64; k += 16, word >>= 16) {
            __m512i numbers = _mm512_add_epi32(first, _mm512_set1_epi32((int32_t)(64 * i + k)));
            _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)word, numbers));
            out += __builtin_popcount((uint32_t)(word & 0xFFFF));
        }
    }
}
#endif

/* List the elements of a set, ascending; up to 64 entries after the last one are garbage. */
static inline void list_bits(const uint64_t *words, ptrdiff_t n_words, int32_t *out)
{
#if defined(TREECRF_AVX512)
    if (has_avx512()) {
        list_sixteen(words, n_words, out);
        return;
    }
#endif
    list_one_by_one(words, n_words, out);
}

#if defined(TREECRF_AVX512)
/* `number_bits` for 64 bytes at a time. */
TREECRF_AVX512 static void number_bits_wide(const uint64_t *words, ptrdiff_t n_words,
                                            uint8_t number, uint64_t *all, uint8_t *out)
{
    const __m512i numbers = _mm512_set1_epi8((char)number);
    for (ptrdiff_t i = 0; i < n_words; i++) {
        if (!words[i])
            continue;
        __m512i old = _mm512_loadu_si512(out + 64 * i);
        _mm512_storeu_si512(out + 64 * i, _mm512_mask_mov_epi8(old, words[i], numbers));
        all[i] |= words[i];
    }
}
#endif

TREECRF_WIDEST static void number_bits_narrow(const uint64_t *words, ptrdiff_t n_words, uint8_t number,
                                       uint64_t *all, uint8_t *out)
{
    const uint64_t low = 0x7F7F7F7F7F7F7F7F, high = 0x8080808080808080;
    for (ptrdiff_t i = 0; i < n_words; i++) {
        if (!words[i])
            continue;
        all[i] |= words[i];
        for (int k = 0; k < 8; k++) {
            /* Bit j of a byte is moved to byte j, then to its lowest bit. */
            uint64_t spread = (words[i] >> (8 * k) & 0xFF) * 0x0101010101010101, marked;
            spread &= 0x8040201008040201;
            spread = (spread | ((spread & low) + low)) & high;
            memcpy(&marked, out + 64 * i + 8 * k, 8);
            marked |= (spread >> 7) * number;
            memcpy(out + 64 * i + 8 * k, &marked, 8);
        }
    }
}

/* Add a set to `all`, with which it has no element in common, and write a number to the bytes of its
 * elements, which were 0. */
static inline void number_bits(const uint64_t *words, ptrdiff_t n_words, uint8_t number,
                               uint64_t *all, uint8_t *out)
{
#if defined(TREECRF_AVX512)
    if (has_avx512()) {
        number_bits_wide(words, n_words, number, all, out);
        return;
    }
#endif
    number_bits_narrow(words, n_words, number, all, out);
}

/* Split a list of entries of eight bytes, of which the first four hold an element: elements of
 * `misses` go to `lost`, other elements of `takes` go to `taken`, and the rest stay. Each entry is
 * written to all three lists, but only one of them advances. */
TREECRF_WIDEST static void split_list(void *list, ptrdiff_t n, const uint64_t *takes,
                                     const uint64_t *misses, void *taken, void *lost,
                                     ptrdiff_t *n_taken, ptrdiff_t *n_lost)
{
    char *left = list, *to_taken = taken, *to_lost = lost;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t entry, is_lost, is_left;
        uint32_t element;
        memcpy(&entry, (char *)list + 8 * i, 8);
        memcpy(&element, (char *)list + 8 * i, 4);
        is_lost = misses[element >> 6] >> (element & 63) & 1;
        is_left = ~(takes[element >> 6] >> (element & 63)) & 1 & ~is_lost;
        memcpy(left, &entry, 8);
        memcpy(to_lost, &entry, 8);
        memcpy(to_taken, &entry, 8);
        left += 8 * is_left;
        to_lost += 8 * is_lost;
        to_taken += 8 * (1 - is_left - is_lost);
    }
    *n_taken = (to_taken - (char *)taken) / 8;
    *n_lost = (to_lost - (char *)lost) / 8;
}

/* Split a set by a test. Returns 1 if an element passes, plus 2 if one fails. */
TREECRF_WIDEST static int divide_bits(const uint64_t *restrict parent, const uint64_t *restrict test,
                                    ptrdiff_t n, uint64_t *restrict passed,
                                    uint64_t *restrict failed)
{
    uint64_t any_passed = 0, any_failed = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        passed[i] = parent[i] & test[i];
        failed[i] = parent[i] & ~test[i];
        any_passed |= passed[i];
        any_failed |= failed[i];
    }
    return (any_passed != 0) + 2 * (any_failed != 0);
}

#endif
