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


def test_nested_views_have_arguments_for_each_part():
    fleet = LocalFleet([1, 2, 3, 4])
    view = View(fleet, add, Each([10, 20, 30, 40]), chosen=[True, True, False, True])
    assert view.map(add, 0) == [11, 22, 44]
    assert view.reduce(list) == [11, 22, 44]
    nested = View(view, add, Each([100, 200, 300]), chosen=[False, True, True])
    assert nested.map(add, Each([1000, 2000])) == [1222, 2344]
    assert nested.derive(add, 1).reduce(list) == [223, 345]
    assert nested.derive_all(add, Each([5, 6])).reduce(list) == [None, 227, None, 350]
    assert nested.derive_all(add, 0, otherwise="").reduce(list) == ["", 222, "", 344]


def test_chained_fleets():
    fleet = LocalFleet([1, 2]).chain(LocalFleet([3])).chain(LocalFleet([4]))
    assert fleet.n_parts == 4
    assert fleet.map(add, Each([10, 20, 30, 40])) == [11, 22, 33, 44]
    assert fleet.derive(add, Each([1, 1, 1, 2])).reduce(list) == [2, 3, 4, 6]
