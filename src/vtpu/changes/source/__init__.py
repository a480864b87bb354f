"""Finds the places in the user's program that changes are about."""
