"""One rule per file, by what it is about."""
