"""Objectives agree with enumeration, their residuals are slopes, and boosting climbs them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from support.chains import STEP, Chains, kinds, possible_kinds, seeds, shapes
from support.model_files import read, sealed
from support.objectives_oracle import (
    inverse_weights,
    label_gradient,
    label_log_probabilities,
    log_likelihood_gradient,
    log_mean_inverse,
)
from support.oracles import brute_force, finite_difference_gradient
from support.settings import PLAIN
from support.sweeps import sweep

import treecrf
from treecrf import ModelFileError, TreeCRF
from treecrf.chains.constraints import Constraints
from treecrf.chains.likelihood import ChainLabels, WeightedMean
from treecrf.chains.losses import _gradients
from treecrf.chains.objectives import OBJECTIVES, make_objective
from treecrf.utils.threads import Threads

OTHERS = [name for name in OBJECTIVES if name != "log"]
every = pytest.mark.parametrize("name", OBJECTIVES)


# Both Hamming objectives have one kernel.
others = pytest.mark.parametrize("name", sweep(["exponential", OTHERS[-1], "hamming_log"], 2))


def objective_of(name, case):
    free = Constraints(None, None)
    data = ChainLabels(case.offsets, case.labels, case.n_labels, case.order, free)
    return make_objective(name, data, Threads(None))


class Expected:
    """Value and gradient of an objective by enumeration."""

    def __init__(self, name, case):
        self.gradient = np.zeros(case.scores.shape)
        oracles = list(case.oracles())
        n, n_positions = len(oracles), case.offsets[-1]
        logs = np.array([oracle.log_probability(labels) for oracle, _, labels, _ in oracles])
        of_labels = [label_log_probabilities(oracle, labels) for oracle, _, labels, _ in oracles]
        log_q = np.concatenate(of_labels)
        ones = np.ones(n_positions)
        self.value, weights = {
            "log": lambda: (logs.sum() / n_positions, np.ones(n)),
            "exponential": lambda: (
                -log_mean_inverse(logs) * n / n_positions,
                inverse_weights(logs),
            ),
            "hamming_log": lambda: (log_q.mean(), ones),
            "hamming_exponential": lambda: (-log_mean_inverse(log_q), inverse_weights(log_q)),
        }[name]()
        for i, (oracle, _, labels, where) in enumerate(oracles):
            self.gradient[:, where] = (
                label_gradient(oracle, labels, weights[where])
                if name.startswith("hamming")
                else weights[i] * log_likelihood_gradient(oracle, labels)
            )


# Values and gradients


@every
@given(possible_kinds, seeds, shapes)
def test_values_and_residuals_agree_with_enumeration(name, kind, rng, shape):
    case = Chains(kind, rng, *shape)
    objective = objective_of(name, case)
    residuals, curvature, value = objective.examples(case.scores, 0)
    expected = Expected(name, case)
    assert curvature is None
    assert value == objective_of(name, case).value(case.scores)
    np.testing.assert_allclose(value, expected.value, rtol=1e-11, atol=1e-11)
    # Rounded once, and after multiplication by weights of up to the number of terms again.
    atol = STEP * len(case.labels) + 1e-10
    np.testing.assert_allclose(residuals, expected.gradient, rtol=0, atol=atol)
    assert (residuals / STEP % 1 == 0).all()
    assert not residuals[np.isneginf(case.scores)].any()


def published(name, case, scores):
    """The published objective, by enumeration."""
    total = 0.0
    for start, stop in zip(case.offsets[:-1], case.offsets[1:], strict=True):
        labels = case.labels[start:stop]
        everything = brute_force(scores[:, start:stop], case.n_labels, case.order)
        q = np.exp(label_log_probabilities(everything, labels))
        p = np.exp(everything.log_probability(labels))
        total += {
            "log": np.log(p),
            "exponential": -(1 / p - 1),
            "hamming_log": np.log(q).sum(),
            "hamming_exponential": -(1 / q - 1).sum(),
        }[name]
    return total


@every
@pytest.mark.parametrize("order", [0, 1, 2])
def test_residuals_point_along_the_slope_of_the_published_objective(name, order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [3, 2])
    residuals = objective_of(name, case).examples(case.scores, 0)[0]
    slope = finite_difference_gradient(lambda s: published(name, case, s), case.scores, eps=1e-4)
    factor = (residuals * slope).sum() / (slope * slope).sum()
    assert factor > 0
    np.testing.assert_allclose(residuals, factor * slope, atol=1e-6)


# Long sequences and improbable labels


@every
@pytest.mark.parametrize(
    "kind", sweep(["large, forbidden", "moderate", "large", "forbidden steps"], 1)
)
@pytest.mark.parametrize("order", sweep([1, 0, 2], 1))
def test_hundred_thousand_positions(name, kind, order):
    case = Chains(kind, np.random.default_rng(order), 2, order, [100_000, 50])
    objective = objective_of(name, case)
    residuals, _, value = objective.examples(case.scores, 0)
    assert np.isfinite(residuals).all() and np.isfinite(value)
    assert (residuals / STEP % 1 == 0).all()
    if objective.counts is not None:
        room = objective.counts[:, None] + STEP * residuals[:, 0].size
        assert (np.abs(residuals) <= room).all()
        assert not residuals[:, objective.counts == 0].any()  # examples that do not count
    # The probabilities of a position sum to 1 under every objective.
    np.testing.assert_allclose(residuals.sum(axis=(0, 2)), 0.0, atol=1e-6)


def passed_on(scores, labels):
    """Gradient of sum_t log P(label of t) at order 1, from joint marginals of all pairs."""
    K, n, _ = scores.shape
    factors = np.exp(scores.transpose(1, 2, 0))  # (n, before, label)
    factors[0, 1:] = 0.0
    ahead, behind = np.ones((n, K)), np.ones((n, K))
    start = factors[0, 0] / factors[0, 0].sum()
    ahead[0] = start
    for t in range(1, n):
        ahead[t] = ahead[t - 1] @ factors[t]
        ahead[t] /= ahead[t].sum()
    for t in range(n - 2, -1, -1):
        behind[t] = factors[t + 1] @ behind[t + 1]
        behind[t] /= behind[t].max()
    q = ahead * behind
    q /= q.sum(axis=1, keepdims=True)
    pairs = np.zeros((n, K, K))
    pairs[0, 0] = q[0]
    for t in range(1, n):
        pairs[t] = ahead[t - 1][:, None] * factors[t] * behind[t]
        pairs[t] /= pairs[t].sum()
    given = pairs / np.maximum(pairs.sum(axis=2, keepdims=True), 1e-300)
    gradient = np.zeros((n, K, K))
    for s, label in enumerate(labels):
        # The chain given the label of s: backwards and onwards from there.
        now = np.eye(K)[label]
        for t in range(s, -1, -1):
            joint = pairs[t] / pairs[t].sum(axis=0) * now
            gradient[t] += joint - pairs[t]
            now = joint.sum(axis=1)
        now = np.eye(K)[label]
        for t in range(s + 1, n):
            joint = given[t] * now[:, None]
            gradient[t] += joint - pairs[t]
            now = joint.sum(axis=0)
    return gradient.transpose(2, 0, 1), np.log(q[np.arange(n), labels])


@pytest.mark.parametrize("n_labels", [2, 5, 9])
def test_long_chains_agree_with_chains_given_each_label(n_labels):
    case = Chains("moderate", np.random.default_rng(n_labels), n_labels, 1, [120])
    for t in range(0, 120, 3):  # neighbors that depend strongly on each other
        case.scores[:, t] += 4.0 * np.eye(n_labels)
    case.labels[40:80] = 1
    gradient, log_q = passed_on(case.scores, case.labels)
    objective = objective_of("hamming_log", case)
    residuals, _, value = objective.examples(case.scores, 0)
    np.testing.assert_allclose(residuals, gradient, rtol=0, atol=1e-9)
    assert value == pytest.approx(log_q.mean(), rel=1e-12)
    np.testing.assert_allclose(objective.log_q, log_q, rtol=1e-9)


def test_tiles_that_are_not_kept():
    """The factors of 90 labels at 600 positions are not all kept, those of each half are."""
    rng = np.random.default_rng(0)
    case = Chains("moderate", rng, 90, 1, [600])
    # Position 300 has one label, which makes the halves independent.
    case.scores[:, 300] = -np.inf
    case.scores[0, 300] = 0.0
    case.scores[:, 301] = case.scores[:, 301, :1]
    case.labels[300] = 0
    whole = objective_of("hamming_log", case)
    residuals, _, value = whole.examples(case.scores, 0)
    case.offsets = case.chains = np.array([0, 301, 600])
    parted = objective_of("hamming_log", case)
    by_parts, _, same = parted.examples(case.scores, 0)
    np.testing.assert_allclose(whole.log_q, parted.log_q, rtol=1e-11, atol=1e-14)
    assert value == pytest.approx(same, rel=1e-12)
    np.testing.assert_allclose(residuals[:, :301], by_parts[:, :301], rtol=0, atol=1e-9)
    np.testing.assert_allclose(residuals[:, 302:], by_parts[:, 302:], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", ["hamming_log", "hamming_exponential"])
def test_improbable_labels(name, order, n_labels):
    """Labels of probability exp(-300) have as large residuals as others."""
    case = Chains("moderate", np.random.default_rng(order), n_labels, order, [4])
    case.scores[case.labels[2], 2] -= 300.0
    case.pieces = [case.scores]
    expected = Expected(name, case)
    residuals, _, value = objective_of(name, case).examples(case.scores, 0)
    assert value == pytest.approx(expected.value, rel=1e-11)
    assert value < -50
    np.testing.assert_allclose(residuals, expected.gradient, rtol=0, atol=1e-8)
    assert np.abs(residuals[:, 2]).sum() > 1


@pytest.mark.parametrize("name", OTHERS)
def test_forbidden_true_labels_have_no_residuals(name):
    """A forbidden true label makes the value -inf, and no residual NaN."""
    rng = np.random.default_rng(0)
    case = Chains("moderate", rng, 2, 1, [3, 4, 2])
    case.scores[case.labels[4], 4] = -np.inf
    objective = objective_of(name, case)
    residuals, _, value = objective.examples(case.scores, 0)
    assert value == objective.value(case.scores) == -np.inf
    assert np.isfinite(residuals).all() and np.isfinite(objective.counts).all()
    assert residuals[:, :3].any() and residuals[:, 7:].any()
    case.scores[:, 4] = -np.inf  # now the sequence is not possible at all
    residuals, _, value = objective.examples(case.scores, 0)
    assert np.isnan(value) and np.isnan(objective.value(case.scores))
    assert np.isfinite(residuals).all() and not residuals[:, 3:7].any()


@given(kinds, seeds, shapes)
def test_forbidden_true_labels_do_not_affect_the_others(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    n_positions = len(case.labels)
    log_q = case.blank(n_positions)
    out, sizes = case.blank(*case.scores.shape), case.blank(n_positions)
    _gradients.label_probabilities(
        case.chains, case.labels, False, log_q, sizes, None, None, case.scores, *case.everything,
        out,
    )  # fmt: skip
    np.testing.assert_allclose(sizes, np.abs(out).sum(axis=(0, 2)), rtol=1e-12)
    for oracle, _, labels, where in case.oracles():
        if oracle.log_z == -np.inf:
            assert case.order == 0 or np.isnan(log_q[where]).all()
            continue
        logs = label_log_probabilities(oracle, labels)
        np.testing.assert_allclose(log_q[where], logs, rtol=1e-11, atol=1e-11)
        expected = label_gradient(oracle, labels, np.ones(len(labels)))
        np.testing.assert_allclose(out[:, where], expected, rtol=0, atol=1e-9)


# Exact sums


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_part_of_the_sequences_is_written(order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [3, 1, 4, 2])
    n_positions = len(case.labels)

    def run(first, last):
        out, logs, sizes = (
            case.blank(*shape) for shape in (case.scores.shape, [n_positions], [n_positions])
        )
        _gradients.label_probabilities(
            case.chains, case.labels, True, logs, sizes, None, None, case.scores, first, last, out
        )
        return out, logs, sizes

    inside = np.zeros(n_positions, dtype=bool)
    inside[case.chains[1] : case.chains[3]] = True
    for some, all_of_it in zip(run(1, 3), run(*case.everything), strict=True):
        axis = min(1, some.ndim - 1)
        np.testing.assert_array_equal(
            np.compress(inside, some, axis), np.compress(inside, all_of_it, axis)
        )
        assert (np.compress(~inside, some, axis) == 7.0).all()


def test_heavy_weights_get_coarser_residuals():
    """One sequence has all of the weight, so that sums exceed the range of multiples of 2**-32."""
    lengths = [2000, *[1] * 3000]
    case = Chains("moderate", np.random.default_rng(0), 2, 1, lengths)
    objective = objective_of("exponential", case)
    residuals, _, value = objective.examples(case.scores, 0)
    counts = objective.counts
    assert np.isfinite(value)
    assert counts.max() == pytest.approx(3001)
    assert (np.abs(residuals).sum(axis=(0, 2)) <= 2 * counts + 1e-6).all()
    for values in (residuals[0], counts):
        exact = sum(int(x) for x in (values / STEP).ravel().tolist())
        shuffled = np.random.default_rng(1).permutation(values.ravel())
        assert np.cumsum(shuffled)[-1] == exact * STEP


# Boosting


def small(**parameters) -> TreeCRF:
    defaults = {"window": 1, "max_iter": 10, "l2_regularization": 1.0, "random_state": 0}
    return TreeCRF(**PLAIN | defaults | parameters)


@every
@pytest.mark.parametrize("order", [0, 1, 2])
def test_boosting_climbs_the_objective(name, order, letters, tables):
    for X, y in (letters, tables):
        crf = small(objective=name, order=order, l2_regularization=5.0).fit(X, y)
        assert np.diff(crf.train_score_).min() > 0


@others
def test_a_start_from_the_pseudo_likelihood(name, letters):
    """Three iterations are the same for all objectives, the fourth depends on the objective."""
    models = [
        small(objective=n, init="pseudo_likelihood", max_iter=4).fit(*letters)
        for n in ("log", name)
    ]
    stages = [list(model.staged_predict_proba(letters[0])) for model in models]
    same = [
        all(np.array_equal(a, b) for a, b in zip(*both, strict=True))
        for both in zip(*stages, strict=True)
    ]
    assert same == [True, True, True, False]


# Invalid combinations


@pytest.mark.parametrize("name", OTHERS)
def test_other_objectives_have_no_curvature_and_no_beam(name, letters):
    with pytest.raises(ValueError, match=f"requires objective='log'; {name!r} has no curvature"):
        small(objective=name, second_order=True).fit(*letters)
    with pytest.raises(ValueError, match=f"objective={name!r} needs all contexts; a beam requires"):
        small(objective=name, beam_width=2).fit(*letters)


@others
def test_a_warm_start_keeps_the_objective(name, letters, tmp_path):
    crf = small(objective=name, max_iter=3, warm_start=True).fit(*letters)
    crf.save(tmp_path / "model")
    message = f"warm start: the model has objective={name!r}, which cannot change to 'log'"
    for model in (crf, treecrf.load(tmp_path / "model")):
        model.set_params(max_iter=6)
        with pytest.raises(ValueError, match=message):
            model.set_params(objective="log").fit(*letters)
        model.set_params(objective=name).fit(*letters)
        whole = small(objective=name, max_iter=6).fit(*letters)
        np.testing.assert_array_equal(model.train_score_, whole.train_score_)


def test_the_objective_is_that_of_training(letters, tmp_path):
    """A parameter set after training is not part of the model."""
    crf = small(objective="hamming_log", max_iter=3, warm_start=True).fit(*letters)
    crf.set_params(objective="log").save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model").set_params(max_iter=4)
    with pytest.raises(ValueError, match="the model has objective='hamming_log'"):
        loaded.fit(*letters)


def test_a_file_of_an_unknown_objective(letters, tmp_path):
    path = tmp_path / "model"
    small(objective="exponential", max_iter=1).fit(*letters).save(path)
    values, arrays = read(path)
    path.write_bytes(sealed(values | {"objective": "hinge"}, arrays))
    with pytest.raises(ModelFileError, match="unknown objective 'hinge'"):
        treecrf.load(path)


def test_the_objective_is_shown_by_its_name(letters, capfd):
    pytest.importorskip("tqdm")
    crf = small(objective="hamming_log", max_iter=3, verbose=1).fit(*letters)
    shown = capfd.readouterr().err.replace("=-.", "=-0.")  # tqdm 4.66.0 omits the zero
    assert f" objective={crf.train_score_[2]:.3g}" in shown


# Real data


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_parts_give_the_mean_of_all(weighted):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 50)
    offsets = np.append(0, np.cumsum(lengths))
    weights = rng.uniform(0.01, 40, offsets[-1]) if weighted else None
    values = -rng.exponential(size=50)
    for n_parts in (1, 2, 7):
        sums = []
        for chosen in np.array_split(rng.permutation(50), n_parts):
            positions = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in chosen])
            of_part = WeightedMean(
                weights[positions] if weighted else None, np.append(0, np.cumsum(lengths[chosen]))
            ).scaled_to(weights.max() if weighted else None)
            sums.append(of_part.sums(values[chosen]))
        total = sums[0]
        for of_part in sums[1:]:
            total += of_part
        assert float(total) == WeightedMean(weights, offsets)(values)
    expected = values.sum() / offsets[-1]
    if weighted:
        means = np.add.reduceat(weights, offsets[:-1]) / lengths
        expected = (means * values).sum() / (means * lengths).sum()
    assert float(total) == pytest.approx(expected)
