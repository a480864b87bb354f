"""The virtual slice behind the PJRT ABI: the only room that JAX calls into."""
