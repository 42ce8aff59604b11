"""The warning about sequences in which nothing occurred in training."""

from __future__ import annotations

from treecrf.inputs.schema import InputSchema
from treecrf.utils.messages import warn


def warn_of_nothing_known(schema: InputSchema) -> None:
    """Warn of a sequence in which nothing is known.

    The text is the same for all sequences, so that by default a service shows it once.
    """
    values = "keys and categories"
    if schema.form == "symbols":
        values = "symbols"
    elif schema.names is None or schema.absent_is_missing:
        values = "categories"
    warn(
        f"nothing in a sequence is known: none of its {values} occurred in training; check how X "
        "was made, such as the case of its letters"
    )
