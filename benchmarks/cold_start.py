"""Cold start: a new process imports the package, opens a model, and labels one sequence.

The models label chunks of CoNLL-2000 by the word and its part of speech. ``LinearCRF``, ``TreeCRF``
and python-crfsuite are trained on every twelfth sentence. Each row is the median of new processes
that take turns with those of the other rows: the CPU time and the largest memory of a process, and
the CPU time as a multiple of that of a process that does nothing but import NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import markdown

from treecrf import LinearCRF, TreeCRF
from treecrf.crfsuite import Trainer
from treecrf.datasets import fetch_conll2000

STEP = 12
SENTENCE = [
    {"word": "The", "tag": "DT"},
    {"word": "pound", "tag": "NN"},
    {"word": "rose", "tag": "VBD"},
]
USE = """
import time
with open("/proc/self/status") as status:  # of Linux; getrusage counts the memory of the parent
    peaks = [line.split()[1] for line in status if line.startswith("VmHWM:")]
print(time.process_time(), int(peaks[0]) / 1024)
"""
RUNTIME = "from treecrf import runtime; runtime.load({{{}!r}}).predict([{{sentence!r}}])"
ESTIMATOR = "import treecrf; treecrf.load({{{}!r}}).predict([{{sentence!r}}])"
TAGGER = "tagger = {}.Tagger(); tagger.open({{{}!r}}); tagger.tag({{sentence!r}})"
PROCESSES = {
    "Python alone": "",
    "`import numpy`": "import numpy",
    "python-crfsuite": "import pycrfsuite; " + TAGGER.format("pycrfsuite", "crfsuite"),
    "`treecrf.runtime`, linear": RUNTIME.format("linear"),
    "`treecrf.runtime`, trees": RUNTIME.format("trees"),
    "`treecrf.crfsuite.Tagger`": "from treecrf import crfsuite; "
    + TAGGER.format("crfsuite", "trained"),
    "`treecrf.load`, linear": ESTIMATOR.format("linear"),
    "`treecrf.load`, trees": ESTIMATOR.format("trees"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        values = write_models(Path(folder))
        codes = {name: code.format(**values) for name, code in PROCESSES.items()}
        if "crfsuite" not in values:
            del codes["python-crfsuite"]
        uses = {name: [] for name in codes}
        for _ in range(arguments.repeats):
            for name, code in codes.items():
                uses[name].append(use_of(code))
    numpy_times = [seconds for seconds, _ in uses["`import numpy`"]]
    rows = []
    for name, found in uses.items():
        seconds, megabytes = zip(*found, strict=True)
        ratios = [own / other for own, other in zip(seconds, numpy_times, strict=True)]
        rows.append(
            [
                name,
                f"{1e3 * statistics.median(seconds):.0f}",
                f"{statistics.median(ratios):.2f}",
                f"{statistics.median(megabytes):.0f}",
            ]
        )
    print(markdown(["process", "CPU, ms", "of NumPy", "memory, MB"], rows))


def write_models(folder: Path) -> dict:
    """Train and save the models; return the settings of the processes."""
    X, y = fetch_conll2000(return_X_y=True)
    X = X[::STEP]
    y = y[::STEP]
    values = {"sentence": SENTENCE}
    for name, model in {"linear": LinearCRF(window=1), "trees": TreeCRF(window=1)}.items():
        values[name] = str(folder / f"{name}.treecrf")
        model.fit(X, y).save(values[name])
    trainers = {"trained": Trainer(verbose=False)}
    with contextlib.suppress(ModuleNotFoundError):
        import pycrfsuite

        trainers["crfsuite"] = pycrfsuite.Trainer(verbose=False)
    for name, trainer in trainers.items():
        for items, labels in zip(X, y, strict=True):
            trainer.append(items, labels)
        values[name] = str(folder / name)
        trainer.train(values[name])
    return values


def use_of(code: str) -> tuple[float, float]:
    """Return the seconds of CPU time and the megabytes that a new process takes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once
    command = [sys.executable, "-c", code + USE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


if __name__ == "__main__":
    main()
