"""Linear models whose scores the trees start from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treecrf.inputs.schema import InputSchema
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.start import fitted_to, own_start, rounded_linear

# Because trees follow, a linear model need not be at its optimum: ten iterations of L-BFGS that
# lower its loss by less than this fraction are the last ones. Most data need 20 to 50 iterations,
# but labels that persist may need hundreds, which trees cannot make up for.
START_TOLERANCE = 0.01
# With more training positions, the linear model is fitted to a sample of the sequences, in one
# place; an estimator of the user, to the largest. The weights of numbers are as good as those of
# all positions. Those of categories are of rare values, and need more positions: so many for each
# attribute, within these bounds.
POSITIONS_PER_ATTRIBUTE = 100
MIN_START_POSITIONS = 100_000
MAX_START_POSITIONS = 1_000_000

# Factors of the weights of a linear model. All of it is best where the effects of features add up.
# In general it is better to start from a fraction of it, as a first step of boosting with this
# learning rate: a linear model that lacks interactions relies too much on the previous label, which
# trees are slow to correct.
WHOLE = 1.0
FRACTION = 0.4
# The start that knows the labels after labels alone, and the factor of its scores. Otherwise the
# first iterations learn mostly that labels persist, and where few sequences allow no more than a
# few iterations, little else. From all of its scores, trees learn slowly. On held-out persons, a
# third was about as good as half.
TRANSITIONS = "transitions"
SHARE_OF_TRANSITIONS = 0.5
# A minimum count that no attribute has in a sample of MAX_START_POSITIONS.
NO_ATTRIBUTES = MAX_START_POSITIONS + 1


def require_start(linear: LinearCRF, classes: np.ndarray) -> None:
    """Raise ValueError unless trees can start from the scores of a linear model.

    Its scores must not depend on the attributes and the previous label jointly, and if it is fitted
    its labels must be the same. Whether its attributes are is checked with the data.
    """
    if linear.transition_features:
        raise ValueError("init: transition_features=True; expected a LinearCRF without them")
    if hasattr(linear, "classes_") and not np.array_equal(linear.classes_, classes):
        raise ValueError(
            f"init was fitted to the labels {linear.classes_.tolist()}; expected {classes.tolist()}"
        )


def make_start(
    spec: BoostingSpec, data: TrainingInput, init: Any, linear: LinearCRF | None = None
) -> LinearCRF | None:
    """Return the model whose scores the trees start from, fitted to the training data if need be.

    ``init`` is None, ``TRANSITIONS``, a factor of the scores of a linear model, or a LinearCRF of
    the user, which is used as it is if it is fitted. With a factor, the model is ``linear``, or it
    is fitted here.
    """
    if init is None:
        return None
    if init == TRANSITIONS:
        return rounded_linear(fit_linear(spec, data, init), SHARE_OF_TRANSITIONS)
    if isinstance(init, float):
        return rounded_linear(linear or fit_linear(spec, data, init), init)
    require_start(init, data.classes)
    if hasattr(init, "classes_"):
        return rounded_linear(init)
    return rounded_linear(fit_linear(spec, data, init))


def fit_linear(spec: BoostingSpec, data: TrainingInput, init: float | str | LinearCRF) -> LinearCRF:
    """Fit the linear model of a start, without its factor, to training data or a sample of them."""
    n_positions = MAX_START_POSITIONS
    if not isinstance(init, LinearCRF):
        n_positions = start_positions(data.training.described.schema)
    sample = data.training.at_random(n_positions, data.seed)
    return sample.gathered(_fit_start, spec, data.without_data(), init)


def start_positions(schema: InputSchema) -> int:
    """Return the number of positions that the linear model of a start is fitted to at most."""
    n_attributes = schema.n_features + sum(map(len, schema.categories.values()))
    n_positions = POSITIONS_PER_ATTRIBUTE * n_attributes
    return min(max(n_positions, MIN_START_POSITIONS), MAX_START_POSITIONS)


def _fit_start(
    training: LabeledSequences,
    spec: BoostingSpec,
    data: TrainingInput,  # the rest of it
    init: float | str | LinearCRF,
) -> LinearCRF:
    """Fit the linear model of a start to sequences in one place."""
    data = replace(data, training=training)
    if isinstance(init, LinearCRF):
        return fitted_to(init, data, spec.n_jobs)
    parameters = spec.linear | {"tol": START_TOLERANCE}
    if init == TRANSITIONS:
        parameters |= {"window": 0, "min_count": NO_ATTRIBUTES}
    return fitted_to(own_start(**parameters), data, spec.n_jobs)


def is_linear(init: Any) -> bool:
    """Return whether the parameter ``init`` stands for a linear start."""
    return init in ("linear", TRANSITIONS) or isinstance(init, LinearCRF)
