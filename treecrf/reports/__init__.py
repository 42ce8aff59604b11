"""Reports of models on data: one page in HTML that needs neither a network nor a server."""
