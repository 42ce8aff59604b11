"""Time, peak memory, spread of repeated measurements, and Markdown tables."""

from __future__ import annotations

import gc
import itertools
import math
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

# Seconds between two measurements of memory, and of scratch files.
PAUSE = 0.01
LONG_PAUSE = 1.0


@dataclass(frozen=True)
class Spread:
    """Median and range of repeated measurements."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    def show(self, scale: float = 1.0, digits: int = 2) -> str:
        """``median (min-max)``, multiplied by ``scale``."""
        low, middle, high = (scale * f(self.values) for f in (min, median, max))
        if len(self.values) == 1:
            return f"{middle:.{digits}f}"
        return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"

    def over(self, other: Spread) -> Spread:
        """Ratios of measurements taken in the same round, so that drift cancels."""
        return Spread(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))


def seconds(call: Callable[[], Any]) -> float:
    """Measure CPU seconds of all threads of this process, which other load hardly affects."""
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def seconds_repeated(call: Callable[[], Any], at_least: float = 0.2) -> float:
    """Seconds per call, averaged over enough calls to take ``at_least`` seconds."""
    once = max(seconds(call), 1e-6)
    n_calls = max(1, math.ceil(at_least / once))
    return seconds(lambda: [call() for _ in range(n_calls)]) / n_calls


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, which must be importable by name, in a process that has done nothing yet."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def peak_growth(prepare: Callable[..., Any], run: Callable[[Any], Any], *arguments: Any) -> float:
    """Peak growth of memory, in bytes, while ``run(prepare(*arguments))`` runs after ``prepare``.

    This is measured in a new process, because a process that has already done some work can hide
    growth in memory allocated earlier. Both functions must be importable by name.
    """
    return in_new_process(_growth, prepare, run, arguments)


def _growth(prepare: Callable[..., Any], run: Callable[[Any], Any], arguments: tuple) -> float:
    prepared = prepare(*arguments)
    gc.collect()
    before = reset_peak_memory()
    run(prepared)
    return peak_memory() - before


def reset_peak_memory() -> float:
    """Reset the peak of this process; return the bytes resident now (NaN outside Linux)."""
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        return math.nan
    forget.write_text("5")
    return status_bytes("VmRSS")


def peak_memory() -> float:
    """Peak resident bytes since the last reset (NaN outside Linux)."""
    return status_bytes("VmHWM")


class Peaks:
    """Growth of the memory of this process while a block runs, in bytes: ``growth`` by name.

    ``RssAnon`` is the memory that it has allocated, ``VmRSS`` that of all resident pages. With the
    folder of scratch files, ``scratch`` is the size of those that are mapped.
    """

    def __init__(self, folder: str | None = None):
        self.folder = folder

    def __enter__(self) -> Peaks:
        self.before = {name: status_bytes(name) for name in ("RssAnon", "VmRSS")}
        self.growth = dict.fromkeys([*self.before, "scratch"], 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        for i in itertools.count():
            for name, before in self.before.items():
                self.growth[name] = max(self.growth[name], status_bytes(name) - before)
            if self.folder is not None and i % round(LONG_PAUSE / PAUSE) == 0:
                self.growth["scratch"] = max(self.growth["scratch"], _mapped_bytes(self.folder))
            if self._ended.wait(PAUSE):
                return


def _mapped_bytes(folder: str) -> float:
    """Return the size of the files without names in a folder that this process has mapped."""
    pattern = rf"^(\w+)-(\w+) .*{re.escape(folder)}/.* \(deleted\)$"
    maps = Path("/proc/self/maps").read_text()
    return float(sum(int(b, 16) - int(a, 16) for a, b in re.findall(pattern, maps, re.MULTILINE)))


def status_bytes(field: str) -> float:
    status = Path("/proc/self/status")
    found = re.search(rf"{field}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 1024.0 * int(found[1]) if found else math.nan


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table whose first column is text and whose other columns are numbers."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_row(cells, widths) for cells in (header, rule, *rows))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join([first, *rest])} |"
