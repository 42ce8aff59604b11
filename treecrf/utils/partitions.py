"""Partitions of the data: where they are, and where functions of them run."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from treecrf.utils.scratch import Scratch


@dataclass(frozen=True)
class PerPartition:
    """An argument with one item for each partition; partitions share all other arguments."""

    items: Sequence[Any]


# `LocalPartitions`, or another object with its methods: parts of the data on workers.
Partitions = Any
# Returns a part, for example by reading it.
Load = Callable[[], Any]


class LocalPartitions:
    """Parts of the data in this process: in memory, in scratch files, or read at each use.

    The object does not change. Functions are defined at the top level of modules and are pure, so
    that they can be sent to other processes and repeated after a loss: parts may also be on other
    machines, in an object with these methods. An argument of type `PerPartition` passes one item
    to each part. The constructor takes parts in memory; parts derived from them are there, too.
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
        partitions._loads, partitions.n_parts = list(loads), len(loads)
        partitions._is_in_memory, partitions.scratch = False, scratch
        return partitions

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in order; results should be small."""
        return [function(load(), *arguments_of(i, args)) for i, load in enumerate(self._loads)]

    def derive(
        self, function: Callable[..., Any], *args: Any, otherwise: Any = None
    ) -> LocalPartitions:
        """Return the partitions ``function(part, *args)``; OSError if the disk is too full.

        They stay where they are computed, which may be when they are first used.
        No part is left out, so ``otherwise`` is ignored; see `PartitionsView.derive_all`.
        """
        if self._is_in_memory:
            return LocalPartitions(self.map(function, *args))
        loads = [
            lambda load=load, i=i: function(load(), *arguments_of(i, args))
            for i, load in enumerate(self._loads)
        ]
        if self.scratch is not None:
            loads = self.scratch.store(load() for load in loads)
        return LocalPartitions.reading(loads, self.scratch)

    derive_all = derive

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, with all parts in order, in one place."""
        return function(self.map(identity), *args)

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
        is_kept = self._is_in_memory or self.scratch is not None
        return self if is_kept else LocalPartitions(self.map(identity))

    def chain(self, other: LocalPartitions) -> LocalPartitions:
        """Return these partitions, followed by other local ones."""
        partitions = copy.copy(self)
        partitions._loads = [*self._loads, *other._loads]
        partitions.n_parts = len(partitions._loads)
        return partitions

    def release(self) -> None:
        """Forget the parts; the space of scratch files is free when no array of them is used."""
        self._loads = []


def view(
    partitions: Partitions, function: Callable[..., Any], *args: Any
) -> LocalPartitions | PartitionsView:
    """Return the parts ``function(part, *args)``, which are cheap; see `PartitionsView`."""
    if isinstance(partitions, LocalPartitions) and partitions._is_in_memory:
        return partitions.derive(function, *args)
    return PartitionsView(partitions, function, *args)


class PartitionsView:
    """A function of partitions, or of some of them: ``function(part, *args)``.

    The function should be cheap, because it is computed again each time a part is used. An argument
    of type `PerPartition` has an item for every partition.
    """

    def __init__(
        self,
        partitions: Partitions,
        function: Callable[..., Any],
        *args: Any,
        chosen: Sequence[bool] | None = None,  # which parts to keep
    ):
        # A view of a view calls both functions on the partitions that the other one is a view of.
        if isinstance(partitions, PartitionsView):
            self._partitions, were_chosen = partitions._partitions, partitions._chosen
            _, sizes, *calls = partitions._calling
        else:
            self._partitions, were_chosen = partitions, [True] * partitions.n_parts
            sizes, calls = (), []
        self._chosen = were_chosen
        if chosen is not None:
            self._chosen = [bool(kept) for kept in _spread(PerPartition(chosen), were_chosen).items]
        # Arguments of `_shown`: last, the functions, each followed by its own arguments.
        calls += [function, *(_spread(arg, were_chosen) for arg in args)]
        self.n_parts = sum(self._chosen)
        self._calling = [PerPartition(self._chosen), (*sizes, 1 + len(args)), *calls]

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        shown = PartitionsView(self, function, *args)
        results = self._partitions.map(_shown, None, *shown._calling)
        return [result for result, kept in zip(results, self._chosen, strict=True) if kept]

    def derive(self, function: Callable[..., Any], *args: Any) -> PartitionsView:
        """Return the partitions ``function(part, *args)``."""
        return PartitionsView(self.derive_all(function, *args), identity, chosen=self._chosen)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, without parts that are None.

        Before parts come together in one place, they are reduced to what the view shows of them.
        """
        return self.derive_all(identity).reduce(_of_present, function, args)

    def derive_all(
        self, function: Callable[..., Any], *args: Any, otherwise: Any = None
    ) -> Partitions:
        """Return the same as `derive`, but with a value for the parts that are left out.

        The result is not a view.
        """
        shown = PartitionsView(self, function, *args)
        return self._partitions.derive(_shown, otherwise, *shown._calling)

    def release(self) -> None:
        """Free the memory of all partitions."""
        self._partitions.release()


def _spread(arg: Any, chosen: Sequence[bool]) -> Any:
    """Return an argument of the chosen parts as one of all parts."""
    if not isinstance(arg, PerPartition):
        return arg
    items = iter(arg.items)
    return PerPartition([next(items) if kept else None for kept in chosen])


def identity(part: Any) -> Any:
    """Return the part; the function of a map that collects parts."""
    return part


def _shown(part: Any, otherwise: Any, is_chosen: bool, sizes: tuple[int, ...], *calls: Any) -> Any:
    """Call functions, each among ``calls`` before its arguments; ``otherwise`` for parts left out.

    ``sizes`` are the numbers of the items of each call.
    """
    if not is_chosen:
        return otherwise
    for size in sizes:
        function, *args = calls[:size]
        part, calls = function(part, *args), calls[size:]
    return part


def _of_present(parts: list, function: Callable, args: Sequence[Any]) -> Any:
    return function([part for part in parts if part is not None], *args)


def arguments_of(i: int, args: Sequence[Any]) -> list:
    """Return the arguments of part i, with its item in place of each `PerPartition`."""
    return [arg.items[i] if isinstance(arg, PerPartition) else arg for arg in args]
