"""Cross-validation of boosting: which scores to start from, and how many iterations to run."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.chains.constraints import Transitions, as_transitions
from treecrf.learners.base.history import Stopping
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.boosted.engines import make_run
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.start import fitted_to, own_start, rounded_linear
from treecrf.trees.forest import Forest
from treecrf.utils.messages import Progress
from treecrf.utils.threads import Background, Threads

# A fold holds out a fifth of the positions; of more positions this number, and of many this
# fraction.
N_FOLDS = 5
HELD_OUT_POSITIONS = 3_000
HELD_OUT_FRACTION = 1 / 20
# One fold is enough if it holds out so many positions, or a third of all, and so many sequences.
# More folds, or more positions, were hardly better on held-out data. With fewer sequences there are
# more folds, because the scores of a few sequences are mostly noise.
ENOUGH_POSITIONS, ENOUGH_PARTS, ENOUGH_SEQUENCES = 600, 3, 10
# With fewer training positions, nothing is chosen.
MIN_POSITIONS = 50
# With more training positions, a sample of the sequences is enough to choose by.
MAX_POSITIONS = 100_000
# Sequences with more than a fold's part of the positions are cut into blocks of this fraction of
# all positions, within these lengths; there are always enough of them for the folds.
BLOCK_FRACTION = 1 / 20
MIN_BLOCK, MAX_BLOCK = 50, 500
# All of a linear model is compared after this number of iterations: where trees add much to it, a
# part of it is better. That is trained for the first of the next numbers of iterations, and on in
# strides until it is clear which one is better, or to the second number.
WHOLE_ITERATIONS = 2
COMPARED_ITERATIONS, MAX_COMPARED_ITERATIONS = 12, 28
COMPARED_STRIDE = 4
# With the default parameters, nothing is random.
SEED = 0


@dataclass(frozen=True)
class Choice:
    """What to train: the start, the number of iterations, and the scores that favored them."""

    init: Any  # value of the parameter ``init``
    n_iter: int
    # Mean scores of the folds before the first and after each iteration. Empty if the number of
    # iterations was not chosen, or chosen on a sample.
    scores: list[float]
    is_guess: bool = False  # whether another start may still be chosen


class LatestChoice:
    """The latest choice, which others of another thread may replace."""

    def __init__(self, choice: Choice, later: Background | None = None):
        self.choice, self._later = choice, later

    def is_beyond(self, n_iter: int) -> bool:
        """Return whether iterations follow this number, from the same start."""
        init, later = self.choice.init, self._later
        while later is not None and (n_iter >= self.choice.n_iter or later.is_ready):
            more = next(later, None)
            self.choice, later = more or self.choice, more and later
        self._later = later
        return self.choice.init is init and n_iter < self.choice.n_iter


def default_choice(spec: BoostingSpec) -> Choice:
    """Return the choice without any comparison: all iterations, from scores of 0 if possible."""
    return Choice(spec.starts[0] if len(spec.starts) == 1 else None, spec.max_iter, [])


def choose(spec: BoostingSpec, data: TrainingInput) -> Choice:
    """Choose the start, and with ``early_stopping="auto"`` the number of iterations."""
    sampled = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    return sampled.gathered(_choose, spec, *_arguments(data))


def choices(spec: BoostingSpec, data: TrainingInput) -> Generator[Choice, None, None]:
    """Choose as `choose` does, from data in memory; also yield what is known meanwhile.

    That is a guess while starts are compared, and then the start that was chosen with ever more
    iterations. Another thread trains on the data at the same time.
    """
    sampled = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    yield from sampled.gathered(_choices, spec, *_arguments(data), False)


def _arguments(data: TrainingInput) -> tuple:
    return data.without_data(), data.training.n_positions, data.held_out is not None


def _choose(*arguments: Any) -> Choice:
    *_, choice = _choices(*arguments)
    return choice


def _choices(
    training: LabeledSequences,
    spec: BoostingSpec,
    data: TrainingInput,
    n_positions: int,
    has_held_out: bool,
    is_alone: bool = True,
) -> Iterator[Choice]:
    """Choose on all training sequences or a sample of them.

    On a sample, more iterations are chosen in proportion to its size: trees that are grown on more
    positions fit less noise. ``n_positions`` counts the positions of all training sequences. With
    ``has_held_out``, validation data will end training, so that only the start is chosen.
    """
    data = replace(data, training=training, seed=SEED)
    rules = as_transitions(spec.kind.transitions, data.classes, spec.kind.order)
    if rules is not None and spec.kind.is_backward:
        rules = rules.reversed()
    if len(data.training.codes) > MAX_POSITIONS:
        blocks = in_blocks(data.training, MAX_POSITIONS, N_FOLDS, rules)
        data = replace(data, training=blocks.at_random(MAX_POSITIONS, SEED))
    choice, parts_of_folds = None, folds(data, rules)
    if len(spec.starts) > 1 and parts_of_folds:
        yield Choice(spec.starts[-1], min(COMPARED_ITERATIONS, spec.max_iter), [], is_guess=True)
    ratio = n_positions / len(data.training.codes)
    for best in _best_candidates(spec, parts_of_folds, has_held_out, is_alone):
        if best.best == -np.inf:
            continue
        n_iter, scores = int(np.argmax(best.scores)), best.scores
        choice = Choice(best.init, n_iter, scores[: n_iter + 1])
        if has_held_out:
            choice = Choice(best.init, spec.max_iter, [])
        elif n_positions > MAX_POSITIONS:
            choice = Choice(best.init, min(round(ratio * n_iter), spec.max_iter), [])
        yield choice
    if choice is None:
        yield default_choice(spec)


class FoldRun:
    """Training on one fold, which goes on when scores of later iterations are needed."""

    def __init__(
        self, spec: BoostingSpec, fold: TrainingInput, start: LinearCRF | None, threads: Threads
    ):
        self.n_held_out = len(fold.held_out.codes)
        run = make_run(spec, copy(fold), start, threads)
        self._booster, self._held_out = run.booster, run.validation
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

    init: Any  # value of the parameter ``init``
    runs: list[FoldRun]
    scores: list[float]  # means of the folds, before the first and after each iteration

    @property
    def best(self) -> float:
        """The best score."""
        return max(self.scores)

    def possible(self, stopping: Stopping) -> float:
        """Return the score that more iterations may reach: as much more as in the second half."""
        if stopping.is_reached(self.scores):
            return self.best
        latest, half = self.scores[-1], self.scores[len(self.scores) // 2]
        return max(self.best, latest + (latest - half))


class Race:
    """Candidates that are trained on folds side by side."""

    def __init__(
        self, spec: BoostingSpec, parts: list[TrainingInput], threads: Threads, inner: Threads
    ):
        self.spec = replace(spec, n_jobs=inner.n_threads)
        self.parts = parts  # the folds
        self.threads = threads
        self.inner = inner  # threads of each run
        # The optimum is flat, and means of folds are smooth.
        n_no_change = -(-spec.stopping.n_iter_no_change // 2)
        self.stopping = replace(spec.stopping, n_iter_no_change=n_no_change)

    def begin(self) -> list[Candidate]:
        """Return a candidate for each start."""
        inits, starts = self.spec.starts, self.threads.map(self._starts, self.parts)
        jobs = [
            (part, of_part[i])
            for i in range(len(inits))
            for part, of_part in zip(self.parts, starts, strict=True)
        ]
        runs = self.threads.map(lambda job: FoldRun(self.spec, *job, self.inner), jobs)
        n = len(self.parts)
        return [Candidate(init, runs[i * n : (i + 1) * n], []) for i, init in enumerate(inits)]

    def _starts(self, part: TrainingInput) -> list[LinearCRF | None]:
        """Return the models to start from, fitted to a fold; several are shares of one model."""
        inits = self.spec.starts
        linear = fit_linear(self.spec, part, inits[0]) if len(inits) > 1 else None
        return [start_of(self.spec, part, init, linear) for init in inits]

    def advance(self, candidates: list[Candidate], n_iters: list[int]) -> None:
        """Train each candidate for a number of iterations in all."""
        last = self.spec.max_iter
        jobs = [
            (run, min(n_iter, last))
            for candidate, n_iter in zip(candidates, n_iters, strict=True)
            for run in candidate.runs
        ]
        scores = iter(self.threads.map(lambda job: job[0].scores(job[1]), jobs))
        for candidate in candidates:
            sizes = [run.n_held_out for run in candidate.runs]
            of_runs = [next(scores) for _ in candidate.runs]
            candidate.scores = np.average(of_runs, axis=0, weights=sizes).tolist()

    def compare(self, whole: Candidate, part: Candidate) -> Candidate:
        """Return the better one of all and a part of a linear model."""
        n_iter = COMPARED_ITERATIONS
        self.advance([whole, part], [WHOLE_ITERATIONS, n_iter])
        while whole.best >= part.best:
            n_iter += COMPARED_STRIDE
            is_last = n_iter > min(MAX_COMPARED_ITERATIONS, self.spec.max_iter)
            if is_last or part.possible(self.stopping) <= whole.best:
                return whole
            self.advance([part], [n_iter])
        return part

    def finish(self, best: Candidate) -> Iterator[int]:
        """Train the best candidate until early stopping ends it; yield numbers of iterations."""
        n_iter, max_iter = max(len(best.scores) - 1, 0), self.spec.max_iter
        while True:
            self.advance([best], [n_iter])
            scores = best.scores
            over = (n for n in range(1, len(scores)) if self.stopping.is_reached(scores[:n]))
            best.scores = scores[: next(over, len(scores))]
            yield len(best.scores) - 1
            if n_iter == max_iter or self.stopping.is_reached(best.scores):
                return
            # Early stopping does not end it sooner.
            first = int(np.argmax(best.scores)) + self.stopping.n_iter_no_change
            n_iter = min(max(n_iter + 1, first), max_iter)


def _best_candidates(
    spec: BoostingSpec, parts: list[TrainingInput], has_held_out: bool, is_alone: bool
) -> Iterator[Candidate]:
    """Yield the best start, and again whenever it was trained further on all folds.

    It is trained further if the number of iterations matters. Without folds there is none.
    """
    if not parts:
        return
    name = f"{spec.name}, cross-validation"
    with Threads(spec.n_jobs) as threads:
        n_inner = max(1, threads.n_threads // (len(parts) + (not is_alone)))
        with Threads(n_inner) as inner, Progress(spec.verbose, 0, spec.max_iter, name) as bar:
            race = Race(spec, parts, threads, inner)
            candidates = race.begin()
            best = race.compare(*candidates) if len(candidates) > 1 else candidates[0]
            if has_held_out:
                yield best
                return
            for n_iter in race.finish(best):
                bar.update(n_iter, {"validation": best.scores[-1]})
                yield best


def folds(data: TrainingInput, rules: Transitions | None = None) -> list[TrainingInput]:
    """Return the training data of each fold, the other sequences being held out.

    The folds depend on the content of the sequences, not on their order. Their list is empty if
    there is too little data. Sequences that make up a large part of it are cut into blocks.
    """
    n_positions = len(data.training.codes)
    if n_positions < MIN_POSITIONS:
        return []
    of_many = max(HELD_OUT_POSITIONS, int(n_positions * HELD_OUT_FRACTION))
    of_more = min(n_positions // N_FOLDS, of_many)
    of_one = max(of_more, min(ENOUGH_POSITIONS, n_positions // ENOUGH_PARTS))
    for n_held_out in (of_one, of_more):
        n_parts = round(n_positions / n_held_out)
        training = in_blocks(data.training, n_positions, n_parts, rules)
        ranks = np.argsort(np.argsort(training.hashes(data.seed)))
        if len(ranks) >= ENOUGH_SEQUENCES * n_parts:
            break
    if len(ranks) < 2:
        return []
    n_parts = min(n_parts, len(ranks))
    n_folds = min(-(-ENOUGH_SEQUENCES * n_parts // len(ranks)), n_parts)
    parts = []
    for fold in range(n_folds):
        kept, held_out = training.parted(ranks % n_parts == fold)
        if kept.sequences.are_symbols and not len(kept.sequences.symbols()):
            return []
        parts.append(replace(data, training=kept, held_out=held_out))
    return parts


def in_blocks(
    data: LabeledSequences, n_positions: int, n_parts: int, rules: Transitions | None = None
) -> LabeledSequences:
    """Cut sequences that are too long for ``n_parts`` parts of ``n_positions`` into blocks.

    A block is like a sequence: its first label has no previous one, and windows do not reach into
    its neighbors. Where the label before a cut may not come last, or the one after it may not come
    first, the cut is made at the next position where they may, if there is one in the block.
    """
    offsets = data.sequences.offsets
    lengths = np.diff(offsets)
    if lengths.max() * n_parts <= n_positions:
        return data
    least = min(MIN_BLOCK, n_positions // ENOUGH_SEQUENCES)
    size = int(np.clip(n_positions * BLOCK_FRACTION, least, MAX_BLOCK))
    n_blocks = np.maximum(lengths // size, 1)
    bounds = [
        start + np.arange(n) * length // n
        for start, length, n in zip(offsets[:-1], lengths, n_blocks, strict=True)
    ]
    bounds = np.append(np.concatenate(bounds), offsets[-1])
    possible = np.zeros(offsets[-1] + 1, dtype=bool)
    possible[1:-1] = rules is None or (
        rules.ends[data.codes[:-1]] & rules.follows[-1, data.codes[1:]]
    )
    possible[offsets] = True
    cuts = np.flatnonzero(possible)
    return data.cut(np.unique(cuts[np.searchsorted(cuts, bounds)]))


# Linear models to start from

# Because trees follow, a linear model need not be at its optimum: ten iterations of L-BFGS that
# lower its loss by less than this fraction are the last ones. Most data need 20 to 50 iterations,
# but labels that persist may need hundreds, which trees cannot make up for.
START_TOLERANCE = 0.01
# With more training positions, the linear model is fitted to a sample of the sequences.
MAX_START_POSITIONS = 1_000_000


# All of a linear model is best where the effects of features add up. In general it is better to
# start from a part of it, as a first step of boosting with this learning rate: a linear model that
# lacks interactions relies too much on the previous label, which trees are slow to correct. The
# numbers are factors of the weights.
WHOLE, PART = 1.0, 0.4


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

    ``init`` is a share of an own linear model, which may be ``linear``, or a LinearCRF of the user,
    which is used as it is if it is fitted.
    """
    if init is None:
        return None
    if isinstance(init, float):
        return rounded_linear(linear or fit_linear(spec, data, init), init)
    require_start(init, data.classes)
    return rounded_linear(init if hasattr(init, "classes_") else fit_linear(spec, data, init))


def fit_linear(spec: BoostingSpec, data: TrainingInput, init: float | LinearCRF) -> LinearCRF:
    """Fit the linear model of a start, whatever its share, to training data or a sample of them."""
    sample = data.training.at_random(MAX_START_POSITIONS, data.seed)
    return sample.gathered(_fit_start, spec, data.without_data(), init)


def _fit_start(
    training: LabeledSequences,
    spec: BoostingSpec,
    data: TrainingInput,  # the rest of it
    init: float | LinearCRF,
) -> LinearCRF:
    """Fit the linear model of a start to sequences in one place."""
    data = replace(data, training=training)
    if isinstance(init, LinearCRF):
        return fitted_to(init, data, spec.n_jobs)
    return fitted_to(own_start(**spec.linear, tol=START_TOLERANCE), data, spec.n_jobs)


def is_linear(init: Any) -> bool:
    """Return whether the parameter ``init`` stands for a linear start."""
    return init == "linear" or isinstance(init, LinearCRF)
