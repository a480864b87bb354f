"""Rules about what compiles, how often and how long."""
