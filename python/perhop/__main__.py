"""The program `perhop`, and `python -m perhop`."""

import gc
import os
import signal
import sys

from perhop import interruption


def main() -> None:
    """Run the command line and exit."""
    # Nearly all that imports allocate stays: to look for garbage as often as usual takes a tenth of
    # the time of a short command.
    gc.set_threshold(30_000)
    # Importing the commands takes a moment, in which there is nothing to keep.
    for number in interruption.SIGNALS:
        signal.signal(number, lambda number, _: os._exit(128 + number))
    from perhop.cli import main as command

    try:
        command()
    except KeyboardInterrupt:  # between the end of the command and here
        sys.exit(interruption.exit_code())
    finally:
        interruption.ignore()


if __name__ == "__main__":
    main()
