"""Local models, which are normalized at each position: boosted trees, or any estimator of rows."""
