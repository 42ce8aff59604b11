"""Fits that lose workers end with the same result, or with an error; nothing hangs.

Processes take long to start again, so in the fast tests only a few die: here, and in `test_fit`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

pytest.importorskip("distributed")

import dask
from distributed import Client
from support import dask_toys as toys
from support.dask_data import cancel_all

from treecrf.dask.cluster import Cluster, WorkersLostError
from treecrf.dask.partitions import DaskPartitions, DaskShards

N_PARTS, N_ITER = 7, 6
PARTS = [toys.encoded(toys.source(i)) for i in range(N_PARTS)]
TREES = toys.toy_trees(PARTS, N_ITER)

# A busy machine may lose a worker besides.
LOSSES = pytest.mark.filterwarnings("ignore:worker .* was lost")


@contextlib.contextmanager
def shards(client, read=None, encode=None):
    """Toy shards whose sources and encoders may crash."""
    sources = [dask.delayed(toys.source)(i, read) for i in range(N_PARTS)]
    with Cluster(client) as cluster:
        raw = DaskPartitions(cluster, N_PARTS, lambda: cluster.submit_delayed(sources), keep=False)
        partitions = raw.derive(toys.encoded, encode)
        toy = toys.ToyShards(partitions, toys.SETUP)
        toy.growing = toys.ToyGrowing()
        yield toy


def at(iteration, action):
    """Do something after an iteration."""
    return lambda i: action() if i == iteration else None


def kill_holders(client, future):
    """Kill all workers that have a result, and return their addresses."""
    pids = client.run(os.getpid)
    holders = client.who_has(future)[future.key]
    for worker in holders:
        os.kill(pids[worker], signal.SIGKILL)
    return set(holders)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("place", ["encode", "read"])
def test_death_in_preparation(workers, tmp_path, place, n):
    crash = toys.make_files(tmp_path / "crash", n), place
    with pytest.warns(UserWarning, match="was lost"), shards(workers, **{place: crash}) as toy:
        assert toys.run(toy, N_ITER) == TREES
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("place", ["draw", "grow"])
def test_death_in_an_iteration(workers, tmp_path, place, n):
    crashes = {3: (toys.make_files(tmp_path / "crash", n), place)}
    with pytest.warns(UserWarning, match="was lost"), shards(workers) as toy:
        assert toys.run(toy, N_ITER, crashes) == TREES
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_death_between_iterations_and_while_rebuilding(workers, cluster, tmp_path):
    crash = toys.make_files(tmp_path / "crash", 0), "encode"

    def kill_twice():
        tasks = cluster.scheduler.tasks.values()
        while any(task.who_has for task in list(tasks) if "encoded" in task.key):
            time.sleep(0.05)
        toys.make_files(tmp_path / "crash", 1)
        kill_holders(workers, toy.futures()[0])

    with pytest.warns(UserWarning, match="was lost"), shards(workers, encode=crash) as toy:
        assert toys.run(toy, N_ITER, after=at(2, kill_twice)) == TREES
    assert not list(tmp_path.iterdir())


@LOSSES
def test_restart(workers):
    with pytest.warns(UserWarning, match="restarted"), shards(workers) as toy:
        assert toys.run(toy, N_ITER, after=at(2, lambda: cancel_all(workers))) == TREES


@pytest.mark.parametrize(
    "restart", [cancel_all, pytest.param(Client.restart, marks=pytest.mark.exhaustive)]
)
def test_restart_during_an_iteration(workers, restart):
    with pytest.warns(UserWarning, match="restarted|was lost"), shards(workers) as toy:
        toy.growing.seconds = 0.3
        thread = threading.Timer(1.0, restart, [workers])
        thread.start()
        assert toys.run(toy, N_ITER) == TREES
        thread.join()


@LOSSES
def test_restarted_too_often(workers):
    def cancel_often():
        while not done.wait(0.2):
            cancel_all(workers)

    done = threading.Event()
    with (
        pytest.warns(UserWarning, match="restarted"),
        pytest.raises(WorkersLostError, match="restarted 4 times in one operation"),
        shards(workers) as toy,
    ):
        toy.growing.seconds = 1.0
        thread = threading.Thread(target=cancel_often)
        thread.start()
        try:
            toys.run(toy, N_ITER)
        finally:
            done.set()
            thread.join()


def test_retired_workers(workers):
    """Workers that retire hand their shards to others; this is not a loss."""

    def retire():
        workers.retire_workers(list(workers.nthreads())[:2])

    with shards(workers) as toy:
        assert toys.run(toy, N_ITER, after=at(2, retire)) == TREES


@pytest.fixture
def replicas(workers):
    """Keep copies of results, of which Dask drops those that no task needs."""
    workers.amm.stop()
    yield
    workers.amm.start()


@pytest.mark.exhaustive
@pytest.mark.parametrize("runs_on_copies", [True, False])
def test_copied_shards(workers, replicas, runs_on_copies):
    """Copies of a shard have different numbers of trees; tasks run on that of its own worker."""
    caught_up = []

    def act(i):
        if i == 1:
            while any(len(holders) < 3 for holders in workers.who_has(toy.futures()).values()):
                workers.replicate(toy.futures(), n=3)
        if i == 3 and runs_on_copies:
            toy.homes[:] = [*toy.homes[1:], toy.homes[0]]

    def iterate(step, again):
        def watched(first):
            if first < step.first:
                caught_up.append(first)
            return again(first)

        return DaskShards.iterate(toy, step, watched)

    with shards(workers) as toy:
        toy.iterate = iterate
        assert toys.run(toy, N_ITER, after=act) == TREES
    assert bool(caught_up) == runs_on_copies


@pytest.mark.exhaustive
def test_shards_move_to_new_workers(workers, monkeypatch):
    monkeypatch.setattr("treecrf.dask.partitions.SECONDS_BETWEEN_MOVES", 0.0)

    def act(i):
        if i == 1:
            killed = kill_holders(workers, toy.futures()[0])
            # The scheduler may count workers that are dead for a while.
            while killed & workers.nthreads().keys():
                time.sleep(0.05)
        if i == 2:
            workers.wait_for_workers(3, timeout=20)

    with pytest.warns(UserWarning, match="was lost"), shards(workers) as toy:
        assert toys.run(toy, N_ITER, after=act) == TREES
        holders = workers.who_has(toy.futures()).values()
        assert len({worker for holder in holders for worker in holder}) == 3


def test_too_many_losses(workers, cluster, tmp_path):
    scheduler = cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 1
    crashes = {1: (toys.make_files(tmp_path / "crash", 9), "grow")}
    try:
        with (
            pytest.warns(UserWarning, match="was lost"),
            pytest.raises(WorkersLostError, match=r"2 workers died .*grow.*warm_start=True"),
            shards(workers) as toy,
        ):
            toys.run(toy, N_ITER, crashes)
    finally:
        scheduler.allowed_failures = allowed
    wait_until_idle(cluster)


@pytest.mark.exhaustive
def test_too_many_losses_in_an_iteration(workers, monkeypatch, tmp_path):
    monkeypatch.setattr("treecrf.dask.partitions.MAX_LOSSES", 0)
    crashes = {1: (toys.make_files(tmp_path / "crash", 1), "grow")}
    with (
        pytest.warns(UserWarning, match="was lost"),
        pytest.raises(WorkersLostError, match="more than 0 workers were lost in one iteration"),
        shards(workers) as toy,
    ):
        toy.growing.seconds = 3.0
        toys.run(toy, 2, crashes)


@pytest.mark.exhaustive
def test_no_workers(workers, cluster):
    with (
        dask.config.set({"treecrf.timeout": "2s"}),
        pytest.warns(UserWarning, match="was lost"),
        pytest.raises(WorkersLostError, match=r"no worker .* there are no workers; start workers"),
        shards(workers) as toy,
    ):
        toys.run(toy, N_ITER, after=at(1, lambda: cluster.scale(0)))

    wait_until_idle(cluster)


@pytest.mark.exhaustive
def test_paused_workers(workers, cluster):
    def pause(dask_worker):
        dask_worker.memory_manager.memory_pause_fraction = False
        dask_worker.status = type(dask_worker.status).paused

    def resume(dask_worker):
        dask_worker.status = type(dask_worker.status).running

    with (
        dask.config.set({"treecrf.timeout": "2s"}),
        pytest.raises(WorkersLostError, match="3 workers are paused"),
        shards(workers) as toy,
    ):
        toys.run(toy, N_ITER, after=at(1, lambda: workers.run(pause)))
    workers.run(resume)


def test_interrupt_releases_all(workers, cluster):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), shards(workers) as toy:
        toys.run(toy, N_ITER, after=at(1, interrupt))
    wait_until_idle(cluster)


@pytest.mark.exhaustive
def test_interrupt_while_waiting(workers, cluster):
    is_over = threading.Event()

    def interrupt():
        # Python drops an interrupt that happens to come in a callback of its own.
        while not is_over.wait(2.0):
            os.kill(os.getpid(), signal.SIGINT)

    def run():
        try:
            toys.run(toy, 20)
        finally:
            is_over.set()

    # Processes in which tests run side by side ignore interrupts.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), shards(workers) as toy:
            toy.growing.seconds = 1.0
            thread.start()
            run()
    finally:
        thread.join()
        signal.signal(signal.SIGINT, handler)
    wait_until_idle(cluster)


def wait_until_idle(cluster):
    """Wait until the scheduler has forgotten all tasks; the limit of time ends this otherwise."""
    while cluster.scheduler.tasks:
        time.sleep(0.05)
