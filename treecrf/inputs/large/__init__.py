"""Tables in files and in Arrow, and data that are read one partition at a time."""
