"""How long a compiled program takes on a slice, and when host, device and links are busy in a run."""
