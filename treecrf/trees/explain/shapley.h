/* Shapley values of the tests of a tree at some positions.
 *
 * The expected value of a tree, if each feature is present with probability t, is a polynomial in t.
 * The Shapley value of a feature is the integral over t of the derivative with respect to its own
 * presence. It is computed at the nodes of a Gauss-Legendre rule, which is exact for polynomials of
 * the degree that occurs here. All numbers below are vectors over the nodes of the rule.
 *
 * The product of a tree node has a factor for each feature on its path: z + (1 - z) t if all tests of
 * the feature lead to the node, and z (1 - t) if one of them does not, where z is the product of the
 * covers of the children on the path, relative to their parents. A value that is missing counts as
 * absent, except for tests of whether it is missing. If these lead to the node, the factor is
 * z (1 - t) + c t, where c is the product of the covers below the other tests of the feature.
 */
#ifndef TREECRF_SHAPLEY_H
#define TREECRF_SHAPLEY_H

#include <string.h>

#include "utils/vector_math.h"

/* How the tests of a feature lead to a child: all of them do; the value is missing, and its tests
 * lead to both children, or all of whether it is missing do; the one above the child is the first
 * that does not, with or without a value; an earlier one does not. */
enum { LEADS, LACKS, LEAVES, LACKS_LEAVES, GONE, N_OUTCOMES };

/* An inner node. Its ancestor is the node below the nearest test of the same feature, or the root. */
struct inner_node {
    int32_t node, true_child, false_child, ancestor, slot;
};

/* A tree. The ratios are those of the product of a node to that of its parent, including the value of
 * a leaf, and the slopes are derivatives with respect to the presence of the feature, relative to the
 * product. Both have a vector for each node and outcome. */
struct tested_tree {
    const struct inner_node *inner;
    ptrdiff_t n_inner, n_slots;
    const int32_t *players;    /* of each slot */
    const double *ratios, *slopes;
};

TREECRF_TEMPLATE void explain_one(const struct tested_tree *tree, const uint64_t *passed,
                                  const uint64_t *absent, int bit, const double *weights,
                                  double *products, uint8_t *outcomes, double *sums, double *out,
                                  ptrdiff_t width)
{
    memset(sums, 0, (size_t)(tree->n_slots * width) * sizeof *sums);
    memcpy(products, weights, (size_t)width * sizeof *products);
    outcomes[0] = LEADS;
    for (ptrdiff_t k = 0; k < tree->n_inner; k++) {
        struct inner_node n = tree->inner[k];
        int passes = passed[k] >> bit & 1;
        int lacks = absent[k] >> bit & 1;
        int gone = outcomes[n.ancestor] >= LEAVES;
        /* Without branches, which would be mispredicted. */
        int true_outcome = gone ? GONE : lacks + LEAVES * !(passes | lacks);
        int false_outcome = gone ? GONE : lacks + LEAVES * passes;
        const double *here = products + n.node * width;
        const double *r = tree->ratios + (n.true_child * N_OUTCOMES + true_outcome) * width;
        const double *s = tree->ratios + (n.false_child * N_OUTCOMES + false_outcome) * width;
        double *p = products + n.true_child * width, *q = products + n.false_child * width;
        outcomes[n.true_child] = (uint8_t)true_outcome;
        outcomes[n.false_child] = (uint8_t)false_outcome;
#pragma omp simd
        for (ptrdiff_t i = 0; i < width; i++) {
            p[i] = here[i] * r[i];
            q[i] = here[i] * s[i];
        }
    }
    /* Products become sums over the leaves below. */
    for (ptrdiff_t k = tree->n_inner - 1; k >= 0; k--) {
        struct inner_node n = tree->inner[k];
        const double *p = products + n.true_child * width, *q = products + n.false_child * width;
        double *here = products + n.node * width, *sum = sums + n.slot * width;
        int true_outcome = outcomes[n.true_child], false_outcome = outcomes[n.false_child];
        {
            const double *c = tree->slopes + (n.true_child * N_OUTCOMES + true_outcome) * width;
            const double *d = tree->slopes + (n.false_child * N_OUTCOMES + false_outcome) * width;
#pragma omp simd
            for (ptrdiff_t i = 0; i < width; i++)
                sum[i] += p[i] * c[i] + q[i] * d[i];
        }
#pragma omp simd
        for (ptrdiff_t i = 0; i < width; i++)
            here[i] = p[i] + q[i];
    }
    for (ptrdiff_t j = 0; j < tree->n_slots; j++) {
        double total = 0.0;
        for (ptrdiff_t i = 0; i < width; i++)
            total += sums[j * width + i];
        out[tree->players[j]] += total;
    }
}

/* Add the contributions of each player at up to 64 positions; those of position b are at
 * out + b * stride. Bit b of word k of `passed` and `absent` is the outcome of the test of inner
 * node k, and whether its value is missing; if so, only a test of this passes. */
TREECRF_WIDEST static void explain_positions(const struct tested_tree *tree, const uint64_t *passed,
                                             const uint64_t *absent, int n_positions,
                                             const double *weights, ptrdiff_t width,
                                             double *products, uint8_t *outcomes, double *sums,
                                             double *out, ptrdiff_t stride)
{
#define TREECRF_EXPLAIN(n)                                                                        \
    explain_one(tree, passed, absent, bit, weights, products, outcomes, sums, out, n)
    for (int bit = 0; bit < n_positions; bit++, out += stride)
        switch (width) {
        case 2: TREECRF_EXPLAIN(2); break;
        case 4: TREECRF_EXPLAIN(4); break;
        case 8: TREECRF_EXPLAIN(8); break;
        case 16: TREECRF_EXPLAIN(16); break;
        default: TREECRF_EXPLAIN(width);
        }
#undef TREECRF_EXPLAIN
}

#endif
