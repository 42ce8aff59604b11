"""Partitions in memory and in scratch files."""

import weakref

import numpy as np
import pytest

from treecrf.inputs.large.local_partitions import LocalPartitions, PartitionsView
from treecrf.inputs.large.scratch import Scratch
from treecrf.utils.partitions import PerPartition

SIZES = (3, 5000, 1, 20_000)


class Loads:
    """Loads of arrays that count how often they are read, and how many are in memory at a time."""

    def __init__(self):
        self.n_reads, self.n_alive, self.n_most = 0, 0, 0

    def __call__(self, n):
        self.n_reads, self.n_alive = self.n_reads + 1, self.n_alive + 1
        self.n_most = max(self.n_most, self.n_alive)
        array = np.arange(float(n))
        weakref.finalize(array, self.dropped)
        return array

    def dropped(self):
        self.n_alive -= 1


def scaled(array, factor, offset):
    return array * factor + offset


def total(array):
    return float(array.sum())


def identity(array):
    return array


def joined(arrays, name):
    return name, np.concatenate(arrays)


@pytest.fixture(params=["memory", "scratch"])
def partitions(request, tmp_path):
    def make(loads):
        scratch = None if request.param == "memory" else Scratch(tmp_path)
        return LocalPartitions.reading([lambda n=n: loads(n) for n in SIZES], scratch)

    return make


def test_one_part_at_a_time_is_in_memory(partitions):
    loads = Loads()
    derived = partitions(loads).derive(scaled, 2.0, 1.0)
    derived.map(total)
    derived.derive(scaled, 1.0, 0.0).map(total)
    assert loads.n_most == 1


def first_items(array, n):
    return array[:n].copy()


def test_views_are_taken_before_parts_come_together(partitions):
    loads = Loads()
    view = PartitionsView(partitions(loads), first_items, 2)
    name, array = view.reduce(joined, "some")
    assert (name, array.tolist()) == ("some", [0, 1, 0, 1, 0, 0, 1])
    some = PartitionsView(partitions(loads), identity).only([True, False, True, True])
    nested = PartitionsView(some, first_items, PerPartition([1, 2, 3]))
    assert nested.reduce(joined, "others")[1].tolist() == [0, 0, 0, 1, 2]
    assert nested.only([False, True, True]).map(len) == [1, 3]
    assert loads.n_most == 1


def test_kept_parts_are_computed_once(partitions):
    loads = Loads()
    kept = partitions(loads).derive(scaled, 2.0, 1.0).kept()
    for _ in range(3):
        assert kept.map(total) == [float(n * n) for n in SIZES]
    assert loads.n_reads == len(SIZES)


def test_parts_in_scratch_files_are_computed_once(tmp_path):
    loads = Loads()
    partitions = LocalPartitions.reading([lambda n=n: loads(n) for n in SIZES], Scratch(tmp_path))
    derived = partitions.derive(scaled, 2.0, 1.0)
    for _ in range(3):
        derived.map(total)
    assert loads.n_reads == len(SIZES)
    assert not derived.reduce(lambda arrays: arrays[1].flags.writeable)
    assert isinstance(partitions.scratch.allocate(3), np.ndarray)


def test_a_failure_leaves_nothing_in_the_folder(tmp_path):
    def fails(array):
        if len(array) == SIZES[-1]:
            raise KeyboardInterrupt
        return array

    partitions = LocalPartitions.reading(
        [lambda n=n: np.arange(n) for n in SIZES], Scratch(tmp_path)
    )
    with pytest.raises(KeyboardInterrupt):
        partitions.derive(fails)
    assert list(tmp_path.iterdir()) == []


# In memory, and views
