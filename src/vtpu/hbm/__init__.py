"""Device memory with addresses."""
