"""One kind of change per file."""
