"""Cross-validation of boosting: which scores to start from, and how many iterations to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.learners.boosted.evaluation import Scored
from treecrf.learners.boosted.loop import Booster, boost, report_to
from treecrf.learners.stopping import History
from treecrf.learners.training_data import TrainingInput
from treecrf.trees.forest import Forest
from treecrf.utils.hashing import smallest
from treecrf.utils.progress import Progress
from treecrf.utils.threads import Threads

# Maximum number of folds.
N_FOLDS = 5
# With fewer training positions, the scores of held-out sequences are mostly noise.
MIN_POSITIONS = 200
# With more training positions or more examples, cross-validation takes long and matters little.
MAX_POSITIONS = 10_000
MAX_EXAMPLES = 1 << 20
# A start is given up if the best score is further away than this multiple of the increase over the
# latest iterations.
N_LATEST = 20
MAX_GAIN = 3.0


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


class FoldBoosters:
    """The boosters of all folds as one: their trees grow in step.

    Parameters
    ----------
    boosters : list of Booster
    sizes : list of int
        Number of training positions of each fold.
    """

    def __init__(self, boosters: list[Booster], sizes: list[int]):
        self.boosters = boosters
        self.sizes = sizes
        # The first forest has as many iterations as the others.
        self.forest: Forest = boosters[0].forest
        self.threads: Threads = boosters[0].threads

    def step(self) -> float:
        """Add one iteration to each fold; return the mean objective before it."""
        return _mean([booster.step() for booster in self.boosters], self.sizes)

    def value(self) -> float:
        """Compute the mean of the objective on the training data of the folds."""
        return _mean([booster.value() for booster in self.boosters], self.sizes)


class FoldValidations:
    """The held-out sequences of all folds as one.

    Parameters
    ----------
    boosters : list of Booster
    held_out : list of Scored
        The held-out sequences of each fold.
    sizes : list of int
        Number of held-out positions of each fold.
    """

    def __init__(self, boosters: list[Booster], held_out: list[Scored], sizes: list[int]):
        self.forests = [booster.forest for booster in boosters]
        self.held_out = held_out
        self.sizes = sizes

    def value(self, _: Forest, threads: Threads) -> float:
        """Compute the mean score of the held-out sequences, each under the trees of its fold."""
        pairs = zip(self.held_out, self.forests, strict=True)
        return _mean([scored.value(forest, threads) for scored, forest in pairs], self.sizes)


def cross_validated(learner: Any, parts: list[TrainingInput], candidates: list) -> Choice | None:
    """Choose the start and the number of iterations with the highest mean score of the folds.

    The result is None if there are no folds, or no start has a finite score.

    Parameters
    ----------
    learner : BoostedSequenceClassifier
    parts : list of TrainingInput
    candidates : list
        The starts, the one that needs the fewest iterations first.
    """
    best, target = None, -np.inf
    for init in candidates if parts else []:
        scores = _fold_scores(learner, parts, init, target)
        n_iter = int(np.argmax(scores))
        if scores[n_iter] > target:
            best, target = Choice(init, n_iter, scores[: n_iter + 1]), scores[n_iter]
    return best


def _fold_scores(learner: Any, parts: list[TrainingInput], init: Any, target: float) -> list[float]:
    """Train on all folds in step; return their mean scores before and after each iteration.

    Training ends early if the scores will not reach the target.
    """
    name, max_iter = f"{type(learner).__name__}, cross-validation", learner.max_iter
    with (
        Threads(learner.n_jobs) as threads,
        Progress(learner.verbose, 0, max_iter, name) as progress,
    ):
        boosters, held_out = [], []
        for part in parts:
            data, encoder, forest = learner._started(part, init)
            boosters.append(learner._booster(data, encoder, forest, threads))
            held_out.append(learner._scored(data, data.held_out, encoder, threads))
        show = report_to(progress, learner._value_name)

        def report(n_done: int, history: History) -> bool:
            show(n_done, history)
            return is_hopeless(history.validation, target)

        together = FoldBoosters(boosters, [len(part.training.codes) for part in parts])
        sizes = [len(part.held_out.codes) for part in parts]
        validation = FoldValidations(boosters, held_out, sizes)
        return boost(together, max_iter, validation, learner._stopping(), report).validation


def is_hopeless(scores: list[float], target: float) -> bool:
    """Return whether scores will not reach a target: they rise ever more slowly."""
    if len(scores) <= N_LATEST:
        return False
    return scores[-1] + MAX_GAIN * (scores[-1] - scores[-1 - N_LATEST]) < target


def _mean(values: list[float], sizes: list[int]) -> float:
    return float(np.average(values, weights=sizes))


def folds(data: TrainingInput) -> list[TrainingInput]:
    """Return the training data of each fold, the other sequences being held out.

    The folds depend on the content of the sequences, not on their order. Their list is empty if
    there is too little data.
    """
    training = data.training
    n_sequences = training.sequences.n_sequences
    if n_sequences < 2 or len(training.codes) < MIN_POSITIONS:
        return []
    ranks = np.argsort(np.argsort(training.hashes(data.seed)))
    fold_of = ranks % min(N_FOLDS, n_sequences)
    parts = []
    for fold in range(fold_of.max() + 1):
        kept, held_out = training.parted(fold_of == fold)
        if kept.sequences.of_symbols and not len(kept.sequences.symbols()):
            return []
        parts.append(replace(data, training=kept, held_out=held_out))
    return parts


def sample(data: TrainingInput, n_positions: int) -> TrainingInput:
    """Choose training sequences at random, with about ``n_positions`` positions."""
    training = data.training
    fraction = n_positions / len(training.codes)
    n_sequences = training.sequences.n_sequences
    if fraction >= 1:
        return data
    chosen = smallest(training.hashes(data.seed), max(1, int(fraction * n_sequences)))
    taken = training.take(np.flatnonzero(chosen))
    return replace(data, training=taken)
