"""The modelled time of programs and steps: where it goes, what bounds it, what would bound it next."""
