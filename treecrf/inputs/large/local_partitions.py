"""Partitions of the data in this process: in memory, in files, or read at each use."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any

from treecrf.inputs.large.scratch import Scratch
from treecrf.utils.partitions import (
    LargePartitions,
    PerPartition,
    StoredPartitions,
    arguments_for,
    identity,
)

# Returns a part, for example by reading it.
Load = Callable[[], Any]


class LocalPartitions(StoredPartitions):
    """Partitions in this process: in memory, in scratch files, or read at each use.

    The constructor takes partitions in memory; those derived from them are there, too.
    """

    def __init__(self, parts: Sequence[Any]):
        self._loads: list[Load] = [partial(identity, part) for part in parts]
        self.n_parts = len(parts)
        self._is_in_memory = True  # whether derived parts are
        self.scratch: Scratch | None = None  # keeps derived parts that are not in memory

    @classmethod
    def reading(cls, loads: Sequence[Load], scratch: Scratch | None = None) -> LocalPartitions:
        """Return partitions that are read when they are used, one at a time.

        Derived parts are stored in scratch files. Without these, they are computed each time they
        are used.
        """
        partitions = cls([])
        partitions._loads = list(loads)
        partitions.n_parts = len(loads)
        partitions._is_in_memory = False
        partitions.scratch = scratch
        return partitions

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in order; results should be small."""
        return [function(load(), *arguments_for(i, args)) for i, load in enumerate(self._loads)]

    def derive(self, function: Callable[..., Any], *args: Any) -> LocalPartitions:
        """Return the partitions ``function(part, *args)``; OSError if the disk is too full.

        They stay where they are computed, which may be when they are first used.
        """
        if self._is_in_memory:
            return LocalPartitions(self.map(function, *args))
        loads = [
            lambda load=load, i=i: function(load(), *arguments_for(i, args))
            for i, load in enumerate(self._loads)
        ]
        if self.scratch is not None:
            loads = self.scratch.store(load() for load in loads)
        return LocalPartitions.reading(loads, self.scratch)

    def view(self, function: Callable[..., Any], *args: Any) -> LargePartitions:
        """Return the partitions ``function(part, *args)``, which are cheap to compute."""
        if self._is_in_memory:
            return self.derive(function, *args)
        return PartitionsView(self, function, *args)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, with all parts in order, in one place."""
        return function(self.map(identity), *args)

    def make_shards(self, make: Callable[..., Any], setup: Any) -> Any:
        """Return shards in this process, whose arrays are in scratch files if there are any."""
        allocate = None
        if self.scratch is not None:
            allocate = self.scratch.allocate
        shards = make(self, setup, allocate)
        # They hold the partitions, and have joined some of them.
        self.release()
        return shards

    def persisted(self) -> LocalPartitions:
        """Return the same partitions in files, if they were read each time otherwise.

        The files are in the default folder for temporary files. If it has too little space, or
        there is none, nothing changes. Partitions derived from the new ones are computed each time
        they are used. A single part, which is in memory whenever it is used, stays there.
        """
        if self._is_in_memory or self.scratch is not None or self.n_parts == 1:
            return self.kept()
        try:
            loads = Scratch(tempfile.gettempdir()).store(load() for load in self._loads)
        except OSError:  # also of a part that cannot be read, which will be raised again
            return self
        return LocalPartitions.reading(loads)

    def kept(self) -> LocalPartitions:
        """Return the same partitions, not to be computed each time they are used."""
        if self._is_in_memory or self.scratch is not None:
            return self
        return LocalPartitions(self.map(identity))

    def only(self, chosen: Sequence[bool]) -> LocalPartitions:
        """Return the partitions that are marked."""
        if all(chosen):
            return self
        return self._with(list(compress(self._loads, chosen)))

    def chain(self, other: LocalPartitions) -> LocalPartitions:
        """Return these partitions, followed by other local ones."""
        return self._with([*self._loads, *other._loads])

    def _with(self, loads: list[Load]) -> LocalPartitions:
        partitions = copy.copy(self)
        partitions._loads = loads
        partitions.n_parts = len(loads)
        return partitions

    def release(self) -> None:
        """Forget the parts; the space of scratch files is free when no array of them is used."""
        self._loads = []


class PartitionsView(LargePartitions):
    """A function of partitions: ``function(part, *args)``.

    The function should be cheap, because it is computed again each time a part is used.
    """

    def __init__(self, partitions: LargePartitions, function: Callable[..., Any], *args: Any):
        self.n_parts = partitions.n_parts
        self._partitions = partitions
        self._call = function, *args

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return self._partitions.map(_twice, len(self._call), *self._call, function, *args)

    def derive(self, function: Callable[..., Any], *args: Any) -> StoredPartitions:
        """Return the partitions ``function(part, *args)``, which are not a view."""
        return self._partitions.derive(_twice, len(self._call), *self._call, function, *args)

    def view(self, function: Callable[..., Any], *args: Any) -> PartitionsView:
        """Return a view of this view."""
        return PartitionsView(self, function, *args)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``.

        Before parts come together in one place, they are reduced to what the view shows of them.
        """
        return self._partitions.derive(*self._call).reduce(function, *args)

    def only(self, chosen: Sequence[bool]) -> PartitionsView:
        """Return a view of the partitions that are marked."""
        call = (
            PerPartition(list(compress(arg.items, chosen)))
            if isinstance(arg, PerPartition)
            else arg
            for arg in self._call
        )
        return PartitionsView(self._partitions.only(chosen), *call)

    def make_shards(self, make: Callable[..., Any], setup: Any) -> Any:
        """Return shards of what the view shows."""
        return self._partitions.derive(*self._call).make_shards(make, setup)

    def release(self) -> None:
        """Free the memory of the partitions."""
        self._partitions.release()


def _twice(part: Any, size: int, *calls: Any) -> Any:
    """Call two functions, each followed by its own arguments; the first are ``size`` items."""
    first, *args = calls[:size]
    second, *others = calls[size:]
    return second(first(part, *args), *others)
