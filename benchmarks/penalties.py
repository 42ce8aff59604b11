"""LinearCRF with the default penalty and with a chosen one, on held-out training data of projects.

The projects that use CRFsuite, their attributes and the division of their data are those of
`client_sets.py`. Of the training part, every fourth sequence is held out. Cells are the chosen
penalty, and with a penalty of 1 and with ``"auto"`` the percentage of correct labels, the mean
log-likelihood of a label, and CPU seconds of the fit.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pooch
from client_sets import CLIENTS
from clients import read
from measure import markdown
from real_files import SOURCE

from treecrf import LinearCRF

PENALTIES = (1.0, "auto")
NAMES = ["usaddress", "ingredient-parser", "myPOS"]
HEADER = ["data", "chosen", "% with 1", "auto", "log P with 1", "auto", "s with 1", "auto"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CLIENTS), default=NAMES)
    parser.add_argument("--clients", type=Path, default=Path(pooch.os_cache("treecrf"), "clients"))
    parser.add_argument("--source", default=SOURCE, help="address that the files are under")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        data = read(CLIENTS[name], arguments.clients, arguments.source).part(False)
        rows.append([name, *compared(data.attributes, data.labels)])
    print(markdown(HEADER, rows))


def compared(X: list, y: list[list[str]]) -> list[str]:
    """Fit both penalties to three of four sequences, and return the cells of a row."""
    train = [i for i in range(len(X)) if i % 4 != 3]
    models = [LinearCRF(l2_regularization=penalty) for penalty in PENALTIES]
    times = []
    for model in models:
        start = time.process_time()
        model.fit([X[i] for i in train], [y[i] for i in train])
        times.append(f"{time.process_time() - start:.2f}")
    found = [scores(model, X[3::4], y[3::4]) for model in models]
    accuracies, likelihoods = zip(*found, strict=True)
    return [f"{models[1].l2_regularization_:g}", *accuracies, *likelihoods, *times]


def scores(model: LinearCRF, X: list, y: list[list[str]]) -> tuple[str, str]:
    """Return the accuracy, and the mean log-likelihood where no label is new."""
    known = [i for i, labels in enumerate(y) if set(labels) <= set(model.classes_)]
    total = sum(model.predict_log_likelihood([X[i] for i in known], [y[i] for i in known]))
    n_positions = sum(len(y[i]) for i in known)
    return f"{100 * model.score(X, y):.1f}", f"{total / n_positions:.3f}"


if __name__ == "__main__":
    main()
