"""Tests of partitions."""

from operator import add

from treecrf.utils.partitions import LocalPartitions, PartitionsView, PerPartition


def test_functions_of_parts():
    partitions = LocalPartitions([1, 20, 300])
    assert partitions.n_parts == 3
    assert partitions.map(add, 1) == [2, 21, 301]
    assert partitions.map(add, PerPartition([5, 6, 7])) == [6, 26, 307]
    doubled = partitions.derive(add, PerPartition([1, 20, 300]))
    assert doubled.reduce(list) == [2, 40, 600]
    assert doubled.reduce(sum, 1) == 643
    assert partitions.reduce(list) == [1, 20, 300]


def test_view_leaves_out_parts():
    partitions = LocalPartitions([10, None, 30])
    view = PartitionsView(partitions, add, 1, chosen=[True, False, True])
    assert view.n_parts == 2
    assert view.map(add, PerPartition([5, 6])) == [16, 37]
    assert view.reduce(list) == [11, 31]
    derived = view.derive(add, 100)
    assert derived.map(add, PerPartition([0, 1])) == [111, 132]
    assert derived.reduce(sum, 1) == 243


def test_nested_views_have_arguments_for_each_part():
    partitions = LocalPartitions([1, 2, 3, 4])
    view = PartitionsView(
        partitions, add, PerPartition([10, 20, 30, 40]), chosen=[True, True, False, True]
    )
    assert view.map(add, 0) == [11, 22, 44]
    assert view.reduce(list) == [11, 22, 44]
    nested = PartitionsView(view, add, PerPartition([100, 200, 300]), chosen=[False, True, True])
    assert nested.map(add, PerPartition([1000, 2000])) == [1222, 2344]
    assert nested.derive(add, 1).reduce(list) == [223, 345]
    assert nested.derive_all(add, PerPartition([5, 6])).reduce(list) == [None, 227, None, 350]
    assert nested.derive_all(add, 0, otherwise="").reduce(list) == ["", 222, "", 344]


def test_chained_partitions():
    partitions = LocalPartitions([1, 2]).chain(LocalPartitions([3])).chain(LocalPartitions([4]))
    assert partitions.n_parts == 4
    assert partitions.map(add, PerPartition([10, 20, 30, 40])) == [11, 22, 33, 44]
    assert partitions.derive(add, PerPartition([1, 1, 1, 2])).reduce(list) == [2, 3, 4, 6]
