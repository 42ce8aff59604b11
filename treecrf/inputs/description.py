"""Description of sequences: their schema, form and size."""

from __future__ import annotations

from dataclasses import dataclass

from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences


@dataclass(frozen=True)
class Description:
    """Schema, form and size of sequences.

    Attributes
    ----------
    schema : InputSchema
    form : {"symbols", "dense", "sparse"}
        Form of their pieces.
    is_boolean : bool
        Whether they are arrays or matrices of booleans only.
    n_sequences, n_positions : int
    longest : int
        Number of positions of the longest sequence.
    """

    schema: InputSchema
    form: str
    is_boolean: bool
    n_sequences: int
    n_positions: int
    longest: int

    @classmethod
    def of(cls, sequences: Sequences) -> Description:
        """Describe sequences."""
        is_boolean = sequences.kinds is None and sequences.dtype.kind == "b"
        return cls(
            sequences.schema,
            sequences.form,
            is_boolean,
            sequences.n_sequences,
            sequences.n_positions,
            sequences.longest,
        )
