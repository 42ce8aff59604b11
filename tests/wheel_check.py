"""A short check of an installed wheel: train, predict, save, load. Needs no test tools."""

import re
import tempfile
from importlib.metadata import metadata
from pathlib import Path

import numpy as np

import treecrf


def main() -> None:
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(0, 2, 10), 5) for _ in range(30)]
    X = [labels[:, None] + 0.5 * rng.normal(size=(50, 3)) for labels in y]
    crf = treecrf.TreeCRF(window=1, max_iter=20).fit(X[:20], y[:20])
    accuracy = crf.score(X[20:], y[20:])
    assert accuracy > 0.9, accuracy
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.treecrf"
        crf.save(path)
        again = treecrf.load(path)
        treecrf.export_c(crf, Path(folder) / "labeler.c")
    for before, after in zip(crf.predict_proba(X[20:]), again.predict_proba(X[20:]), strict=True):
        assert np.array_equal(before, after)
    # Links to files of the repository would be dead on the page of a package index.
    links = re.findall(r"\]\(([^)]*)\)", metadata("treecrf").get_payload())
    assert links and all(link.startswith("https://") for link in links), links
    print(f"treecrf {treecrf.__version__}: accuracy {accuracy:.3f}, saved model agrees")


if __name__ == "__main__":
    main()
