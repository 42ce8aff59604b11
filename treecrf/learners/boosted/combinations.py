"""Settings of `TreeCRF` that cannot be combined."""

from __future__ import annotations

from typing import Any

from treecrf.chains.objectives import OBJECTIVES
from treecrf.learners.boosted.start import is_linear


def check_combinations(crf: Any) -> None:
    """Raise an error that names both settings if two cannot be combined."""
    _check_objective(crf)
    _check_init(crf)
    _check_beam(crf)
    _check_monotonic(crf)
    _check_constant_transitions(crf)


def _check_objective(crf: Any) -> None:
    """Raise ValueError for settings that only the log-likelihood supports."""
    if crf._is_newton() and not OBJECTIVES[crf.objective].has_curvature:
        raise ValueError(
            f"second_order=True requires objective='log'; {crf.objective!r} has no curvature "
            "for Newton steps"
        )
    if crf.beam_width is not None and crf.objective != "log":
        raise ValueError(
            f"objective={crf.objective!r} needs all contexts; a beam requires objective='log'"
        )


def _check_init(crf: Any) -> None:
    """Raise an error if ``init`` is not supported, or not in this combination."""
    if not isinstance(crf.init, str) and not is_linear(crf.init):
        raise TypeError(
            f"init is of type {type(crf.init).__name__}; expected 'auto', 'zero', "
            "'linear', 'pseudo_likelihood' or a LinearCRF"
        )
    if is_linear(crf.init) and crf.order == 0:
        raise ValueError(
            f"init={crf.init!r} requires order=1 or higher; the linear model has weights for "
            "the previous label"
        )


def _check_beam(crf: Any) -> None:
    """Raise ValueError for a start that scores all contexts together with a beam."""
    if crf.beam_width is not None and crf.init not in ("auto", "zero"):
        raise ValueError(f"init={crf.init!r} needs all contexts; a beam requires init='zero'")


def _check_monotonic(crf: Any) -> None:
    """Raise ValueError for monotonic constraints together with a linear start."""
    is_warm = crf.warm_start and getattr(crf, "init_", None) is not None
    if crf.monotonic_cst is not None and (is_warm or is_linear(crf.init)):
        raise ValueError(
            "monotonic_cst with a linear start, which is not constrained; expected init='zero' "
            "or 'pseudo_likelihood'"
        )


def _check_constant_transitions(crf: Any) -> None:
    """Raise ValueError if constant transitions are not supported in this combination."""
    if not crf.constant_transitions:
        return
    for name, is_supported, expected in (
        ("order", crf.order > 0, "1 or higher"),
        ("objective", crf.objective == "log", "'log'"),
        ("init", crf.init != "pseudo_likelihood", "'zero', 'linear' or a LinearCRF"),
        ("beam_width", crf.beam_width is None, "None"),
        ("sampling", crf.sampling is not None, "'auto' or a number"),
    ):
        if not is_supported:
            raise ValueError(
                f"{name}={getattr(crf, name)!r} with constant_transitions=True; expected {expected}"
            )
