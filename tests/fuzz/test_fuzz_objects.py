"""Objects whose methods raise, lie, or change the data: no crash, and no effect on the model."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.objects import MODELS, fitted, run_objects
from sklearn.base import clone
from support.sweeps import sweep

BLOCK = 25


@pytest.mark.parametrize("block", sweep(range(80), 1))
def test_random_objects(block):
    outcomes = {run_objects(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)}
    assert outcomes == {"worked", "refused"}


class Long(str):
    """A string that claims to be longer."""

    __slots__ = ()

    def __len__(self):
        return 9


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
@pytest.mark.parametrize("name", MODELS)
def test_strings_that_lie_about_their_length_are_read_as_they_are(name):
    model = fitted(name, "characters")
    found = model.predict([Long("abcab"), "ab"])
    np.testing.assert_array_equal(found[0], model.predict(["abcab"])[0])
    clone(model).fit([Long("abcab"), "ab"], ["abcab", "ab"])
    with pytest.raises(ValueError):
        clone(model).fit([Long("abcab"), "ab"], ["abcabcabc", "ab"])
