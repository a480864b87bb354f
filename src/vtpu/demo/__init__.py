"""Example programs that are installed with vtpu. They are ordinary JAX scripts."""
