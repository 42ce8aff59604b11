"""Sample weights: forms, and messages for invalid ones."""

import numpy as np
import pandas as pd
import pytest

from treecrf.inputs.dataset import as_weights
from treecrf.inputs.segmentation import Segmentation

OFFSETS = np.array([0, 2, 3, 6])
LIST, LONG = Segmentation(), Segmentation(lengths=[2, 1, 3])
PER_POSITION = [2.0, 0.5, 0.0, 1.0, 1.0, 3.0]


@pytest.mark.parametrize("segmentation", [LIST, LONG])
@pytest.mark.parametrize(
    "weights",
    [
        [2, 0, 0.5],
        (2, False, 0.5),
        np.array([2, 0, 0.5], dtype=np.float32),
        pd.Series([2, 0, 0.5], index=[7, 8, 9]),
        [np.float64(2), np.int8(0), 0.5],
    ],
)
def test_weights_of_sequences(segmentation, weights):
    found = as_weights(weights, OFFSETS, segmentation)
    assert found.tolist() == [2, 2, 0, 0.5, 0.5, 0.5]
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    "weights", [[[2, 0.5], [0], [1, 1, 3]], [np.array([2, 0.5]), pd.Series([-0.0]), (1, True, 3)]]
)
def test_weights_of_positions(weights):
    found = as_weights(weights, OFFSETS, LIST)
    assert found.tolist() == PER_POSITION
    assert not np.signbit(found).any()
    assert as_weights(PER_POSITION, OFFSETS, LONG).tolist() == PER_POSITION


def test_a_row_of_a_table_holds_the_weights_of_a_sequence():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert as_weights(weights, np.array([0, 2, 4]), LIST).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("weights", [[1, 1, 1], [[1, 1], [1], [1.0, 1, 1]]])
def test_ones_are_no_weights(weights):
    assert as_weights(weights, OFFSETS, LIST) is None


def test_sequences_of_one_position_each_have_one_meaning():
    long = Segmentation(lengths=[1, 1])
    assert as_weights([2, 3], np.array([0, 1, 2]), long).tolist() == [2, 3]


EXPECTED = "expected 0, or a number from 1e-06 to 1e+06"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 1], f"sample_weight: sequence 1 has weight -1.0; {EXPECTED}"),
        ([1, 1, np.nan], f"sample_weight: sequence 2 has weight nan; {EXPECTED}"),
        ([1, 1, None], f"sample_weight: sequence 2 has weight nan; {EXPECTED}"),
        ([np.inf, 1, 1], f"sample_weight: sequence 0 has weight inf; {EXPECTED}"),
        ([1, 1e-9, 1], f"sample_weight: sequence 1 has weight 1e-09; {EXPECTED}"),
        ([1, 1e9, 1], f"sample_weight: sequence 1 has weight 1000000000.0; {EXPECTED}"),
        (
            [[1, 1], [1], [1, -2, 1]],
            f"sample_weight: sequence 2, position 1 has weight -2.0; {EXPECTED}",
        ),
        ([0, 0, 0], "sample_weight holds only zeros; expected at least one positive weight"),
        ([1, 2], "X has 3 sequences, sample_weight has 2"),
        ([[1, 1], [1, 1], [1]], "sample_weight: sequence 1 has 2 weights for 1 positions"),
        ([1, [1], 1], "sample_weight: sequence 0 has one weight, and sequence 1 a list of weights"),
        (["a", 1, 1], "sample_weight holds 'a'; expected numbers"),
        ([[1, 1], ["b"], [1, 1, 1]], "sample_weight: sequence 1 holds 'b'; expected numbers"),
        ([[1, 1], [[1]], [1, 1, 1]], "sample_weight: sequence 1 has 2 dimensions; expected 1"),
        ("balanced", "sample_weight is a string; expected a list of weights, one per sequence"),
        (2.0, "sample_weight is of type float; expected a list of weights, one per sequence"),
    ],
)
def test_invalid_weights(weights, message):
    with pytest.raises((ValueError, TypeError)) as error:
        as_weights(weights, OFFSETS, LIST)
    assert str(error.value).startswith(message)


def test_invalid_weights_of_a_long_table():
    message = (
        "X has 3 sequences with 6 positions, sample_weight has 4 weights; expected one per "
        "sequence or one per position"
    )
    with pytest.raises(ValueError, match=message):
        as_weights([1, 2, 3, 4], OFFSETS, LONG)
    with pytest.raises(ValueError, match="sequence 2, position 1 has weight -1"):
        as_weights([1, 1, 1, 1, -1, 1], OFFSETS, LONG)
    with pytest.raises(TypeError, match="sample_weight has 2 dimensions; expected 1"):
        as_weights([[1], [1], [1]], OFFSETS, LONG)
