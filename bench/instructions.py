"""Instructions a packet-hop, by callgrind: the same on a busy machine as on an idle one.

Run by ``make bench`` where valgrind is installed. Each case of the simulator's speed benchmark runs
once below the instrument, about fifty times slower than alone.
"""

import re
import shutil
import subprocess
import sys

CASES = (
    "20 CUBIC flows over 500 Mb/s",
    "1 Gb/s of 1500 B UDP",
    "three weighted classes",
)


def main(benchmark: str) -> int:
    """Print the table for the compiled `benchmark`."""
    if shutil.which("valgrind") is None:
        print("instructions a packet-hop: not counted, as valgrind is not installed")
        return 0
    print(f"{'':<46} {'instructions a hop':>20}")
    for case in CASES:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        run = subprocess.run(
            [*command, benchmark, "--once", case], capture_output=True, text=True, check=True
        )
        hops = int(re.search(r"packet hops: (\d+)", run.stdout)[1])
        instructions = int(re.search(r"Collected : (\d+)", run.stderr)[1])
        print(f"{case:<46} {instructions / hops:>20.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
