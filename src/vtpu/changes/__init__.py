"""What could be changed in a program: edits of its files and arguments as values, and who proposes them."""
