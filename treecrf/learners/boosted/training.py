"""The training of boosted trees, from data that have been read to the model.

Data in memory, in files and on Dask take the same way: start and number of iterations are chosen,
the data are encoded where they are, and a booster adds trees. The model is equal, array for array,
however the data are cut into partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.inputs.sequences import Description
from treecrf.learners.base.callbacks import Callback, IterationInfo, call_all, start_callbacks
from treecrf.learners.base.history import History
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.base.validation_metrics import OBJECTIVE_SCORINGS, scoring_name
from treecrf.learners.base.warm_start import warn_without_new_iterations
from treecrf.learners.boosted.booster import Validation, boost
from treecrf.learners.boosted.engine import BoostingRun
from treecrf.learners.boosted.engines import make_run, trains_on_partitions
from treecrf.learners.boosted.selection import (
    LatestChoice,
    choices,
    choose,
    default_choice,
    fit_linear,
    start_of,
)
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.trees.forest import Forest
from treecrf.utils.messages import Progress, warn
from treecrf.utils.threads import Background, Threads, check_memory, size_text


def train(
    spec: BoostingSpec,
    data: TrainingInput,
    callbacks: tuple[Callback, ...] = (),  # called in this process
    model: Callable[[Trained], Any] | None = None,  # makes the estimators that callbacks receive
) -> Trained:
    """Train on data that have been read; with early stopping, return the best iteration.

    Some models need all data in one place: models without sampling, such as ``sampling="auto"``
    with few examples, and objectives other than the log-likelihood. Others stay in partitions.
    """
    if not (data.training.in_memory or trains_on_partitions(spec, data)):
        return _train_gathered(spec, data, callbacks, model)
    n_labels = len(data.classes)
    in_memory = data.training.in_memory
    spec.kind.check_size(n_labels, data.training.largest, in_partitions=not in_memory)
    n_threads = Threads(spec.n_jobs).n_threads
    are_open = len(spec.starts) > 1 or data.held_out is None
    if not (spec.early_stopping and not spec.warm_start and are_open):
        return _trained(spec, data, LatestChoice(default_choice(spec)), callbacks, model)
    # Callbacks and progress show the final number of iterations.
    if n_threads == 1 or not in_memory or callbacks or spec.verbose:
        return _trained(spec, data, LatestChoice(choose(spec, data)), callbacks, model)
    with Background(choices(spec, data)) as later:
        halved = replace(spec, n_jobs=n_threads // 2)
        return _trained(halved, data, LatestChoice(next(later), later))


def _trained(
    spec: BoostingSpec,
    data: TrainingInput,
    latest: LatestChoice,
    callbacks: tuple[Callback, ...] = (),
    model: Callable[[Trained], Any] | None = None,
) -> Trained:
    """Train from the start that is chosen, or first from one that is a guess."""
    linear = trained = None
    with Threads(spec.n_jobs) as threads:
        while trained is None:
            init, read = latest.choice.init, data
            if latest.choice.is_guess:
                # Another start is another share of the same model.
                linear = fit_linear(spec, data, init)
                # The run may release the data.
                read = copy(data)
            start = None if data.earlier else start_of(spec, data, init, linear)
            run = make_run(spec, read, start, threads)
            found = _boosted(spec, run, data, latest, callbacks, model)
            while latest.choice.is_guess:  # early stopping may end training before that is over
                latest.is_beyond(latest.choice.n_iter)
            trained = found if latest.choice.init is init else None
    if spec.verbose:
        print(f"{spec.name}: {trained}", file=sys.stderr)
    if data.earlier:
        warn_without_new_iterations(data.earlier["n_iter_"], spec.max_iter)
    return trained


# Iterations


def _boosted(
    spec: BoostingSpec,
    run: BoostingRun,
    data: TrainingInput,
    latest: LatestChoice,
    callbacks: tuple[Callback, ...],
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Run the iterations of boosting; with early stopping, return the best one."""
    trained, booster, validation = run.trained, run.booster, run.validation
    forest, init, n_iter = trained.forest, latest.choice.init, latest.choice.n_iter
    shown = Progress(1, forest.n_iter, n_iter, spec.name) if spec.verbose else nullcontext()
    evaluations = Evaluations(run.sets, validation, spec.scoring) if run.sets else None
    with shown as progress:
        value = None if validation is None else validation.value(forest)
        history = History([], [] if value is None else [value])
        if data.earlier:
            scores = data.earlier["train_score_"], data.earlier["validation_score_"]
            history = History.resumed(*scores, value)
        if evaluations is not None:
            evaluations.start(history, data.earlier.get("evals_result_", {}), forest)

        def info(n_done: int) -> IterationInfo:
            def model_so_far() -> Any:
                so_far = replace(history, train=[*history.train, booster.value()])
                return model(replace(trained, forest=forest.copy(), history=so_far))

            return IterationInfo(spec.name, n_done, n_iter, history, model_so_far, booster)

        def report(n_done: int, history: History) -> bool:
            if progress is not None:
                progress.update(n_done, history.latest(spec.value_name))
            if evaluations is not None:
                evaluations.add_to(history, forest)
            return bool(callbacks) and call_all(callbacks, info(n_done))

        if callbacks:
            start_callbacks(callbacks, info(forest.n_iter))
        history = boost(booster, latest.is_beyond, validation, spec.stopping, report, history)
    choice = latest.choice
    is_last = len(history.train) > spec.max_iter and choice.init is init
    if spec.early_stopping not in (False, "auto") and is_last and history.is_at_best():
        warn(
            "early stopping did not end training: the score of the validation sequences was "
            f"still improving at max_iter={spec.max_iter}; raise max_iter",
            ConvergenceWarning,
        )
    chosen = choice.scores[: len(history.train)]  # callbacks may have ended training
    history = replace(history, validation=chosen or history.validation)
    n_kept = min(choice.n_iter, history.index_to_keep(spec.stopping))
    return replace(trained, history=history).until(n_kept)


class Evaluations:
    """Scores of several sets of sequences; None in the list stands for the validation data.

    ``scoring`` is a result of `resolved_scoring`.
    """

    def __init__(self, sets: list[Validation | None], validation: Validation | None, scoring: Any):
        self.sets = {f"valid_{i}": scored for i, scored in enumerate(sets)}
        self.validation = validation
        self.objective = "log_likelihood" if scoring == "log_likelihood" else "objective"
        self.metric = None if scoring in OBJECTIVE_SCORINGS else scoring_name(scoring)

    def start(self, history: History, earlier: dict, forest: Forest) -> None:
        """Add the scores of the start, after the scores of an earlier fit; NaN if it has none."""
        metrics = [self.objective, *([self.metric] if self.metric else [])]
        unknown = np.full(forest.n_iter + 1, np.nan)
        for name in self.sets:
            before = earlier.get(name, {})
            history.evals[name] = {
                metric: before.get(metric, unknown)[:-1].tolist() for metric in metrics
            }
        self.add_to(history, forest)

    def add_to(self, history: History, forest: Forest) -> None:
        """Append the present scores to the history, which has the validation score."""
        for name, own in self.sets.items():
            scored = own or self.validation
            value = history.validation[-1] if own is None else own.value(forest)
            scores = history.evals[name]
            if self.metric:
                scores[self.metric].append(value)
                value = scored.latest
            scores[self.objective].append(value)


# In one place


def _train_gathered(
    spec: BoostingSpec,
    data: TrainingInput,
    callbacks: tuple[Callback, ...],
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Join all partitions where one of them is, and train on them there."""
    described = [data.training.described]
    if data.held_out is not None:
        described.append(data.held_out.described)
    _require_memory(described)
    # Callbacks are called in this process.
    in_process = bool(callbacks)
    arguments = spec, data.without_data(), callbacks, model if in_process else None
    return data.training.gathered_with(data.held_out, in_process, train_on_all, *arguments)


def train_on_all(
    training: LabeledSequences,
    held_out: LabeledSequences | None,
    spec: BoostingSpec,
    data: TrainingInput,  # the rest of it
    callbacks: tuple[Callback, ...],
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Train on all sequences."""
    return train(spec, replace(data, training=training, held_out=held_out), callbacks, model)


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
