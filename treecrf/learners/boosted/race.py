"""Models that compete on folds; each is trained only as long as it may still be the best one."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treecrf.learners.base.history import Stopping
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.calibration import (
    TemperedValidation,
    best_temperatures,
    count_units,
)
from treecrf.learners.boosted.engines import make_run
from treecrf.learners.boosted.held_out import HeldOutScore, joined_likelihoods
from treecrf.learners.boosted.spec import BoostingSpec, Variant
from treecrf.learners.boosted.starts import WHOLE, fit_linear, make_start
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

# All of a linear model is compared after this number of iterations: where trees add much to it, a
# fraction of it is better.
WHOLE_ITERATIONS = 2
# Other variants are compared after this number of iterations, and trained on in strides until it is
# clear which one is better, or to the last number.
COMPARED_ITERATIONS = 6
SLOWLY_COMPARED_ITERATIONS = 12  # of variants that `differ_slowly`
COMPARED_STRIDE = 4
MAX_COMPARED_ITERATIONS = 28
# Large trees have to be better by more than this number of standard errors. A fold may hold out a
# dozen long sequences, and where the difference was smaller, it was not there in other sequences.
ERRORS_OF_LARGE = 2.0


def differ_slowly(one: Variant, other: Variant) -> bool:
    """Return whether it takes many iterations to see which of two variants is better.

    They differ in their kinds of chains, and what trees learn about previous labels shows late:
    steps are first-order ones or those of higher orders, which are short.
    """
    kind = one.kind
    return kind != other.kind and (kind.order > 1 or not kind.has_curvature)


class FoldRun:
    """Training on one fold, which goes on when scores of later iterations are needed."""

    def __init__(
        self, spec: BoostingSpec, fold: TrainingInput, start: LinearCRF | None, threads: Threads
    ):
        held_out = fold.held_out
        self.n_held_out = len(held_out.codes)
        # First position of each held-out sequence, and the weights of all positions.
        self._firsts = held_out.sequences.offsets[:-1]
        self._weights = np.ones(self.n_held_out) if held_out.weights is None else held_out.weights
        # The run may release the data.
        run = make_run(spec, copy(fold), start, threads)
        self._booster = run.booster
        self._held_out = run.validation
        if spec.is_calibrated:
            self._held_out = TemperedValidation(run.validation)
        # Scores of the held-out sequences, and their log-likelihoods, before the first and after
        # each iteration.
        self._scores = [self._held_out.value(self._booster.forest)]
        self._likelihoods = [self._present_likelihoods()]

    def scores(self, n_iter: int) -> list[float] | list[list[float]]:
        """Return the scores of the held-out sequences before and after each of the iterations.

        With calibration, these are scores at all temperatures.
        """
        for value in self._held_out.values(self._grown(n_iter)):
            self._scores.append(value)
            self._likelihoods.append(self._present_likelihoods())
        return self._scores[: n_iter + 1]

    @property
    def sizes(self) -> np.ndarray:
        """Number of positions of each held-out sequence, times their weights."""
        return np.add.reduceat(self._weights, self._firsts)

    def likelihoods(self, n_iter: int) -> np.ndarray | None:
        """Return the log-likelihood of each held-out sequence after an iteration.

        It is multiplied by the mean weight of the positions. It is None if scores are not means of
        log-likelihoods.
        """
        return self._likelihoods[n_iter]

    def _present_likelihoods(self) -> np.ndarray | None:
        """Return the log-likelihoods after the latest iteration."""
        values = self._held_out.likelihoods
        if values is None:
            return None
        weights = self._weights
        if len(values) < len(weights):  # sequences, not single positions
            lengths = np.diff(self._firsts, append=self.n_held_out)
            return np.where(self.sizes > 0, values, 0.0) * (self.sizes / lengths)
        return np.add.reduceat(np.where(weights > 0, values, 0.0) * weights, self._firsts)

    def _grown(self, n_iter: int) -> Iterator[Forest]:
        """Yield the forest after each new iteration."""
        while self._booster.forest.n_iter < n_iter:
            self._booster.step()
            yield self._booster.forest

    def pause(self) -> None:
        """Release the memory that only growing trees needs, until training goes on."""
        self._booster.release_growers()


@dataclass
class Candidate:
    """A variant, and its training on all folds."""

    variant: Variant
    # One for each fold; None before the first iterations, and when the candidate has lost.
    runs: list[FoldRun | None]
    # Means of the folds, before the first and after each iteration.
    scores: list[float] = field(default_factory=list)
    # Best temperatures, which the scores are for.
    temperatures: list[float] = field(default_factory=list)

    @property
    def best_score(self) -> float:
        """The best score."""
        return max(self.scores)

    def held_out(self) -> HeldOutScore:
        """Return the best score, and the log-likelihoods of the sequences at it."""
        n_iter = int(np.argmax(self.scores))
        likelihoods = joined_likelihoods([run.likelihoods(n_iter) for run in self.runs])
        sizes = np.concatenate([run.sizes for run in self.runs])
        return HeldOutScore(self.best_score, likelihoods, sizes)

    def possible_score(self, stopping: Stopping) -> float:
        """Return the score that more iterations may reach: as much more as in the second half."""
        if stopping.is_reached(self.scores):
            return self.best_score
        latest = self.scores[-1]
        half = self.scores[len(self.scores) // 2]
        return max(self.best_score, latest + (latest - half))

    def lead_over(self, other: Candidate, n_iter: int | None = None) -> float:
        """Return how much higher the best score is, of all iterations or the first ones."""
        end = None if n_iter is None else n_iter + 1
        return max(self.scores[:end]) - max(other.scores[:end])

    def may_overtake(self, other: Candidate, n_strides: int = 1) -> bool:
        """Return whether a candidate that is behind would lead if it goes on gaining.

        Both have been trained equally long. The gain is that of the latest stride, for so many
        strides.
        """
        lead = self.lead_over(other)
        gain = lead - self.lead_over(other, max(0, len(self.scores) - 1 - COMPARED_STRIDE))
        return lead <= 0 < lead + n_strides * gain

    def give_up(self) -> None:
        """Release the memory of all runs, because another candidate is better."""
        self.runs = [None] * len(self.runs)


class Race:
    """Candidates that are trained on folds."""

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
        # For each fold, the linear model whose fractions are starts.
        self._linear: list[LinearCRF | None] = [None] * len(folds)

    # The comparison

    def best(self) -> Candidate:
        """Return the best candidate, trained as long as the comparison took."""
        start = self.best_start()
        best = self.best_of([start, *self._other_kinds(start)])
        if True in self.spec.multi_outputs and not best.variant.multi_output:
            best = self.best_trees(best, self._with_multi_output_trees(best))
        if len(self.spec.leaves) > 1 and not best.variant.multi_output and self._need_trees(best):
            best = self.best_trees(best, self._with_large_trees(best), ERRORS_OF_LARGE)
        return best

    def best_start(self) -> Candidate:
        """Return the best candidate of those that differ in their starts only."""
        best, *others = [self._candidate(start) for start in self.spec.starts]
        for other in others:
            if other.variant.start == WHOLE:
                best = self.better_start(other, best)
            elif best.variant.start == WHOLE:
                best = self.better_start(best, other)
            else:
                best = self.best_of([best, other])
        return best

    def _candidate(self, start: Any) -> Candidate:
        """Return a candidate from a start, with the first kind of chains."""
        return self._candidate_of(self.spec.first_variant(start, self.spec.kinds[0]))

    def _candidate_of(self, variant: Variant) -> Candidate:
        return Candidate(variant, [None] * len(self.folds))

    def _other_kinds(self, best: Candidate) -> list[Candidate]:
        """Return candidates with other kinds of chains; none if trees add little to the start."""
        kinds = [kind for kind in self.spec.kinds if kind != best.variant.kind]
        if kinds and not self._need_trees(best):
            return []
        return [self._candidate_of(replace(best.variant, kind=kind)) for kind in kinds]

    def _need_trees(self, best: Candidate) -> bool:
        """Return whether trees add more than a little to the start."""
        if best.variant.start != WHOLE:
            return True
        self.advance([best], [max(len(best.scores) - 1, COMPARED_ITERATIONS)])
        return not self.stopping.is_reached(best.scores)

    def _with_large_trees(self, other: Candidate) -> Candidate:
        """Return a candidate with more leaves in each tree."""
        return self._candidate_of(replace(other.variant, max_leaf_nodes=self.spec.leaves[-1]))

    def _with_multi_output_trees(self, other: Candidate) -> Candidate:
        """Return a candidate with trees for all labels, from the same start."""
        kind = next(kind for kind in self.spec.kinds if kind.has_one_context)
        return self._candidate_of(replace(other.variant, kind=kind, multi_output=True))

    def better_start(self, whole: Candidate, other: Candidate) -> Candidate:
        """Return the better one of all of a linear model and another start."""
        n_iter = max(len(other.scores) - 1, COMPARED_ITERATIONS)
        self.advance([whole, other], [WHOLE_ITERATIONS, n_iter])
        while whole.best_score >= other.best_score:
            n_iter += COMPARED_STRIDE
            is_last = n_iter > self._max_compared
            if is_last or other.possible_score(self.stopping) <= whole.best_score:
                other.give_up()
                return whole
            self.advance([other], [n_iter])
        whole.give_up()
        return other

    def best_of(self, candidates: list[Candidate]) -> Candidate:
        """Return the best one of candidates that differ in their kinds of chains, or their starts.

        They are trained equally long, until the one that is behind no longer catches up.
        """
        best = candidates[0]
        for other in candidates[1:]:
            self._train_while_open(best, other)
            loser = other
            if other.lead_over(best) > 0:
                loser = best
                best = other
            loser.give_up()
        return best

    def _train_while_open(self, one: Candidate, other: Candidate) -> None:
        """Train two candidates equally long, as long as the one behind may overtake the other.

        Where variants differ slowly, it may go on gaining until the last comparison.
        """
        is_slow = differ_slowly(one.variant, other.variant)
        n_iter = SLOWLY_COMPARED_ITERATIONS if is_slow else COMPARED_ITERATIONS
        n_iter = max(len(one.scores) - 1, n_iter)
        self.advance([one, other], [n_iter, n_iter])
        while n_iter < self._max_compared:
            n_strides = (self._max_compared - n_iter) // COMPARED_STRIDE if is_slow else 1
            if not (one.may_overtake(other, n_strides) or other.may_overtake(one, n_strides)):
                return
            n_iter += COMPARED_STRIDE
            self.advance([one, other], [n_iter, n_iter])

    def best_trees(self, slow: Candidate, quick: Candidate, n_errors: float = 0.0) -> Candidate:
        """Return the better one of candidates with different trees.

        A tree for all labels takes a fraction of the time of a tree for each, and large trees need
        fewer iterations than small ones. The quick ones are therefore trained until early stopping
        ends them, and the others until it is clear which ones are better. The quick ones have to
        be better by more than so many standard errors.
        """
        for _ in self.finish(quick):
            pass
        n_iter = max(len(slow.scores) - 1, COMPARED_ITERATIONS)
        self.advance([slow], [n_iter])
        to_reach = quick.held_out()
        while not (reached := slow.held_out()).is_as_good_as(to_reach, n_errors):
            n_iter += COMPARED_STRIDE
            is_last = n_iter > self.spec.max_iter
            possible = replace(reached, score=slow.possible_score(self.stopping))
            if is_last or not possible.is_as_good_as(to_reach, n_errors):
                slow.give_up()
                return quick
            self.advance([slow], [n_iter])
        quick.give_up()
        return slow

    @property
    def _max_compared(self) -> int:
        """Number of iterations after which candidates are compared for the last time."""
        return min(MAX_COMPARED_ITERATIONS, self.spec.max_iter)

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

    # Training

    def advance(self, candidates: list[Candidate], n_iters: list[int]) -> None:
        """Train each candidate for a number of iterations in all."""
        self._fit_linear(candidates)
        jobs = [
            (candidate, i, min(n_iter, self.spec.max_iter))
            for candidate, n_iter in zip(candidates, n_iters, strict=True)
            for i in range(len(self.folds))
        ]
        # Runs take turns: only those that are training have all of their memory.
        takes_turns = len(jobs) > 1

        def scores_of(job: tuple[Candidate, int, int]) -> list[float] | list[list[float]]:
            candidate, i, n_iter = job
            run = candidate.runs[i] or self._run(candidate.variant, i)
            candidate.runs[i] = run
            scores = run.scores(n_iter)
            if takes_turns:
                run.pause()
            return scores

        scores = iter(self.threads.map(scores_of, jobs))
        for candidate in candidates:
            run_scores = [next(scores) for _ in candidate.runs]
            sizes = [run.n_held_out for run in candidate.runs]
            means = np.average(run_scores, axis=0, weights=sizes)
            temperatures = np.ones(len(means))
            if self.spec.is_calibrated:
                means, temperatures = best_temperatures(means, count_units(self.folds))
            candidate.scores = means.tolist()
            candidate.temperatures = temperatures.tolist()

    def _run(self, variant: Variant, i: int) -> FoldRun:
        """Return a new run of a variant on a fold."""
        fold = self.folds[i]
        start = make_start(self.spec, fold, variant.start, self._linear[i])
        return FoldRun(self.spec.of(variant), fold, start, self.inner)

    def _fit_linear(self, candidates: list[Candidate]) -> None:
        """Fit a linear model to each fold, if a candidate is the first to start from it."""
        starts = [each.variant.start for each in candidates]
        factors = [start for start in starts if isinstance(start, float)]
        if factors and self._linear[0] is None:
            self._linear = self.threads.map(
                lambda fold: fit_linear(self.spec, fold, factors[0]), self.folds
            )
