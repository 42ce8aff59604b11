/* Sets of contexts that reach the leaves of a tree. */
#ifndef TREECRF_CONTEXT_SETS_H
#define TREECRF_CONTEXT_SETS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "utils/compiler.h"

/* Split a set of contexts (bytes of 0 or 1) by a test of the label at a lag. */
TREECRF_WIDEST static void split_members(const uint8_t *restrict members,
                                         const int32_t *restrict labels, ptrdiff_t stride,
                                         int32_t label, ptrdiff_t n, uint8_t *restrict passed,
                                         uint8_t *restrict failed)
{
    ptrdiff_t e;
    if (stride == 1)
        for (e = 0; e < n; e++) {
            passed[e] = members[e] & (labels[e] == label);
            failed[e] = members[e] & (labels[e] != label);
        }
    else
        for (e = 0; e < n; e++) {
            passed[e] = members[e] & (labels[e * stride] == label);
            failed[e] = members[e] & (labels[e * stride] != label);
        }
}

/* List the contexts outside a set if most are in it, and else those in it. Returns their number. */
TREECRF_WIDEST static ptrdiff_t list_rarer(const uint8_t *members, ptrdiff_t n, int *most_are_in,
                                           int32_t *out)
{
    ptrdiff_t e, k, n_in = 0, n_listed = 0;
    for (e = 0; e < n; e++)
        n_in += members[e];
    *most_are_in = 2 * n_in > n;
    for (e = 0; e < n; e = k) {
        uint64_t eight, others = *most_are_in ? 0x0101010101010101u : 0;
        k = e + 8;
        if (k <= n) {
            memcpy(&eight, members + e, sizeof eight);
            if (eight == others)
                continue;
        }
        for (k = k < n ? k : n; e < k; e++) {
            out[n_listed] = (int32_t)e;
            n_listed += members[e] != *most_are_in;
        }
    }
    return n_listed;
}

#endif
