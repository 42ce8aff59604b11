"""Fleets of parts: where the parts of the data are, and where functions of them run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Each:
    """An argument with one item for each part of a fleet; other arguments are shared by all parts.

    Attributes
    ----------
    items : sequence of length ``n_parts``
    """

    items: Sequence[Any]


class Fleet(Protocol):
    """Parts of the data, wherever they are kept: this process, files, or workers.

    A fleet does not change. Functions are defined at the top level of modules and are pure, so that
    they can be sent to other processes and repeated after a loss. Their results do not depend on
    where they run.
    """

    @property
    def n_parts(self) -> int:
        """Number of parts."""

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts.

        Results come to the caller, so they should be small. An argument of type `Each` passes one
        item to each part.
        """

    def derive(self, function: Callable[..., Any], *args: Any) -> Fleet:
        """Return the fleet of which the parts are ``function(part, *args)``.

        The new parts stay where they are computed, and may be computed when they are first used.
        Arguments are those of `map`.
        """

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, with the list of all parts in order, in one place."""


class LocalFleet:
    """Parts in the memory of this process.

    Parameters
    ----------
    parts : sequence
    """

    def __init__(self, parts: Sequence[Any]):
        self._parts = list(parts)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._parts)

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return [function(part, *arguments_of(i, args)) for i, part in enumerate(self._parts)]

    def derive(self, function: Callable[..., Any], *args: Any) -> LocalFleet:
        """Return the fleet of which the parts are ``function(part, *args)``."""
        return LocalFleet(self.map(function, *args))

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``."""
        return function(list(self._parts), *args)


def arguments_of(i: int, args: Sequence[Any]) -> list:
    """Return the arguments of part i: the item of an `Each`, and all others as they are."""
    return [arg.items[i] if isinstance(arg, Each) else arg for arg in args]
