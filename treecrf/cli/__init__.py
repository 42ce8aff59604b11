"""Command line: ``python -m treecrf train``, ``predict``, ``evaluate``, ``info`` and ``demo``."""

from treecrf.cli.main import main

__all__ = ["main"]
