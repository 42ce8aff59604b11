"""Parts of work for threads."""

from __future__ import annotations

import multiprocessing
from threading import Event
from unittest.mock import patch

import numpy as np
import pytest
from joblib import cpu_count

from treecrf.utils.threads import PARTS_PER_THREAD, Background, Threads


@pytest.fixture(params=[1, 3])
def threads(request):
    with Threads(request.param) as threads:
        yield threads


@pytest.mark.parametrize(("n", "min_size"), [(0, 1), (1, 1), (5, 1), (100, 1), (100, 30)])
def test_even_parts(threads, n, min_size):
    parts = threads.even_parts(n, min_size)
    assert np.concatenate([np.arange(*part) for part in parts]).tolist() == list(range(n))
    sizes = [last - first for first, last in parts]
    assert max(sizes) - min(sizes) <= 1
    expected = 1 if threads.n_threads == 1 else min(12, max(1, -(-n // min_size)))
    assert len(parts) == expected


def test_parts_of_sequences(threads):
    offsets = np.array([0, 50, 51, 52, 60, 100])
    parts = threads.parts(offsets)
    assert [i for part in parts for i in range(*part)] == list(range(5))
    assert len(parts) <= threads.n_threads * PARTS_PER_THREAD


def test_number_of_threads():
    assert [Threads(n).n_threads for n in (None, 1, 3)] == [1, 1, 3]
    assert Threads(-1).n_threads == cpu_count()
    assert Threads(-1000).n_threads == 1
    with pytest.raises(ValueError, match="n_jobs=0; expected the number of threads"):
        _ = Threads(0).n_threads


def test_daemonic_processes_have_threads():
    """Such as the workers of Dask."""
    with patch.dict(multiprocessing.current_process()._config, daemon=True):
        assert Threads(3).n_threads == 3


def test_huge_numbers_of_threads_take_no_memory():
    """As from a forged model file."""
    with Threads(2**31 - 1) as threads:
        assert threads.n_threads <= 1024
        assert threads.parts(np.array([0, 1, 3])) == [(0, 1), (1, 2)]
        assert threads.even_parts(2) == [(0, 1), (1, 2)]


def test_results_keep_the_order_of_the_items(threads):
    assert threads.map(lambda i: i * i, range(20)) == [i * i for i in range(20)]


def test_errors_are_raised(threads):
    with pytest.raises(ZeroDivisionError):
        threads.map(lambda i: 1 // i, [1, 0])
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda i: 1 // i, [1, 0, *range(1, 50)])


def test_few_items_exist_at_the_same_time(threads):
    made, done = [], []

    def items():
        for i in range(100):
            assert len(made) - len(done) <= 4 * threads.n_threads
            made.append(i)
            yield i

    threads.run(done.append, items())
    assert sorted(done) == made == list(range(100))


def test_items_are_computed_in_the_background():
    with Background(i for i in range(1000)) as items:
        assert list(items) == list(range(1000))
    with Background(i for i in ()) as items:
        assert next(items, None) is None
        assert next(items, None) is None


def test_an_error_in_the_background_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise ArithmeticError("no luck")

    with pytest.raises(ArithmeticError, match="no luck"), Background(items()) as found:
        assert next(found) == 1
        next(found)


def test_an_error_closes_the_generator_in_the_background():
    goes_on, closed = Event(), Event()

    def items():
        try:
            yield 1
            goes_on.wait(10)
            yield 2
            raise AssertionError("not closed")
        finally:
            closed.set()

    with pytest.raises(KeyboardInterrupt), Background(items()) as found:
        assert next(found) == 1
        assert not found.is_ready
        raise KeyboardInterrupt
    assert not closed.is_set()
    goes_on.set()
    assert closed.wait(10)
