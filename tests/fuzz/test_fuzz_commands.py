"""Random commands on damaged files: they work, or end with a message."""

from __future__ import annotations

import pytest
from fuzz.commands import FORMS, run_command, trained
from support.sweeps import sweep

pytest.importorskip("pyarrow")

BLOCK = 25


@pytest.mark.parametrize("form", FORMS)
def test_commands_work_without_damage(form):
    assert trained(form)


@pytest.mark.parametrize("block", sweep(range(80), 4))
def test_random_commands(block):
    seeds = range(block * BLOCK, (block + 1) * BLOCK)
    assert len({run_command(seed) for seed in seeds}) == 3
