"""Writes what changes at these places as edits."""
