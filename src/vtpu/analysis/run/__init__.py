"""What happened in a run, from its recording."""
