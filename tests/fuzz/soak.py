"""Fit and predict thousands of times in one process, which must not grow: ``make soak``.

Memory, open files and threads are compared with those after the first tenth of the rounds. Needs
Linux.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# Of an estimator, in bytes. The allocator of C keeps some memory for later.
MAX_GROWTH = 1 << 20
X = ["abcab", "d", "bbacd", "cad"]
Y = [list(labels) for labels in ("xyzxy", "y", "yyxzz", "zxx")]


def resources() -> tuple[int, int, int]:
    """Measure resident memory in bytes, and count open files and threads."""
    time.sleep(0.1)  # for threads that have been joined to leave the list of the system
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return memory, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def use(model, path: Path) -> None:
    """Fit a model, predict in all ways, and save and load it."""
    import treecrf

    model.fit(X, Y)
    model.predict_proba(X)
    model.decode(X, n_best=2)
    model.predict_log_likelihood(X, Y)
    if getattr(model, "estimator", None) is None:
        model.save(path)
        model = treecrf.load(path)
    else:  # which other libraries cannot save without code
        model = pickle.loads(pickle.dumps(model))
    model.predict(X)


def soak(name: str, rounds: int, path: Path) -> bool:
    """Use an estimator; print the figures and return whether nothing grew."""
    from sklearn.base import clone
    from support.family import FAMILY

    model = clone(FAMILY[name])
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=2)
    first = max(1, rounds // 10)
    start = time.process_time()
    for _ in range(first):
        use(model, path)
    memory, *others = resources()
    for _ in range(rounds - first):
        use(model, path)
    memory_after, *others_after = resources()
    passed = memory_after < memory + MAX_GROWTH and others_after == others
    print(
        f"{'ok  ' if passed else 'GREW'} {name}: {memory / 2**20:.2f} -> "
        f"{memory_after / 2**20:.2f} MiB; files, threads: {others} -> {others_after}; "
        f"{time.process_time() - start:.0f} s",
        flush=True,
    )
    return passed


def main() -> int:
    """Use all estimators; return 1 if something grew."""
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]
    from support.family import FAMILY

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="of each estimator")
    parser.add_argument("--names", nargs="+", default=sorted(FAMILY), choices=sorted(FAMILY))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before = resources()
    with tempfile.TemporaryDirectory() as folder:
        passed = [soak(name, options.rounds, Path(folder) / "model") for name in options.names]
    print(f"memory, files, threads of the process: {before} -> {resources()}")
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
