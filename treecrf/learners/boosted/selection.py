"""Cross-validation of boosting: which scores to start from, and how many iterations to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.chains.constraints import Transitions, as_transitions
from treecrf.learners.stopping import Stopping
from treecrf.learners.training_data import LabeledSequences, TrainingInput, at_random
from treecrf.utils.progress import Progress
from treecrf.utils.threads import Threads

# Maximum number of folds, and that for many examples: each fold costs nearly as much as training.
N_FOLDS = 5
N_FOLDS_OF_MANY = 3
MANY_EXAMPLES = 1 << 17
# With fewer training positions, the scores of held-out sequences are mostly noise.
MIN_POSITIONS = 200
# Sequences with more than a fold's part of the positions are cut into blocks of this fraction of
# them, and of this minimum length.
N_BLOCKS = 20
MIN_BLOCK = 50
# With more training positions or more examples, cross-validation takes long and matters little.
MAX_POSITIONS = 10_000
MAX_EXAMPLES = 1 << 20
# Starts are compared for this fraction of the iterations; where examples are many, on the first
# folds with this number of held-out positions.
COMPARED_FRACTION = 1 / 5
COMPARED_POSITIONS = 400
# From this iteration on, a start is given up if the best score is further away than this multiple
# of the increase over the second half of its iterations.
MIN_COMPARED = 20
MAX_GAIN = 1.0
# With the default parameters, nothing is random.
SEED = 0


@dataclass(frozen=True)
class Choice:
    """What to train: the start, the number of iterations, and the scores that favored them.

    Attributes
    ----------
    init : object
        Value of the parameter ``init``.
    n_iter : int
    scores : list of float
        Mean scores of the folds before the first and after each iteration. Empty if the number of
        iterations was not chosen.
    """

    init: Any
    n_iter: int
    scores: list[float]


def choose(learner: Any, data: TrainingInput) -> Choice:
    """Choose the start, and with ``early_stopping="auto"`` the number of iterations.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    data : TrainingInput
    """
    n_positions, has_held_out = len(data.training.codes), data.held_out is not None
    limit = max_positions(learner, len(data.classes), n_positions, has_held_out)
    if limit is None:
        return default_choice(learner)
    is_whole = n_positions <= limit
    training = data.training if is_whole else first_sample(data.training, limit)
    return choose_on_sample(
        learner, replace(data, training=training), is_whole, is_whole and not has_held_out
    )


def default_choice(learner: Any) -> Choice:
    """Return the choice without any comparison: the last start, and all iterations."""
    return Choice(learner._candidates()[-1], learner.max_iter, [])


def max_positions(learner: Any, n_labels: int, n_positions: int, has_held_out: bool) -> int | None:
    """Return the maximum number of positions for a choice; None if there is none to make."""
    if not learner.early_stopping or learner.warm_start:
        return None
    limit = min(MAX_POSITIONS, MAX_EXAMPLES // learner._n_scores(n_labels))
    counts_iterations = n_positions <= limit and not has_held_out
    return limit if counts_iterations or len(learner._candidates()) > 1 else None


def choose_on_sample(
    learner: Any, data: TrainingInput, is_whole: bool, counts_iterations: bool
) -> Choice:
    """Choose as `choose` does, given all training sequences or the first sample of them.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    data : TrainingInput
    is_whole : bool
        Whether these are all training sequences.
    counts_iterations : bool
        Whether to choose the number of iterations as well.
    """
    data = replace(data, seed=SEED)
    rules = as_transitions(learner.transitions, data.classes, learner.order)
    if rules is not None and learner._is_backward():
        rules = rules.reversed()
    candidates, n_scores = learner._candidates(), learner._n_scores(len(data.classes))
    if counts_iterations:
        choice = cross_validated(learner, folds(data, n_scores, rules), candidates)
    else:
        limit = min(MAX_POSITIONS, MAX_EXAMPLES // n_scores)
        data = data if is_whole else second_sample(data, limit, rules)
        choice = best_start(learner, folds(data, 1, rules), candidates)
    return choice or default_choice(learner)


class FoldRun:
    """Training on one fold, which goes on when scores of later iterations are needed.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    part : TrainingInput
    init : object
        Value of the parameter ``init``.
    threads : Threads
    """

    def __init__(self, learner: Any, part: TrainingInput, init: Any, threads: Threads):
        data, encoder, forest = learner._started(part, init)
        self.n_held_out = len(part.held_out.codes)
        self._booster = learner._booster(data, encoder, forest, threads)
        self._held_out = learner._scored(data, part.held_out, encoder, threads)
        self._scores = [self._held_out.value(forest, threads)]

    def score(self, n_iter: int) -> float:
        """Return the score of the held-out sequences after ``n_iter`` iterations."""
        booster = self._booster
        while len(self._scores) <= n_iter:
            booster.step()
            self._scores.append(self._held_out.value(booster.forest, booster.threads))
        return self._scores[n_iter]


class Candidate:
    """A start, and training from it on the folds in step.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    parts : list of TrainingInput
        The folds.
    init : object
        Value of the parameter ``init``.
    threads : Threads

    Attributes
    ----------
    scores : list of float
        Mean scores of the folds that take part, before the first and after each iteration.
    """

    def __init__(self, learner: Any, parts: list[TrainingInput], init: Any, threads: Threads):
        self.init = init
        self.scores: list[float] = []
        self._parts = parts
        self._runs: list[FoldRun] = []
        self._threads = threads
        self._learner = learner
        self._stopping: Stopping = learner._stopping()

    def begin(self, n_folds: int) -> None:
        """Begin again with the first folds; iterations that they have had are not repeated."""
        for part in self._parts[len(self._runs) : n_folds]:
            self._runs.append(FoldRun(self._learner, part, self.init, self._threads))
        self.scores = []
        self.advance()

    def advance(self) -> None:
        """Add an iteration."""
        scores = [run.score(len(self.scores)) for run in self._runs]
        sizes = [run.n_held_out for run in self._runs]
        self.scores.append(float(np.average(scores, weights=sizes)))

    @property
    def is_over(self) -> bool:
        """Whether early stopping ends training."""
        return self._stopping.is_reached(self.scores)

    def is_hopeless(self, target: float) -> bool:
        """Return whether the scores will not reach a target: they rise ever more slowly."""
        if max(self.scores) >= target:
            return False
        if self.is_over or len(self.scores) <= MIN_COMPARED:
            return self.is_over
        latest, half = self.scores[-1], self.scores[len(self.scores) // 2]
        return latest + MAX_GAIN * (latest - half) < target


def cross_validated(learner: Any, parts: list[TrainingInput], inits: list) -> Choice | None:
    """Choose the start and the number of iterations by the scores of the held-out sequences.

    The result is None if there are no folds, or no finite scores.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    parts : list of TrainingInput
        The folds.
    inits : list
        The starts, the one that needs the fewest iterations first.
    """
    with Threads(learner.n_jobs) as threads:
        n_compared = len(parts) if len(parts) > N_FOLDS_OF_MANY else _n_compared(parts)
        best = _best_start(learner, parts, n_compared, inits, threads)
        if best is None:
            return None
        best.begin(len(parts))
        with _progress(learner, learner.max_iter) as progress:
            while len(best.scores) <= learner.max_iter and not best.is_over:
                best.advance()
                progress.update(len(best.scores) - 1, {"validation": best.scores[-1]})
    n_iter = int(np.argmax(best.scores))
    if best.scores[n_iter] == -np.inf:
        return None
    return Choice(best.init, n_iter, best.scores[: n_iter + 1])


def best_start(learner: Any, parts: list[TrainingInput], inits: list) -> Choice | None:
    """Choose the start as `cross_validated` does for many examples, and all iterations."""
    with Threads(learner.n_jobs) as threads:
        best = _best_start(learner, parts, _n_compared(parts), inits, threads)
    return None if best is None else Choice(best.init, learner.max_iter, [])


def _n_compared(parts: list[TrainingInput]) -> int:
    """Return the number of folds that are enough to compare starts."""
    n_held_out = np.cumsum([len(part.held_out.codes) for part in parts])
    return min(len(parts), 1 + int(np.searchsorted(n_held_out, COMPARED_POSITIONS)))


def _best_start(
    learner: Any, parts: list[TrainingInput], n_folds: int, inits: list, threads: Threads
) -> Candidate | None:
    """Compare the starts in step on the first folds; give up those that fall behind."""
    if not parts:
        return None
    candidates = [Candidate(learner, parts, init, threads) for init in inits]
    if len(candidates) == 1:
        return candidates[0]
    for candidate in candidates:
        candidate.begin(n_folds)
    n_iter = max(MIN_COMPARED, round(COMPARED_FRACTION * learner.max_iter))
    n_iter = min(n_iter, learner.max_iter)
    with _progress(learner, n_iter) as progress:
        for i in range(1, n_iter + 1):
            for candidate in candidates:
                if not candidate.is_over:
                    candidate.advance()
            target = max(max(candidate.scores) for candidate in candidates)
            progress.update(i, {"validation": target})
            candidates = [each for each in candidates if not each.is_hopeless(target)]
            if len(candidates) == 1:
                break
    best = max(candidates, key=lambda candidate: max(candidate.scores))
    return best if max(best.scores) > -np.inf else None


def _progress(learner: Any, n_iter: int) -> Progress:
    return Progress(learner.verbose, 0, n_iter, f"{type(learner).__name__}, cross-validation")


def folds(
    data: TrainingInput, n_scores: int = 1, rules: Transitions | None = None
) -> list[TrainingInput]:
    """Return the training data of each fold, the other sequences being held out.

    The folds depend on the content of the sequences, not on their order. Their list is empty if
    there is too little data. Sequences that make up a large part of it are cut into blocks.

    Parameters
    ----------
    data : TrainingInput
    n_scores : int, default=1
        Number of examples of each position. Many examples have fewer folds.
    rules : Transitions, optional
        Rules that blocks obey.
    """
    training = data.training
    n_positions = len(training.codes)
    if n_positions < MIN_POSITIONS:
        return []
    training = in_blocks(training, n_positions, rules)
    n_folds = N_FOLDS_OF_MANY if n_positions * n_scores > MANY_EXAMPLES else N_FOLDS
    ranks = np.argsort(np.argsort(training.hashes(data.seed)))
    fold_of = ranks % n_folds
    if len(ranks) < 2:
        return []
    parts = []
    for fold in range(fold_of.max() + 1):
        kept, held_out = training.parted(fold_of == fold)
        if kept.sequences.of_symbols and not len(kept.sequences.symbols()):
            return []
        parts.append(replace(data, training=kept, held_out=held_out))
    return parts


def in_blocks(
    data: LabeledSequences, n_positions: int, rules: Transitions | None = None
) -> LabeledSequences:
    """Cut sequences that are too long for folds of ``n_positions`` positions into blocks.

    A block is like a sequence: its first label has no previous one, and windows do not reach into
    its neighbors. Where the label before a cut may not come last, or the one after it may not come
    first, the cut is made at the next position where they may, if there is one in the block.
    """
    offsets = data.sequences.offsets
    lengths = np.diff(offsets)
    if lengths.max() * N_FOLDS <= n_positions:
        return data
    n_blocks = np.maximum(lengths // max(MIN_BLOCK, n_positions // N_BLOCKS), 1)
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


def first_sample(data: LabeledSequences, n_positions: int) -> LabeledSequences:
    """Choose training sequences with about ``n_positions`` positions, enough of them for folds."""
    return at_random(data, n_positions, SEED, N_FOLDS)


def second_sample(
    data: TrainingInput, n_positions: int, rules: Transitions | None = None
) -> TrainingInput:
    """Choose blocks of sequences that are too long, if there are some in the first sample."""
    training = in_blocks(data.training, n_positions, rules)
    return replace(data, training=at_random(training, n_positions, data.seed))
