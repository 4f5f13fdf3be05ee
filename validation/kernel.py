"""`python -m validation.kernel [--recordings FILE] [--count N] [--seed S] [--divisor D]`.

Records how this machine's Linux sends TCP over scripted paths (`kernel_recorder.py`, which needs
root), and replays the recordings with the modelled sender, acknowledgement by acknowledgement. A
connection is identical if the sender sends the same segments in the same order to its end. First
differences are counted by class. Then it records how Linux receives (`kernel_receiver.py`), and
counts the acknowledgements that the modelled receiver sends, too, and windows that are alike.

The exit code is 1 if fewer recordings are identical, or fewer acknowledgements come before the
first difference, than the goals say, and 3 if nothing can be recorded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDER = Path(__file__).parent / "kernel_recorder.py"
GOALS = (90, 97)
"""Least shares of identical recordings, and of acknowledgements before differences, in percent."""


def main() -> int:
    """Record, unless a file is given, and replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", help="recordings to replay, one a line")
    parser.add_argument("--count", type=int, default=120, help="connections to record")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first one")
    parser.add_argument("--divisor", type=int, default=255, help="tcp_tso_win_divisor; Linux's: 3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.recordings or f"{folder}/recordings.jsonl"
        if not options.recordings:
            words = [path, *map(str, (options.seed, options.count, options.divisor))]
            command = ["unshare", "--net", sys.executable, str(RECORDER), *words]
            received = f"{folder}/received.jsonl"
            receiver = [*command[:3], "-m", "validation.kernel_receiver", received, *words[1:3]]
            for each in (command, receiver):
                recorded = subprocess.run(each, cwd=ROOT, check=False)
                if recorded.returncode:
                    break
            else:
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(Path(received).read_text("utf-8"))
            if recorded.returncode != 0:
                print("recording needs root and /dev/net/tun", file=sys.stderr)
                return 3
        cargo = [os.environ.get("CARGO", "cargo"), "run", "--quiet", "--package", "perhop-tcp"]
        replay = [
            *cargo,
            "--example",
            "replay",
            "--",
            path,
            "--differences",
            "--least",
            *map(str, GOALS),
        ]
        return subprocess.run(replay, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
