"""A training package, started as `python -m trainer.train`."""
