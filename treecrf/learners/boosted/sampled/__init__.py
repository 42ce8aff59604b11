"""Boosting on samples of the examples, which shards draw from their partitions."""
