/* Inner loops of the derivatives of label probabilities, see `_gradients.pyx`.
 *
 * `rows` holds the probabilities of (context, label) at a position; those of label v and its n
 * contexts are at `rows + v * stride`. Label v leads from context c to the context
 * (c mod n_ends) * n_labels + v.
 */
#ifndef TREECRF_GRADIENTS_H
#define TREECRF_GRADIENTS_H

#include "chains/recursions.h"

/* Means of the `values` of the contexts after a position, given the context before it. */
TREECRF_TEMPLATE void means_before_n(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                     ptrdiff_t n_ends, const double *restrict values,
                                     double *restrict means, double *restrict work,
                                     ptrdiff_t n_labels)
{
    double *restrict totals = work, *restrict ends = work + n;
    ptrdiff_t v, c, l, k;
    for (c = 0; c < n; c++)
        means[c] = totals[c] = 0.0;
    for (v = 0; v < n_labels; v++, rows += stride) {
        if (n_ends == 1) {
            for (c = 0; c < n; c++) {
                means[c] += rows[c] * values[v];
                totals[c] += rows[c];
            }
            continue;
        }
        for (l = 0; l < n_ends; l++)
            ends[l] = values[l * n_labels + v];
        for (c = 0, l = 0; c < n; c += n_labels, l = l + n_labels < n_ends ? l + n_labels : 0)
            for (k = 0; k < n_labels; k++) {
                means[c + k] += rows[c + k] * ends[l + k];
                totals[c + k] += rows[c + k];
            }
    }
    for (c = 0; c < n; c++)
        means[c] = totals[c] > 0.0 ? means[c] / totals[c] : 0.0;
}

/* The same where the contexts are few labels and each label leads to one. */
TREECRF_TEMPLATE void means_before_few_n(const double *restrict rows, ptrdiff_t stride,
                                         const double *restrict values, double *restrict means,
                                         ptrdiff_t n_labels)
{
    for (ptrdiff_t c = 0; c < n_labels; c++) {
        double mean = 0.0, total = 0.0;
        for (ptrdiff_t v = 0; v < n_labels; v++) {
            mean += rows[v * stride + c] * values[v];
            total += rows[v * stride + c];
        }
        means[c] = total > 0.0 ? mean / total : 0.0;
    }
}

TREECRF_WIDEST static void means_before(const double *rows, ptrdiff_t stride, ptrdiff_t n,
                                        ptrdiff_t n_ends, const double *values, double *means,
                                        double *work, ptrdiff_t n_labels)
{
    if (n_labels <= FEW_LABELS && n_ends == 1 && n == n_labels) {
        TREECRF_UP_TO_8(n_labels, , means_before_few_n, rows, stride, values, means)
    } else {
        TREECRF_UP_TO_4(n_labels, , means_before_n, rows, stride, n, n_ends, values, means, work)
    }
}

/* Multiply a row of probabilities by the sums of the values `before` and `after`; returns the mean
 * of `before`. Sums have eight lanes, so that their order is the same on every machine. */
TREECRF_TEMPLATE double multiply_row_n(double *restrict row, ptrdiff_t n,
                                       const double *restrict before, double after)
{
    double x[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    double y[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    double mean = 0.0, total = 0.0;
    ptrdiff_t c = 0;
    if (n > FEW_LABELS)
        for (; c + 8 <= n; c += 8)
#pragma omp simd
            for (int k = 0; k < 8; k++) {
                double p = row[c + k];
                x[k] += p * before[c + k];
                y[k] += p;
                row[c + k] = p * (before[c + k] + after);
            }
    for (; c < n; c++) {
        double p = row[c];
        mean += p * before[c];
        total += p;
        row[c] = p * (before[c] + after);
    }
    if (n > FEW_LABELS) {
        mean += sum_lanes(x);
        total += sum_lanes(y);
    }
    return total > 0.0 ? mean / total : 0.0;
}

/* The same for all rows, if each label leads to several contexts. */
TREECRF_TEMPLATE void multiply_rows_n(double *restrict rows, ptrdiff_t stride, ptrdiff_t n,
                                      ptrdiff_t n_ends, const double *restrict before,
                                      const double *restrict after, double *restrict means,
                                      double *restrict work, ptrdiff_t n_labels)
{
    double *restrict sums = work, *restrict totals = work + n_ends;
    double *restrict ends = work + 2 * n_ends;
    ptrdiff_t v, c, l, k;
    for (v = 0; v < n_labels; v++, rows += stride) {
        for (l = 0; l < n_ends; l++) {
            sums[l] = totals[l] = 0.0;
            ends[l] = after[l * n_labels + v];
        }
        for (c = 0, l = 0; c < n; c += n_labels, l = l + n_labels < n_ends ? l + n_labels : 0)
            for (k = 0; k < n_labels; k++) {
                double p = rows[c + k];
                sums[l + k] += p * before[c + k];
                totals[l + k] += p;
                rows[c + k] = p * (before[c + k] + ends[l + k]);
            }
        for (l = 0; l < n_ends; l++)
            means[l * n_labels + v] = totals[l] > 0.0 ? sums[l] / totals[l] : 0.0;
    }
}

/* The same for all rows, where the contexts are few labels and each label leads to one. */
TREECRF_TEMPLATE void multiply_few_n(double *rows, ptrdiff_t stride, const double *before,
                                     const double *after, double *means, ptrdiff_t n_labels)
{
    for (ptrdiff_t v = 0; v < n_labels; v++)
        means[v] = multiply_row_n(rows + v * stride, n_labels, before, after[v]);
}

TREECRF_TEMPLATE void multiply_n(double *rows, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t n_ends,
                                 const double *before, const double *after, double *means,
                                 double *work, ptrdiff_t n_labels)
{
    if (n_ends == 1)
        for (ptrdiff_t v = 0; v < n_labels; v++)
            means[v] = multiply_row_n(rows + v * stride, n, before, after[v]);
    else
        multiply_rows_n(rows, stride, n, n_ends, before, after, means, work, n_labels);
}

/* Multiply all probabilities by the sum of `before`, for the context before the position, and
 * `after`, for the one after it. `means` receives the means of `before` given the context after. */
TREECRF_WIDEST static void multiply(double *rows, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t n_ends,
                                    const double *before, const double *after, double *means,
                                    double *work, ptrdiff_t n_labels)
{
    if (n_labels <= FEW_LABELS && n_ends == 1 && n == n_labels) {
        TREECRF_UP_TO_8(n_labels, , multiply_few_n, rows, stride, before, after, means)
    } else {
        TREECRF_UP_TO_4(n_labels, , multiply_n, rows, stride, n, n_ends, before, after, means, work)
    }
}

/* Sum of absolute values in eight lanes. */
TREECRF_TEMPLATE double size_of(const double *values, ptrdiff_t n)
{
    double x[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, rest = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
#pragma omp simd
        for (int k = 0; k < 8; k++)
            x[k] += fabs(values[i + k]);
    for (; i < n; i++)
        rest += fabs(values[i]);
    return sum_lanes(x) + rest;
}

/* target[i] = values[i] * factor, rounded by `rounding`. Adds to size[j] the absolute values of the
 * j-th group of `width` targets. */
TREECRF_WIDEST static void store_slopes(const double *restrict values, ptrdiff_t count,
                                        ptrdiff_t width, double factor, double rounding,
                                        double *restrict target, double *restrict size)
{
    for (ptrdiff_t i = 0; i < count * width; i++)
        target[i] = (values[i] * factor + rounding) - rounding;
    for (ptrdiff_t j = 0; j < count; j++)
        size[j] += size_of(target + j * width, width);
}
#endif
