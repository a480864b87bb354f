"""Readers of the texts that XLA dumps beside a module: buffers, live ranges, usage by slot."""
