"""`make test` and `make test-fast`: which tests run when, and beside which others.

What measures real hosts waits for most of its time, but must have a processor at once when it wants
one. It runs one test after the other, while everything else runs on all processors at the lowest
priority: tests in Rust, and those in Python, of which the longest begin first.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import left_out

PYTEST = [sys.executable, "-m", "pytest"]
PARALLEL = [*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder", "-n"]
LOW = ["nice", "-n", "19"]
CARGO = [os.environ.get("CARGO", "cargo"), "test", "--workspace", "--quiet"]


def fast() -> int:
    """Run the tests of less than half a second; return what pytest returns."""
    chosen = "not slow and not real_hosts and not measures"
    # These compute all the time.
    processors = str(len(os.sched_getaffinity(0)))
    code = subprocess.run([*PARALLEL, processors, "-m", chosen])
    print("Left out: tests marked slow, real_hosts or measures, and those of crates/*/tests.")
    return code.returncode


@contextmanager
def beside(
    title: str, command: list[str], environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside others, and print what it said when it has ended."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as told,
        subprocess.Popen(command, env=environment, stdout=told, stderr=told, text=True) as process,
    ):
        try:
            yield process
            process.wait()
        finally:
            process.terminate()
            told.seek(0)
            print(f"\n{title}:", told.read(), sep="\n")


def everything() -> int:
    """Run all tests and tell what was left out; return 1 if one failed."""
    with tempfile.TemporaryDirectory() as folder:
        skipped = Path(folder, "skipped")
        environment = {**os.environ, "PERHOP_SKIPPED": str(skipped)}
        with beside("What measures real hosts", [*PYTEST, "-m", "measures"], environment) as real:
            # A compiler would take the processors from tests that have deadlines.
            compiled = subprocess.run([*LOW, *CARGO, "--no-run"], env=environment)
            with beside("Tests in Rust", [*LOW, *CARGO], environment) as rust:
                parallel = [*LOW, *PARALLEL, "auto", "-m", "not measures"]
                code = subprocess.run(parallel, env=environment).returncode
        if skipped.exists():
            print("\n".join(left_out(skipped.read_text("utf-8").splitlines())))
    return int(any((compiled.returncode, rust.returncode, code, real.returncode)))


if __name__ == "__main__":
    sys.exit(fast() if sys.argv[1:] == ["fast"] else everything())
