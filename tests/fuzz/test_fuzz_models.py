"""Random estimators on random data: explained errors, or predictions that agree with each other.

`campaign.py` runs as many cases as you like.
"""

from __future__ import annotations

import pytest
from fuzz.models import draw_case, run_case
from support.sweeps import sweep


@pytest.mark.parametrize("seed", sweep(range(300), 30))
def test_random_models(seed):
    run_case(seed)


def test_most_cases_reach_the_properties():
    assert sum(run_case(seed, hostile=0.0) == "checked" for seed in range(100, 110)) >= 6


def test_cases_do_not_change():
    """So that a seed in a report leads to the same case."""
    one, other = draw_case(7), draw_case(7)
    assert repr(one) == repr(other)
