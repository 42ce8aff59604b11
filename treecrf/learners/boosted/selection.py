"""Cross-validation of boosting: which scores to start from, and how many iterations to run."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.chains.constraints import as_transitions
from treecrf.learners.base.history import Stopping
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.boosted.engines import make_run
from treecrf.learners.boosted.folds import N_FOLDS, in_blocks, make_folds
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.learners.boosted.starts import fit_linear, make_start
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.utils.messages import Progress
from treecrf.utils.threads import Background, Threads

# With more training positions, a sample of the sequences is enough to choose by.
MAX_POSITIONS = 100_000
# All of a linear model is compared after this number of iterations: where trees add much to it, a
# fraction of it is better.
WHOLE_ITERATIONS = 2
# The fraction is trained for this number of iterations, and on in strides until it is clear which
# one is better, or to the last number.
COMPARED_ITERATIONS = 12
COMPARED_STRIDE = 4
MAX_COMPARED_ITERATIONS = 28
# With the default parameters, nothing is random.
SEED = 0


@dataclass(frozen=True)
class Choice:
    """What to train: the start, the number of iterations, and the scores that favored them."""

    init: Any  # the start, an item of ``BoostingSpec.starts``
    n_iter: int
    # Mean scores of the folds before the first and after each iteration. Empty if the number of
    # iterations was not chosen, or chosen on a sample.
    scores: list[float]
    is_guess: bool = False  # whether another start may still be chosen


class MovingChoice:
    """A choice that is replaced when another thread knows more."""

    def __init__(self, choice: Choice, later: Background | None = None):
        self.choice = choice
        self._later = later  # choices of another thread; None if there are no more

    def is_beyond(self, n_iter: int) -> bool:
        """Return whether iterations follow this number, from the same start."""
        init = self.choice.init
        while self._later is not None and (n_iter >= self.choice.n_iter or self._later.is_ready):
            self._move()
        return self.choice.init is init and n_iter < self.choice.n_iter

    def settle(self) -> None:
        """Wait until the start is no longer a guess: early stopping may end training earlier."""
        while self.choice.is_guess:
            self._move()

    def _move(self) -> None:
        """Wait for the next choice, if there is one."""
        choice = next(self._later, None)
        if choice is None:
            self._later = None
        else:
            self.choice = choice


def is_open(spec: BoostingSpec, data: TrainingInput) -> bool:
    """Return whether cross-validation has something to choose: a start, or a number of iterations.

    With validation data, these end training.
    """
    if not spec.early_stopping or spec.warm_start:
        return False
    return len(spec.starts) > 1 or data.held_out is None


def default_choice(spec: BoostingSpec) -> Choice:
    """Return the choice without any comparison: all iterations, from scores of 0 if possible."""
    init = None
    if len(spec.starts) == 1:
        init = spec.starts[0]
    return Choice(init, spec.max_iter, [])


def choose(spec: BoostingSpec, data: TrainingInput) -> Choice:
    """Choose the start, and with ``early_stopping="auto"`` the number of iterations."""
    sample = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    return sample.gathered(_last_choice, spec, *_without_sequences(data))


def choices(spec: BoostingSpec, data: TrainingInput) -> Generator[Choice, None, None]:
    """Choose as `choose` does, from data in memory; also yield what is known meanwhile.

    That is a guess while starts are compared, and then the start that was chosen with ever more
    iterations. Another thread trains on the data at the same time.
    """
    sample = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    is_alone = False
    yield from sample.gathered(_choices, spec, *_without_sequences(data), is_alone)


def _without_sequences(data: TrainingInput) -> tuple[TrainingInput, int, bool]:
    """Return the data without sequences, their number of positions, and if some are held out."""
    return data.without_data(), data.training.n_positions, data.held_out is not None


def _last_choice(*arguments: Any) -> Choice:
    *_, choice = _choices(*arguments)
    return choice


def _choices(
    training: LabeledSequences,  # all of them or a sample
    spec: BoostingSpec,
    data: TrainingInput,  # the rest of it
    n_positions: int,  # of all training sequences
    has_held_out: bool,
    is_alone: bool = True,  # whether all threads are free
) -> Iterator[Choice]:
    """Choose on training sequences in one place.

    With validation data, these will end training, so that only the start is chosen.
    """
    rules = as_transitions(spec.kind.transitions, data.classes, spec.kind.order)
    if rules is not None and spec.kind.is_backward:
        rules = rules.reversed()
    if len(training.codes) > MAX_POSITIONS:
        blocks = in_blocks(training, MAX_POSITIONS, N_FOLDS, rules)
        training = blocks.at_random(MAX_POSITIONS, SEED)
    folds = make_folds(replace(data, training=training, seed=SEED), rules)
    if len(spec.starts) > 1 and folds:
        yield Choice(spec.starts[-1], min(COMPARED_ITERATIONS, spec.max_iter), [], is_guess=True)

    choice = None
    size_ratio = n_positions / len(training.codes)
    for best in _best_candidates(spec, folds, has_held_out, is_alone):
        if best.best_score == -np.inf:
            continue
        if has_held_out:
            choice = Choice(best.init, spec.max_iter, [])
        else:
            choice = _choice_of_iterations(spec, best, n_positions, size_ratio)
        yield choice
    if choice is None:
        yield default_choice(spec)


def _choice_of_iterations(
    spec: BoostingSpec, best: Candidate, n_positions: int, size_ratio: float
) -> Choice:
    """Choose the number of iterations with the best score.

    On a sample, more iterations are chosen in proportion to its size: trees that are grown on more
    positions fit less noise.
    """
    n_iter = int(np.argmax(best.scores))
    if n_positions > MAX_POSITIONS:
        return Choice(best.init, min(round(size_ratio * n_iter), spec.max_iter), [])
    return Choice(best.init, n_iter, best.scores[: n_iter + 1])


# Training on folds


class FoldRun:
    """Training on one fold, which goes on when scores of later iterations are needed."""

    def __init__(
        self, spec: BoostingSpec, fold: TrainingInput, start: LinearCRF | None, threads: Threads
    ):
        self.n_held_out = len(fold.held_out.codes)
        # The run may release the data.
        run = make_run(spec, copy(fold), start, threads)
        self._booster = run.booster
        self._held_out = run.validation
        self._scores = [self._held_out.value(self._booster.forest)]

    def scores(self, n_iter: int) -> list[float]:
        """Return the scores of the held-out sequences before and after each of the iterations."""
        self._scores += self._held_out.values(self._grown(n_iter))
        return self._scores[: n_iter + 1]

    def _grown(self, n_iter: int) -> Iterator[Forest]:
        """Yield the forest after each new iteration."""
        while self._booster.forest.n_iter < n_iter:
            self._booster.step()
            yield self._booster.forest


@dataclass
class Candidate:
    """A start, and training from it on all folds."""

    init: Any  # the start, an item of ``BoostingSpec.starts``
    runs: list[FoldRun]
    scores: list[float]  # means of the folds, before the first and after each iteration

    @property
    def best_score(self) -> float:
        """The best score."""
        return max(self.scores)

    def possible_score(self, stopping: Stopping) -> float:
        """Return the score that more iterations may reach: as much more as in the second half."""
        if stopping.is_reached(self.scores):
            return self.best_score
        latest = self.scores[-1]
        half = self.scores[len(self.scores) // 2]
        return max(self.best_score, latest + (latest - half))


class Race:
    """Candidates that are trained on folds side by side."""

    def __init__(
        self,
        spec: BoostingSpec,
        folds: list[TrainingInput],
        threads: Threads,
        inner: Threads,  # of each run
    ):
        self.spec = replace(spec, n_jobs=inner.n_threads)
        self.folds = folds
        self.threads = threads
        self.inner = inner
        # The optimum is flat, and means of folds are smooth.
        n_no_change = -(-spec.stopping.n_iter_no_change // 2)
        self.stopping = replace(spec.stopping, n_iter_no_change=n_no_change)

    def begin(self) -> list[Candidate]:
        """Return a candidate for each start."""
        starts_of_folds = self.threads.map(self._starts, self.folds)
        inits = self.spec.starts
        jobs = [
            (fold, starts[i])
            for i in range(len(inits))
            for fold, starts in zip(self.folds, starts_of_folds, strict=True)
        ]
        runs = self.threads.map(lambda job: FoldRun(self.spec, *job, self.inner), jobs)
        n = len(self.folds)
        return [Candidate(init, runs[i * n : (i + 1) * n], []) for i, init in enumerate(inits)]

    def _starts(self, fold: TrainingInput) -> list[LinearCRF | None]:
        """Return the models to start from, fitted to a fold; several are one model with factors."""
        inits = self.spec.starts
        linear = None
        if len(inits) > 1:
            linear = fit_linear(self.spec, fold, inits[0])
        return [make_start(self.spec, fold, init, linear) for init in inits]

    def advance(self, candidates: list[Candidate], n_iters: list[int]) -> None:
        """Train each candidate for a number of iterations in all."""
        jobs = [
            (run, min(n_iter, self.spec.max_iter))
            for candidate, n_iter in zip(candidates, n_iters, strict=True)
            for run in candidate.runs
        ]
        scores = iter(self.threads.map(lambda job: job[0].scores(job[1]), jobs))
        for candidate in candidates:
            run_scores = [next(scores) for _ in candidate.runs]
            sizes = [run.n_held_out for run in candidate.runs]
            candidate.scores = np.average(run_scores, axis=0, weights=sizes).tolist()

    def compare(self, whole: Candidate, fraction: Candidate) -> Candidate:
        """Return the better one of all and a fraction of a linear model."""
        n_iter = COMPARED_ITERATIONS
        self.advance([whole, fraction], [WHOLE_ITERATIONS, n_iter])
        while whole.best_score >= fraction.best_score:
            n_iter += COMPARED_STRIDE
            is_last = n_iter > min(MAX_COMPARED_ITERATIONS, self.spec.max_iter)
            if is_last or fraction.possible_score(self.stopping) <= whole.best_score:
                return whole
            self.advance([fraction], [n_iter])
        return fraction

    def finish(self, best: Candidate) -> Iterator[int]:
        """Train the best candidate until early stopping ends it; yield numbers of iterations."""
        n_iter = max(len(best.scores) - 1, 0)
        max_iter = self.spec.max_iter
        while True:
            self.advance([best], [n_iter])
            scores = best.scores
            ends = (n for n in range(1, len(scores)) if self.stopping.is_reached(scores[:n]))
            best.scores = scores[: next(ends, len(scores))]
            yield len(best.scores) - 1
            if n_iter == max_iter or self.stopping.is_reached(best.scores):
                return
            # Early stopping does not end it sooner.
            first = int(np.argmax(best.scores)) + self.stopping.n_iter_no_change
            n_iter = min(max(n_iter + 1, first), max_iter)


def _best_candidates(
    spec: BoostingSpec, folds: list[TrainingInput], has_held_out: bool, is_alone: bool
) -> Iterator[Candidate]:
    """Yield the best start, and again whenever it was trained further on all folds.

    It is trained further if the number of iterations matters. Without folds there is none.
    """
    if not folds:
        return
    name = f"{spec.name}, cross-validation"
    with Threads(spec.n_jobs) as threads:
        n_busy = len(folds) + (not is_alone)
        n_inner = max(1, threads.n_threads // n_busy)
        with Threads(n_inner) as inner, Progress(spec.verbose, 0, spec.max_iter, name) as bar:
            race = Race(spec, folds, threads, inner)
            candidates = race.begin()
            best = candidates[0]
            if len(candidates) > 1:
                best = race.compare(*candidates)
            if has_held_out:
                yield best
                return
            for n_iter in race.finish(best):
                bar.update(n_iter, {"validation": best.scores[-1]})
                yield best
