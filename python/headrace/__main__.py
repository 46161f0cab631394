"""``python -m headrace``, and the ``headrace`` command."""

import sys


def main() -> None:
    """Runs the command line. Ctrl-C ends it quietly even while its modules are being loaded."""
    try:
        from headrace._command.cli import main as run
    except KeyboardInterrupt:
        print("headrace: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
