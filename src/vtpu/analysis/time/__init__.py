"""The modelled time of a program: where it goes, what bounds it, what would bound it next."""
