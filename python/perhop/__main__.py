"""The program `perhop`, and `python -m perhop`."""

import os
import signal


def main() -> None:
    """Run the command line and exit."""
    # Importing the commands takes a moment, in which Ctrl-C has nothing to keep.
    before = signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from perhop.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
