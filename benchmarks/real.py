"""TreeCRF and other methods on public labeled sequences, tested on other persons.

The sets are those of `real_sets.py`, the contestants those of `real_contestants.py`. Each result is
stored in a file, so that an interrupted run resumes; to measure one again, remove its file. In
bold: what is not worse than the best by more than one standard error of their difference, by a
bootstrap over test sequences. Times and memory include all choices. ``--held-out`` tests on
training persons only, to choose settings.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pooch
from measure import in_new_process, peak_memory, reset_peak_memory
from real_contestants import CONTESTANTS, available
from real_files import SOURCE, fetch
from real_results import Result, result, summary, table
from real_sequences import Examples, LabeledSequences, Predicted, divided
from real_sets import SETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument(
        "--contestants", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS)
    )
    parser.add_argument("--data", type=Path, default=Path(pooch.os_cache("treecrf"), "real"))
    parser.add_argument("--source", default=SOURCE, help="address that the files are under")
    parser.add_argument("--results", type=Path, default=Path("real_results"))
    parser.add_argument("--held-out", action="store_true", help="test on training persons")
    arguments = parser.parse_args()
    left_out = set(arguments.contestants) - set(available())
    if left_out:
        print(f"not installed, left out: {', '.join(sorted(left_out))}")
    results = {}
    for name in arguments.sets:
        chosen = SETS[name]
        data = chosen.read(
            fetch(chosen.repository, chosen.commit, arguments.data, arguments.source)
        )
        folder = arguments.results / ("held-out" if arguments.held_out else "test") / name
        for contestant in arguments.contestants:
            if contestant not in left_out:
                measure_once(folder / f"{contestant}.json", contestant, data, arguments.held_out)
        results[name] = stored(folder, arguments.contestants)
        print(f"\n**{name}**\n\n{table(results[name])}", flush=True)
    print(f"\n{summary(results)}")


def measure_once(path: Path, contestant: str, data: LabeledSequences, held_out: bool) -> None:
    """Store the results of a contestant in a file, unless it exists."""
    if path.exists():
        return
    found = {way: asdict(result) for way, result in results_of(contestant, data, held_out).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.rename(path)


def stored(folder: Path, contestants: Sequence[str]) -> dict[str, Result]:
    """Return the stored results of a set, by contestant and way of decoding."""
    results = {}
    for name in contestants:
        path = folder / f"{name}.json"
        if path.exists():
            for way, result in json.loads(path.read_text()).items():
                results[f"{name} + {way}" if way else name] = Result(**result)
    return results


# One contestant on one set


def results_of(contestant: str, data: LabeledSequences, held_out: bool) -> dict[str, Result]:
    """Test a contestant in all folds, each in a process of its own; results by way of decoding."""
    names = np.unique(np.concatenate(data.y))
    codes = [np.searchsorted(names, labels) for labels in data.y]
    everything = Examples(data.X, codes, data.persons)
    tested: list[int] = []
    ways: dict[str, list[Predicted]] = {}
    seconds, megabytes = [], []
    divisions = list(divided(data, held_out))
    for train, test in divisions:
        part = everything.take(train)
        X_test = [data.X[i] for i in test]
        found, used, grown = in_new_process(learned, contestant, part, X_test, len(names))
        for way, predicted in found.items():
            ways.setdefault(way, []).append(predicted)
        tested.extend(test)
        seconds.append(used)
        megabytes.append(grown)
    y = [codes[i] for i in tested]
    return {way: result(y, joined(folds), len(names), float(np.mean(seconds)),
                        float(np.mean(megabytes)))
            for way, folds in ways.items()}  # fmt: skip


def learned(
    contestant: str, train: Examples, X_test: list[np.ndarray], n_labels: int
) -> tuple[dict[str, Predicted], float, float]:
    """Learn and predict; return the predictions, CPU seconds, and growth of memory in MB."""
    if contestant == "convolutions":
        importlib.import_module("real_net")  # imports are not measured
    before, start = reset_peak_memory(), time.process_time()
    found = CONTESTANTS[contestant](train, n_labels)(X_test)
    return found, time.process_time() - start, (peak_memory() - before) / 1e6


def joined(folds: list[Predicted]) -> Predicted:
    """Join the predictions of all folds."""
    labels = [each for fold in folds for each in fold.labels]
    return Predicted(labels, [each for fold in folds for each in fold.probabilities])


if __name__ == "__main__":
    main()
