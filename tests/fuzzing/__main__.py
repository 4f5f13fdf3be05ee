"""`make fuzz`: new random examples, round by round, until the time is over."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import time
from typing import Final

from fuzzing.running import FOUND

TESTS: Final = ["tests/test_fuzz_runs.py", "tests/test_fuzz_files.py"]
EXAMPLES: Final = 200
"""How many examples of each test a round has."""

ROUND_S: Final = 3600
"""A round that takes longer hangs."""

MEMORY: Final = 16 * 2**30
"""What a round may address, in bytes; some of that is never touched."""


def main() -> int:
    """Run rounds for as many seconds as the first argument says; 1 if something was found."""
    ends = time.monotonic() + float(sys.argv[1])
    FOUND.mkdir(parents=True, exist_ok=True)
    rounds, findings = 0, 0
    while time.monotonic() < ends:
        rounds += 1
        seed = random.getrandbits(32)
        failure = tried(seed)
        if failure is not None:
            findings += 1
            kept = FOUND / f"{seed}"
            kept.mkdir()
            (kept / "output.txt").write_text(failure)
            for example in FOUND.glob("*.yaml"):
                shutil.copy(example, kept)
            print(failure)
            print(f"found by `PERHOP_FUZZ={EXAMPLES} pytest --hypothesis-seed={seed}`; see {kept}")
        print(f"{rounds} rounds of {EXAMPLES} examples of each test, {findings} with findings")
    return min(findings, 1)


def tried(seed: int) -> str | None:
    """Run a round in a process of its own; what it says if it fails, hangs or dies."""
    command = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", *TESTS]
    done = subprocess.Popen(
        command,
        env={**os.environ, "PERHOP_FUZZ": str(EXAMPLES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    try:
        output, _ = done.communicate(timeout=ROUND_S)
    except subprocess.TimeoutExpired:
        done.kill()
        output, _ = done.communicate()
        return f"{output}\nA round took more than {ROUND_S} s."
    return f"{output}\nexit code {done.returncode}" if done.returncode else None


if __name__ == "__main__":
    sys.exit(main())
