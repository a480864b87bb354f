"""What artifacts of others tell: messages, dumps, profiles; and what recordings tell of programs."""
