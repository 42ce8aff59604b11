"""The variants of boosting, chosen by parameters.

All other modules know exact chains that are trained on all examples, and a tree for each label.
Beams, constant transitions, other objectives, samples and trees for all labels are in folders and
modules that only this module imports, when training needs them, and `saved`, for prediction;
`treecrf.dask` also imports the samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treecrf.chains.contexts import MAX_LABELS, refuse_measurements
from treecrf.encoding.encoded import window_within
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Description
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.engine import AllExamples, BoostingRun, Engine
from treecrf.learners.boosted.kinds import ChainKind, ExactKind
from treecrf.learners.boosted.spec import (
    MAX_VALUES_OF_LARGE,
    MIN_POSITIONS_OF_LARGE,
    BoostingSpec,
)
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

# ``sampling="auto"`` samples from this many examples on, or from as many at a position as a kind of
# chains says. An example is a position, its previous labels, and a label.
MANY_EXAMPLES = 1 << 20
# ``multi_strategy="auto"`` tries trees for all labels from this number of labels on, if there are
# not so many examples that samples of them are needed. On held-out data, they were better with 26,
# 49 and 116 labels; with 20 labels or fewer, they hardly differed, and trying them takes time.
MANY_LABELS = 24
# With more labels times positions, transitions are not constant only because labels are many.
MAX_CONSTANT_SCORES = 10**8
# ``window="auto"`` tries windows with at most this number of columns: training takes time in
# proportion to them, and wide windows of many columns hardly help.
MAX_COLUMNS = 400
# Threshold of ``sampling="auto"``.
THRESHOLD = 0.1
# ``max_examples="auto"``: with more positions than these, their number grows with the cube root.
# Trees on more examples are better, but each iteration takes longer. Up to a million positions, the
# same time is better spent on more iterations of this number of examples. With more positions,
# growth is a small part of an iteration, which computes the residuals of all of them. An example
# takes about 300 bytes; with the cube root, their memory grows slowly.
EXAMPLES = 300_000
POSITIONS_OF_EXAMPLES = 1_000_000


# Chains of conditional random fields


def crf_kind(
    *,
    objective: Any,  # parameter
    reports_likelihood: bool,  # whether ``scoring`` is the log-likelihood, whatever the objective
    constant_transitions: bool,
    beam_width: int | None,
    forward_only: bool,  # parameter ``beam``
    alternative: str,
    n_pseudo: int,  # first iterations that maximize the pseudo-likelihood
    **settings: Any,  # of all kinds
) -> ChainKind:
    """Return what training a `TreeCRF` does with the sequences."""
    if beam_width is not None:
        from treecrf.learners.boosted.beams.beam import Beam
        from treecrf.learners.boosted.beams.training import BeamKind

        return BeamKind(**settings, beam=Beam(beam_width, forward_only))
    settings["alternative"] = alternative
    if objective != "log" or n_pseudo:
        from treecrf.learners.boosted.losses import LossKind

        return LossKind(
            **settings, loss=objective, reports_likelihood=reports_likelihood, n_pseudo=n_pseudo
        )
    if constant_transitions:
        from treecrf.learners.boosted.constant.kind import ConstantKind

        return ConstantKind(**settings)
    return ExactKind(**settings)


# Engines


def engine_for(spec: BoostingSpec, n_labels: int, n_positions: int) -> Engine:
    """Return what fits trees: to all examples, or to samples of them.

    There are two ways to grow trees. `TreeGrower` uses all examples, as products of sets of
    positions and sets of contexts. It is faster if labels are few and residuals large. `ListGrower`
    uses a list of examples. It is faster if nearly all examples have small residuals and are not in
    the sample, as with many labels, and its cost does not grow with the number of positions.
    """
    if spec.multi_output:
        from treecrf.learners.boosted.multi_output.engine import MultiOutputEngine

        return MultiOutputEngine()
    threshold = sampling_threshold(spec, n_labels, n_positions)
    if threshold is None:
        return AllExamples()
    from treecrf.learners.boosted.sampled.engine import SampledEngine

    return SampledEngine(threshold, example_limit(spec, n_positions))


def sampling_threshold(spec: BoostingSpec, n_labels: int, n_positions: int) -> float | None:
    """Return the residual from which on examples are always sampled; None for all examples.

    ValueError if ``sampling`` requires samples, and the chains have none.
    """
    kind = spec.kind
    reason = kind.why_no_samples(n_labels)
    if reason is not None:
        if spec.sampling not in (None, "auto"):
            raise ValueError(f"sampling={spec.sampling!r} {reason}")
        return None
    if spec.sampling != "auto":
        return spec.sampling
    n_scores = kind.n_scores(n_labels)
    is_few = n_positions * n_scores < MANY_EXAMPLES and n_scores < kind.many_at_a_position
    return None if is_few else THRESHOLD


def example_limit(spec: BoostingSpec, n_positions: int) -> int | None:
    """Return the maximum number of examples in an iteration, on average; None is no limit."""
    if spec.max_examples != "auto":
        return spec.max_examples
    return round(EXAMPLES * max(1.0, n_positions / POSITIONS_OF_EXAMPLES) ** (1 / 3))


def suited_to(data: TrainingInput, spec: BoostingSpec) -> BoostingSpec:
    """Return the settings without those variants that do not suit the data.

    With very many labels, transitions are constant, unless training would take very long: labels
    are then often measurements by mistake, and contexts do not fit in memory, which is an error.
    """
    n_labels = len(data.classes)
    n_scores = data.training.n_positions * n_labels
    if len(spec.kinds) > 1 and n_labels > MAX_LABELS and n_scores <= MAX_CONSTANT_SCORES:
        refuse_measurements(n_labels, data.training.n_positions)
        constant = next(kind for kind in spec.kinds if kind.has_one_context)
        spec = replace(spec, kind=constant, kinds=(constant,))
    is_small = n_scores < MANY_EXAMPLES
    has_one_context = any(kind.has_one_context for kind in spec.kinds)
    is_tried = has_one_context and is_small and n_labels >= MANY_LABELS
    if len(spec.multi_outputs) > 1 and not is_tried:
        spec = replace(spec, multi_outputs=(spec.multi_output,))
    described = data.training.described
    leaves = spec.leaves
    if not described.schema.categories or data.training.n_positions < MIN_POSITIONS_OF_LARGE:
        leaves = leaves[:1]
    return replace(spec, windows=suited_windows(spec, described), leaves=leaves)


def with_suited_leaves(spec: BoostingSpec, described: Description) -> BoostingSpec:
    """Return the settings without large trees if these would need too much memory in the window."""
    if len(spec.leaves) == 1:
        return spec
    n_values = sum(map(len, described.schema.categories.values()))
    if n_values * (1 + sum(spec.window)) <= MAX_VALUES_OF_LARGE:
        return spec
    return replace(spec, leaves=spec.leaves[:1])


def suited_windows(spec: BoostingSpec, described: Description) -> tuple[tuple[int, int], ...]:
    """Return the windows to choose from that differ on these sequences, and are not too large.

    Authors of rows of attributes have written those of the neighbors as well: there is one.
    """
    if described.form == "sparse" or len(spec.windows) == 1:
        return spec.windows[:1]
    reach = [window_within(window, described.longest) for window in spec.windows]
    most = MAX_COLUMNS // described.schema.n_features - 1
    return tuple(
        window
        for i, window in enumerate(spec.windows)
        if reach[i] not in reach[:i] and (i == 0 or sum(reach[i]) <= most)
    )


def trains_on_partitions(spec: BoostingSpec, data: TrainingInput) -> bool:
    """Return whether partitions need not be joined, whichever kind of chains is chosen.

    Errors if samples are not supported.
    """
    if any(spec.multi_outputs):
        return False
    return all(
        _engine(replace(spec, kind=kind), data).takes_partitions and not kind.needs_all_sequences
        for kind in spec.kinds
    )


def make_run(
    spec: BoostingSpec, data: TrainingInput, start: LinearCRF | None, threads: Threads
) -> BoostingRun:
    """Return the run that trains from a start on the data, see `Engine.run`."""
    return _engine(spec, data).run(spec, data, start, threads)


def run_from(
    spec: BoostingSpec,
    data: TrainingInput,
    encoder: Encoder,
    forest: Forest,
    start: LinearCRF | None,
    threads: Threads,
) -> BoostingRun:
    """Return the run that adds trees to a forest, see `Engine.run_from`."""
    return _engine(spec, data).run_from(spec, data, encoder, forest, start, threads)


def _engine(spec: BoostingSpec, data: TrainingInput) -> Engine:
    return engine_for(spec, len(data.classes), data.training.n_positions)
