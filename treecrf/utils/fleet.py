"""Fleets of parts: where the parts of the data are, and where functions of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    def chain(self, other: Fleet) -> Fleet:
        """Return the fleet of these parts, followed by those of a fleet in the same place."""

    def release(self) -> None:
        """Free the memory of the parts, which are not used any more.

        A fleet that can compute parts again does so if they are needed after all, for example to
        replace parts that were derived from them and have been lost.
        """


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

    def chain(self, other: Fleet) -> Fleet:
        """Return the fleet of these parts, followed by those of another fleet of this process."""
        return Chained([self, other])

    def release(self) -> None:
        """Forget the parts."""
        self._parts = []


class Chained:
    """The parts of several fleets of this process.

    Parameters
    ----------
    fleets : list of Fleet
    """

    def __init__(self, fleets: list[Fleet]):
        self._fleets = fleets

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return sum(fleet.n_parts for fleet in self._fleets)

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return [result for fleet, own in self._with(args) for result in fleet.map(function, *own)]

    def derive(self, function: Callable[..., Any], *args: Any) -> Chained:
        """Return the fleet of which the parts are ``function(part, *args)``."""
        return Chained([fleet.derive(function, *own) for fleet, own in self._with(args)])

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``."""
        return function([part for fleet in self._fleets for part in fleet.map(itself)], *args)

    def chain(self, other: Fleet) -> Chained:
        """Return the fleet of these parts, followed by those of another fleet of this process."""
        return Chained([*self._fleets, other])

    def release(self) -> None:
        """Free the memory of the parts of all fleets."""
        for fleet in self._fleets:
            fleet.release()

    def _with(self, args: Sequence[Any]) -> Iterator[tuple[Fleet, list]]:
        """Yield each fleet, with its items of arguments that have one for each part."""
        first = 0
        for fleet in self._fleets:
            here = slice(first, first + fleet.n_parts)
            yield (
                fleet,
                [Each(arg.items[here]) if isinstance(arg, Each) else arg for arg in args],
            )
            first += fleet.n_parts


class View:
    """A function of the parts of a fleet, or of some of them.

    The function should be cheap, because it is computed again each time a part is used.

    Parameters
    ----------
    fleet : Fleet
    function : callable
        The parts are ``function(part, *args)``.
    *args : object
        An argument of type `Each` has an item for every part of the fleet.
    chosen : sequence of bool, optional
        Which parts to keep; the function is not called for the others.
    """

    def __init__(
        self,
        fleet: Fleet,
        function: Callable[..., Any],
        *args: Any,
        chosen: Sequence[bool] | None = None,
    ):
        self._fleet = fleet
        self._seen = function, args
        if any(isinstance(arg, Each) for arg in args):
            self._seen = Each([(function, arguments_of(i, args)) for i in range(fleet.n_parts)])
        self._chosen = [True] * fleet.n_parts if chosen is None else list(chosen)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return sum(self._chosen)

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        results = self._fleet.map(_of_seen, *self._calling(function, args))
        return [result for result, kept in zip(results, self._chosen, strict=True) if kept]

    def derive(self, function: Callable[..., Any], *args: Any) -> View:
        """Return the fleet of which the parts are ``function(part, *args)``."""
        derived = self._fleet.derive(_of_seen, *self._calling(function, args))
        return View(derived, itself, chosen=self._chosen)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, without parts that are None.

        Before parts come together in one place, they are reduced to what the view shows of them.
        """
        return self.derive_all(itself).reduce(_of_present, function, args)

    def derive_all(self, function: Callable[..., Any], *args: Any, otherwise: Any = None) -> Fleet:
        """Return the same as `derive`, but with a value for the parts that are left out.

        The result is not a view.
        """
        calling = self._calling(function, args)
        if isinstance(self._fleet, View):
            return self._fleet.derive_all(_of_seen, *calling, otherwise=otherwise)
        return self._fleet.derive(_unless_none, otherwise, *calling)

    def release(self) -> None:
        """Free the memory of all parts of the fleet."""
        self._fleet.release()

    def _calling(self, function: Callable[..., Any], args: Sequence[Any]) -> list:
        """Return the arguments of `_of_seen`; each `Each` has an item for every part."""
        return [Each(self._chosen), self._seen, function, *map(self._spread, args)]

    def _spread(self, arg: Any) -> Any:
        if not isinstance(arg, Each):
            return arg
        items = iter(arg.items)
        return Each([next(items) if kept else None for kept in self._chosen])


def itself(part: Any) -> Any:
    """Return the part; the function of a map that collects parts."""
    return part


def _of_seen(part: Any, is_chosen: bool, seen: tuple, function: Callable, *args: Any) -> Any:
    """Call a function with a part as a view shows it; None for parts that it leaves out."""
    return function(_as_seen(part, seen), *args) if is_chosen else None


def _unless_none(part: Any, otherwise: Any, *calling: Any) -> Any:
    result = _of_seen(part, *calling)
    return otherwise if result is None else result


def _of_present(parts: list, function: Callable, args: Sequence[Any]) -> Any:
    return function([part for part in parts if part is not None], *args)


def _as_seen(part: Any, seen: tuple) -> Any:
    function, args = seen
    return function(part, *args)


def arguments_of(i: int, args: Sequence[Any]) -> list:
    """Return the arguments of part i, with its item in place of each `Each`."""
    return [arg.items[i] if isinstance(arg, Each) else arg for arg in args]
