"""Fleets of parts, see `treecrf.utils.fleet`."""

from treecrf.utils.fleet import Each, Fleet, LocalFleet, View, arguments_of

__all__ = ["Each", "Fleet", "LocalFleet", "View", "arguments_of"]
