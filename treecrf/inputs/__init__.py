"""Users' data and labels, read into sequences and codes."""
