"""Training data in partitions, such as files and parts of data in memory."""
