"""Estimators that tests of inputs fit."""

from __future__ import annotations

from support.settings import FIXED

from treecrf import TreeCRF


def small(**parameters) -> TreeCRF:
    return TreeCRF(**{"max_iter": 4, "l2_regularization": 1.0, "window": 1} | FIXED | parameters)
