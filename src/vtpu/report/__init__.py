"""Results for people and programs: one document tree and its renderings. Computes nothing."""
