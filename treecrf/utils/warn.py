"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0] + "."


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
