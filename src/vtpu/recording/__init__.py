"""What happened on the virtual slice: events as columns, programs, stacks; saved as one file."""
