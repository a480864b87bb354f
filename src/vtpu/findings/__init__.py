"""Rules: what is wrong with a program or a run, with evidence, and what to change."""
