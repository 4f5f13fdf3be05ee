"""Instructions a packet-hop, by callgrind: the same on a busy machine as on an idle one.

Run by ``make bench`` where valgrind is installed. Each case of the simulator's speed benchmark runs
once below the instrument, about fifty times slower than alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys

CASES = (
    "20 CUBIC flows over 500 Mb/s",
    "1 Gb/s of 1500 B UDP",
    "three weighted classes",
)


def main() -> int:
    """Print the table."""
    if shutil.which("valgrind") is None:
        print("instructions a packet-hop: not counted, as valgrind is not installed")
        return 0
    benchmark = compiled()
    print(f"{'':<46} {'instructions a hop':>20}")
    for case in CASES:
        instructions, said = counted([benchmark, "--once", case])
        hops = int(re.search(r"packet hops: (\d+)", said)[1])
        print(f"{case:<46} {instructions / hops:>20.0f}")
    return 0


def counted(command: list[str]) -> tuple[int, str]:
    """Return the number of instructions that a command executes, and its output."""
    below = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    run = subprocess.run([*below, *command], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr)[1]), run.stdout


def compiled() -> str:
    """The benchmark's executable."""
    command = "bench --package perhop-sim --bench speed --no-run --message-format json --quiet"
    cargo = [os.environ.get("CARGO", "cargo"), *command.split()]
    lines = subprocess.run(cargo, capture_output=True, text=True, check=True).stdout.splitlines()
    return next(path for line in lines if (path := json.loads(line).get("executable")))


if __name__ == "__main__":
    sys.exit(main())
