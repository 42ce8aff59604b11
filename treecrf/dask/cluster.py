"""Tasks on a Dask cluster: submitted, waited for, and submitted again after losses."""

from __future__ import annotations

import hashlib
import math
import platform
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from types import FunctionType
from typing import Any
from weakref import WeakSet

import dask
import numpy as np
from dask.sizeof import sizeof
from dask.utils import parse_timedelta
from distributed import Client, Future, wait
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker

from treecrf._version import __version__
from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.dataset import RawData
from treecrf.learners.base.training_data import LabeledSequences
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.sampled.exchange import IterationResult, ShardAnswer
from treecrf.utils.messages import warn
from treecrf.utils.partitions import PerPartition

# Longer lists are measured by a sample; measuring the tokens of all positions takes seconds.
MAX_ITEMS = 200
# Shared arguments that take more bytes in all tasks together are a task of their own: they are sent
# once to each worker, and not once with each task. Fewer bytes are not worth waiting for a task.
MANY_BYTES = 1 << 20
# Number of losses of workers, or restarts of the cluster, after which an operation fails.
MAX_LOSSES = 3
# Seconds between two checks of the workers.
INTERVAL = 1.0
# Seconds that the transfer of results to the client takes before the workers are checked again.
TRANSFER = 60.0
# Prefix of the keys of all tasks.
PREFIX = "treecrf-"


# Comparison of workers with the client


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Return the versions of treecrf and NumPy, and a hash of results of numeric functions.

    The C library and NumPy choose code by the processor, so the last bit of a logarithm may differ
    between machines with equal software.
    """
    x = np.linspace(-30, 30, 1001)
    scalars = [math.exp(value) for value in x] + [math.log1p(math.exp(value)) for value in x]
    arrays = [np.exp(x), np.log(np.abs(x) + 0.1), np.log1p(np.exp(x)), np.array(scalars)]
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:8]
    return f"treecrf {__version__}, numpy {np.__version__}, arithmetic {digest}"


# Sizes in memory, by which Dask places tasks and moves results to the disk


@sizeof.register(
    (RawData, LabeledSequences, EncodedPart, EncodedSequences, ShardAnswer, IterationResult)
)
def size_of_fields(value: Any) -> int:
    """Return the size of an object and of everything that its attributes hold."""
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = vars(value) if hasattr(value, "__dict__") else {n: getattr(value, n) for n in names}
    return sys.getsizeof(value) + sum(map(_size, fields.values()))


def _size(value: Any) -> int:
    if type(value).__module__.partition(".")[0] == "treecrf":
        return size_of_fields(value)
    if isinstance(value, (list, tuple)) and value:
        sample = value[:: -(-len(value) // MAX_ITEMS)]
        return sys.getsizeof(value) + sum(map(_size, sample)) * len(value) // len(sample)
    return sizeof(value)


# Tasks


class WorkersLostError(RuntimeError):
    """Raised by ``fit`` when it has lost more workers than it can replace, or all of them."""


def call(function: bytes, versions: str | None, shared: Any, given: bytes, *parts: Any) -> Any:
    """Call a function of parts and arguments in a task, if the worker has the client's versions.

    All calls share the shared arguments, a list that may be pickled. The given ones are the
    arguments of this call alone, in the places of those of type `PerPartition`. Dask does not
    search what is pickled for futures.
    """
    if versions is not None and versions != fingerprint():
        raise RuntimeError(
            f"worker on {platform.node()} has {fingerprint()}; the client has {versions}. Results "
            "are equal to the bit only if these agree: install the same versions, or turn off this "
            "check with dask.config.set({'treecrf.check-versions': False})"
        )
    own = iter(pickle.loads(given))
    common = pickle.loads(shared) if isinstance(shared, bytes) else shared
    arguments = [next(own) if isinstance(arg, PerPartition) else arg for arg in common]
    return pickle.loads(function)(*parts, *arguments)


def _name_of(function: Callable[..., Any], arguments: Sequence) -> str:
    """Return the name of a task; a function that calls another one takes it as an argument."""
    function = [function, *(arg for arg in arguments if isinstance(arg, FunctionType))][-1]
    return getattr(function, "__name__", "call").strip("_").replace("_", "-")


class Cluster(AbstractContextManager["Cluster"]):
    """The workers of a client, during one call of ``fit``.

    Dask recomputes the results that are lost with a worker, from the tasks that they depend on.
    This class adds limits to waiting, warnings of losses, and new tasks after a restart of the
    cluster.
    """

    def __init__(self, client: Client):
        if client.asynchronous:
            raise TypeError("client is asynchronous; expected Client(..., asynchronous=False)")
        if client.status == "closed":
            raise ValueError("the Dask client is closed; make one with distributed.Client")
        self.client = client
        # Number of times that the cluster lost all tasks. Earlier futures are then invalid.
        self.generation = 0
        self.n_losses = 0  # of workers
        # Seconds without running workers after which an operation fails.
        self.timeout = parse_timedelta(dask.config.get("treecrf.timeout", "5 minutes"))
        # Fingerprint of the versions that workers must have; None for any.
        self.versions = (
            fingerprint() if dask.config.get("treecrf.check-versions", default=True) else None
        )
        self._id = uuid.uuid4().hex[:8]
        self._n_operations = 0
        self._seen_at = time.monotonic()
        self._info: dict[str, dict] = {}
        self._futures: WeakSet[Future] = WeakSet()
        self._note_workers()

    def __exit__(self, *_: object) -> None:
        """Warn of the last losses, and release all futures, even those that tracebacks hold."""
        for future in list(self._futures):
            future.release()
        if self.client.status == "running":
            self._note_workers()

    # Submitting

    def submit_calls(
        self,
        function: Callable[..., Any],
        parts: Sequence[tuple[Future, ...]],
        arguments: Sequence[Any],
        workers: Sequence[str] | None = None,
    ) -> list[Future]:
        """Submit ``function(*parts, *arguments)`` for each tuple of parts, which are futures.

        An argument of type `PerPartition` has an item for each task; the tasks share the other
        arguments. A task runs on its worker, if given, as long as that exists, and again if its
        result is lost.
        """
        if not parts:
            return []
        n = len(parts)
        columns = list(zip(*parts, strict=True))
        own = [arg.items for arg in arguments if isinstance(arg, PerPartition)]
        given = [pickle.dumps([items[i] for items in own]) for i in range(n)]
        shared = [PerPartition(()) if isinstance(a, PerPartition) else a for a in arguments]
        name = _name_of(function, shared)
        common = pickle.dumps(shared)
        if len(common) * n > MANY_BYTES:
            common = self._submit(f"arguments-{name}", pickle.loads, common)
        key = self._key(name)
        keys = [f"{key}-{i}" for i in range(n)]
        placed: AbstractContextManager = nullcontext()
        if workers is not None:
            worker_of = dict(zip(keys, workers, strict=True)).__getitem__
            placed = dask.annotate(workers=worker_of, allow_other_workers=True)
        with placed:
            futures = self.client.map(
                call,
                [pickle.dumps(function)] * n,
                [self.versions] * n,
                [common] * n,
                given,
                *columns,
                key=keys,
                pure=False,
            )
        self._futures.update(futures)
        return futures

    def submit_call(
        self,
        function: Callable[..., Any],
        parts: Sequence[Future],
        *arguments: Any,
        worker: str | None = None,
    ) -> Future:
        """Submit one task, ``function(list of parts, *arguments)``, for a worker if it exists."""
        return self._submit(
            _name_of(function, arguments),
            call,
            pickle.dumps(function),
            self.versions,
            pickle.dumps(arguments),
            pickle.dumps(()),
            list(parts),
            workers=worker,
            allow_other_workers=worker is not None,
        )

    def submit_value(self, value: Any, name: str) -> Future:
        """Submit a task whose result is a value; unlike scattered data, it cannot get lost."""
        return self._submit(name, pickle.loads, pickle.dumps(value))

    def submit_delayed(self, values: Sequence[Any]) -> list[Future]:
        """Submit delayed objects; futures are passed through."""
        futures = self.client.compute(list(values))
        self._futures.update(
            new for old, new in zip(values, futures, strict=True) if new is not old
        )
        return futures

    def _submit(self, name: str, *task: Any, **where: Any) -> Future:
        future = self.client.submit(*task, key=self._key(name), pure=False, **where)
        self._futures.add(future)
        return future

    def _key(self, name: str) -> str:
        """Return the key of a new task; the dashboard groups tasks by the name."""
        self._n_operations += 1
        return f"{PREFIX}{name}-{self._id}-{self._n_operations}"

    # Waiting

    def run(self, submit: Callable[[], Any], limit: int | None = None) -> Any:
        """Submit tasks and return their results; after a restart of the cluster, submit again.

        At most ``limit`` workers may be lost. By default, only Dask's own limit for each task holds
        (``distributed.scheduler.allowed-failures``).
        """
        n_restarts = 0
        n_losses = self.n_losses
        while True:
            try:
                # Arguments of all parts together may be large.
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                    futures = submit()
                return self._results(futures, limit, n_losses)
            except CancelledError as error:
                # The client may try to connect to the scheduler again.
                end = time.monotonic() + self.timeout
                while self.client.status == "connecting" and time.monotonic() < end:
                    time.sleep(INTERVAL)
                if self.client.status != "running":
                    raise WorkersLostError(
                        f"the connection to the Dask scheduler is lost (client "
                        f"{self.client.status}); {ADVICE}"
                    ) from error
                n_restarts += 1
                if n_restarts > MAX_LOSSES:
                    raise WorkersLostError(
                        f"the cluster was restarted {n_restarts} times in one operation; {ADVICE}"
                    ) from error
                self.generation += 1
                warn(
                    "the Dask cluster was restarted, or has lost data that no task computes; tasks "
                    "are submitted again"
                )
            except KilledWorker as error:
                raise WorkersLostError(
                    f"{error.allowed_failures + 1} workers died in the same task, "
                    f"{error.task!r}, the last one at {error.last_worker.address}; they may have "
                    f"run out of memory, see their logs; {ADVICE}"
                ) from error

    def _results(self, futures: Any, limit: int | None, n_before: int) -> Any:
        """Wait for a future, or for a list of them, and return the results."""
        pending = [futures] if isinstance(futures, Future) else list(futures)
        self._seen_at = time.monotonic()
        while True:
            try:
                wait(pending, timeout=INTERVAL)
                return self.client.sync(
                    partial(self.client.gather, futures, asynchronous=True),
                    callback_timeout=TRANSFER,
                )
            except TimeoutError:
                self.check_workers()
                if limit is not None and self.n_losses - n_before > limit:
                    raise WorkersLostError(
                        f"more than {limit} workers were lost in one iteration; {ADVICE}"
                    ) from None
            if any(future.status in ("error", "cancelled") for future in pending):
                # The first error ends the operation; other tasks may still run.
                return self.client.gather(futures)

    def wait_for_workers(self) -> dict[str, int]:
        """Wait for at least one worker, and return the number of threads of each."""
        self._seen_at = time.monotonic()
        while not (n_threads := self.client.nthreads()):
            self.check_workers()
            time.sleep(INTERVAL)
        return n_threads

    def workers(self) -> dict[str, dict]:
        """Return the description of each worker: threads, limit of memory, status."""
        self.wait_for_workers()
        self._note_workers()
        return self._info

    def check_workers(self) -> None:
        """Warn of lost workers; raise an error if no worker has run tasks for too long."""
        self._note_workers()
        seconds = time.monotonic() - self._seen_at
        if seconds > self.timeout:
            states = " or ".join(sorted({str(info.get("status")) for info in self._info.values()}))
            state = (
                f"{len(self._info)} workers are {states} (Dask pauses workers whose memory is "
                "nearly full)"
            )
            raise WorkersLostError(
                f"no worker has been running tasks for {seconds:.0f} seconds: "
                f"{state if self._info else 'there are no workers'}; start workers, or raise the "
                f"limit with dask.config.set({{'treecrf.timeout': '1 hour'}}); {ADVICE}"
            )

    def _note_workers(self) -> None:
        """Update the set of workers, and warn of lost ones."""
        try:
            info = self.client.scheduler_info(n_workers=-1, callback_timeout=TRANSFER)["workers"]
        except (OSError, TimeoutError):
            return
        lost = [address for address in self._info.keys() - info.keys() if self._is_loss(address)]
        if any(worker.get("status", "running") == "running" for worker in info.values()):
            self._seen_at = time.monotonic()
        self._info = info
        self.n_losses += len(lost)
        for address in sorted(lost):
            warn(
                f"worker {address} was lost; its results are computed again, and the final result "
                "does not change"
            )

    def _is_loss(self, address: str) -> bool:
        """Return whether a worker that is gone has left tasks undone, instead of having retired."""
        events = self.client.get_events(address)
        removed = [event for _, event in events if event.get("action") == "remove-worker"]
        return any(
            not event.get("expected", False)
            and bool(event["processing-tasks"] or event["lost-computed-tasks"])
            for event in removed[-1:]
        )


ADVICE = (
    "the estimator is unchanged; the callback treecrf.callbacks.Checkpoint saves the model every "
    "few iterations, and warm_start=True continues from it"
)


def released(futures: Iterable[Future]) -> None:
    """Release futures, even if a traceback still refers to them."""
    for future in futures:
        future.release()
