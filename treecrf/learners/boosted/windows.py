"""The window of the trees, chosen on folds: wide ones are tried as long as they help."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.held_out import HeldOutScore, joined_likelihoods
from treecrf.learners.boosted.race import FoldRun
from treecrf.learners.boosted.spec import BoostingSpec, Variant
from treecrf.learners.boosted.starts import make_start
from treecrf.utils.threads import Threads

# Value of the parameter ``window`` that stands for a choice.
AUTO = "auto"
# Positions on each side, to choose from.
WINDOWS = tuple((n, n) for n in (0, 1, 2, 5, 10, 20, 50))
# Up to this one, all windows are tried, because single offsets may be of no use. Wider ones take
# more time.
SURELY_TRIED = (5, 5)
# Windows are compared after this number of iterations with at most this number of leaves, by the
# variant that takes the least time. On held-out data, more iterations and leaves and other variants
# chose much the same windows. Where large trees are possible, however, conjunctions of categories
# are many, and few leaves choose windows that are too narrow.
COMPARED_ITERATIONS = 8
COMPARED_LEAVES = 16


@dataclass(frozen=True)
class Trial(HeldOutScore):
    """The best score with a window, and likelihoods after the last iteration."""

    window: tuple[int, int]


def with_best_window(spec: BoostingSpec, folds: list[TrainingInput]) -> BoostingSpec:
    """Return the settings with the window that is best on the folds.

    One window is tried at a time, the smallest first, and wide ones as long as scores rise. The
    smallest one is chosen that is as good as the best one within a standard error.
    """
    if len(spec.windows) == 1 or not folds:
        return spec
    trials: list[Trial] = []
    with Threads(spec.n_jobs) as threads:
        for window in spec.windows:
            trials.append(tried(spec.within(window), folds, threads))
            best = max(trials, key=lambda trial: trial.score)
            if window >= SURELY_TRIED and best is not trials[-1]:
                break
    return spec.within(next(trial for trial in trials if trial.is_as_good_as(best)).window)


def tried(spec: BoostingSpec, folds: list[TrainingInput], threads: Threads) -> Trial:
    """Train on all folds for some iterations, with the variant that takes the least time."""
    kind = next((kind for kind in spec.kinds if kind.has_one_context), spec.kinds[0])
    is_multi_output = True in spec.multi_outputs and kind.has_one_context
    variant = Variant(spec.starts[-1], kind, is_multi_output, spec.window, spec.leaves[0])
    n_iter = min(COMPARED_ITERATIONS, spec.max_iter)
    n_inner = max(1, threads.n_threads // len(folds))
    with Threads(n_inner) as inner:
        n_leaves = spec.tree_settings.max_leaf_nodes
        if len(spec.leaves) == 1:
            n_leaves = min(COMPARED_LEAVES, n_leaves)
        tree_settings = replace(spec.tree_settings, max_leaf_nodes=n_leaves)
        chosen = replace(
            spec.of(variant), tree_settings=tree_settings, n_jobs=n_inner, calibration=None
        )

        def results(fold: TrainingInput) -> tuple[list[float], np.ndarray | None, np.ndarray]:
            start = make_start(chosen, fold, variant.start)
            run = FoldRun(chosen, fold, start, inner)
            return run.scores(n_iter), run.likelihoods(n_iter), run.sizes

        scores, likelihoods, sizes = zip(*threads.map(results, folds), strict=True)
    n_held_out = [len(fold.held_out.codes) for fold in folds]
    score = float(np.average(scores, axis=0, weights=n_held_out).max())
    return Trial(score, joined_likelihoods(likelihoods), np.concatenate(sizes), spec.window)
