/* Attributes and hints that compilers spell differently. */
#ifndef TREECRF_COMPILER_H
#define TREECRF_COMPILER_H

/* A loop is compiled for several register widths, and the widest that the processor has is chosen
 * when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TREECRF_WIDEST                                                                            \
    __attribute__((unused, target_clones("arch=x86-64-v4", "avx2", "default")))
#elif defined(__GNUC__)
#define TREECRF_WIDEST __attribute__((unused))
#else
#define TREECRF_WIDEST
#endif

/* Functions with AVX2 or AVX-512 instructions, to be called only if the processor has them. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TREECRF_AVX2 __attribute__((unused, target("avx2")))
#define TREECRF_AVX512 __attribute__((unused, target("avx512f,avx512bw,popcnt")))
#endif

#if defined(__GNUC__)
#define TREECRF_PREFETCH(address) __builtin_prefetch(address)
#else
#define TREECRF_PREFETCH(address) ((void)(address))
#endif

#if defined(_MSC_VER)
#define restrict __restrict
#endif

#endif
