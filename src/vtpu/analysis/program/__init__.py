"""The memory of one compiled program."""
