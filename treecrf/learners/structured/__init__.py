"""Linear learners that visit one sequence at a time."""
