"""A cluster of three processes, and a limit of time for each test."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

SECONDS = 120


def pytest_collection_modifyitems(items):
    """Sockets of killed processes are not closed."""
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


def local_cluster(**options):
    settings = {
        "n_workers": 3,
        "threads_per_worker": 1,
        # Another cluster on this machine may have the default port.
        "dashboard_address": "127.0.0.1:0",
        "protocol": "tcp",
    }
    return LocalCluster(**settings | options)


@pytest.fixture(scope="module")
def cluster():
    cluster = local_cluster()
    yield cluster
    # Dask's own record of the workers may lack one that a test has killed.
    with contextlib.suppress(KeyError):
        cluster.close()


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.fixture
def workers(client, cluster):
    """The client, once all workers are back that an earlier test has killed."""
    try:
        client.wait_for_workers(3, timeout=10)
    except TimeoutError:
        # A process that dies while it starts is not started again.
        cluster.scale(0)
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
    return client


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
