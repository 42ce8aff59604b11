"""Reports of the iterations of boosting: progress, callbacks, and scores of further sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from treecrf.learners.base.callbacks import Callback, IterationInfo, call_all, start_callbacks
from treecrf.learners.base.history import History
from treecrf.learners.base.validation_metrics import OBJECTIVE_SCORINGS, scoring_name
from treecrf.learners.boosted.booster import Validation
from treecrf.learners.boosted.engine import BoostingRun
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.trees.forest import Forest
from treecrf.utils.messages import Progress


class Reports(AbstractContextManager["Reports"]):
    """What is reported while trees are added, until the context ends."""

    def __init__(
        self,
        spec: BoostingSpec,
        run: BoostingRun,
        n_iter: int,  # at which training ends, unless early stopping ends it
        callbacks: tuple[Callback, ...],
        make_model: Callable[[Trained], Any] | None,  # makes what callbacks receive
    ):
        self._spec = spec
        self._run = run
        self._n_iter = n_iter
        self._callbacks = callbacks
        self._make_model = make_model
        self._progress = Progress(spec.verbose, run.trained.forest.n_iter, n_iter, spec.name)
        self._set_scores = None
        if run.sets:
            self._set_scores = SetScores(run.sets, run.validation, spec.scoring)

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)

    def start(self, history: History, earlier: dict) -> None:
        """Report the scores before the first iteration; ``earlier`` is from an earlier fit."""
        forest = self._run.trained.forest
        if self._set_scores is not None:
            self._set_scores.start(history, earlier.get("evals_result_", {}), forest)
        if self._callbacks:
            start_callbacks(self._callbacks, self._info(forest.n_iter, history))

    def add_iteration(self, n_done: int, history: History) -> bool:
        """Report the scores after an iteration; return True if a callback ends training."""
        self._progress.update(n_done, history.latest(self._spec.value_name))
        if self._set_scores is not None:
            self._set_scores.add_to(history, self._run.trained.forest)
        if not self._callbacks:
            return False
        return call_all(self._callbacks, self._info(n_done, history))

    def _info(self, n_done: int, history: History) -> IterationInfo:
        booster = self._run.booster
        trained = self._run.trained

        def model_so_far() -> Any:
            so_far = replace(history, train=[*history.train, booster.value()])
            return self._make_model(replace(trained, forest=trained.forest.copy(), history=so_far))

        return IterationInfo(self._spec.name, n_done, self._n_iter, history, model_so_far, booster)


class SetScores:
    """Scores of several sets of sequences; None in the list stands for the validation data.

    ``scoring`` is a result of `resolved_scoring`.
    """

    def __init__(self, sets: list[Validation | None], validation: Validation | None, scoring: Any):
        self.sets = {f"valid_{i}": scored for i, scored in enumerate(sets)}
        self.validation = validation
        self.objective = "log_likelihood" if scoring == "log_likelihood" else "objective"
        self.metrics = [self.objective]
        if scoring not in OBJECTIVE_SCORINGS:
            self.metrics.append(scoring_name(scoring))

    def start(self, history: History, earlier: dict, forest: Forest) -> None:
        """Add the scores of the start, after the scores of an earlier fit; NaN if it has none."""
        unknown = np.full(forest.n_iter + 1, np.nan)
        for name in self.sets:
            before = earlier.get(name, {})
            history.evals[name] = {
                metric: before.get(metric, unknown)[:-1].tolist() for metric in self.metrics
            }
        self.add_to(history, forest)

    def add_to(self, history: History, forest: Forest) -> None:
        """Append the present scores to the history, which has the validation score."""
        for name, own in self.sets.items():
            if own is None:
                scored = self.validation
                value = history.validation[-1]
            else:
                scored = own
                value = own.value(forest)
            scores = history.evals[name]
            for metric in self.metrics[1:]:
                scores[metric].append(value)
                value = scored.latest
            scores[self.objective].append(value)
