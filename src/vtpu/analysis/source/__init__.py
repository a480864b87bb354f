"""The user's program as text: files, calls, loops, definitions."""
