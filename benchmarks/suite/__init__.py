"""Benchmarks for asv: time and peak memory by sequence length, window and number of labels."""

LENGTHS = [10, 20, 40, 80, 160, 320]
HALF_WINDOWS = [1, 2, 3, 4, 5]
LABELS = [2, 3, 5, 10, 20, 50]
