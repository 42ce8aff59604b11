"""Models in a form that scores short sequences in little time.

Nothing depends on this folder: without it, all scores are equal to the bit, and those of short
sequences take longer. Only `treecrf.learners.base.short_sequences` imports it.

- `compilation` sorts the tests of trees and the weights of a linear model by the columns and values
  that they read.
- `_value_tests` and `_column_weights` hold them, and add what belongs to a value.
- `_short_model` reads the values of the user.
"""
