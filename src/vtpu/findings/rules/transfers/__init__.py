"""Rules about what crosses between host and device."""
