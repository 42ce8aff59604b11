"""The training algorithms of CRFsuite, and their parameters by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# CRFsuite's number of iterations without a limit: the greatest C integer.
UNLIMITED = 2147483647
LINE_SEARCHES = ("MoreThuente", "Backtracking", "StrongBacktracking")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an algorithm."""

    convert: Callable[[Any], Any]
    default: Any
    help: str
    # Whether training does not depend on it.
    is_unused: bool = False

    def read(self, name: str, value: Any) -> Any:
        """Convert a value, which may be a string; ValueError if it is not valid."""
        try:
            return self.convert(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name}={value!r}; expected {EXPECTED[self.convert]}") from None


def as_float(value: Any) -> float:
    """Convert a number or its text."""
    number = float(value)
    if number != number:
        raise ValueError("not a number")
    return number


def as_penalty(value: Any) -> float:
    """Convert a finite number that is not negative."""
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError("negative or infinite")
    return number


def as_count(value: Any) -> int:
    """Convert an integer that is not negative."""
    number = int(value)
    if number != float(value) or number < 0:
        raise ValueError("not a count")
    return number


def as_switch(value: Any) -> bool:
    """Convert a boolean, 0 or 1."""
    return bool(int(value))


def as_line_search(value: Any) -> str:
    """Check the name of a line search."""
    if value not in LINE_SEARCHES:
        raise ValueError("unknown")
    return str(value)


def as_type(value: Any) -> int:
    """Check the type of the passive-aggressive algorithm."""
    number = int(value)
    if number not in (0, 1, 2):
        raise ValueError("unknown")
    return number


EXPECTED = {
    as_float: "a number",
    as_penalty: "a finite number that is not negative",
    as_count: "an integer that is not negative",
    as_switch: "a boolean, 0 or 1",
    as_line_search: f"one of {', '.join(LINE_SEARCHES)}",
    as_type: "0, 1 or 2",
}

NO_EFFECT = "It has no effect here: the optimum does not depend on it."

# Those of the model, which all algorithms have.
FEATURES = {
    "feature.minfreq": Parameter(
        as_float,
        0.0,
        "Smallest frequency of a feature: the sum of an attribute's values, times the weights of "
        "the sequences, over the items with a label; of transitions, their number.",
    ),
    "feature.possible_states": Parameter(
        as_switch, False, "Whether attributes also have weights for labels they never occur with."
    ),
    "feature.possible_transitions": Parameter(
        as_switch, False, "Whether labels that never follow each other also have a weight."
    ),
}

C2 = Parameter(as_penalty, 1.0, "Coefficient of the L2 penalty, the sum of squared weights.")
PERIOD = Parameter(
    as_count, 10, "Number of iterations over which the improvement is compared with delta."
)
EPOCHS = Parameter(as_count, 100, "Maximum number of passes over the training data.")


def _delta(default: float) -> Parameter:
    return Parameter(
        as_float,
        default,
        "Training stops when the latest iterations, as many as period, have lowered the loss by "
        "less than this fraction of it.",
    )


def _mean_loss(what: str) -> Parameter:
    return Parameter(as_float, 0.0, f"Training stops after a pass with less than this {what}.")


def _calibration(default: float, convert: Callable[[Any], Any], what: str) -> Parameter:
    return Parameter(convert, default, f"{what} of the search of a step size. {NO_EFFECT}", True)


ALGORITHMS: dict[str, dict[str, Parameter]] = {
    "lbfgs": {
        "c1": Parameter(
            as_penalty, 0.0, "Coefficient of the L1 penalty, the sum of absolute weights."
        ),
        "c2": C2,
        "max_iterations": Parameter(as_count, UNLIMITED, "Maximum number of iterations."),
        "num_memories": Parameter(
            as_count, 6, "Number of latest steps from which the curvature is estimated."
        ),
        "epsilon": Parameter(
            as_float,
            1e-5,
            "Training stops when the norm of the gradient is less than this, times the norm of the "
            "weights if that is above 1.",
        ),
        "period": PERIOD,
        "delta": _delta(1e-5),
        "linesearch": Parameter(
            as_line_search, "MoreThuente", f"Line search in CRFsuite. {NO_EFFECT}", True
        ),
        "max_linesearch": Parameter(
            as_count, 20, f"Maximum number of trials of the line search. {NO_EFFECT}", True
        ),
    },
    "l2sgd": {
        "c2": C2,
        "max_iterations": Parameter(as_count, 1000, "Maximum number of iterations."),
        "period": PERIOD,
        "delta": _delta(1e-6),
        "calibration.eta": _calibration(0.1, as_float, "Initial value"),
        "calibration.rate": _calibration(2.0, as_float, "Factor"),
        "calibration.samples": _calibration(1000, as_float, "Number of sequences"),
        "calibration.candidates": _calibration(10, as_count, "Number of candidates"),
        "calibration.max_trials": _calibration(20, as_count, "Maximum number of trials"),
    },
    "averaged-perceptron": {
        "max_iterations": EPOCHS,
        "epsilon": _mean_loss("ratio of wrong labels, as a mean over the sequences"),
    },
    "passive-aggressive": {
        "type": Parameter(as_type, 1, "Steps without slack (0), or of type PA-I (1) or PA-II (2)."),
        "c": Parameter(as_penalty, 1.0, "Aggressiveness: steps of types 1 and 2 grow with it."),
        "error_sensitive": Parameter(
            as_switch, True, "Whether the margin grows with the square root of the wrong labels."
        ),
        "averaging": Parameter(
            as_switch, True, "Whether the model has the mean of the weights of all steps."
        ),
        "max_iterations": EPOCHS,
        "epsilon": _mean_loss("mean loss"),
    },
    "arow": {
        "variance": Parameter(as_penalty, 1.0, "Variance of each weight before training."),
        "gamma": Parameter(as_penalty, 1.0, "The greater, the smaller the steps."),
        "max_iterations": EPOCHS,
        "epsilon": _mean_loss("mean loss"),
    },
}
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


def algorithm_named(name: str, kind: str) -> str:
    """Return the full name of an algorithm; ValueError if there is none."""
    full_name = name.lower()
    full_name = ALIASES.get(full_name, full_name)
    if full_name not in ALGORITHMS or kind != "crf1d":
        known = ", ".join([*ALGORITHMS, *ALIASES])
        raise ValueError(
            f"algorithm={name!r}, type={kind!r}; expected one of {known}, and type 'crf1d'"
        )
    return full_name


def algorithm_parameters(algorithm: str) -> dict[str, Parameter]:
    """Return the parameters of an algorithm, including those of the model."""
    return FEATURES | ALGORITHMS[algorithm]


def iteration_limit(values: dict[str, Any]) -> int:
    """Return the maximum number of iterations; 0 stands for no limit, as in L-BFGS of CRFsuite."""
    return values["max_iterations"] or sys.maxsize
