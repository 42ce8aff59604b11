"""Data in partitions: functions of them run where the partitions are.

What is learned from all data follows from a result for each partition. These are merged in ways
that do not depend on how the data are cut, so models of the same data in memory, in files and on a
cluster are equal to the bit. Data in memory are not cut. Large partitions are in
`treecrf.inputs.large` and `treecrf.dask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PerPartition:
    """An argument with one item for each partition; partitions share all other arguments."""

    items: Sequence[Any]


class Partitions(ABC):
    """Parts of the data, and where functions of them run.

    Functions are defined at the top level of modules and are pure, so that they can be sent to
    other processes and repeated after a loss. An argument of type `PerPartition` passes one item to
    each partition.
    """

    n_parts: int

    @abstractmethod
    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each partition, in order; results are small."""

    @abstractmethod
    def derive(self, function: Callable[..., Any], *args: Any) -> Partitions:
        """Return the partitions ``function(part, *args)``, which stay where they are computed."""

    @abstractmethod
    def view(self, function: Callable[..., Any], *args: Any) -> Partitions:
        """Return the same as `derive`, for a function that is cheap to compute at each use."""

    @abstractmethod
    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, with a list of all partitions in one place."""

    @abstractmethod
    def make_shards(self, make: Callable[..., Any], setup: Any) -> Any:
        """Return shards of encoded partitions, where these are; may release the partitions.

        In this process, ``make(partitions, setup, allocate)`` returns them, where ``allocate`` is
        from `treecrf.utils.allocation` or None.
        """

    @abstractmethod
    def release(self) -> None:
        """Forget the partitions, whose memory is free when nothing else uses them."""


class LargePartitions(Partitions):
    """Partitions of data that need not fit in memory: in files, or on a cluster."""

    @abstractmethod
    def derive(self, function: Callable[..., Any], *args: Any) -> StoredPartitions:
        """Return the partitions ``function(part, *args)``, which stay where they are computed."""

    @abstractmethod
    def view(self, function: Callable[..., Any], *args: Any) -> LargePartitions:
        """Return the same as `derive`, for a function that is cheap to compute at each use."""

    @abstractmethod
    def only(self, chosen: Sequence[bool]) -> LargePartitions:
        """Return the partitions that are marked."""


class StoredPartitions(LargePartitions):
    """Large partitions that are not a view of others."""

    @abstractmethod
    def chain(self, other: Any) -> StoredPartitions:
        """Return these partitions, followed by others of the same class."""

    @abstractmethod
    def persisted(self) -> StoredPartitions:
        """Return the same partitions, not to be read again at each use if there is room."""

    @abstractmethod
    def kept(self) -> StoredPartitions:
        """Return the same partitions, not to be computed again at each use."""


class InMemory(Partitions):
    """Data in the memory of this process, which are not cut."""

    n_parts = 1

    def __init__(self, data: Any):
        self.data = data

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return the result of the function as the only item of a list."""
        return [function(self.data, *arguments_for(0, args))]

    def derive(self, function: Callable[..., Any], *args: Any) -> InMemory:
        """Return the result of the function, which is in memory, too."""
        return InMemory(function(self.data, *arguments_for(0, args)))

    view = derive

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function([data], *args)``."""
        return function([self.data], *args)

    def make_shards(self, make: Callable[..., Any], setup: Any) -> Any:
        """Return shards in this process, with their arrays in memory."""
        shards = make(self, setup, None)
        self.release()
        return shards

    def release(self) -> None:
        """Forget the data."""
        self.data = None


def arguments_for(i: int, args: Sequence[Any]) -> list:
    """Return the arguments of partition i, with its item in place of each `PerPartition`."""
    return [arg.items[i] if isinstance(arg, PerPartition) else arg for arg in args]


def identity(part: Any) -> Any:
    """Return the part; the function of a map that collects parts."""
    return part
