"""What a compiled program is: frozen values, free of file formats."""
