"""Rules about how long a step takes and what bounds it."""
