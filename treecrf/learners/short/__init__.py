"""Models in a form that scores short sequences in little time."""
