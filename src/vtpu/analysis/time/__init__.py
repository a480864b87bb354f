"""How long programs and steps take, and what bounds them."""
