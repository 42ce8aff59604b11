"""Cross-validation of boosting: which variant to train, and for how many iterations."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.chains.transitions import as_transitions
from treecrf.learners.base.folds import (
    MAX_POSITIONS,
    N_FOLDS,
    SEED,
    make_folds,
    need_blocks,
    sample_for_folds,
)
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.boosted.engines import with_suited_leaves
from treecrf.learners.boosted.race import COMPARED_ITERATIONS, Candidate, Race
from treecrf.learners.boosted.spec import BoostingSpec, Variant
from treecrf.learners.boosted.windows import with_best_window
from treecrf.utils.messages import Progress
from treecrf.utils.threads import Background, Threads


@dataclass(frozen=True)
class Choice:
    """What to train: the variant, the number of iterations, and the scores that favored them."""

    variant: Variant
    n_iter: int
    # Mean scores of the folds before the first and after each iteration. Empty if the number of
    # iterations was not chosen, or chosen on a sample.
    scores: list[float]
    is_guess: bool = False  # whether another variant may still be chosen
    temperature: float = 1.0  # that scores are divided by in the end


class MovingChoice:
    """A choice that is replaced when another thread knows more."""

    def __init__(self, choice: Choice, later: Background | None = None):
        self.choice = choice
        self._later = later  # choices of another thread; None if there are no more

    def is_beyond(self, n_iter: int) -> bool:
        """Return whether iterations follow this number, of the same variant."""
        variant = self.choice.variant
        while self._later is not None and (n_iter >= self.choice.n_iter or self._later.is_ready):
            self._move()
        return self.choice.variant == variant and n_iter < self.choice.n_iter

    def settle(self) -> None:
        """Wait until the variant is no longer a guess: early stopping may end training earlier."""
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
    """Return whether cross-validation has a choice: of variants, or of the number of iterations.

    With validation data, these end training.
    """
    if not spec.early_stopping or spec.warm_start:
        return False
    return spec.n_variants > 1 or data.held_out is None


def default_choice(spec: BoostingSpec, has_held_out: bool) -> Choice:
    """Return the choice without any comparison: all iterations, from scores of 0 if possible."""
    start = None
    if len(spec.starts) == 1:
        start = spec.starts[0]
    variant = spec.first_variant(start, spec.kind)
    is_stopped = has_held_out and spec.stopping is not None
    return Choice(variant, spec.max_iter if is_stopped else spec.n_iter_unstopped, [])


def choose(spec: BoostingSpec, data: TrainingInput) -> Choice:
    """Choose the variant, and with ``early_stopping="auto"`` the number of iterations."""
    sample = data.training.at_random(MAX_POSITIONS, SEED, N_FOLDS)
    return sample.gathered(_last_choice, spec, *_without_sequences(data))


def choices(spec: BoostingSpec, data: TrainingInput) -> Generator[Choice, None, None]:
    """Choose as `choose` does, from data in memory; also yield what is known meanwhile.

    That is a guess while variants are compared, and then the chosen variant with ever more
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

    With validation data, these will end training, so that only the variant is chosen.
    """
    if has_held_out or not can_be_calibrated(training):
        spec = replace(spec, calibration=None)
    rules = as_transitions(spec.kind.transitions, data.classes, spec.kind.order)
    if rules is not None and spec.kind.is_backward:
        rules = rules.reversed()
    if len(training.codes) > MAX_POSITIONS:
        training = sample_for_folds(training, MAX_POSITIONS, SEED, rules)
    folds = make_folds(replace(data, training=training, seed=SEED), rules)
    spec = with_suited_leaves(with_best_window(spec, folds), training.described)
    if spec.n_variants > 1 and folds:
        guess = spec.first_variant(spec.starts[0], spec.kinds[0])
        yield Choice(guess, min(COMPARED_ITERATIONS, spec.max_iter), [], is_guess=True)

    choice = None
    size_ratio = n_positions / len(training.codes)
    for best in _best_candidates(spec, folds, has_held_out, is_alone):
        if best.scores and best.best_score == -np.inf:
            continue
        if has_held_out:
            choice = Choice(best.variant, spec.max_iter, [])
        else:
            choice = _choice_of_iterations(spec, best, n_positions, size_ratio)
        yield choice
    if choice is None:
        yield default_choice(spec, has_held_out)


def can_be_calibrated(training: LabeledSequences) -> bool:
    """Return whether held-out sequences show how sure the model should be of new ones.

    Blocks do not, because other blocks of the same sequences are among the training data. With
    scores of the user, the model has only a part of the scores.
    """
    return training.sequences.init_scores is None and not need_blocks(training)


def _choice_of_iterations(
    spec: BoostingSpec, best: Candidate, n_positions: int, size_ratio: float
) -> Choice:
    """Choose the number of iterations with the best score.

    On a sample, more iterations are chosen in proportion to its size: trees that are grown on more
    positions fit less noise.
    """
    n_iter = int(np.argmax(best.scores))
    temperature = best.temperatures[n_iter]
    if n_positions > MAX_POSITIONS:
        n_all = min(round(size_ratio * n_iter), spec.max_iter)
        return Choice(best.variant, n_all, [], temperature=temperature)
    return Choice(best.variant, n_iter, best.scores[: n_iter + 1], temperature=temperature)


def _best_candidates(
    spec: BoostingSpec, folds: list[TrainingInput], has_held_out: bool, is_alone: bool
) -> Iterator[Candidate]:
    """Yield the best candidate, and again whenever it was trained further on all folds.

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
            best = race.best()
            if has_held_out:
                yield best
                return
            for n_iter in race.finish(best):
                bar.update(n_iter, {"validation": best.scores[-1]})
                yield best
