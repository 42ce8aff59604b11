"""Discovery of features that lie ahead."""
