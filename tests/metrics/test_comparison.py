"""Comparison of two labelers, against enumeration and statsmodels."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecrf import metrics

COUNTS = st.tuples(*[st.integers(0, 9)] * 4)
WRONG = [2, 1], [1, 3], [0, 2], [0, 1]  # numbers of errors of two labelers, by sequence
TRUE = [list("aaaa")] * len(WRONG)


def labels_of(counts):
    """True and predicted labels with these numbers of positions: both, one or none is right."""
    return [np.repeat(labels, counts) for labels in (["a"] * 4, list("aabb"), list("abab"))]


def with_errors(labeler):
    return [list("b" * n[labeler] + "a" * (4 - n[labeler])) for n in WRONG]


@given(COUNTS.filter(any))
def test_exact_mcnemar_counts_coin_tosses(counts):
    """The p-value is the fraction of assignments of errors that are at least as unequal."""
    found = metrics.mcnemar_test(*labels_of(counts), exact=True)
    assert found.table.ravel().tolist() == list(counts)
    n, distance = counts[1] + counts[2], abs(counts[1] - counts[2])
    tosses = np.array(list(product([-1, 1], repeat=min(n, 14)))).sum(axis=1)
    if n <= 14:
        assert found.pvalue == pytest.approx(np.mean(np.abs(tosses) >= distance))
    assert found.pvalue == metrics.mcnemar_test(*labels_of(counts)).pvalue  # few: exact


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("correction", [True, False])
@given(COUNTS)
def test_mcnemar_is_that_of_statsmodels(exact, correction, counts):
    oracle = pytest.importorskip("statsmodels.stats.contingency_tables")
    counts = counts[0] + 1, counts[1] + 10, *counts[2:]
    expected = oracle.mcnemar(np.reshape(counts, (2, 2)), exact, correction)
    found = metrics.mcnemar_test(*labels_of(counts), exact=exact, correction=correction)
    if counts[1] != counts[2] or exact:
        assert found.statistic == pytest.approx(expected.statistic)
        assert found.pvalue == pytest.approx(expected.pvalue)
    else:
        assert (found.statistic, found.pvalue) == (0, 1)


def test_many_discordant_positions_use_chi_square():
    options = [{}, {"exact": False}, {"exact": True}]
    auto, chi, exact = (metrics.mcnemar_test(*labels_of([5, 20, 9, 0]), **o) for o in options)
    assert auto.pvalue == chi.pvalue != exact.pvalue
    assert auto.statistic == pytest.approx(10**2 / 29)


def test_labelers_that_are_equal():
    for exact in (True, False):
        assert metrics.mcnemar_test(TRUE, TRUE, TRUE, exact=exact).pvalue == 1
    found = metrics.paired_bootstrap(TRUE, TRUE, TRUE, n_resamples=9)
    assert (found.difference, found.pvalue, found.confidence_interval) == (0, 1, (0, 0))


def powered_accuracy(y_true, y_pred, power):
    """Return a score that is no mean over sequences."""
    return (sum(labels.count("a") for labels in map(list, y_pred)) / sum(map(len, y_true))) ** power


def enumerated(metric):
    """Differences of all resamples, which are equally probable, and of all sequences."""
    first, second = with_errors(0), with_errors(1)

    def difference(chosen):
        true = [TRUE[i] for i in chosen]
        scores = [metric(true, [pred[i] for i in chosen]) for pred in (first, second)]
        return scores[0] - scores[1]

    n = len(TRUE)
    return np.array([*map(difference, product(range(n), repeat=n))]), difference(range(n))


@pytest.mark.parametrize(
    ("metric", "options"), [(powered_accuracy, {"power": 2}), (metrics.sequence_accuracy_score, {})]
)
def test_bootstrap_is_that_of_all_resamples(metric, options):
    differences, difference = enumerated(partial(metric, **options))
    arguments = TRUE, with_errors(0), with_errors(1), metric
    settings = {"n_resamples": 300, "confidence_level": 0.8, "random_state": 1}
    found = metrics.paired_bootstrap(*arguments, **settings, **options)
    assert found.difference == difference == found.scores[0] - found.scores[1]
    assert set(found.differences.round(9)) <= set(differences.round(9))
    # Four standard errors of a fraction of 300.
    is_extreme = np.abs(differences - difference) >= abs(difference) - 1e-12
    assert found.pvalue == pytest.approx(np.mean(is_extreme), abs=0.12)
    low, high = found.confidence_interval
    assert np.mean(differences < low - 1e-12) <= 0.2 <= np.mean(differences <= low + 1e-12) + 0.1
    assert np.mean(differences > high + 1e-12) <= 0.2 <= np.mean(differences >= high - 1e-12) + 0.1
    again = metrics.paired_bootstrap(*arguments, **settings, **options)
    np.testing.assert_array_equal(found.differences, again.differences)


def test_sequences_of_a_long_table():
    lists = TRUE, with_errors(0), with_errors(1)
    long = [np.concatenate([list(x) for x in labels]) for labels in lists]
    expected = metrics.paired_bootstrap(*lists, n_resamples=20, random_state=0)
    for cuts in ({"lengths": [4] * 4}, {"groups": np.repeat(list("wxyz"), 4)}):
        found = metrics.paired_bootstrap(*long, n_resamples=20, random_state=0, **cuts)
        np.testing.assert_array_equal(found.differences, expected.differences)
    with_empty = [[*labels, []] for labels in lists]
    found = metrics.paired_bootstrap(*with_empty, n_resamples=20, random_state=0)
    np.testing.assert_array_equal(found.differences, expected.differences)


@pytest.mark.parametrize(
    ("function", "y_true", "y_pred_b", "options", "error", "message"),
    [
        ("mcnemar_test", ["ab"], [list("a")], {}, ValueError, r"2 labels in y_true, 1 in y_pred_b"),
        ("mcnemar_test", ["ab"], [[0, 1]], {}, TypeError, r"^mixed label types: .* of y_pred_b; "),
        ("mcnemar_test", ["ab"], ["ab"], {"exact": "no"}, ValueError, r"^exact='no'; expected T"),
        ("paired_bootstrap", ["a"], [["a"]], {}, ValueError, r"^sequences that are not empty: 1;"),
        ("paired_bootstrap", ["ab"], [["a"]], {}, ValueError, r"2 labels in y_true, 1 in y_pred_b"),
        (
            "paired_bootstrap", ["ab"], [list("ab")], {"n_resamples": 0}, ValueError,
            r"^n_resamples=0; expected a positive integer",
        ),
        (
            "paired_bootstrap", ["ab"], [list("ab")], {"confidence_level": 95}, ValueError,
            r"^confidence_level=95; expected a number between 0 and 1",
        ),
    ],
)  # fmt: skip
def test_errors_of_comparisons(function, y_true, y_pred_b, options, error, message):
    with pytest.raises(error, match=message):
        getattr(metrics, function)(y_true, [list(y_true[0])], y_pred_b, **options)
