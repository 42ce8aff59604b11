"""What training expects of labels, and which sequences it uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from treecrf.chains.partial_labels import completed, known_examples, unknown_labels
from treecrf.chains.transitions import as_transitions, check_labels
from treecrf.inputs.dataset import RawData, as_weights
from treecrf.inputs.fold_groups import read_fold_groups
from treecrf.inputs.labels import Labels
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.label_arguments import cost_table, with_init_score
from treecrf.learners.base.training_data import LabeledSequences

NO_KNOWN_LABELS = "y holds no known labels"
NO_SYMBOLS = "all symbols of X are missing, except in sequences that are left out"


@dataclass(frozen=True, kw_only=True)
class LabelRules:
    """What an estimator expects of labeled sequences, and how it uses them.

    A message is the text of a ValueError, or None if the estimator supports what it refuses.
    """

    order: int  # number of previous labels that a label depends on
    transitions: Any  # parameter of the estimator
    cost_matrix: Any  # parameter of the estimator
    classes: np.ndarray | None = None  # the labels; None until they are read
    unknown_error: str | None = None  # message for unknown labels
    init_score_error: str | None = None  # message for initial scores
    is_backward: bool = False  # whether training begins at the end of the sequences
    # Whether positions have weight 0 if their label, or a previous one that matters, is unknown.
    uses_known_examples: bool = False

    def checked(
        self,
        raw: RawData,
        sequences: Sequences,
        labels: Labels,
        masks: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> LabeledSequences:
        """Check what has been read, and return it in the direction of the input.

        Unknown labels are completed to a possible sequence.
        """
        classes = self.classes
        if raw.init_score is not None:
            sequences = with_init_score(
                sequences, raw.init_score, raw.segmentation, classes, self.init_score_error
            )
        codes, candidates = labels.encoded(classes)
        if self.cost_matrix is not None:
            cost_table(self.cost_matrix, classes)
        if candidates is None:
            check_labels(self.transitions, self.order, classes, codes, sequences.offsets, masks)
        elif self.unknown_error is not None:
            labels.refuse_unknown(self.unknown_error)
        else:
            rules = as_transitions(self.transitions, classes, self.order)
            codes, candidates = completed(candidates, masks, rules, classes, sequences.offsets)
        folds = read_fold_groups(raw.fold_groups, sequences.offsets, raw.segmentation)
        return LabeledSequences(sequences, codes, masks, candidates, weights, fold_groups=folds)

    def label(
        self,
        raw: RawData,
        sequences: Sequences,
        labels: Labels,
        masks: np.ndarray | None = None,
    ) -> LabeledSequences:
        """Check what has been read, and return what training uses; ValueError if nothing is."""
        weights = as_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        labeled = self.checked(raw, sequences, labels, masks, weights)
        if weights is None and labeled.candidates is None:
            return labeled.reversed() if self.is_backward else labeled
        coverage = label_coverage(labeled)
        if not coverage.n_useful:
            raise ValueError(NO_KNOWN_LABELS)
        useful = select_useful(labeled, self, coverage)
        if useful is None:
            raise ValueError(self.no_known_examples)
        if useful.n_sequences == sequences.n_sequences:
            return useful
        used = useful.with_used_categories()
        if used.sequences.are_symbols and not len(used.sequences.symbols()):
            raise ValueError(NO_SYMBOLS)
        return used

    @property
    def no_known_examples(self) -> str:
        """Error message for data without an example of known labels."""
        return (
            f"y holds no position with a known label after {self.order} known labels; expected at "
            "least one"
        )


# Unknown labels


class LabelCoverage(NamedTuple):
    """How many labels are known, as numbers that can be added over partitions."""

    n_partial: int  # partitions in which some labels are unknown
    n_useful: int  # sequences with weight and information
    n_uninformative: int  # sequences that are left out for lack of information
    n_unknown: int  # unknown labels in the useful sequences


def label_coverage(data: LabeledSequences) -> LabelCoverage:
    """Count the sequences that training may use, and the unknown labels in them."""
    has_weight = data.have_weight()
    is_informative = data.are_informative()
    is_useful = has_weight & is_informative
    n_unknown = 0
    if data.candidates is not None:
        in_useful = np.repeat(is_useful, np.diff(data.sequences.offsets))
        n_unknown = int(unknown_labels(data.candidates[in_useful]).sum())
    return LabelCoverage(
        n_partial=data.candidates is not None,
        n_useful=int(is_useful.sum()),
        n_uninformative=int((has_weight & ~is_informative).sum()),
        n_unknown=n_unknown,
    )


def select_useful(
    data: LabeledSequences, rules: LabelRules, coverage: LabelCoverage
) -> LabeledSequences | None:
    """Return the sequences that training uses, in the chain's direction; None without any.

    Sequences of weight 0 are left out, and so are sequences without information, whose likelihood
    is 1 under all models. ``coverage`` counts over all partitions, so that these are treated alike.
    """
    if coverage.n_partial and data.candidates is None:
        data = replace(data, candidates=np.eye(len(rules.classes), dtype=bool)[data.codes])
    data = data.take_marked(data.have_weight() & data.are_informative())
    if data is None:
        return None
    if coverage.n_uninformative and not coverage.n_unknown:
        data = replace(data, candidates=None)
    if rules.is_backward:
        data = data.reversed()
    if rules.uses_known_examples and data.candidates is not None:
        known = known_examples(data.candidates, data.sequences.offsets, rules.order)
        data = replace(data, weights=known * (1.0 if data.weights is None else data.weights))
    return data.take_marked(data.have_weight())
