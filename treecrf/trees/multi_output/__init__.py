"""Trees whose leaves have a value for each label: one tree for all labels."""
