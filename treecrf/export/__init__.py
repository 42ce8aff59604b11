"""Fitted models as C code: `c_files` writes it, and the other modules make its tables.

- `parts` says what the scores of a model consist of, and refuses models that C code does not
  support.
- `columns` numbers columns and their values, `trees`, `linear` and `transitions` make the tables of
  scores, and `strings` those of names and categories.
- `c_text` writes tables as C, and ``templates`` has the code that reads them.
"""

from treecrf.export.c_files import export_c

__all__ = ["export_c"]
