"""The training of boosted trees, from data that have been read to the model.

Data in memory, in files and on Dask take the same way: start and number of iterations are chosen,
the data are encoded where they are, and an engine adds trees. The model is equal, array for array,
however the data are cut into partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.inputs.sequences import Description
from treecrf.learners.boosted.engine import Engine, make_engine
from treecrf.learners.boosted.labeled import TrainingParts, joined
from treecrf.learners.boosted.loop import boost
from treecrf.learners.boosted.selection import Choice, choices, choose, is_compared
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.learners.boosted.start import fit_linear, start_of
from treecrf.learners.iterations import NO_CALLBACKS, Callbacks, History, IterationInfo
from treecrf.learners.training_data import LabeledSequences, TrainingInput
from treecrf.utils.messages import Progress, warn
from treecrf.utils.partitions import LocalPartitions, identity
from treecrf.utils.threads import Background, Threads, check_memory


def train(
    spec: BoostingSpec,
    data: TrainingParts,
    callbacks: Callbacks = NO_CALLBACKS,  # called in this process
    model: Callable[[Trained], Any] | None = None,  # makes the estimators that callbacks receive
) -> Trained:
    """Train on data that have been read; with early stopping, return the best iteration.

    Some models need all data in one place: models without sampling, such as ``sampling="auto"``
    with few examples, and objectives other than the log-likelihood. Others stay in partitions.
    """
    if not (data.in_memory or trains_on_partitions(spec, data)):
        return _train_joined(spec, data, callbacks, model)
    n_labels = len(data.classes)
    largest = max(int(lengths.sum()) for lengths in data.training.lengths)
    spec.kind.check_size(n_labels, largest, in_partitions=not data.in_memory)
    n_threads = Threads(spec.n_jobs).n_threads
    # Callbacks and progress show the final number of iterations.
    is_plain = data.in_memory and not callbacks and not spec.verbose
    if n_threads > 1 and is_plain and is_compared(spec, data):
        with Background(choices(spec, data)) as later:
            halved = replace(spec, n_jobs=n_threads // 2)
            return _trained(halved, data, Target(next(later), later))
    return _trained(spec, data, Target(choose(spec, data)), callbacks, model)


class Target:
    """The start and the number of iterations to train, which may be compared at the same time."""

    def __init__(self, choice: Choice, later: Background | None = None):
        self.choice = choice
        self._later = later

    def is_beyond(self, n_iter: int) -> bool:
        """Return whether iterations follow this number, from the same start."""
        init = self.choice.init
        while self._later is not None and (n_iter >= self.choice.n_iter or self._later.is_ready):
            more = next(self._later, None)
            self.choice, self._later = more or self.choice, more and self._later
        return self.choice.init is init and n_iter < self.choice.n_iter


def _trained(
    spec: BoostingSpec,
    data: TrainingParts,
    target: Target,
    callbacks: Callbacks = NO_CALLBACKS,
    model: Callable[[Trained], Any] | None = None,
) -> Trained:
    """Train from the start that is chosen, or first from one that is a guess."""
    linear = None
    with Threads(spec.n_jobs) as threads:
        while True:
            choice = target.choice
            if choice.is_guess:
                # Another start is another share of the same model.
                linear = fit_linear(spec, data, choice.init)
            start = None if data.earlier else start_of(spec, data, choice.init, linear)
            read = data.shared() if choice.is_guess else data
            engine = make_engine(spec, read, start, threads)
            trained = _boosted(engine, data, target, callbacks, model)
            if target.choice.init is choice.init:
                break
    trained = trained.kept(spec.stopping)
    if spec.verbose:
        print(f"{spec.name}: {trained}", file=sys.stderr)
    return trained


def trains_on_partitions(spec: BoostingSpec, data: TrainingParts) -> bool:
    """Return whether partitions need not be joined; errors if samples are not supported."""
    size = len(data.classes), data.training.n_positions
    threshold = spec.kind.threshold(spec.sampling, *size)
    return threshold is not None and spec.kind.samples_partitions


# Iterations


def _boosted(
    engine: Engine,
    data: TrainingParts,
    target: Target,
    callbacks: Callbacks,
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Run the iterations of an engine."""
    booster, evaluations, spec = engine.booster, engine.evaluations, engine.setup.spec
    forest, n_iter = booster.forest, target.choice.n_iter
    shown = Progress(1, forest.n_iter, n_iter, spec.name) if spec.verbose else nullcontext()
    with shown as progress:
        validation = evaluations.validation
        value = None if validation is None else validation.value(forest)
        history = History([], [] if value is None else [value])
        if data.earlier:
            scores = data.earlier["train_score_"], data.earlier["validation_score_"]
            history = History.resumed(*scores, value)
        if evaluations.sets:
            evaluations.start(history, data.earlier.get("evals_result_", {}), forest)

        def info(n_done: int) -> IterationInfo:
            def model_so_far() -> Any:
                so_far = replace(history, train=[*history.train, booster.value()])
                return model(engine.trained(forest.copy(), so_far))

            return IterationInfo(spec.name, n_done, n_iter, history, model_so_far, booster)

        def report(n_done: int, history: History) -> bool:
            if progress is not None:
                progress.update(n_done, history.latest(spec.value_name))
            if evaluations.sets:
                evaluations.add_to(history, forest)
            return bool(callbacks.callbacks) and callbacks.after(info(n_done))

        if callbacks.callbacks:
            callbacks.start(info(forest.n_iter))
        history = boost(booster, target.is_beyond, validation, spec.stopping, report, history)
    is_last = len(history.train) > spec.max_iter
    if spec.early_stopping not in (False, "auto") and is_last and history.is_at_best():
        warn(
            "early stopping did not end training: the score of the validation sequences was "
            f"still improving at max_iter={spec.max_iter}; raise max_iter",
            ConvergenceWarning,
        )
    history = replace(history, validation=target.choice.scores or history.validation)
    return engine.trained(forest, history).until(target.choice.n_iter)


# In one place


def _train_joined(
    spec: BoostingSpec,
    data: TrainingParts,
    callbacks: Callbacks,
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Join all partitions where one of them is, and train on them there."""
    partitions = data.training.partitions.derive_all(identity)
    n_parts, described = partitions.n_parts, [data.training.described]
    if data.validation is not None:
        partitions = partitions.chain(data.validation.partitions.derive_all(identity))
        described.append(data.validation.described)
    _require_memory(described)
    if callbacks:
        # They are called in this process.
        partitions = LocalPartitions(partitions.map(identity))
    arguments = data.joined(None), n_parts, described, callbacks, model if callbacks else None
    return partitions.reduce(train_on_all, spec, *arguments)


def train_on_all(
    parts: list[LabeledSequences | None],
    spec: BoostingSpec,
    data: TrainingInput,
    n_parts: int,
    described: list[Description],
    callbacks: Callbacks,
    model: Callable[[Trained], Any] | None,
) -> Trained:
    """Train on all partitions; those from ``n_parts`` on are validation data."""
    sets = [
        joined([part for part in some if part is not None], of_set)
        for some, of_set in zip((parts[:n_parts], parts[n_parts:]), described, strict=False)
    ]
    training, held_out = sets[0], sets[1] if len(sets) > 1 else None
    data = TrainingParts.of(replace(data, training=training, held_out=held_out))
    return train(spec, data, callbacks, model)


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
        f"take {n_bytes / 1e9:.0f} GB; expected objective='log' and sampling='auto' or a number",
    )
