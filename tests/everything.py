"""`make test` and `make test-fast`: which tests run when, and beside which others.

What measures real hosts waits for most of its time, but must have a processor at once when it wants
one. It runs one test after the other, while everything else runs on all processors at the lowest
priority.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import left_out

PYTEST = [sys.executable, "-m", "pytest"]
PARALLEL = [*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder", "-n"]
LOW = ["nice", "-n", "19"]
CARGO = [os.environ.get("CARGO", "cargo"), "test", "--workspace", "--quiet"]


def fast() -> int:
    """Run the tests of less than half a second; return what pytest returns."""
    chosen = "not slow and not real_hosts and not measures"
    # These compute all the time, and need no plugin that takes seconds to load.
    processors = str(len(os.sched_getaffinity(0)))
    code = subprocess.run([*PARALLEL, processors, "-p", "no:schemathesis", "-m", chosen])
    print("Left out: tests marked slow, real_hosts or measures, and those of crates/*/tests.")
    return code.returncode


def everything() -> int:
    """Run all tests and tell what was left out; return 1 if one failed."""
    with tempfile.TemporaryDirectory() as folder:
        skipped = Path(folder, "skipped")
        environment = {**os.environ, "PERHOP_SKIPPED": str(skipped)}
        with (
            Path(folder, "measured").open("w+", encoding="utf-8") as told,
            subprocess.Popen(
                [*PYTEST, "-m", "measures"], env=environment, stdout=told, stderr=told
            ) as measured,
        ):
            try:
                codes = [
                    subprocess.run([*LOW, *command], env=environment).returncode
                    for command in (CARGO, [*PARALLEL, "auto", "-m", "not measures"])
                ]
                codes.append(measured.wait())
            finally:
                measured.terminate()
                told.seek(0)
                print("\nWhat measures real hosts:", told.read(), sep="\n")
        if skipped.exists():
            print("\n".join(left_out(skipped.read_text("utf-8").splitlines())))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(fast() if sys.argv[1:] == ["fast"] else everything())
