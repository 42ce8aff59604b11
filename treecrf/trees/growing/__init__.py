"""Growing trees: tests, rows and surrogate splits."""
