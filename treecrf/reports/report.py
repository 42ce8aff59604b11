"""Reports: what a model does on some sequences, as a page that one opens in a browser."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treecrf._version import __version__
from treecrf.encoding.names import feature_names
from treecrf.inputs.dataset import named
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import integer_between
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.reports.comparison import check_other, comparison
from treecrf.reports.drift import drift
from treecrf.reports.evaluation import UNKNOWN, Data, Predictions, checked_sequences
from treecrf.reports.explanations import explanations
from treecrf.reports.inside import (
    described_model,
    effects,
    gains_of_trees,
    importances,
    transitions,
)
from treecrf.reports.page import page
from treecrf.reports.scores import (
    SequenceCounts,
    accuracy_by_segment_length,
    accuracy_near_boundaries,
    calibration_table,
    confusion_table,
    count_changes,
    label_scores,
    resampling_weights,
    scores_with_intervals,
)
from treecrf.reports.timelines import packed_positions, sequence_summaries
from treecrf.utils.model_file import replace_file
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike

N_EXPLAINED = 100
MAX_EXPLAINED = 1000
# How every report begins, so that a new one may replace it.
BEGINNING = "<!doctype html>\n<!-- report of treecrf -->"


@dataclass(frozen=True)
class Report:
    """A page in HTML that describes a model, from `report`.

    Notebooks show the page as the last value of a cell.

    Attributes
    ----------
    html : str
        The whole page. It loads nothing from elsewhere.

    See Also
    --------
    report : Make a report.

    Examples
    --------
    >>> from treecrf import TreeCRF, report
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> page = report(TreeCRF(max_iter=5).fit(X, y), X, y)
    >>> page.html.startswith("<!doctype html>")
    True
    """

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path-like
            File to write, such as ``"report.html"``. An existing file is replaced only if it is a
            report or empty.

        Raises
        ------
        ValueError
            If the file exists and is not a report.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from treecrf import TreeCRF, report
        >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> report(TreeCRF(max_iter=5).fit(X, y), X, y).save(path)
        >>> path.exists()
        True
        """
        check_report_output(path)
        replace_file(path, self.html.encode("utf-8", "backslashreplace"))

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        from html import escape

        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 800px; border: 0" '
            'title="Report"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Report of {len(self.html):,} characters; save(path) writes it to a file>"


def check_report_output(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if a file exists that is not a report; it would be lost."""
    file = Path(path)
    if not file.exists():
        return
    is_report = file.is_file()
    if is_report:
        with open(file, "rb") as opened:
            is_report = opened.read(len(BEGINNING)) in (BEGINNING.encode(), b"")
    if not is_report:
        raise ValueError(f"{path}: exists and is not a report of treecrf; it is not overwritten")


def report(
    model: Any,
    X: SequencesLike,
    y: LabelsLike | None = None,
    *,
    other: Any = None,
    X_train: SequencesLike | None = None,
    symbols: Any = None,
    title: str | None = None,
    n_explained: int = N_EXPLAINED,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    groups_train: GroupsLike = None,
) -> Report:
    """Describe a model and its predictions on one page, to open in a browser and to pass on.

    The page is a single HTML file without links to others. It shows:

    - scores with confidence intervals, and the confusion of labels;
    - accuracy by the length of segments and near their ends, and calibration;
    - every sequence as a timeline of true and predicted labels and of probabilities;
    - contributions to the scores where the model is most wrong;
    - importances, transitions, and the effects of features.

    In the browser, use the arrow keys to step through positions and sequences, and + and - to zoom.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    X : list of sequences, or one long table
        Data to label, preferably not the training data, as in `treecrf.TreeCRF.predict`.
    y : list of array-like of shape (n_positions,), array-like or str, default=None
        True labels, or the name of the data frame column that holds them. Positions whose label is
        unknown do not count in the scores. Without y, the page shows the predictions and how
        certain they are.
    other : fitted classifier, default=None
        A second model with the same labels, to compare with the first. The page then shows the
        differences of all scores with confidence intervals, McNemar's test, and the sequences in
        which the predictions differ. This requires y.
    X_train : list of sequences, or one long table, default=None
        Training data. If given, the page shows which columns of X are distributed differently.
    symbols : str or list, default=None
        Texts of the positions, which the page highlights by label: the name of a column or key of
        X, or a list of strings for each sequence. By default, this is the input if it consists of
        symbols.
    title : str, default=None
        Title of the page. By default, the class of the model and the number of positions.
    n_explained : int, default=100
        Number of positions whose scores are explained, at most 1,000. These are the positions with
        the greatest log loss, wrong ones first. Without labels, they are the least certain ones.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.
    groups_train : array-like of shape (n_positions,) or str, default=None
        The ``groups`` of a long table ``X_train``.

    Returns
    -------
    Report
        The page. Its method ``save(path)`` writes it to a file, and notebooks show it.

    Raises
    ------
    NotFittedError
        If a model is not fitted.
    ValueError, TypeError
        If the data do not match the model or have no positions, the models have different labels,
        or an argument is invalid.

    See Also
    --------
    treecrf.metrics.paired_bootstrap : Compare a metric of two models.
    treecrf.inspection.contributions : Explain the scores of all positions.

    Notes
    -----
    The confidence intervals contain 95 % of the scores of 1,000 resamples of whole sequences. A
    single sequence has none. The page stores at most three probabilities for each position, in
    steps of 1/255.

    Examples
    --------
    >>> from treecrf import TreeCRF, report
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5).fit(X, y)
    >>> page = report(crf, X, y, title="Consonants and vowels")
    >>> "<title>Consonants and vowels</title>" in page.html
    True
    """
    data = Data.of(model, X, y, lengths, groups, symbols)
    training = None
    if X_train is not None:
        with named("X_train"):
            training = checked_sequences(model, X_train, None, groups_train)
    return report_of(model, data, other, training, title, n_explained)


def report_of(
    model: SequenceClassifier,
    data: Data,
    other: Any = None,
    training: Sequences | None = None,
    title: str | None = None,
    n_explained: int = N_EXPLAINED,
) -> Report:
    """Make the report of checked data; see `report`."""
    n_explained = integer_between("n_explained", n_explained, 0, MAX_EXPLAINED, "")
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title={title!r}; expected a str")
    if other is not None:
        check_other(model, other, data)
    predictions = Predictions.of(model, data.sequences)
    counts = None if data.true is None else SequenceCounts.of(data, predictions)
    n_labels = len(model.classes_)
    gains = gains_of_trees(model)
    weights = resampling_weights(len(data.names))
    contents = {
        "title": (title or "").strip()
        or f"{type(model).__name__} on {data.sequences.n_positions:,} positions",
        "labels": [str(label) for label in model.classes_.tolist()],
        "model": described_model(model),
        "positions": packed_positions(data, predictions),
        "sequences": sequence_summaries(data, predictions),
        "certainty": float(predictions.proba.max(axis=1).mean()),
        "predicted": np.bincount(predictions.codes, minlength=n_labels).tolist(),
        "explanations": explanations(model, data, predictions, n_explained),
        "importances": importances(model, gains),
        "transitions": transitions(model, data.sequences),
        "effects": effects(model, data.sequences, gains),
        "evaluation": None,
        "comparison": None,
        "training": None,
        "version": __version__,
    }
    if counts is not None:
        contents["evaluation"] = _evaluation(data, predictions, counts, weights)
    if other is not None:
        contents["comparison"] = comparison(other, data, predictions, counts, weights)
    if training is not None:
        names = feature_names(fitted_model(model).chain.schema).tolist()
        contents["training"] = {
            "n_sequences": len(training.offsets) - 1,
            "n_positions": training.n_positions,
            "drift": drift(training, data.sequences, names),
        }
    return Report(page(contents, BEGINNING))


def _evaluation(
    data: Data, predictions: Predictions, counts: SequenceCounts, weights: np.ndarray
) -> dict[str, Any]:
    """Return all scores and tables that need labels."""
    true = data.true
    predicted = predictions.codes
    confusion = confusion_table(true, predicted, predictions.proba.shape[1])
    by_label = {name: values.tolist() for name, values in label_scores(confusion).items()}
    changes = None
    if (true != UNKNOWN).all():
        changes = [count_changes(codes, data.offsets) for codes in (true, predicted)]
    return {
        "n_unknown": int(np.sum(true == UNKNOWN)),
        "scores": scores_with_intervals(counts, weights),
        "confusion": confusion.tolist(),
        "by_label": by_label,
        "calibration": calibration_table(true, predictions),
        "by_length": accuracy_by_segment_length(true, predicted, data.offsets),
        "by_distance": accuracy_near_boundaries(true, predicted, data.offsets),
        "changes": changes,
    }
