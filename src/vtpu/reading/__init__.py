"""Readers of what others wrote: bytes in, values out. Nothing here opens a file."""
