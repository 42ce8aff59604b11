"""Tables in files: read block by block, so that memory does not grow with the file."""
