"""Settings of the papers, and those chosen by `tune.py`, stored in ``settings.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

from papers_data import Task

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    papers,
)

PAPERS = {
    TreeCRF: papers.TREECRF,
    TreeMEMM: papers.TREEMEMM,
    SlidingWindowClassifier: papers.SLIDING_WINDOW,
    RecurrentSlidingWindowClassifier: papers.RECURRENT_SLIDING_WINDOW,
}
PATH = Path(__file__).with_name("settings.json")
LEARNERS = ("first", "second", "fast")

Model = TypeVar("Model")


def papers_model(kind: type[Model], **parameters: Any) -> Model:
    """Make a tree learner with the settings of the papers, except for the given parameters.

    Newton steps of a `TreeCRF` use the bound of the curvature.
    """
    settings = PAPERS[kind] | parameters
    if kind is TreeCRF and settings["second_order"]:
        settings = {"curvature": "bound"} | settings
    return kind(**settings)


def chosen(data: str, learner: str) -> dict[str, Any]:
    """Return the settings for a dataset and one of ``LEARNERS``; see `make_model`.

    All forms of a dataset have the same settings.
    """
    try:
        return _read()[data.partition("-")[0]][learner]["parameters"]
    except KeyError:
        sys.exit(f"no settings for {data}, {learner}: run tune.py --data {data}")


def make_model(task: Task, settings: dict[str, Any], **others: Any) -> TreeCRF:
    """Make a model for one thread.

    Settings are parameters of `TreeCRF`; those of the papers complete them. With ``linear_start``,
    the L2 penalty of a linear CRF, the trees are added to the scores of that model.
    """
    parameters = {"window": task.window, "n_jobs": 1, "random_state": 0, **settings, **others}
    penalty = parameters.pop("linear_start", None)
    if penalty is not None:
        parameters["init"] = LinearCRF(
            window=task.window, solver="sgd", max_iter=10, l2_regularization=penalty
        )
    return papers_model(TreeCRF, **parameters)


def write(data: str, learner: str, found: dict[str, Any]) -> None:
    """Store the result for a dataset and a learner, replacing the previous one."""
    everything = _read()
    everything.setdefault(data, {})[learner] = found
    PATH.write_text(json.dumps(everything, indent=2, sort_keys=True) + "\n")


def _read() -> dict[str, Any]:
    return json.loads(PATH.read_text()) if PATH.exists() else {}
