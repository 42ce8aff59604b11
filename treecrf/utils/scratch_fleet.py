"""Fleet of one process whose parts are read when they are used, or are kept in scratch files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from treecrf.utils.fleet import Chained, Fleet, arguments_of, itself
from treecrf.utils.scratch import Scratch

Load = Callable[[], Any]


class ScratchFleet:
    """Parts of which only one is in memory at a time.

    Parameters
    ----------
    loads : sequence of callables
        Return the parts, such as pieces of files.
    scratch : Scratch, optional
        Where to store derived parts. Without it, they are computed again each time they are used.

    Attributes
    ----------
    allocate : callable or None
        Makes arrays of zeros in scratch files, like `numpy.zeros`; None without scratch files.
    """

    def __init__(self, loads: Sequence[Load], scratch: Scratch | None = None):
        self._loads = list(loads)
        self._scratch = scratch
        self.allocate = None if scratch is None else scratch.allocate

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._loads)

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return [compute() for compute in self._computing(function, args)]

    def derive(self, function: Callable[..., Any], *args: Any) -> ScratchFleet:
        """Return the fleet of which the parts are ``function(part, *args)``.

        Raises
        ------
        OSError
            If the disk of the scratch files has too little space.
        """
        computing: list[Load] = self._computing(function, args)
        if self._scratch is None:
            return ScratchFleet(computing)
        stored = self._scratch.store(compute() for compute in computing)
        return ScratchFleet(stored, self._scratch)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``."""
        return function([load() for load in self._loads], *args)

    def kept(self) -> ScratchFleet:
        """Return the same fleet for parts that are used often: without scratch files, in memory."""
        if self._scratch is not None:
            return self
        return ScratchFleet([partial(itself, load()) for load in self._loads])

    def chain(self, other: Fleet) -> Chained:
        """Return the fleet of these parts, followed by those of another fleet of this process."""
        return Chained([self, other])

    def release(self) -> None:
        """Forget the parts; the space of scratch files is free when no array of them is used."""
        self._loads = []

    def _computing(self, function: Callable[..., Any], args: Sequence[Any]) -> list[Load]:
        return [
            partial(_compute, load, function, arguments_of(i, args))
            for i, load in enumerate(self._loads)
        ]


def _compute(load: Load, function: Callable[..., Any], args: list) -> Any:
    return function(load(), *args)
