"""``python -m headrace``: the same command line."""

from headrace.cli import main

if __name__ == "__main__":
    main()
