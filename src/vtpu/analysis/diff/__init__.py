"""What differs between two programs, and between two runs."""
