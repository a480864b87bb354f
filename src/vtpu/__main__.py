"""`python -m vtpu` is the `vtpu` command."""

from vtpu.cli.main import main

if __name__ == "__main__":
    main()
