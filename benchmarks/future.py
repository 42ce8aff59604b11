"""Models with and without future features: tables 5.3 to 5.5 of Hao's dissertation.

``bags`` are the synthetic problems, with 400 training, 200 validation and 100 test sequences. Their
true pattern is known, so the instances and bags are evaluated as well. ``nettalk`` are the stress
marks of words, with two or five labels, predicted from the letter itself; the control of each model
is an ordinary window that extends as far to the right. ``scaling`` is the time of one discovery for
different numbers of positions and bag sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from measure import markdown
from papers_data import folder
from settings import papers_model

from treecrf import FutureFeatureMEMM, TreeMEMM
from treecrf.datasets import make_future_bags
from treecrf.learners.future.features import Bags

DATA = ("bags", "nettalk", "scaling")
N_TRAIN, N_VALIDATION, N_TEST = 400, 200, 100
ORDERS = (1, 2, 3, 4)
N_SEQUENCES, BAG_SIZES = (250, 500, 1000, 2000, 4000), (1, 2, 4, 8, 16, "to_end")
STOPPING = {"early_stopping": True, "n_iter_no_change": 5, "max_iter": 500, "max_leaf_nodes": 20,
            "l2_regularization": 40.0}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=["bags"])
    parser.add_argument("--kinds", nargs="+", default=["xor", "or", "extra"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--labels", type=int, choices=(2, 5), default=2)
    parser.add_argument("--orders", nargs="+", type=int, default=list(ORDERS))
    arguments = parser.parse_args()
    if "bags" in arguments.data:
        header = ("problem", "seed", "test %", "instances %", "bags %", "features", "size", "s")
        rows = [found for kind in arguments.kinds for found in discoveries(kind, arguments.seeds)]
        print(markdown(header, rows))
    if "nettalk" in arguments.data:
        header = ("order", "bag", "marginal %", "viterbi %", "greedy %", "features", "s")
        header = (*header, "control: marginal %", "viterbi %", "greedy %", "plain: marginal %")
        print(markdown(header, list(stresses(arguments.labels, arguments.orders))))
    if "scaling" in arguments.data:
        print(markdown(("positions", "bag", "s", "ns per position"), list(discovery_times())))


def bags(kind: str, seed: int) -> tuple[tuple, tuple]:
    """Training and validation sequences with their labels, and those of the test data."""
    X, y = make_future_bags(kind, n_sequences=N_TRAIN + N_VALIDATION + N_TEST, random_state=seed)
    first, last = N_TRAIN, N_TRAIN + N_VALIDATION
    return (X[:first], y[:first], X[first:last], y[first:last]), (X[last:], y[last:])


def discoveries(kind: str, n_seeds: int) -> Iterator[list[str]]:
    """Rows of the table: accuracies of the labels and of the discovered features."""
    for seed in range(n_seeds):
        training, (X, y) = bags(kind, seed)
        start = time.process_time()
        model = FutureFeatureMEMM(order=0, random_state=seed).fit(*training)
        seconds = time.process_time() - start
        instances, in_bags = fractions_correct(model, X)
        features = model.future_features_
        sizes = {feature.bag_size for feature in features}
        yield [
            kind, str(seed), percent(model.score(X, y)), percent(instances), percent(in_bags),
            str(len(features)), " ".join(map(str, sizes)), f"{seconds:.1f}",
        ]  # fmt: skip


def fractions_correct(model: FutureFeatureMEMM, X: list) -> tuple[float, float]:
    """Fraction of the instances, and of the bags, that the features classify correctly."""
    encoder, encoded = model._encoder, model._encoder.base.encode(model._predictor().read(X)[0])
    positive = np.concatenate(X)[:, :6].sum(axis=1) <= 1
    in_bags = Bags(encoded.offsets, 6).sum_members(positive.astype(float)) > 0
    scores = [feature.scores(encoder.base, encoded) > 0 for feature in encoder.features]
    values = [feature.values(encoder.base, encoded) > 0.5 for feature in encoder.features]
    return (
        float((np.any(scores, axis=0) == positive).mean()),
        float((np.any(values, axis=0) == in_bags).mean()),
    )


def discovery_times() -> Iterator[list[str]]:
    """Rows with the time to discover one feature."""
    X, y = make_future_bags("xor", n_sequences=N_SEQUENCES[-1], random_state=0)
    middle = N_SEQUENCES[len(N_SEQUENCES) // 2]
    for n, size in [(n, 6) for n in N_SEQUENCES] + [(middle, size) for size in BAG_SIZES]:
        taken = float(np.median([discovery_time(X[:n], y[:n], size) for _ in range(3)]))
        n_positions = sum(map(len, X[:n]))
        yield [str(n_positions), str(size), f"{taken:.2f}", f"{1e9 * taken / n_positions:.0f}"]


def discovery_time(X: list, y: list, size: int | str) -> float:
    """Additional seconds of a fit with one round of discovery over a fit without."""
    fixed = {"order": 0, "bag_size": size, "max_iter": 1, "early_stopping": False, "n_jobs": 1}
    seconds = []
    for n_rounds in (0, 1):
        model = FutureFeatureMEMM(max_future_features=n_rounds, random_state=0, **fixed)
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
    return seconds[1] - seconds[0]


def stresses(n_labels: int, orders: list[int]) -> Iterator[list[str]]:
    """Rows with the accuracies on the letters of NETtalk."""
    training, test = (words(part, n_labels) for part in ("train", "test"))
    for order in orders:
        memm = partial(papers_model, TreeMEMM, order=order, random_state=0, **STOPPING)
        plain = memm().fit(*training)
        for size in (2, 4):
            start = time.process_time()
            model = FutureFeatureMEMM(order=order, bag_size=size, random_state=0).fit(*training)
            seconds = time.process_time() - start
            control = memm(window=(0, size))
            yield [
                str(order), str(size), *by_decoding(model, test),
                str(len(model.future_features_)), f"{seconds:.1f}",
                *by_decoding(control.fit(*training), test), percent(plain.score(*test)),
            ]  # fmt: skip


def words(part: str, n_labels: int) -> tuple[list[str], list[str]]:
    """Words and their stress marks; with two labels, stressed vowels against the rest."""
    lines = (folder() / "nettalk" / f"stress.{part}.txt").read_text().split()
    X, y = lines[::2], lines[1::2]
    if n_labels == 2:
        y = ["".join("01"[mark in "12"] for mark in marks) for marks in y]
    return X, y


def by_decoding(model: TreeMEMM | FutureFeatureMEMM, test: tuple) -> list[str]:
    """Accuracy of a model with each decoding."""
    decodings = ("marginal", "viterbi", "greedy")
    return [percent(model.set_params(decoding=way).score(*test)) for way in decodings]


def percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


if __name__ == "__main__":
    main()
