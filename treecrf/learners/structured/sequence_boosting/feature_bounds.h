/* The bounds by which sequence boosting chooses features.
 *
 * How much more often a feature occurs in another label sequence than in the true one lies between
 * low <= 0 and high >= 0. With its mean, this bounds the mean of exp(step * that): the exponential
 * lies below the straight line between its values at both ends.
 */
#ifndef TREECRF_FEATURE_BOUNDS_H
#define TREECRF_FEATURE_BOUNDS_H

#include "utils/vector_math.h"

/* The step between -most and most with the smallest bound. `under` and `over` are the weights of
 * exp(step * low) and exp(step * high) in it. */
static inline double best_step_of(double under, double over, double low, double high, double most)
{
    double rising = -under * low, falling = over * high, step;
    if (rising <= 0.0 && falling <= 0.0)
        return 0.0;
    if (falling <= 0.0)
        return most;
    if (rising <= 0.0)
        return -most;
    step = (log_of(rising) - log_of(falling)) / (high - low);
    step = step > most ? most : step;
    return step < -most ? -most : step;
}

static inline double exp_capped(double x) { return exp_of(x < 700.0 ? x : 700.0); }

/* For each of n features: the step with the smallest bound, and that bound. `sums` times `scale` are
 * the means. */
TREECRF_WIDEST static void bound_all(const double *sums, const double *lows, const double *highs,
                                     double scale, double most, ptrdiff_t n, double *steps,
                                     double *bounds)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        double low = lows[k], high = highs[k], range = high - low;
        double over = range > 0.0 ? (sums[k] * scale - low) / range : 0.0;
        over = over < 0.0 ? 0.0 : over;
        over = over > 1.0 ? 1.0 : over;
        double step = best_step_of(1.0 - over, over, low, high, most);
        steps[k] = step;
        bounds[k] = (1.0 - over) * exp_capped(step * low) + over * exp_capped(step * high);
    }
}

#endif
