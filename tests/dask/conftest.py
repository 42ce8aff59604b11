"""A cluster of three processes, and a limit of time for each test."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from pathlib import Path

import pytest

try:
    import dask
    from distributed import Client, LocalCluster
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:
    # Windows has no signals that kill processes.
    collect_ignore_glob = [] if hasattr(signal, "SIGKILL") else ["test_*.py"]

SECONDS = 120


def pytest_collection_modifyitems(items):
    """Sockets of killed processes are not closed."""
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


class Clusters:
    """A cluster of three processes, and another one once its processes do not come back."""

    N_WORKERS = 3

    def __init__(self):
        self.cluster = self.client = None

    def start(self):
        # Another cluster on this machine may have the default port.
        settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "protocol": "tcp"}
        # A cluster closes a worker for good if one of its name was lost this long ago and none of
        # its name runs: after 15 seconds, this would hit workers that later tests have killed.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
        self.cluster = LocalCluster(n_workers=self.N_WORKERS, **settings)
        self.client = Client(self.cluster)

    def stop(self):
        if self.client is not None:
            self.client.close()
            # Dask's own record of the workers may lack one that a test has killed.
            with contextlib.suppress(KeyError):
                self.cluster.close()

    def ready(self):
        """Wait for the workers that an earlier test has killed."""
        if self.client is None:
            self.start()
        try:
            self.client.wait_for_workers(self.N_WORKERS, timeout=4)
        except TimeoutError:
            # A process that dies while it starts is not started again.
            self.stop()
            self.start()


@pytest.fixture(scope="session")
def clusters():
    clusters = Clusters()
    yield clusters
    clusters.stop()


@pytest.fixture
def cluster(clusters):
    clusters.ready()
    return clusters.cluster


@pytest.fixture
def workers(cluster, clusters):
    """The client."""
    return clusters.client


@pytest.fixture(autouse=True)
def limit_of_time():
    """Fail instead of hanging."""

    def stop(*_):
        faulthandler.dump_traceback()
        pytest.fail(f"the test took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
