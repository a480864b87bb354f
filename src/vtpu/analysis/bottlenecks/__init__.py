"""What makes a step longer than it need be, and by how much: told from the module and its modelled time."""
