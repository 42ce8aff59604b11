"""Words while the workers of pytest-xdist collect tests, which they do in silence."""

from __future__ import annotations

import threading
import time

import pytest

SECONDS = 5


class Waiting:
    """Says that tests are collected, from the start of the session until a worker has them all."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.is_done = threading.Event()

    def pytest_sessionstart(self):
        """Begin to count the seconds."""
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        start = time.monotonic()
        while not self.is_done.wait(SECONDS):
            self._say(f"collecting tests, {time.monotonic() - start:.0f} s")

    def _say(self, line: str):
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        """Say how many tests there are."""
        if not self.is_done.is_set():
            self.is_done.set()
            self._say(f"collected {len(ids):,} tests")

    def pytest_sessionfinish(self):
        """Stop, also if no worker has finished."""
        self.is_done.set()


def announce_collection(config: pytest.Config) -> None:
    """Register the words in the process that starts the workers."""
    is_worker = hasattr(config, "workerinput")
    if config.getoption("numprocesses", None) and not is_worker:
        config.pluginmanager.register(Waiting(config))
