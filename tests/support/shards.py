"""Fits on shards in this process, with the parts of any cut."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from treecrf.encoding.sequence_keys import sequence_keys
from treecrf.inputs.offsets import split_sequences
from treecrf.learners.boosted import engine, training
from treecrf.learners.boosted.encoded import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.engine import Engine
from treecrf.learners.boosted.messages import ShardSetup, Totals, total
from treecrf.learners.boosted.sampled_booster import LocalShards, SampledBooster, scored_on_shards
from treecrf.learners.boosted.start import starting_parts
from treecrf.learners.class_weights import count_labels
from treecrf.learners.evaluation import Evaluations
from treecrf.utils.fleet import LocalFleet, itself
from treecrf.utils.threads import Threads

# Which sequences are in each part, given their number.
Cut = Callable[[int], list[np.ndarray]]


def dealt(n_parts: int) -> Cut:
    """Deal sequences out in turn."""
    return lambda n: [np.arange(n)[i::n_parts] for i in range(n_parts)]


def runs_of(n_parts: int) -> Cut:
    """Cut the list of sequences into runs."""
    return lambda n: np.array_split(np.arange(n), n_parts)


def keys_and_weights(spec, data, given, encoder) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of all sequences together, and the position weights."""
    threads = Threads(1)
    of_labels = spec.weights_of_labels(data.classes, count_labels(given, len(data.classes)))
    weights = spec.kind.position_weights(given, of_labels)
    masks, ties = (given.allowed, given.candidates), [weights, *given.ties]
    whole = encoder.encode(given.sequences, threads)
    keys = sequence_keys(whole, given.codes, *masks, ties=ties)
    return keys, weights


def part_of(given, encoder, start, keys, weights, chosen) -> EncodedLabeled | None:
    """Encode some of the sequences."""
    if not len(chosen):
        return None
    part = given.take(chosen)
    positions = split_sequences(np.arange(len(given.codes)), given.offsets)
    candidates = part.candidates
    if candidates is not None and (candidates.sum(axis=1) == 1).all():
        candidates = None
    return EncodedLabeled(
        encoder.encode(part.sequences, Threads(1)),
        part.codes,
        part.allowed,
        candidates,
        part.weights,
        weights[np.concatenate([positions[i] for i in chosen])],
        keys[chosen],
        *starting_parts(start, part.sequences, Threads(1)),
        sequences=part.sequences,
    )


def parts_of(spec, data, encoder, start, cut: Cut) -> list[EncodedPart]:
    """Cut the training sequences; the validation sequences are cut into runs."""
    sides = []
    n_parts = len(cut(1))
    for labeled, of_side in ((data.training, cut), (data.validation, runs_of(n_parts))):
        if labeled is None:
            sides.append([None] * n_parts)
            continue
        (given,) = labeled.fleet.map(itself)
        keys, weights = keys_and_weights(spec, data, given, encoder)
        sides.append([
            part_of(given, encoder, start, keys, weights, chosen)
            for chosen in of_side(given.sequences.n_sequences)
        ])  # fmt: skip
    return [EncodedPart(*both) for both in zip(*sides, strict=True)]


def fit_on_shards(
    model, X, y, cut: Cut, n_shards: int, n_threads: int = 1, start: Callable | None = None, **fit
):
    """Fit a model on shards; ``start`` makes them from a fleet and a setup."""
    make = start or LocalShards.of

    def engine_of(spec, data, encoder, forest, start, n_iter, threads, allocate):
        fleet = LocalFleet(parts_of(spec, data, encoder, start, cut))
        growth = spec.growth(encoder, data.classes, data.seed)
        sampling = spec.sampling_of(len(data.classes), data.training.n_positions)
        totals = total(fleet.map(Totals.of))
        setup = ShardSetup(spec, data.classes, encoder, growth, sampling, totals)
        booster = SampledBooster(forest, make(fleet, setup, n_shards, n_threads), setup, n_iter)
        validation = scored_on_shards(booster) if totals.held_out.n_sequences else None
        return Engine(setup, start, booster, Evaluations([], validation, spec.scoring))

    def make_engine(*arguments):
        with patch.object(engine, "engine_of", engine_of):
            return engine.make_engine(*arguments)

    with patch.object(training, "make_engine", make_engine):
        return model.fit(X, y, **fit)


def assert_equal_fits(a, b):
    """Check that the forests and all scores are equal to the bit."""
    packed = a._forest.pack(), b._forest.pack()
    assert packed[0].keys() == packed[1].keys()
    for name, values in packed[0].items():
        np.testing.assert_array_equal(values, packed[1][name], err_msg=name)
    for name in ("train_score_", "validation_score_", "feature_importances_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
