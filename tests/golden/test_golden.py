"""Results, public names and messages are those recorded in this folder."""

import json
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from support.golden_fits import (
    TOLERANCE,
    arithmetic,
    cluster,
    is_rounded_by_libraries,
    results,
)
from support.golden_names import messages, signatures
from support.golden_settings import FITS
from support.sizes import methods, names_of_two_things

# What fits warn of is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore")
RECORDED = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in Path(__file__).parent.glob("*.json")
}
RECORD = "python tests/golden/record.py"
MAX_METHODS = 40


@pytest.fixture(scope="module")
def workers():
    with cluster():
        yield


@pytest.fixture(scope="module")
def has_this_arithmetic():
    return arithmetic() == RECORDED["fits"]["arithmetic"]


@pytest.mark.parametrize("name", FITS)
def test_results_are_the_same_in_all_ways_and_those_recorded(name, workers, has_this_arithmetic):
    found = results(name)
    differing = {
        way: sorted(part for part in of_way if of_way[part] != found["memory"].get(part))
        for way, of_way in found.items()
        if of_way != found["memory"]
    }
    assert not differing, "differs from the fit in memory"
    recorded = RECORDED["fits"].get(name)
    if is_rounded_by_libraries(name) and not has_this_arithmetic:
        expected = pytest.approx(recorded["means"], rel=0, abs=TOLERANCE)
        assert found["memory"]["means"] == expected
    else:
        assert found["memory"] == recorded, f"if intended: {RECORD} fits"


def test_all_results_are_recorded():
    assert RECORDED["fits"].keys() == {"arithmetic", *FITS}


@pytest.mark.parametrize("found_in", [signatures, messages], ids=lambda found_in: found_in.__name__)
def test_names_and_messages_are_those_recorded(found_in):
    found, recorded = found_in(), RECORDED["names"][found_in.__name__]
    changes = [
        f"{name}:\n  now {found.get(name)}\n  was {recorded.get(name)}"
        for name in sorted(found.keys() | recorded.keys())
        if found.get(name) != recorded.get(name)
    ]
    assert not changes, "\n".join([*changes, f"if intended: {RECORD} names"])
    assert "no error" not in found.values()


def test_few_public_names_have_two_meanings():
    assert names_of_two_things() == RECORDED["limits"]["meanings"]


def test_estimators_have_at_most_40_methods():
    more = {name: n for name, n in methods().items() if n > MAX_METHODS}
    assert more == RECORDED["limits"]["methods"]
