"""Linear conditional random fields."""
