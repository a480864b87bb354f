"""Profiles of real hardware in tables, and beside what the model says of the same program."""
