"""Opening of the arguments of `fit` if they are files, or temporary files are used."""

from __future__ import annotations

from os import PathLike
from typing import Any

from treecrf.inputs.dataset import RawData
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.inputs.large.tables import in_memory, joined_pieces, partitions_of
from treecrf.inputs.paths import are_tables
from treecrf.learners.base.callbacks import Callback
from treecrf.learners.base.opening import VALIDATION_DATA, FitArguments, in_memory_arguments
from treecrf.learners.large.partitioned import UnreadPartitions


def open_large(
    raw: RawData,
    validation: RawData | None,
    eval_sets: tuple[RawData, ...],
    callbacks: tuple[Callback, ...],
    scratch: str | PathLike | None,  # folder for temporary files
    categorical_features: Any,
    takes_partitions: bool,  # whether training need not join partitions
) -> FitArguments:
    """Open files, which are read into memory unless training takes several partitions of them."""
    eval_sets = tuple(in_memory(each, categorical_features) for each in eval_sets)
    if scratch is None and not are_tables(raw):
        if validation is not None:
            validation = in_memory(validation, categorical_features)
        return in_memory_arguments(raw, raw, validation, eval_sets, callbacks)

    partitions = partitions_of(raw, scratch, categorical_features)
    held_out = None
    if validation is not None and are_tables(validation):
        held_out = partitions_of(validation, scratch, categorical_features)
    elif validation is not None:
        held_out = LocalPartitions([validation])
    # A single piece of files is in memory whenever it is used.
    is_small = scratch is None and partitions.n_parts == 1
    if held_out is not None:
        is_small = is_small and held_out.n_parts == 1
    if takes_partitions and not is_small and not eval_sets:
        unread = None if held_out is None else UnreadPartitions(held_out, VALIDATION_DATA)
        return FitArguments(raw, UnreadPartitions(partitions), unread, (), callbacks)

    training = partitions.reduce(joined_pieces) if are_tables(raw) else raw
    if held_out is not None:
        validation = held_out.reduce(joined_pieces)
    return in_memory_arguments(raw, training, validation, eval_sets, callbacks)
