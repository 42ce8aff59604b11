/* Bounds by which sequence boosting chooses features.
 *
 * A feature can occur more or less often in another label sequence than in the true one; low <= 0
 * and high >= 0 bound the difference. Together with its mean, they bound the mean of
 * exp(step * difference): the exponential lies below the straight line between its values at both
 * ends.
 */
#ifndef TREECRF_FEATURE_BOUNDS_H
#define TREECRF_FEATURE_BOUNDS_H

#include "utils/vector_math.h"

/* The step between -max_step and max_step with the smallest bound. `under` and `over` are the weights
 * of exp(step * low) and exp(step * high) in the bound. */
static inline double best_step_of(double under, double over, double low, double high, double max_step)
{
    double rising = -under * low, falling = over * high, step;
    if (rising <= 0.0 && falling <= 0.0)
        return 0.0;
    if (falling <= 0.0)
        return max_step;
    if (rising <= 0.0)
        return -max_step;
    step = (log_of(rising) - log_of(falling)) / (high - low);
    step = step > max_step ? max_step : step;
    return step < -max_step ? -max_step : step;
}

static inline double exp_capped(double x) { return exp_of(x < 700.0 ? x : 700.0); }

/* For each of n features, the step with the smallest bound, and this bound. The means are `sums`
 * times `scale`. */
TREECRF_WIDEST static void bound_all(const double *sums, const double *lows, const double *highs,
                                     double scale, double max_step, ptrdiff_t n, double *steps,
                                     double *bounds)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        double low = lows[k], high = highs[k], range = high - low;
        double over = range > 0.0 ? (sums[k] * scale - low) / range : 0.0;
        over = over < 0.0 ? 0.0 : over;
        over = over > 1.0 ? 1.0 : over;
        double step = best_step_of(1.0 - over, over, low, high, max_step);
        steps[k] = step;
        bounds[k] = (1.0 - over) * exp_capped(step * low) + over * exp_capped(step * high);
    }
}

#endif
