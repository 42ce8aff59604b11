"""Tests of fleets of parts."""

from operator import add

from treecrf.learners.boosted.parted.fleet import Each, LocalFleet


def test_functions_of_parts():
    fleet = LocalFleet([1, 20, 300])
    assert fleet.n_parts == 3
    assert fleet.map(add, 1) == [2, 21, 301]
    assert fleet.map(add, Each([5, 6, 7])) == [6, 26, 307]
    doubled = fleet.derive(add, Each([1, 20, 300]))
    assert doubled.reduce(list) == [2, 40, 600]
    assert doubled.reduce(sum, 1) == 643
    assert fleet.reduce(list) == [1, 20, 300]
