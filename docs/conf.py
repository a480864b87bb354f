"""Sphinx configuration."""

project = "vtpu"
author = "The vtpu authors"
extensions = ["myst_parser"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
