"""Predicted times beside published ones, and the fit of the time model's constants to them."""
