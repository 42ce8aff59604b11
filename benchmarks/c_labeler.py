"""Labelers in C: their size and their time for a sentence, beside Python and python-crfsuite.

All models are trained on every fifteenth sentence of CoNLL-2000: TreeCRF and LinearCRF on the words
of a window, and CRFsuite on its usual conjunctions of words and tags. The C code is compiled by
``cc``. Times are CPU milliseconds for a sentence, the mean of 300 in the fastest of a few rounds.
Those of C include the look-up of names and words; those of CRFsuite exclude the making of
attributes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pycrfsuite
from chunking import conjunctions
from measure import markdown
from words import Sentences, plain_sentences

from treecrf import LinearCRF, TreeCRF, export_c
from treecrf.datasets import fetch_conll2000

EVERY = 15
N_SENTENCES = 300
PROGRAM = Path(__file__).with_suffix(".c")
MODELS = {
    "TreeCRF(window=2)": TreeCRF(window=2),
    "LinearCRF(window=2, l1_regularization=0.1)": LinearCRF(window=2, l1_regularization=0.1),
}
HEADER = (
    "model", "model file, kB", "C file, kB", "object, kB", "compile, s", "Python, ms", "C, ms",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    X, y = fetch_conll2000(return_X_y=True)
    new = X[1 : EVERY * N_SENTENCES : EVERY]
    X, y = X[::EVERY], y[::EVERY]
    with tempfile.TemporaryDirectory() as name:
        rows = [
            exported(name_of_model, model.fit(plain_sentences(X), y), new, Path(name), repeats)
            for name_of_model, model in MODELS.items()
        ]
        rows.append(crfsuite(X, y, new, Path(name) / "crfsuite", repeats))
    print(markdown(HEADER, rows))


def exported(name: str, model: Any, new: list, folder: Path, repeats: int) -> list[str]:
    """Measure a model and its labeler in C."""
    items = plain_sentences(new)
    model.save(folder / "model")
    export_c(model, folder / "labeler.c")
    compile_seconds = compiled(folder)
    (folder / "sentences").write_bytes(strings_of(items))
    command = [folder / "labeler", folder / "sentences", str(4 * repeats)]
    seconds = float(subprocess.run(command, check=True, capture_output=True).stdout)
    sizes = [os.path.getsize(folder / file) for file in ("model", "labeler.c", "labeler.o")]
    in_python = mean_seconds(lambda x: model.predict([x]), items, repeats)
    return [
        name,
        *(f"{size / 1e3:.0f}" for size in sizes),
        f"{compile_seconds:.1f}",
        f"{1e3 * in_python:.3f}",
        f"{1e3 * seconds:.3f}",
    ]


def compiled(folder: Path) -> float:
    """Compile a labeler for size and for speed; return the CPU seconds of the first."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(["cc", "-std=c99", "-Os", "-c", "labeler.c"], cwd=folder, check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    command = ["cc", "-std=c99", "-O2", "-I.", PROGRAM, "labeler.c", "-lm", "-o", "labeler"]
    subprocess.run(command, cwd=folder, check=True)
    return seconds


def strings_of(items: Sentences) -> bytes:
    """Return sentences as the program reads them."""
    strings: list[str] = []
    for item in items:
        strings.append(str(len(item)))
        for values in item:
            strings.append(str(len(values)))
            strings += [text for pair in values.items() for text in pair]
    return b"".join(text.encode() + b"\0" for text in strings)


def crfsuite(X: Sentences, y: list, new: Sentences, path: Path, repeats: int) -> list[str]:
    """Measure CRFsuite."""
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100})
    for x, labels in zip(X, y, strict=True):
        trainer.append(conjunctions(x), list(labels))
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    seconds = mean_seconds(tagger.tag, [conjunctions(x) for x in new], repeats)
    size = f"{os.path.getsize(path) / 1e3:.0f}"
    return ["CRFsuite, conjunctions, c1=0.1, c2=0.1", size, "", "", "", f"{1e3 * seconds:.3f}", ""]


def mean_seconds(call: Callable, items: list, repeats: int) -> float:
    """CPU seconds of a call, the mean over the items, in the fastest of a few rounds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for item in items:
            call(item)
        times.append(time.process_time() - start)
    return min(times) / len(items)


if __name__ == "__main__":
    main()
