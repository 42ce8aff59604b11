"""Distributed training in one process: real shards and trees, with a simulated clock and network.

The data are cut into parts, one for each shard. Every step of every shard, every answer and every
tree is that of training on a cluster. Measured are CPU seconds of one core, bytes, and the number
of exchanges. Elapsed seconds are simulated, from the assumptions in `simulated_cluster.Cluster`.

``exchanges`` shows the cost of an iteration for more and more data, and checks that the model is
that of one process. ``costs`` measures the unit costs of each case, and stores them in
``fleet.json``. ``predict`` extrapolates them to large data and many workers, and draws the curves.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import markdown
from settings import papers_model
from simulated_cluster import Cluster, Exchange, elapsed_on_one, mean_elapsed
from suite.synthetic import sequences
from words import plain_sentences

from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000, fetch_protein, read_nettalk
from treecrf.inputs.dataset import RawData
from treecrf.inputs.offsets import Segmentation
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.labeled import read_partitions
from treecrf.learners.boosted.sampled.growth import SampledGrowth
from treecrf.learners.boosted.sampled.shard import IterationRequest, IterationResult, Shard, Stale
from treecrf.learners.boosted.spec import BoostingSetup
from treecrf.learners.boosted.training import train
from treecrf.utils.partitions import LocalPartitions, identity

LENGTH = 100
N_NUMBERS = 20
SETTINGS = {
    "second_order": True,
    "curvature": "diagonal",
    "learning_rate": 0.3,
    "l2_regularization": 20.0,
    "max_leaf_nodes": 64,
    "sampling": 0.1,
    "random_state": 0,
}
RESULTS = Path(__file__).with_name("fleet.json")
PICTURE = Path(__file__).parents[1] / "docs" / "guide" / "images" / "scale.svg"
# The first exchanges compute sizes and draw nearly all examples.
SETTLED = 2


@dataclass(frozen=True)
class Case:
    """Data of any number of positions, and the settings to fit them."""

    # Returns sequences and labels of at least so many positions, or of all that there are.
    read: Callable[[int], tuple[list, list]]
    settings: dict[str, Any]

    def data(self, n_positions: int) -> tuple[list, list]:
        """Return about so many positions; if there are fewer, sequences are repeated."""
        X, y = self.read(n_positions)
        order = np.random.default_rng(0).permutation(len(X))
        lengths = np.array([len(labels) for labels in y])
        n_rounds = -(-n_positions // int(lengths.sum()))
        ends = np.cumsum(np.tile(lengths[order], n_rounds))
        kept = list(islice(cycle(order), int(np.searchsorted(ends, n_positions)) + 1))
        return [X[i] for i in kept], [y[i] for i in kept]

    def model(self, **settings: Any) -> TreeCRF:
        """Return a model to fit in one thread."""
        return papers_model(TreeCRF, **(SETTINGS | {"n_jobs": 1} | self.settings | settings))


def symbols(n_positions: int) -> tuple[list, list]:
    return sequences(-(-n_positions // LENGTH), LENGTH)


def numbers(n_positions: int) -> tuple[list, list]:
    """Rows of numbers; half of the columns depend on the label."""
    _, y = sequences(-(-n_positions // LENGTH), LENGTH, 5)
    random = np.random.default_rng(0)
    signal = np.arange(N_NUMBERS) < N_NUMBERS // 2
    return [
        labels[:, None] * signal + random.normal(scale=3, size=(len(labels), N_NUMBERS))
        for labels in y
    ], y


def text(_: int) -> tuple[list, list]:
    X, y = fetch_conll2000(return_X_y=True)
    return plain_sentences(X), y


def stresses(_: int) -> tuple[list, list]:
    """The whole dictionary of NETtalk."""
    words, _, labels = read_nettalk(Path(os.environ["TREECRF_DATA"], "nettalk", "nettalk.data"))
    return words, labels


def protein(_: int) -> tuple[list, list]:
    return fetch_protein(return_X_y=True)


CASES = {
    "symbols, 3 labels": Case(symbols, {"window": 2}),
    "protein, 3 labels": Case(protein, {"window": 5}),
    "NETtalk, 5 labels": Case(stresses, {"window": 6}),
    "20 numbers, 5 labels": Case(numbers, {"window": 2}),
    "text, 22 labels": Case(
        text, {"window": 2, "max_features_per_tree": 0.4, "max_leaf_nodes": 128}
    ),
}


# Measuring


@dataclass(frozen=True)
class Measured:
    """One exchange: CPU seconds of one core, and bytes."""

    n_iter: int  # number of iterations before
    shards: np.ndarray  # seconds of the step of each shard
    answers: np.ndarray  # bytes of each answer
    growth: float  # seconds to unpickle and join the answers, and to grow trees
    trees: int | None  # bytes of the trees; None if none grew


class MeasuredShards:
    """Shards in this process whose answers are pickled as if they were sent."""

    def __init__(self, parts: list[EncodedPart], setup: BoostingSetup, preparing: float):
        self.parts = parts
        self.setup = setup
        self.preparing = preparing  # CPU seconds to read and encode the parts
        self.shards = [Shard(setup, {i: part}) for i, part in enumerate(parts)]
        self.growing = SampledGrowth(setup)
        self.measured: list[Measured] = []

    def iterate(
        self, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> IterationResult:
        """Carry out a step, and measure it."""
        answers, seconds = zip(*(timed(shard.run, step) for shard in self.shards), strict=True)
        if any(isinstance(answer, Stale) for answer in answers):
            raise AssertionError("a shard is behind")
        sent = [pickle.dumps(answer, protocol=5) for answer in answers]
        drawn, joining = timed(lambda: [pickle.loads(data) for data in sent])
        grown, growth = timed(self.growing.grow, drawn, step)
        trees = None if grown.trees is None else len(pickle.dumps(grown.trees, protocol=5))
        sizes = np.array([len(data) for data in sent])
        of_step = Measured(step.n_iter, np.array(seconds), sizes, joining + growth, trees)
        self.measured.append(of_step)
        return grown


def timed(function: Callable, *arguments: Any) -> tuple[Any, float]:
    """Call a function; return its result and its CPU seconds."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python's search for cycles out of the times."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True)
class Fit:
    """A fit on shards."""

    model: TreeCRF
    shards: MeasuredShards

    def middle(self, value: Callable[[Measured], float]) -> float:
        """Return the median of a value of the exchanges in which trees grew, after the first."""
        return median(value(m) for m in self.shards.measured if m.trees and m.n_iter >= SETTLED)


class MeasuredPartitions(LocalPartitions):
    """Parts of the data, one for each shard, which note the shards and when training began."""

    def __init__(self, parts: Sequence[Any], begun: float, made: list[MeasuredShards]):
        super().__init__(parts)
        self._begun = begun
        self._made = made

    def derive(self, function: Callable[..., Any], *args: Any) -> MeasuredPartitions:
        """Return the fleet of which the parts are ``function(part, *args)``."""
        return MeasuredPartitions(self.map(function, *args), self._begun, self._made)

    def make_shards(self, setup: BoostingSetup) -> MeasuredShards:
        """Return a shard for each part."""
        seconds = time.process_time() - self._begun
        self._made.append(MeasuredShards(self.map(identity), setup, seconds))
        return self._made[0]


def fit_on_shards(model: TreeCRF, X: list, y: list, n_shards: int) -> Fit:
    """Fit a model on parts of the data, sequences dealt out in turn."""
    raws = [RawData(X[i::n_shards], y[i::n_shards], Segmentation()) for i in range(n_shards)]
    made: list[MeasuredShards] = []
    with without_collections():
        partitions = MeasuredPartitions(raws, time.process_time(), made)
        fitted = train(model._spec(), read_partitions(model, partitions))
    return Fit(model._copy_of(fitted), made[0])


def assert_equal(one: TreeCRF, other: TreeCRF) -> None:
    """Check that two models have the same trees and scores, to the bit."""
    packed, others = one._forest.pack(), other._forest.pack()
    assert packed.keys() == others.keys()
    for name, values in packed.items():
        np.testing.assert_array_equal(values, others[name], err_msg=name)
    np.testing.assert_array_equal(one.train_score_, other.train_score_)


# Tables


def exchanges(name: str, arguments: argparse.Namespace) -> str:
    """Table of what is exchanged, by number of positions."""
    case, rows = CASES[name], []
    for n_positions in arguments.positions:
        X, y = case.data(n_positions)
        settings = {"max_iter": arguments.iterations, "max_examples": arguments.max_examples}
        fit = fit_on_shards(case.model(**settings), X, y, arguments.shards[0])
        assert_equal(case.model(**settings).fit(X, y), fit.model)
        rows.append([
            f"{sum(map(len, y)):,}",
            f"{len(fit.shards.measured)}",
            f"{fit.middle(lambda m: m.answers.sum()) / 1e6:.2f}",
            f"{fit.middle(lambda m: m.trees) / 1e3:.0f}",
            f"{1e3 * fit.middle(lambda m: m.growth):.0f}",
            f"{1e3 * fit.middle(lambda m: m.shards.sum()):.0f}",
        ])  # fmt: skip
    header = ("positions", "exchanges", "MB of answers", "kB of trees", "growth ms", "shards ms")
    return markdown(header, rows)


# Unit costs


@dataclass(frozen=True)
class Costs:
    """Measured costs of a case; seconds are CPU seconds of one core."""

    # Seconds of the steps of all shards: for each position, and for all examples together.
    step: float
    step_examples: float
    step_of_shard: float  # seconds of the step of a shard, whatever its size
    growth: float  # seconds of the growth of the trees of an iteration
    # Seconds to unpickle and join the answers: for each byte, and for each shard.
    joining: float
    joining_of_shard: float
    # Bytes of the answers of all shards, and of the answer of each shard without examples.
    answers: float
    answer_of_shard: float
    trees: float  # bytes of the trees of an iteration
    # Seconds to read and encode a position, and to add the trees of an iteration to its new scores.
    preparing: float
    catching_up: float


def measure_costs(name: str, arguments: argparse.Namespace) -> Costs:
    """Measure the unit costs of a case."""
    case = CASES[name]
    settings = {"max_iter": arguments.iterations, "max_examples": arguments.max_examples}
    of_shards = costs_of_shards(case, settings, max(arguments.shards))
    steps = []
    for n_positions in (LARGE // 4, LARGE):
        X, y = case.data(n_positions)
        fit = fit_on_shards(case.model(**settings), X, y, 2)
        n = sum(map(len, y))
        steps.append((n, fit.middle(lambda m: m.shards.sum())))
    # What the examples cost does not depend on the number of positions.
    n_more, more = np.subtract(steps[1], steps[0]).tolist()
    step = more / n_more
    growth = growth_in_one(case.model(**settings), X, y)
    # The rest of the growth on shards puts their answers together.
    joined = fit.middle(lambda m: m.growth) - growth
    joining = max(0.0, joined) / fit.middle(lambda m: m.answers.sum())
    trees, preparing = fit.middle(lambda m: m.trees), fit.shards.preparing / n
    routing = catching_up(fit) / (n * arguments.iterations)
    del fit
    # So few that hardly any windows overlap.
    settings["max_examples"] = arguments.max_examples // SPARSE
    fit = fit_on_shards(case.model(**settings), X, y, 2)
    answers = fit.middle(lambda m: m.answers.sum()) - 2 * of_shards["answer_of_shard"]
    return Costs(
        step=step,
        step_examples=max(0.0, steps[1][1] - step * n - 2 * of_shards["step_of_shard"]),
        growth=growth,
        joining=joining,
        answers=SPARSE * answers,
        trees=trees,
        preparing=preparing,
        catching_up=routing,
        **of_shards,
    )


def costs_of_shards(case: Case, settings: dict[str, int], n_many: int) -> dict[str, float]:
    """Measure what each shard costs, whatever it holds."""
    X, y = case.data(SMALL)
    few, many = (fit_on_shards(case.model(**settings), X, y, n) for n in (2, n_many))
    return {
        "step_of_shard": difference_by_shard(few, many, lambda m: m.shards.sum()),
        "joining_of_shard": difference_by_shard(few, many, lambda m: m.growth),
        "answer_of_shard": difference_by_shard(few, many, lambda m: m.answers.sum()),
    }


# Numbers of positions whose costs are measured.
SMALL, LARGE = 100_000, 1_000_000
SPARSE = 15


def difference_by_shard(few: Fit, many: Fit, value: Callable[[Measured], float]) -> float:
    """Return what each additional shard adds to a value, for the same data."""
    more = many.middle(value) - few.middle(value)
    return max(0.0, more / (len(many.shards.parts) - len(few.shards.parts)))


def catching_up(fit: Fit) -> float:
    """Return the CPU seconds to add the trees to the scores of new shards."""
    forest = fit.model._forest
    step = IterationRequest(0, forest.n_iter, forest, None, 1.0)
    with without_collections():
        return sum(
            timed(lambda part=part, i=i: Shard(fit.shards.setup, {i: part}).run(step))[1]
            for i, part in enumerate(fit.shards.parts)
        )


def growth_in_one(model: TreeCRF, X: list, y: list) -> float:
    """Return the CPU seconds of the growth of an iteration in one process."""
    seconds = []
    grow = SampledGrowth.grow

    def timed_growth(*arguments: Any) -> IterationResult:
        value, spent = timed(grow, *arguments)
        seconds.append(spent)
        return value

    with patch.object(SampledGrowth, "grow", timed_growth), without_collections():
        model.fit(X, y)
    return median(seconds[SETTLED:])


def costs(names: list[str], arguments: argparse.Namespace) -> None:
    """Measure unit costs and store them."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names:
        results[name] = asdict(measure_costs(name, arguments))
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def stored_costs() -> dict[str, Costs]:
    return {name: Costs(**costs) for name, costs in json.loads(RESULTS.read_text()).items()}


def table_of_costs() -> str:
    header = ("data", "step, us per position", "ms of examples",
              "ms of a shard", "growth ms", "answers MB", "kB of a shard", "joining ms",
              "joining, ms of a shard", "trees kB", "preparing, us per position",
              "catching up, us per position and iteration")  # fmt: skip
    rows = [
        [name, f"{1e6 * c.step:.3f}",
         f"{1e3 * c.step_examples:.0f}", f"{1e3 * c.step_of_shard:.2f}", f"{1e3 * c.growth:.0f}",
         f"{c.answers / 1e6:.1f}", f"{c.answer_of_shard / 1e3:.1f}",
         f"{1e3 * c.joining * c.answers:.0f}", f"{1e3 * c.joining_of_shard:.2f}",
         f"{c.trees / 1e3:.0f}", f"{1e6 * c.preparing:.2f}", f"{1e6 * c.catching_up:.3f}"]
        for name, c in stored_costs().items()
    ]  # fmt: skip
    return markdown(header, rows)


# Predictions

POSITIONS = (10**7, 10**8, 10**9)
WORKERS = tuple(2**i for i in range(1, 11))
# Trees of a model, half of which a lost shard has to catch up on in the mean.
ITERATIONS = 100
# Bytes of a position in a file.
BYTES_OF_POSITION = 100.0


def exchange_of(costs: Costs, n_positions: float, n_workers: int) -> Exchange:
    """Extrapolate an iteration: costs of positions are linear, those of shards are constant."""
    n = n_positions / n_workers
    step = costs.step * n + costs.step_examples / n_workers + costs.step_of_shard
    answers = costs.answers / n_workers + costs.answer_of_shard
    return Exchange(
        np.full(n_workers, step),
        np.full(n_workers, answers),
        costs.joining * answers * n_workers + costs.joining_of_shard * n_workers,
        costs.growth,
        costs.trees,
        BYTES_OF_POSITION * n,
        n * (costs.preparing + costs.catching_up * ITERATIONS / 2),
    )


def seconds_on_one(costs: Costs, n_positions: float, cluster: Cluster) -> float:
    """Return the seconds of an iteration on one machine, which runs the same code as a shard."""
    step = costs.step * n_positions + costs.step_examples
    return elapsed_on_one(step, costs.growth, cluster)


def speedup(costs: Costs, n_positions: float, n_workers: int, cluster: Cluster) -> float:
    """Return how much faster an iteration is than on one machine."""
    one = seconds_on_one(costs, n_positions, cluster)
    return one / mean_elapsed(exchange_of(costs, n_positions, n_workers), cluster)


def fastest(costs: Costs, n_positions: float, cluster: Cluster) -> tuple[float, int]:
    """Return the largest speed-up over one machine, and the number of workers."""
    return max((speedup(costs, n_positions, n, cluster), n) for n in WORKERS)


def break_even(costs: Costs, factor: float, cluster: Cluster) -> tuple[float, int]:
    """Return from how many positions on a cluster is faster by a factor, and its workers."""
    low, high = 1e4, 1e13
    while high > 1.1 * low:
        middle = (low * high) ** 0.5
        if fastest(costs, middle, cluster)[0] < factor:
            low = middle
        else:
            high = middle
    return high, fastest(costs, high, cluster)[1]


def predict(cluster: Cluster) -> str:
    """Tables of predicted speed-ups over one machine, and of where one machine is faster."""
    tables = []
    for name, costs in stored_costs().items():
        rows = []
        for n_positions in POSITIONS:
            one = seconds_on_one(costs, n_positions, cluster)
            cells = [f"{speedup(costs, n_positions, n, cluster):.1f}" for n in WORKERS]
            rows.append([f"10^{np.log10(n_positions):.0f}", f"{one:.2f}", *cells])
        header = ("positions", "one machine, s", *map(str, WORKERS))
        tables.append(f"### {name}\n\n{markdown(header, rows)}\n")
    header = ("data", *(f"{factor:g} times faster" for factor in FACTORS))
    rows = [
        [name, *(even_cell(costs, factor, cluster) for factor in FACTORS)]
        for name, costs in stored_costs().items()
    ]
    return "\n".join([*tables, markdown(header, rows), "", sensitivity(cluster)])


FACTORS = (1.1, 2.0, 4.0, 8.0, 16.0)


def even_cell(costs: Costs, factor: float, cluster: Cluster) -> str:
    n_positions, n_workers = break_even(costs, factor, cluster)
    power = int(np.log10(n_positions))
    return f"{n_positions / 10**power:.0f}·10^{power} ({n_workers} workers)"


def sensitivity(cluster: Cluster, n_positions: float = 1e9, n_workers: int = 64) -> str:
    """Table of speed-ups under other assumptions."""
    changes = {
        "as above": {},
        "1 Gbit/s": {"bandwidth": cluster.bandwidth / 10},
        "100 Gbit/s": {"bandwidth": cluster.bandwidth * 10},
        "latency of 10 ms": {"latency": 0.01},
        "2 ms for the task of a shard": {"task": 0.002},
        "straggling 0.5": {"straggling": 0.5},
        "no losses": {"loss": 0.0},
        "losses 10 times as probable": {"loss": 10 * cluster.loss},
    }
    all_costs = stored_costs()
    rows = [
        [name, *(f"{speedup(costs, n_positions, n_workers, replace(cluster, **change)):.1f}"
                 for costs in all_costs.values())]
        for name, change in changes.items()
    ]  # fmt: skip
    title = f"{n_workers} workers, 10^{np.log10(n_positions):.0f} positions"
    return markdown((title, *all_costs), rows)


def draw(cluster: Cluster) -> None:
    """Draw the predicted speed-ups."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "scale"
    all_costs = stored_costs()
    shown = [name for name in PANELS if name in all_costs]
    figure, axes = plt.subplots(
        1, len(shown), figsize=(10, 3.4), layout="constrained", sharey=True, squeeze=False
    )
    for ax, name in zip(axes[0], shown, strict=True):
        for n_positions, marker in zip(POSITIONS, "os^", strict=True):
            speedups = [speedup(all_costs[name], n_positions, n, cluster) for n in WORKERS]
            label = f"$10^{np.log10(n_positions):.0f}$ positions"
            ax.plot(WORKERS, speedups, marker=marker, markersize=4, label=label)
        ax.plot(WORKERS, WORKERS, color="gray", linestyle="dashed", linewidth=1, label="ideal")
        ax.axhline(1, color="gray", linewidth=0.5)
        ax.set(title=name, xlabel="workers", xscale="log", yscale="log", ylim=(0.1, 1100))
        ax.set_xticks([2, 8, 32, 128, 512], labels=["2", "8", "32", "128", "512"], minor=False)
        ax.set_yticks([0.1, 1, 10, 100, 1000], labels=["0.1", "1", "10", "100", "1000"])
        ax.minorticks_off()
    axes[0][0].set_ylabel("predicted speed-up over one machine")
    axes[0][0].legend(fontsize="small")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"\nwritten: {PICTURE.name}")


PANELS = ("symbols, 3 labels", "20 numbers, 5 labels", "text, 22 labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("exchanges", "costs", "predict"))
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--positions", nargs="+", type=int, default=[1_000_000])
    parser.add_argument("--shards", nargs="+", type=int, default=[64])
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--max-examples", type=int, default=300_000)
    arguments = parser.parse_args()
    if arguments.table == "predict":
        print(f"{Cluster()}\n\n{predict(Cluster())}")
        draw(Cluster())
    elif arguments.table == "costs":
        costs(arguments.cases, arguments)
        print(table_of_costs())
    else:
        for name in arguments.cases:
            print(f"### {name}\n\n{exchanges(name, arguments)}\n", flush=True)


if __name__ == "__main__":
    main()
