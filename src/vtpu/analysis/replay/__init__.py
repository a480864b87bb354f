"""The memory of a recorded run again: under other allocators, on other chips, with something changed."""
