"""One function compiled for a slice: does it fit, and where does every byte go."""
