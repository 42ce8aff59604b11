"""The command line: ``python -m treecrf train``, ``predict``, ``evaluate``, ``info``, ``demo``."""

from treecrf.cli.main import main

__all__ = ["main"]
