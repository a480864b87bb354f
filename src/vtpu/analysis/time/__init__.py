<<<<<<< HEAD
"""How long programs and steps take, and what bounds them."""
=======
"""The modelled time of a program: where it goes, what bounds it, what would bound it next."""
>>>>>>> h5work
