"""The `vtpu` command. A file per subcommand; nothing here imports jax."""
