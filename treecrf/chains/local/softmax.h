/* Softmax of the scores of labels, the columns of a matrix with a row for each label. */
#ifndef TREECRF_SOFTMAX_H
#define TREECRF_SOFTMAX_H

#include "utils/vector_math.h"

/* Number of columns of scores that are processed at a time: a few kilobytes for each label. */
#define LOCAL_BLOCK 256

/* Highest score of each column, and sum of the exponentials of the scores relative to it. The
 * exponentials are stored in `exponentials`, if given. */
TREECRF_TEMPLATE void column_totals(const double *restrict columns, ptrdiff_t n_rows,
                                    ptrdiff_t stride, ptrdiff_t n, double *restrict highest,
                                    double *restrict total, double *restrict exponentials)
{
    ptrdiff_t v, i;
    for (i = 0; i < n; i++) {
        highest[i] = columns[i];
        total[i] = 0.0;
    }
    for (v = 1; v < n_rows; v++)
        for (i = 0; i < n; i++) {
            double x = columns[v * stride + i];
            highest[i] = x > highest[i] ? x : highest[i];
        }
    /* A column of -inf gives NaN, whose exponential is 0. */
    for (v = 0; v < n_rows; v++)
        for (i = 0; i < n; i++) {
            double e = exp_of(columns[v * stride + i] - highest[i]);
            total[i] += e;
            if (exponentials)
                exponentials[v * stride + i] = e;
        }
}

/* log(sum(exp(column))); 0 for columns whose values are all -inf. */
TREECRF_TEMPLATE void log_of_totals(const double *restrict highest, const double *restrict total,
                                    ptrdiff_t n, double *restrict log_totals)
{
    for (ptrdiff_t i = 0; i < n; i++)
        log_totals[i] = total[i] > 0.0 ? highest[i] + log_of(total[i]) : 0.0;
}

/* Log-softmax of every column, in place. */
TREECRF_WIDEST static void log_softmax(double *columns, ptrdiff_t n_rows, ptrdiff_t stride,
                                       ptrdiff_t n)
{
    double highest[LOCAL_BLOCK], total[LOCAL_BLOCK], log_totals[LOCAL_BLOCK];
    column_totals(columns, n_rows, stride, n, highest, total, NULL);
    log_of_totals(highest, total, n, log_totals);
    for (ptrdiff_t v = 0; v < n_rows; v++)
        for (ptrdiff_t i = 0; i < n; i++)
            columns[v * stride + i] -= log_totals[i];
}

/* Of two labels, make the rounded probabilities sum to 1, and the curvatures equal. */
TREECRF_TEMPLATE void complement(double *residuals, double *curvature, ptrdiff_t stride, ptrdiff_t n,
                                 const double *total)
{
    for (ptrdiff_t i = 0; i < n; i++)
        residuals[stride + i] = total[i] > 0.0 ? -1.0 - residuals[i] : 0.0;
    if (curvature)
        for (ptrdiff_t i = 0; i < n; i++)
            curvature[stride + i] = curvature[i];
}

/* -p and, if `curvature` is given, 2 p (1 - p), both rounded; p is the softmax of a column. The residuals
 * of two labels differ in sign only, so that one tree serves both. */
TREECRF_WIDEST static void softmax_residuals(const double *columns, ptrdiff_t n_rows,
                                             ptrdiff_t stride, ptrdiff_t n, double *residuals,
                                             double *curvature, double *log_totals)
{
    double highest[LOCAL_BLOCK], total[LOCAL_BLOCK], *first = residuals;
    ptrdiff_t v, i;
    column_totals(columns, n_rows, stride, n, highest, total, residuals);
    log_of_totals(highest, total, n, log_totals);
    for (i = 0; i < n; i++)
        total[i] = total[i] > 0.0 ? 1.0 / total[i] : 0.0;
    for (v = 0; v < n_rows; v++, residuals += stride) {
        if (curvature)
            for (i = 0; i < n; i++) {
                double p = residuals[i] * total[i];
                curvature[v * stride + i] = rounded(2.0 * p * (1.0 - p));
            }
        for (i = 0; i < n; i++)
            residuals[i] = rounded(-(residuals[i] * total[i]));
    }
    if (n_rows == 2)
        complement(first, curvature, stride, n, total);
}
#endif
