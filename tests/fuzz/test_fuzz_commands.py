"""Random commands on damaged files: they work, or end with a message."""

from __future__ import annotations

import pytest
from support.fuzz_commands import FORMS, run_command, trained

pytest.importorskip("pyarrow")

BLOCK = 25
FEW, MANY = range(4), range(4, 80)


@pytest.mark.parametrize("form", FORMS)
def test_commands_work_without_damage(form):
    assert trained(form)


@pytest.mark.parametrize(
    "block", [*FEW, *(pytest.param(block, marks=pytest.mark.exhaustive) for block in MANY)]
)
def test_random_commands(block):
    seeds = range(block * BLOCK, (block + 1) * BLOCK)
    assert len({run_command(seed) for seed in seeds}) == 3
