"""Settings of the papers, and those chosen by `tune.py`, stored in ``settings.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

from papers_data import Task

from treecrf import LinearCRF, TreeCRF

# Named here so that the tables can be reproduced when the defaults change.
PAPERS = {
    "second_order": False,
    "learning_rate": 1.0,
    "l2_regularization": 40.0,
    "max_leaf_nodes": 100,
    "early_stopping": False,
}
PATH = Path(__file__).with_name("settings.json")
LEARNERS = ("first", "second", "fast")

Model = TypeVar("Model")


def papers_model(kind: type[Model], **parameters: Any) -> Model:
    """Make a tree learner with the settings of the papers, except for the given parameters.

    A `TreeCRF` starts from scores of 0, and its Newton steps use the bound of the curvature.
    """
    settings = PAPERS | parameters
    if kind is TreeCRF:
        curvature = {"curvature": "bound"} if settings["second_order"] else {}
        settings = {"init": "zero"} | curvature | settings
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
