"""What users see while a call runs: warnings that point at their line, and progress.

Progress is a bar if tqdm is installed, and otherwise a line every few seconds.
"""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import AbstractContextManager, suppress
from typing import Any

PACKAGE = __name__.partition(".")[0] + "."
SECONDS_BETWEEN_LINES = 2.0


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line that called this package."""
    level = 2
    frame = sys._getframe(1)
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(PACKAGE):
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


class Progress(AbstractContextManager["Progress"]):
    """Display of the iterations from n_done to n_iter, unless ``verbose`` is 0."""

    def __init__(self, verbose: int, n_done: int, n_iter: int, name: str):
        self.verbose = verbose
        self.n_iter = n_iter
        self.name = name
        self._bar: Any = None
        self._last_line = 0.0
        if verbose:
            with suppress(ImportError):
                from tqdm import tqdm

                self._bar = tqdm(total=n_iter, initial=n_done, desc=name, unit="iter", leave=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, n_done: int, values: dict[str, float]) -> None:
        """Show that ``n_done`` iterations are done, and the latest values."""
        if not self.verbose:
            return
        if self._bar is not None:
            self._bar.set_postfix(values, refresh=False)
            self._bar.update(n_done - self._bar.n)
        elif n_done == self.n_iter or time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            shown = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
            print(f"{self.name}: iteration {n_done} of {self.n_iter}, {shown}", file=sys.stderr)
