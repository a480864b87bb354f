"""What XLA and JAX print inside of longer texts: sizes, shapes, operators."""
