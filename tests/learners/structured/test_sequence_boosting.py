"""Sequence boosting: bounds and choices against the enumeration of all label sequences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from support.family import scores_of
from support.label_sequences import enumerated, named_weights, parsed
from support.training import training_of

from treecrf import SequenceBoostingClassifier
from treecrf.learners.structured.rounds import BOUNDS, Rounds

WORDS = ["abc", "b", "ca", "bbab", "abc", "aa"]
TAGS = ["xyx", "y", "zx", "yxxz", "yyx", "xx"]
VARIANTS = {
    "states": {},
    "windows": {"window": (1, 0)},
    "pairs": {"transition_features": True},
    "weighted": {"class_weight": {"x": 3.0, "y": 0.5}},
}


def rounds_of(model, X, y):
    """The rounds before training, and a trained model that names their features."""
    copied, data, start = training_of(model, X, y)
    rounds = Rounds(data, start, BOUNDS[copied.bound], model.max_step, model.piece_length)
    return rounds, clone(model).set_params(max_iter=1).fit(X, y)


def names_of(model):
    """The name of each feature in the enumeration, by its index."""
    layout, attributes = model._weights.layout, model.get_attribute_names()
    _, right = model._attributes.window
    names = []
    for feature in range(layout.size):
        place = divmod(feature // layout.width, layout.n_offsets)
        if layout.n_offsets > 1 and place == (layout.n_attributes - 1, right):
            # A position is never outside its own sequence.
            names.append("never")
            continue
        found = model._described(feature, 0.0, attributes)
        place = () if found.attribute is None else parsed(found.attribute)
        given = (found.previous,) if found.previous or found.attribute is None else ()
        names.append((*place, *given, found.label))
    return names


class Parts:
    """Terms of the loss, one per wrong label sequence, and their features."""

    def __init__(self, model, every, y, weights):
        class_weight = model.class_weight or {}
        self.excess, self.mass = [], []
        for table, scores, true, labels in zip(
            every.features, every.scores(weights), every.true, y, strict=True
        ):
            weight = np.mean([class_weight.get(label, 1.0) for label in labels])
            mass = weight * np.exp(scores - scores[true])
            mass[true] = 0.0
            self.mass.append(mass)
            self.excess.append(table - table[true])
        self.names = every.names
        self.loss = sum(mass.sum() for mass in self.mass)

    def of(self, name):
        """A feature minus its value for the true labels, for each word; 0 if it never occurs."""
        if name not in self.names:
            return [np.zeros(len(mass)) for mass in self.mass]
        return [excess[:, self.names.index(name)] for excess in self.excess]

    def ratio(self, name, step):
        """The ratio of the loss after a step to the loss before it."""
        pairs = zip(self.mass, self.of(name), strict=True)
        return sum(mass @ np.exp(step * u) for mass, u in pairs) / self.loss

    def bound(self, name, step, union):
        """Equation 20 of the paper, or 17."""
        excess = self.of(name)
        low, high = min(u.min() for u in excess), max(u.max() for u in excess)
        total = 0.0
        for mass, u in zip(self.mass, excess, strict=True):
            if not union:
                low, high = u.min(), u.max()
            if high == low:
                total += mass.sum()
                continue
            under = mass @ (high - u) / (high - low)
            over = mass @ (u - low) / (high - low)
            total += under * np.exp(step * low) + over * np.exp(step * high)
        return total / self.loss


def weights_for(every, model, seed):
    """Random weights by name."""
    rng = np.random.default_rng(seed)
    return dict(zip(every.names, rng.normal(size=len(every.names)), strict=True))


def set_weights(rounds, names, weights):
    for feature, name in enumerate(names):
        if weights.get(name):
            where = rounds.loss.occurrences(feature)
            rounds.loss.add(feature, weights[name], where)
            rounds._update(where.pieces)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bounds_and_choices_are_those_of_the_paper(variant, bound):
    model = SequenceBoostingClassifier(bound=bound, **VARIANTS[variant])
    rounds, named = rounds_of(model, WORDS, TAGS)
    every, names = enumerated(model, WORDS, TAGS), names_of(named)
    weights = {}
    for seed in range(2):
        parts = Parts(model, every, TAGS, weights)
        assert rounds.loss.log_value == pytest.approx(np.log(parts.loss))
        choice = rounds.chooser.choose()
        found = []
        for name in names:
            best = minimize_scalar(
                lambda step, name=name, parts=parts: parts.bound(name, step, bound == "union"),
                bounds=(-1, 1), method="bounded", options={"xatol": 1e-9},
            )  # fmt: skip
            found.append(best.fun)
        steps, bounds = rounds.chooser._steps, rounds.chooser._bounds
        if bound == "sequence":
            steps, bounds = steps.vector, bounds.vector
        np.testing.assert_allclose(bounds, found, atol=1e-7)
        assert choice.bound == bounds.min()
        assert choice.feature == np.argmin(bounds)
        for name, step, value in zip(names, steps, bounds, strict=True):
            assert parts.bound(name, step, bound == "union") == pytest.approx(value)
            assert parts.ratio(name, step) <= value + 1e-12
        weights = weights_for(every, model, seed)
        rounds, _ = rounds_of(model, WORDS, TAGS)
        set_weights(rounds, names, weights)


@pytest.mark.parametrize("variant", VARIANTS)
def test_intervals_are_those_of_all_label_sequences(variant):
    model = SequenceBoostingClassifier(**VARIANTS[variant])
    union, named = rounds_of(model, WORDS, TAGS)
    parts = Parts(model, enumerated(model, WORDS, TAGS), TAGS, {})
    for feature, name in enumerate(names_of(named)):
        excess = parts.of(name)
        assert union.chooser.lows.vector[feature] == min(u.min() for u in excess), name
        assert union.chooser.highs.vector[feature] == max(u.max() for u in excess), name


@pytest.mark.parametrize("given", [
    {}, {"bound": "sequence"}, {"line_search": True}, {"window": 1}, {"transition_features": True},
    {"class_weight": "balanced"}, {"bound": "sequence", "transition_features": True},
    {"max_step": 0.1}, {"piece_length": 2}, {"transitions": np.ones((4, 3))},
])  # fmt: skip
def test_the_loss_never_rises(given, letters):
    X, y = letters
    model = SequenceBoostingClassifier(max_iter=150, **given).fit(X, y)
    assert model.n_iter_ == 150
    ratios = np.exp(np.diff(model.loss_))
    assert (ratios < 1).all()
    assert (ratios <= model.bounds_ + 1e-9).all()
    assert (np.abs(model.steps_) <= model.max_step).all()
    assert model.loss_[-1] < model.loss_[0] - 1
    # Incrementally updated sums agree with recomputed ones.
    log_p = model.predict_log_likelihood(X, y)
    if not given.keys() & {"class_weight", "piece_length"}:
        assert model.loss_[-1] == pytest.approx(np.log(np.expm1(-log_p).sum()))
        assert model.train_score_[-1] == pytest.approx(log_p.sum() / sum(map(len, X)))
    assert np.count_nonzero(model._weights.vector) <= len(set(model.features_.tolist()))


def test_bounds_hold_for_numbers_of_both_signs():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(rng.integers(1, 9), 3)) for _ in range(20)]
    y = [(table[:, 0] > 0).astype(int) + (table[:, 1] > 1) for table in X]
    for bound in BOUNDS:
        for pairs in (False, True):
            model = SequenceBoostingClassifier(
                max_iter=100, bound=bound, transition_features=pairs
            ).fit(X, y)
            ratios = np.exp(np.diff(model.loss_))
            assert (ratios <= model.bounds_ + 1e-9).all()
            assert (model.bounds_ < 1).all()
            assert model.loss_[-1] < model.loss_[0] - 1


@pytest.mark.parametrize("bound", BOUNDS)
def test_masks_apply_in_training(bound, letters):
    X, y = letters
    codes = [np.array(["xyz".index(v) for v in labels]) for labels in y]
    allowed = [np.eye(3, dtype=bool)[c] | (np.arange(len(c)) % 2 == 0)[:, None] for c in codes]
    model = SequenceBoostingClassifier(max_iter=30, bound=bound).fit(X, y, allowed=allowed)
    free = -np.log(3) * sum(mask.all(axis=1).sum() for mask in allowed) / sum(map(len, X))
    assert model.train_score_[0] == pytest.approx(free)
    assert (np.exp(np.diff(model.loss_)) <= model.bounds_ + 1e-9).all()


def test_the_line_search_finds_the_lowest_loss():
    model = SequenceBoostingClassifier(line_search=True, max_step=3.0)
    rounds, named = rounds_of(model, WORDS, TAGS)
    parts = Parts(model, enumerated(model, WORDS, TAGS), TAGS, {})
    choice = next(rounds.run(1, 0.0, True))
    name = names_of(named)[choice.feature]
    best = minimize_scalar(lambda step: parts.ratio(name, step), bounds=(-3, 3), method="bounded")
    assert np.exp(rounds.loss.log_value) / parts.loss == pytest.approx(best.fun, rel=1e-3)


# Pieces


@pytest.mark.parametrize("bound", ["union", "sequence"])
def test_equal_bounds_choose_the_first_feature(bound, letters):
    """With two labels, a weight of the one and minus this weight of the other are the same step."""
    X = letters[0]
    y = ["".join("v" if letter in "ab" else "w" for letter in "c" + word[:-1]) for word in X]
    boosting = SequenceBoostingClassifier(window=1, max_iter=60, bound=bound).fit(X, y)
    assert {feature.label for feature in boosting.get_chosen_features()} == {"v"}


def test_pieces_are_even_and_follow_the_true_label(letters):
    X, y = letters
    rounds, _ = rounds_of(SequenceBoostingClassifier(piece_length=3), X, y)
    loss, text = rounds.loss, "".join(y)
    ends = set(np.cumsum([len(word) for word in X]).tolist())
    assert ends <= set(loss.offsets.tolist())
    for word in X:
        n = -(-len(word) // 3)
        assert len(word) / n <= 3
    assert loss.lengths.max() <= 3
    starts = {0, *ends}
    for start, before in zip(loss.offsets[:-1].tolist(), loss.before.tolist(), strict=True):
        assert before == (3 if start in starts else "xyz".index(text[start - 1]))


def test_pieces_of_one_position_give_a_loss_of_positions(letters):
    X, y = letters
    model = SequenceBoostingClassifier(piece_length=1, max_iter=20, window=1).fit(X, y)
    total, log_p = 0.0, 0.0
    for word, labels in zip(X, y, strict=True):
        for t in range(len(word)):
            scores = scores_of(model, [word])
            row = scores[:, t, "xyz".index(labels[t - 1]) if t else 0]
            p = np.exp(row - np.logaddexp.reduce(row))["xyz".index(labels[t])]
            total, log_p = total + 1 / p - 1, log_p + np.log(p)
    assert model.loss_[-1] == pytest.approx(np.log(total))
    assert model.train_score_[-1] == pytest.approx(log_p / sum(map(len, X)))


@pytest.mark.parametrize("bound", BOUNDS)
def test_long_sequences_do_not_overflow(bound):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abc"), n)) for n in (5000, 3, 40)]
    y = ["".join("xyz"["abc".index(a)] if rng.random() < 0.9 else "x" for a in word) for word in X]
    model = SequenceBoostingClassifier(max_iter=60, bound=bound).fit(X, y)
    assert model.loss_[0] == pytest.approx(5000 * np.log(3))
    assert (np.diff(model.loss_) < 0).all()
    assert np.isfinite(np.concatenate(model.predict_proba(X))).all()
    in_pieces = clone(model).set_params(piece_length=5).fit(X, y)
    assert in_pieces.train_score_[-1] > model.train_score_[-1]


# The model


def test_chosen_features_are_named(letters):
    X, y = letters
    for window, pairs in ((0, False), ((2, 1), False), (1, True)):
        model = SequenceBoostingClassifier(
            window=window, transition_features=pairs, max_iter=60
        ).fit(X, y)
        summed = {}
        for feature in model.get_chosen_features():
            place = () if feature.attribute is None else parsed(feature.attribute)
            given = (feature.previous,) if feature.previous or not place else ()
            name = (*place, *given, feature.label)
            summed[name] = summed.get(name, 0.0) + feature.step
        weights = named_weights(model)
        assert {k for k, v in weights.items() if v} == {k for k, v in summed.items() if v}
        for name, weight in summed.items():
            assert weights[name] == pytest.approx(weight)


def test_training_ends_when_no_loss_is_left():
    model = SequenceBoostingClassifier(max_iter=100_000).fit(["ab", "ba"], ["xy", "yx"])
    assert model.n_iter_ < 1000
    assert -25 < model.loss_[-1] < -19
    no_bound = SequenceBoostingClassifier(tol=0.9).fit(["ab", "ba"], ["xy", "yx"])
    assert no_bound.n_iter_ == 0
    assert no_bound.get_chosen_features() == []
