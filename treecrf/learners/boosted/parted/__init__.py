"""Training of boosted models on parts of the data, in one process or on many machines."""
