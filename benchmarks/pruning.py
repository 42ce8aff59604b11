"""Pruning of trees by held-out data, which Ashenfelter's thesis (2003, section 4.2) proposes.

Reduced-error pruning: after each iteration, a node of the new trees becomes a leaf if the subtree
below it does not raise the second-order approximation of the likelihood of the validation
sequences. Half of the training sequences train, a sixth validates, and a third tests. Early
stopping uses the validation sequences, too. The third row of each kind of trees uses them for
training instead, for the number of iterations of the first. The test data are not used.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from measure import markdown
from papers_data import NAMES, Split, load
from settings import papers_model

import treecrf.learners.boosted.base as base
from treecrf import TreeCRF
from treecrf.learners.boosted.engine import Engine, make_engine
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

TREES = {
    "original, 30 leaves": {"l2_regularization": 0.0, "max_leaf_nodes": 30},
    "original, 100 leaves": {"l2_regularization": 0.0, "max_leaf_nodes": 100},
    "shrinkage, 100 leaves": {"l2_regularization": 40.0, "max_leaf_nodes": 100},
    "Newton, 64 leaves": {"second_order": True, "learning_rate": 0.3, "l2_regularization": 20.0,
                          "max_leaf_nodes": 64, "curvature": "auto"},
}  # fmt: skip
WAYS = ("early stopping", "pruned, early stopping", "all data, same iterations")
PATIENCE, MAX_ITER = 10, 150
HEADER = ("data", "trees", "way", "iterations", "leaves", "log-likelihood per label", "labels %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for data in arguments.data:
        for trees in TREES:
            found = np.array([evaluated(data, trees, seed) for seed in range(arguments.splits)])
            for way, (n_iter, leaves, value, right) in zip(WAYS, found.mean(axis=0), strict=True):
                cells = f"{n_iter:.0f}", f"{leaves:.0f}", f"{value:.4f}", f"{100 * right:.2f}"
                rows.append([data, trees, way, *cells])
                print(*rows[-1], flush=True)
    print(markdown(HEADER, rows))


def evaluated(data: str, trees: str, seed: int) -> list[tuple[float, float, float, float]]:
    """Iterations, leaves of a tree, log-likelihood and accuracy of each way on the test third."""
    task = load(data)
    n = len(task.train.letters)
    order = np.random.default_rng(seed).permutation(n)
    train, validation, test = (
        task.train.take(part) for part in np.split(order, [n // 2, 2 * n // 3])
    )
    settings = {"window": task.window, "n_jobs": 1, "random_state": 0, **TREES[trees]}
    model = papers_model(TreeCRF, max_iter=MAX_ITER, **settings)
    rows = []
    for is_pruning in (False, True):
        engine = engine_of(model, train, validation)
        n_iter, leaves = boosted(engine, is_pruning)
        trained = replace(engine.trained, forest=engine.booster.forest.copy(n_iter))
        rows.append((n_iter, leaves, *scores_of(model._copy_of(trained), test)))
    model.set_params(max_iter=max(rows[0][0], 1))
    model.fit(train.letters + validation.letters, train.targets() + validation.targets())
    return [*rows, (*rows[0][:2], *scores_of(model, test))]


def scores_of(model: TreeCRF, data: Split) -> tuple[float, float]:
    X, y = data.letters, data.targets()
    return model.predict_log_likelihood(X, y).sum() / sum(map(len, y)), model.score(X, y)


def engine_of(model: TreeCRF, train: Split, validation: Split) -> Engine:
    """Return what `fit` would train with."""
    arguments: list = []

    def keep(spec, data, *others):
        arguments.extend((spec, data))
        raise StopIteration

    original, base.train = base.train, keep
    try:
        model.fit(train.letters, train.targets(), X_val=validation.letters,
                  y_val=validation.targets())  # fmt: skip
    except StopIteration:
        pass
    finally:
        base.train = original
    return make_engine(*arguments, None, Threads(1))


def boosted(engine: Engine, is_pruning: bool) -> tuple[int, float]:
    """Train until early stopping; return the best iteration and the mean leaves of its trees."""
    booster, validation = engine.booster, engine.validation
    forest, values, n_leaves = booster.forest, [], []
    while True:
        values.append(validation.value(forest))
        best = int(np.argmax(values))
        if len(values) > best + PATIENCE or forest.n_iter == MAX_ITER:
            return best, float(np.mean(n_leaves[: max(best, 1)]))
        residuals, curvature, _ = validation.objective.examples(validation.scores, forest.n_iter)
        exists = np.ones(residuals.shape[1:], dtype=bool)
        exists[validation.encoded.offsets[:-1], 1:] = False  # first positions have one context
        examples = residuals.copy(), exists * (1.0 if curvature is None else curvature.copy())
        booster.step()
        new = forest.iterations(forest.n_iter - 1, forest.n_iter)
        if is_pruning:
            pruned = pruned_trees(engine, new, *np.broadcast_arrays(*examples, exists))
            before, after = (
                trees.scores(booster.encoder, booster.whole, booster.threads)
                for trees in (new, pruned)
            )
            booster.scores += after - before
            forest.trees[-len(new.trees) :] = pruned.trees
            new = pruned
        n_leaves.append(np.mean([(tree["true_child"] < 0).sum() for tree in new.trees]))


def pruned_trees(
    engine: Engine, grown: Forest, residuals: np.ndarray, curvature: np.ndarray, exists: np.ndarray
) -> Forest:
    booster, validation = engine.booster, engine.validation
    numbered, pruned = (grown.some(0, len(grown.trees)) for _ in range(2))
    numbered.trees = [tree | {"leaf": np.arange(len(tree["leaf"]), dtype=float)}
                      for tree in grown.trees]  # fmt: skip
    leaves = numbered.scores(booster.encoder, validation.encoded, booster.threads).astype(int)
    pruned.trees = []
    for k, tree in enumerate(grown.trees):
        examples = [values[k][exists[k]] for values in (leaves, residuals, curvature)]
        pruned.trees.append(pruned_tree(tree, *examples, booster.growth))
    return pruned


def pruned_tree(tree: dict, leaves: np.ndarray, residuals, curvature, growth) -> dict:
    """Prune from the leaves to the root; ``leaves`` are those that validation examples reach."""
    tree = {name: values.copy() for name, values in tree.items()}
    n, penalty, rate = len(tree["leaf"]), growth.l2_regularization, growth.learning_rate
    up, curved = (np.bincount(leaves, values, n) for values in (residuals, curvature))
    weights = np.where(tree["true_child"] < 0, tree["weight"], 0.0).astype(float)
    sums = tree["leaf"] * (weights + penalty) / rate  # of the training residuals

    def gain(node: int) -> float:
        children = [tree[name][node] for name in ("true_child", "false_child")]
        below = sum(map(gain, children)) if children[0] >= 0 else -np.inf
        if children[0] >= 0:
            for values in (up, curved, weights, sums):
                values[node] = values[children].sum()
        value = rate * sums[node] / max(weights[node] + penalty, 1e-12)
        own = up[node] * value - curved[node] * value**2 / 2
        if own < below:
            return below
        tree["true_child"][node] = tree["false_child"][node] = -1
        tree["leaf"][node] = value
        return own

    gain(0)
    kept = sorted(nodes_below(tree, 0))
    numbers = np.full(n, -1)
    numbers[kept] = np.arange(len(kept))
    for name in ("true_child", "false_child"):
        is_inner = tree[name] >= 0
        tree[name][is_inner] = numbers[tree[name][is_inner]]
    return {name: values[kept] if len(values) == n else values for name, values in tree.items()}


def nodes_below(tree: dict, node: int) -> list[int]:
    children = [tree[name][node] for name in ("true_child", "false_child")]
    if children[0] < 0:
        return [node]
    return [node, *(below for child in children for below in nodes_below(tree, child))]


if __name__ == "__main__":
    main()
