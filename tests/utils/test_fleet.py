"""Tests of fleets of parts."""

from operator import add

from treecrf.utils.fleet import Each, LocalFleet, View


def test_functions_of_parts():
    fleet = LocalFleet([1, 20, 300])
    assert fleet.n_parts == 3
    assert fleet.map(add, 1) == [2, 21, 301]
    assert fleet.map(add, Each([5, 6, 7])) == [6, 26, 307]
    doubled = fleet.derive(add, Each([1, 20, 300]))
    assert doubled.reduce(list) == [2, 40, 600]
    assert doubled.reduce(sum, 1) == 643
    assert fleet.reduce(list) == [1, 20, 300]


def test_view_leaves_out_parts():
    fleet = LocalFleet([10, None, 30])
    view = View(fleet, add, 1, chosen=[True, False, True])
    assert view.n_parts == 2
    assert view.map(add, Each([5, 6])) == [16, 37]
    assert view.reduce(list) == [11, 31]
    derived = view.derive(add, 100)
    assert derived.map(add, Each([0, 1])) == [111, 132]
    assert derived.reduce(sum, 1) == 243
