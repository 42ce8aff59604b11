/* Leaves of trees at many positions at once, and sums of their values.
 *
 * A row is a set of positions, one bit each. Leaves of a tree are numbered; row b of a tree holds bit b
 * of the leaf number of each position. A value is the sum of its bytes, and its sums are taken byte by
 * byte where the processor looks up bytes in registers, in units of 16 bits.
 */
#ifndef TREECRF_LEAF_SUMS_H
#define TREECRF_LEAF_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "utils/compiler.h"

/* GCC and Clang compile single functions for more than the oldest processor. */
#if defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 12)                         \
                            || (defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11))
#define TREECRF_PERMUTES
#include <immintrin.h>
#define TREECRF_WITH_PERMUTES                                                                     \
    __attribute__((unused, target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")))
#endif

enum {
    N_LEAF_BITS = 8,              /* bits of a leaf number */
    ROW_WORDS = 32,            /* 64-bit words of a row */
    GROUP_WORDS = 8,           /* rows are processed in multiples of this */
    MAX_SUMMANDS = 256,        /* 16 bits hold the sum of so many bytes */
    ROW_BITS = 18,             /* of the number of a row, in a step */
    MAX_SLOTS = 1 << 10,       /* rows of intermediate results */
};

/* Whether the processor has the instructions of `add_by_permutes`. */
static inline int has_permutes(void)
{
#if defined(TREECRF_PERMUTES)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
#else
    return 0;
#endif
}

/* A program consists of chains of steps. A chain begins with a row in `start`, and each of its steps
 * replaces bits by those of row `other`: where row `test` has a 1, or a 0 if `negated`. The result goes
 * to a slot. */
static inline uint64_t make_chain(uint64_t start, uint64_t slot, uint64_t n_steps)
{
    return start | slot << ROW_BITS | n_steps << 32;
}

static inline uint64_t make_step(uint64_t test, uint64_t other, uint64_t negated)
{
    return test | other << ROW_BITS | negated << (2 * ROW_BITS);
}

#if defined(__GNUC__)

enum { MAX_HELD = 8 }; /* vectors of a row that registers hold, next to those of a step */

/* Define `name`, which runs chains of steps on the first words of the rows, in vectors as wide as the
 * registers of `target`: compilers divide wider ones badly. Up to MAX_HELD vectors of the result of a
 * chain stay in registers. */
#define TREECRF_RUN_STEPS(name, bytes, target)                                                    \
    typedef uint64_t name##_words __attribute__((vector_size(bytes), aligned(8), may_alias));     \
    __attribute__((always_inline)) static inline void                                             \
    name##_held(const uint64_t *rows, uint64_t *slots, const uint64_t *steps, ptrdiff_t n_steps,  \
                int n_held)                                                                       \
    {                                                                                             \
        const uint64_t mask = ((uint64_t)1 << ROW_BITS) - 1, *last = steps + n_steps;             \
        while (steps < last) {                                                                    \
            uint64_t chain = *steps++, slot = chain >> ROW_BITS & (MAX_SLOTS - 1);                \
            const name##_words *start = (const name##_words *)(rows + (chain & mask) * ROW_WORDS);\
            name##_words *out = (name##_words *)(slots + slot * ROW_WORDS), held[MAX_HELD];       \
            const uint64_t *end = steps + (chain >> 32);                                          \
            for (int k = 0; k < n_held; k++)                                                      \
                held[k] = start[k];                                                               \
            for (; steps < end; steps++) {                                                        \
                const uint64_t *first = rows + (*steps & mask) * ROW_WORDS;                       \
                const uint64_t *second = rows + (*steps >> ROW_BITS & mask) * ROW_WORDS;          \
                const name##_words *test = (const name##_words *)first;                           \
                const name##_words *other = (const name##_words *)second;                         \
                uint64_t flip = -(*steps >> (2 * ROW_BITS));                                      \
                for (int k = 0; k < n_held; k++)                                                  \
                    held[k] ^= (held[k] ^ other[k]) & (test[k] ^ flip);                           \
            }                                                                                     \
            for (int k = 0; k < n_held; k++)                                                      \
                out[k] = held[k];                                                                 \
        }                                                                                         \
    }                                                                                             \
    target static void name(const uint64_t *rows, uint64_t *slots, const uint64_t *steps,         \
                            ptrdiff_t n_steps, ptrdiff_t n_words)                                 \
    {                                                                                             \
        enum { WORDS = bytes / 8, GROUP = GROUP_WORDS / WORDS };                                  \
        for (ptrdiff_t w = 0; w < n_words; w += MAX_HELD * WORDS) {                               \
            ptrdiff_t n_held = (n_words - w) / WORDS;                                             \
            if (n_held <= GROUP)                                                                  \
                name##_held(rows + w, slots + w, steps, n_steps, GROUP);                          \
            else if (n_held <= 2 * GROUP && 2 * GROUP <= MAX_HELD)                                \
                name##_held(rows + w, slots + w, steps, n_steps, 2 * GROUP);                      \
            else                                                                                  \
                name##_held(rows + w, slots + w, steps, n_steps,                                  \
                            4 * GROUP <= MAX_HELD ? 4 * GROUP : MAX_HELD);                        \
        }                                                                                         \
    }

TREECRF_RUN_STEPS(run_steps_narrow, 16, )
#if defined(TREECRF_AVX512)
TREECRF_RUN_STEPS(run_steps_avx2, 32, TREECRF_AVX2)
TREECRF_RUN_STEPS(run_steps_avx512, 64, TREECRF_AVX512)
#endif

static inline void run_steps(const uint64_t *rows, uint64_t *slots, const uint64_t *steps,
                             ptrdiff_t n_steps, ptrdiff_t n_words)
{
#if defined(TREECRF_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
        run_steps_avx512(rows, slots, steps, n_steps, n_words);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        run_steps_avx2(rows, slots, steps, n_steps, n_words);
        return;
    }
#endif
    run_steps_narrow(rows, slots, steps, n_steps, n_words);
}

#else

/* Run chains of steps on the first words of the rows. */
static void run_steps(const uint64_t *rows, uint64_t *slots, const uint64_t *steps,
                      ptrdiff_t n_steps, ptrdiff_t n_words)
{
    const uint64_t mask = ((uint64_t)1 << ROW_BITS) - 1, *last = steps + n_steps;
    while (steps < last) {
        uint64_t chain = *steps++, words[ROW_WORDS];
        const uint64_t *end = steps + (chain >> 32);
        memcpy(words, rows + (chain & mask) * ROW_WORDS, sizeof words);
        for (; steps < end; steps++) {
            const uint64_t *test = rows + (*steps & mask) * ROW_WORDS;
            const uint64_t *other = rows + (*steps >> ROW_BITS & mask) * ROW_WORDS;
            uint64_t flip = 0 - (*steps >> (2 * ROW_BITS));
            for (ptrdiff_t w = 0; w < n_words; w++)
                words[w] ^= (words[w] ^ other[w]) & (test[w] ^ flip);
        }
        memcpy(slots + (chain >> ROW_BITS & (MAX_SLOTS - 1)) * ROW_WORDS, words, sizeof words);
    }
}

#endif

/* Write the leaf numbers of 64 positions per word. Eight bytes at a time are a matrix of 8 by 8 bits,
 * which is transposed by swapping ever larger blocks. */
TREECRF_WIDEST static void number_positions(const uint64_t *const *leaf_bits, ptrdiff_t n_words,
                                            uint8_t *numbers)
{
    for (ptrdiff_t i = 0; i < 8 * n_words; i++) {
        uint64_t x = 0, t;
        for (int k = 0; k < N_LEAF_BITS; k++)
            x |= (uint64_t)((const uint8_t *)leaf_bits[k])[i] << (8 * k);
        t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
        x ^= t ^ (t << 7);
        t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
        x ^= t ^ (t << 14);
        t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
        x ^= t ^ (t << 28);
        memcpy(numbers + 8 * i, &x, 8);
    }
}

/* Add the value of each position's leaf to the sums. Vectors would not help: the values come from
 * memory one by one. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((unused, optimize("no-tree-vectorize", "no-tree-slp-vectorize")))
#endif
static void add_by_memory(const uint64_t *const *leaf_bits, const int32_t *values, ptrdiff_t n_words,
                          uint32_t *restrict sums)
{
    uint8_t numbers[64 * ROW_WORDS];
    number_positions(leaf_bits, n_words, numbers);
    for (ptrdiff_t i = 0; i < 64 * n_words; i++)
        sums[i] += (uint32_t)values[numbers[i]];
}

#if defined(TREECRF_PERMUTES)

/* Transpose a matrix of 8 by 8 words. */
TREECRF_WITH_PERMUTES static inline void transpose_words(__m512i *rows)
{
    __m512i pairs[8], quads[8];
    for (int k = 0; k < 8; k += 2) {
        pairs[k] = _mm512_unpacklo_epi64(rows[k], rows[k + 1]);
        pairs[k + 1] = _mm512_unpackhi_epi64(rows[k], rows[k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int j = 0; j < 2; j++) {
            quads[k + j] = _mm512_shuffle_i64x2(pairs[k + j], pairs[k + 2 + j], 0x88);
            quads[k + 2 + j] = _mm512_shuffle_i64x2(pairs[k + j], pairs[k + 2 + j], 0xDD);
        }
    for (int j = 0; j < 4; j++) {
        rows[j] = _mm512_shuffle_i64x2(quads[j], quads[4 + j], 0x88);
        rows[4 + j] = _mm512_shuffle_i64x2(quads[j], quads[4 + j], 0xDD);
    }
}

/* Transpose the words of 8 rows of bits to bytes: bit k of a byte comes from row k. */
TREECRF_WITH_PERMUTES static inline __m512i bytes_of_words(__m512i words)
{
    const __m512i diagonal = _mm512_set1_epi64((long long)0x8040201008040201u);
    const __m512i order =
        _mm512_setr_epi64(0x0008101820283038, 0x0109111921293139, 0x020A121A222A323A,
                          0x030B131B232B333B, 0x040C141C242C343C, 0x050D151D252D353D,
                          0x060E161E262E363E, 0x070F171F272F373F);
    words = _mm512_permutexvar_epi8(order, words);
    return _mm512_gf2p8affine_epi64_epi8(diagonal, words, 0);
}

/* Look up 64 bytes in a table of 64, 128 or 256. */
TREECRF_WITH_PERMUTES static inline __m512i look_up_bytes(const __m512i *table, int n_vectors,
                                                          __m512i numbers)
{
    __m512i low, high;
    if (n_vectors == 1)
        return _mm512_permutexvar_epi8(numbers, table[0]);
    low = _mm512_permutex2var_epi8(table[0], numbers, table[1]);
    if (n_vectors == 2)
        return low;
    high = _mm512_permutex2var_epi8(table[2], numbers, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high);
}

TREECRF_WITH_PERMUTES __attribute__((always_inline)) static inline void
add_some_bytes(const uint64_t *const *leaf_bits, const uint8_t *values, ptrdiff_t n_words,
               uint16_t *sums, int n_vectors, int n_bytes)
{
    __m512i table[16];
    for (int k = 0; k < n_bytes * n_vectors; k++)
        table[k] = _mm512_loadu_si512(values + 64 * k);
    for (ptrdiff_t w = 0; w < n_words; w += 8) {
        __m512i rows[8];
        for (int k = 0; k < 8; k++)
            rows[k] = _mm512_loadu_si512(leaf_bits[k] + w);
        transpose_words(rows);
        for (int k = 0; k < 8; k++) {
            __m512i numbers = bytes_of_words(rows[k]);
            for (int b = 0; b < n_bytes; b++, sums += 64) {
                __m512i bytes = look_up_bytes(table + b * n_vectors, n_vectors, numbers);
                __m512i all = _mm512_add_epi16(_mm512_loadu_si512(sums), bytes);
                __m512i odd = _mm512_add_epi16(_mm512_loadu_si512(sums + 32),
                                               _mm512_srli_epi16(bytes, 8));
                _mm512_storeu_si512(sums, all);
                _mm512_storeu_si512(sums + 32, odd);
            }
        }
    }
}

/* Add the bytes of the value of each position's leaf to the sums. For each 64 positions and each byte of
 * a value these are 32 sums of pairs of positions, the second one 256 times, and 32 sums of the second
 * ones. */
TREECRF_WITH_PERMUTES static void add_by_permutes(const uint64_t *const *leaf_bits,
                                                  const uint8_t *values, ptrdiff_t n_values,
                                                  ptrdiff_t n_bytes, ptrdiff_t n_words,
                                                  uint16_t *sums)
{
#define TREECRF_ADD(n_vectors)                                                                    \
    switch (n_bytes) {                                                                            \
    case 1: add_some_bytes(leaf_bits, values, n_words, sums, n_vectors, 1); break;                   \
    case 2: add_some_bytes(leaf_bits, values, n_words, sums, n_vectors, 2); break;                   \
    case 3: add_some_bytes(leaf_bits, values, n_words, sums, n_vectors, 3); break;                   \
    default: add_some_bytes(leaf_bits, values, n_words, sums, n_vectors, 4);                         \
    }
    if (n_values == 64) {
        TREECRF_ADD(1)
    } else if (n_values == 128) {
        TREECRF_ADD(2)
    } else {
        TREECRF_ADD(4)
    }
#undef TREECRF_ADD
}

/* Move the sums of bytes to `out`, as sums of values. */
TREECRF_WITH_PERMUTES static void take_bytes(uint16_t *sums, ptrdiff_t n_bytes, ptrdiff_t n_words,
                                             uint32_t *out)
{
    for (ptrdiff_t half = 0; half < 2 * n_words; half++, out += 32) {
        uint16_t *first = sums + half / 2 * n_bytes * 64 + half % 2 * 16;
        __m512i even = _mm512_setzero_si512(), odd = even, low, high;
        for (int b = 0; b < n_bytes; b++, first += 64) {
            __m256i all = _mm256_loadu_si256((const __m256i *)first);
            __m256i second = _mm256_loadu_si256((const __m256i *)(first + 32));
            all = _mm256_sub_epi16(all, _mm256_slli_epi16(second, 8));
            even = _mm512_add_epi32(even, _mm512_slli_epi32(_mm512_cvtepu16_epi32(all), 8 * b));
            odd = _mm512_add_epi32(odd, _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 8 * b));
            _mm256_storeu_si256((__m256i *)first, _mm256_setzero_si256());
            _mm256_storeu_si256((__m256i *)(first + 32), _mm256_setzero_si256());
        }
        low = _mm512_unpacklo_epi32(even, odd);
        high = _mm512_unpackhi_epi32(even, odd);
        even = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high);
        odd = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
        _mm512_storeu_si512(out, even);
        _mm512_storeu_si512(out + 16, odd);
    }
}

#endif

/* Add the value of each position's leaf to sums in the form that `take_sums` reads. A table has
 * `n_values` values of `n_bytes` bytes; byte b of all of them precedes byte b + 1. Without permutes they
 * are integers of 4 bytes. */
static inline void add_values(const uint64_t *const *leaf_bits, const void *values, ptrdiff_t n_values,
                       ptrdiff_t n_bytes, int by_permutes, ptrdiff_t n_words, void *sums)
{
#if defined(TREECRF_PERMUTES)
    if (by_permutes) {
        add_by_permutes(leaf_bits, (const uint8_t *)values, n_values, n_bytes, n_words,
                        (uint16_t *)sums);
        return;
    }
#endif
    (void)n_values, (void)n_bytes, (void)by_permutes;
    add_by_memory(leaf_bits, (const int32_t *)values, n_words, (uint32_t *)sums);
}

/* Move the sums of `add_values` to `out`, and start again from 0. */
static inline void take_sums(void *sums, ptrdiff_t n_bytes, int by_permutes, ptrdiff_t n_words,
                      uint32_t *out)
{
#if defined(TREECRF_PERMUTES)
    if (by_permutes) {
        take_bytes((uint16_t *)sums, n_bytes, n_words, out);
        return;
    }
#endif
    (void)n_bytes, (void)by_permutes;
    memcpy(out, sums, 64 * n_words * sizeof *out);
    memset(sums, 0, 64 * n_words * sizeof *out);
}

TREECRF_WIDEST static void add_integers(uint32_t *restrict target, const uint32_t *restrict source,
                                        ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        target[i] += source[i];
}

#endif
