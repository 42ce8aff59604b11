"""One tree an iteration for all labels, whose leaves have a value for each."""
