"""The linear start of boosting: scores of a linear model, to which trees are added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.score_parts import ScoreParts
from treecrf.inputs.sequences import Description, Sequences
from treecrf.learners.boosted.labeled import joined
from treecrf.learners.linear.crf import LinearCRF, fitted_to, rounded_linear, score_parts
from treecrf.learners.training_data import LabeledSequences, TrainingInput
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.learners.boosted.spec import BoostingSpec

# Because trees follow, a linear model need not be at its optimum: ten iterations of L-BFGS that
# lower its loss by less than this fraction are the last ones. Most data need 20 to 50 iterations,
# but labels that persist may need hundreds, which trees cannot make up for.
TOLERANCE = 0.01
# With more training positions, the linear model is fitted to a sample of the sequences.
MAX_POSITIONS = 1_000_000


@dataclass(frozen=True)
class OwnStart:
    """A linear model to start from that is not a parameter of the user."""

    penalty: float  # L2, which grows with the data
    share: float  # factor of the weights


# All of a linear model is best where the effects of features add up. In general it is better to
# start from a part of it, as a first step of boosting with this learning rate: a linear model that
# lacks interactions relies too much on the previous label, which trees are slow to correct.
WHOLE, PART = OwnStart(1.0, 1.0), OwnStart(1.0, 0.4)


def starting_parts(
    start: LinearCRF | None, sequences: Sequences, threads: Threads
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the scores that the trees are added to: of the linear model and of the user.

    They are arrays as from `score_parts`; None stands for scores of 0.
    """
    state, transitions = (None, None) if start is None else score_parts(start, sequences, threads)
    given = sequences.init_scores
    if given is not None:
        state = np.ascontiguousarray(given.T) if state is None else state + given.T
    return state, transitions


def table_of_parts(
    state: np.ndarray | None, transitions: np.ndarray | None, offsets: np.ndarray, order: int
) -> np.ndarray | None:
    """Return the scores of `starting_parts` in all contexts.

    Only the nearest previous label matters. First positions have one context, the first.
    """
    if state is None:
        return None
    n_labels = len(state)
    scores = np.empty((n_labels, state.shape[1], n_labels**order))
    if transitions is None:
        scores[:] = state[:, :, None]
        return scores
    # The nearest previous label is the lowest digit of a context.
    of_contexts = np.tile(transitions[:-1].T, n_labels ** (order - 1))
    np.add(state[:, :, None], of_contexts[:, None], out=scores)
    first = offsets[:-1]
    scores[:, first] = 0.0
    scores[:, first, 0] = state[:, first] + transitions[-1][:, None]
    return scores


def started(
    parts: ScoreParts, state: np.ndarray | None, transitions: np.ndarray | None
) -> ScoreParts:
    """Set factored scores of 0 to `starting_parts`, if there are any."""
    if state is None:
        return parts
    n_labels = parts.n_labels
    if transitions is None:
        transitions = np.zeros((n_labels + 1, n_labels))
    parts.start_from(state, transitions)
    return parts


def require_start(given: LinearCRF, classes: np.ndarray) -> None:
    """Raise ValueError unless trees can start from the scores of a linear model.

    Its scores must not depend on the attributes and the previous label jointly, and if it is fitted
    its labels must be the same. Whether its attributes are is checked with the data.
    """
    if given.transition_features:
        raise ValueError("init: transition_features=True; expected a LinearCRF without them")
    if hasattr(given, "classes_") and not np.array_equal(given.classes_, classes):
        raise ValueError(
            f"init was fitted to the labels {given.classes_.tolist()}; expected {classes.tolist()}"
        )


def start_of(
    spec: BoostingSpec, data: TrainingInput, init: Any, linear: LinearCRF | None = None
) -> LinearCRF | None:
    """Return the model whose scores the trees start from, fitted to the training data if need be.

    ``init`` is an `OwnStart`, of which ``linear`` may be the model, or a LinearCRF of the user,
    which is used as it is if it is fitted.
    """
    if init is None:
        return None
    if isinstance(init, OwnStart):
        return rounded_linear(linear or fit_linear(spec, data, init), init.share)
    require_start(init, data.classes)
    return rounded_linear(init if hasattr(init, "classes_") else fit_linear(spec, data, init))


def fit_linear(spec: BoostingSpec, data: TrainingInput, init: OwnStart | LinearCRF) -> LinearCRF:
    """Fit the linear model of a start, whatever its share, to training data or a sample of them."""
    sample = data.training.at_random(MAX_POSITIONS, data.seed)
    return sample.partitions.reduce(
        _fit_joined, spec, data.of_sequences(None), sample.described, init
    )


def _fit_joined(
    parts: list[LabeledSequences],
    spec: BoostingSpec,
    data: TrainingInput,
    described: Description,
    init: OwnStart | LinearCRF,
) -> LinearCRF:
    data = replace(data, training=joined(parts, described))
    if not isinstance(init, OwnStart):
        return fitted_to(init, data, spec.n_jobs)
    linear = LinearCRF(**spec.linear, l2_regularization=init.penalty, tol=TOLERANCE)
    linear._is_start = True
    return fitted_to(linear, data, spec.n_jobs)


def is_linear(init: Any) -> bool:
    """Return whether the parameter ``init`` stands for a linear start."""
    return init == "linear" or isinstance(init, LinearCRF)
