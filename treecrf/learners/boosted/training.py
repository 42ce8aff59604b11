"""The training of boosted trees, from data that have been read to the model.

Data in memory, in files and on Dask take the same way: start and number of iterations are chosen,
the data are encoded where they are, and a booster adds trees. The model is equal, array for array,
however the data are cut into partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.inputs.sequences import Description
from treecrf.learners.base.callbacks import Callback
from treecrf.learners.base.history import History
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.base.warm_start import warn_without_new_iterations
from treecrf.learners.boosted.booster import boost
from treecrf.learners.boosted.engine import BoostingRun
from treecrf.learners.boosted.engines import make_run, suited_to, trains_on_partitions
from treecrf.learners.boosted.reports import Reports
from treecrf.learners.boosted.selection import (
    MovingChoice,
    choices,
    choose,
    default_choice,
    is_open,
)
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.learners.boosted.starts import fit_linear, make_start
from treecrf.utils.messages import warn
from treecrf.utils.threads import Background, Threads, check_memory, size_text

# Makes the estimators that callbacks receive.
MakeModel = Callable[[Trained], Any]


def train(
    spec: BoostingSpec,
    data: TrainingInput,
    callbacks: tuple[Callback, ...] = (),  # called in this process
    make_model: MakeModel | None = None,  # for callbacks
) -> Trained:
    """Train on data that have been read; with early stopping, return the best iteration.

    Some models need all data in one place: models without sampling, such as ``sampling="auto"``
    with few examples, and objectives other than the log-likelihood. Others stay in partitions.
    """
    spec = suited_to(data, spec)
    in_memory = data.training.in_memory
    if not in_memory and not trains_on_partitions(spec, data):
        return _train_gathered(spec, data, callbacks, make_model)
    n_labels = len(data.classes)
    spec.kind.check_size(n_labels, data.training.largest, in_partitions=not in_memory)
    if not is_open(spec, data):
        choice = MovingChoice(default_choice(spec, data.held_out is not None))
        return _train_by_choice(spec, data, choice, callbacks, make_model)

    n_threads = Threads(spec.n_jobs).n_threads
    # Callbacks and progress show the final number of iterations.
    if n_threads == 1 or not in_memory or callbacks or spec.verbose:
        choice = MovingChoice(choose(spec, data))
        return _train_by_choice(spec, data, choice, callbacks, make_model)
    with Background(choices(spec, data)) as later:
        halved = replace(spec, n_jobs=n_threads // 2)
        return _train_by_choice(halved, data, MovingChoice(next(later), later))


def _train_by_choice(
    spec: BoostingSpec,
    data: TrainingInput,
    moving: MovingChoice,
    callbacks: tuple[Callback, ...] = (),
    make_model: MakeModel | None = None,
) -> Trained:
    """Train from the start that is chosen, or first from one that is a guess."""
    with Threads(spec.n_jobs) as threads:
        linear = trained = None
        while trained is None:
            guess = moving.choice
            chosen = spec.of(guess.variant)
            used = data
            if guess.is_guess:
                if isinstance(guess.variant.start, float):
                    # Another start may be the same linear model with another factor.
                    linear = fit_linear(chosen, data, guess.variant.start)
                # The run may release the data, which are needed again after a wrong guess.
                used = copy(data)
            start = None
            if not data.earlier:
                start = make_start(chosen, data, guess.variant.start, linear)
            run = make_run(chosen, used, start, threads)
            candidate = _run_iterations(chosen, run, data.earlier, moving, callbacks, make_model)
            moving.settle()
            if moving.choice.variant == guess.variant:
                trained = candidate
    if spec.verbose:
        print(f"{spec.name}: {trained}", file=sys.stderr)
    if data.earlier:
        warn_without_new_iterations(data.earlier["n_iter_"], spec.max_iter)
    return trained


# Iterations


def _run_iterations(
    spec: BoostingSpec,
    run: BoostingRun,
    earlier: dict,  # fitted attributes that a warm start continues from; may be empty
    moving: MovingChoice,
    callbacks: tuple[Callback, ...],
    make_model: MakeModel | None,
) -> Trained:
    """Run the iterations of boosting; with early stopping, return the best one."""
    variant = moving.choice.variant
    history = _first_scores(run, earlier)
    with Reports(spec, run, moving.choice.n_iter, callbacks, make_model) as reports:
        reports.start(history, earlier)
        history = boost(
            run.booster,
            moving.is_beyond,
            run.validation,
            spec.stopping,
            reports.add_iteration,
            history,
        )
    if moving.choice.variant == variant and _ends_at_limit(spec, run, history):
        warn(
            "early stopping did not end training: the score of the held-out sequences was "
            f"still improving at max_iter={spec.max_iter}; raise max_iter",
            ConvergenceWarning,
        )
    choice = moving.choice
    n_iter = min(choice.n_iter, history.index_to_keep(spec.stopping))
    # Callbacks may have ended training.
    chosen_scores = choice.scores[: len(history.train)]
    if chosen_scores:
        history = replace(history, validation=chosen_scores)
    return replace(run.trained, history=history).until(n_iter).divided(choice.temperature)


def _ends_at_limit(spec: BoostingSpec, run: BoostingRun, history: History) -> bool:
    """Return whether scores of held-out sequences still improved at the last iteration.

    A number of iterations that the user chose is a limit of the time, which only ends early
    stopping with a fraction of the sequences.
    """
    if len(history.train) <= spec.max_iter:
        return False
    if run.validation is None:  # the last iteration of cross-validation was the best one
        return spec.has_own_limit
    is_stopped = spec.has_own_limit or spec.early_stopping not in (False, "auto")
    return is_stopped and history.is_at_best()


def _first_scores(run: BoostingRun, earlier: dict) -> History:
    """Return the scores before the first iteration, after the scores of an earlier fit."""
    value = None
    if run.validation is not None:
        value = run.validation.value(run.trained.forest)
    if earlier:
        return History.resumed(earlier["train_score_"], earlier["validation_score_"], value)
    if value is None:
        return History()
    return History(validation=[value])


# In one place


def _train_gathered(
    spec: BoostingSpec,
    data: TrainingInput,
    callbacks: tuple[Callback, ...],
    make_model: MakeModel | None,
) -> Trained:
    """Join all partitions where one of them is, and train on them there."""
    described = [data.training.described]
    if data.held_out is not None:
        described.append(data.held_out.described)
    _require_memory(described)
    # Callbacks are called in this process.
    in_process = bool(callbacks)
    arguments = spec, data.without_data(), callbacks, make_model if in_process else None
    return data.training.gathered_with(data.held_out, in_process, train_on_all, *arguments)


def train_on_all(
    training: LabeledSequences,
    held_out: LabeledSequences | None,
    spec: BoostingSpec,
    data: TrainingInput,  # the rest of it
    callbacks: tuple[Callback, ...],
    make_model: MakeModel | None,
) -> Trained:
    """Train on all sequences."""
    return train(spec, replace(data, training=training, held_out=held_out), callbacks, make_model)


def _require_memory(described: list[Description]) -> None:
    """Raise MemoryError if the joined data would not fit in memory."""
    n_bytes = sum(
        each.n_positions * each.schema.n_features * np.dtype(np.float64).itemsize
        for each in described
        if each.form == "dense"
    )
    check_memory(
        n_bytes,
        f"without samples of the examples, all data are needed in one place: "
        f"{sum(each.n_positions for each in described)} positions of "
        f"{described[0].schema.n_features} features "
        f"take {size_text(n_bytes)}; expected objective='log' and sampling='auto' or a number",
    )
