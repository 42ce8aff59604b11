"""What a warm start refuses, and what it warns of."""

from __future__ import annotations

from typing import Any

from treecrf.utils.messages import warn


def refuse_lost_objective(objective: Any) -> None:
    """Raise ValueError if a model from a file lacks the function that it was trained with."""
    if not callable(objective):
        raise ValueError(
            f"warm start: the model was trained with a function as its objective, not with "
            f"{objective!r}; set objective to that function, which files do not contain"
        )


def warn_without_new_iterations(n_before: int, max_iter: int) -> None:
    """Warn if a warm start leaves a model as it is, whatever the new data."""
    if n_before >= max_iter:
        warn(
            f"warm start: the model has max_iter={max_iter} iterations already, and gets no new "
            "ones; increase max_iter to continue, or set warm_start=False to train a new model"
        )
