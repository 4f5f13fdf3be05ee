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

TESTS: Final = [
    "tests/test_fuzz_runs.py",
    "tests/test_fuzz_files.py",
]
EXAMPLES: Final = 200
"""Number of examples of each test in a round."""

CASES: Final = 3_000_000
"""Number of inputs for each parser of the core in a round."""

READERS_S: Final = 900
"""Time in a round for the readers of routers' texts."""

ROUND_S: Final = 3600
"""A round that takes longer hangs."""

MEMORY: Final = 16 * 2**30
"""Address space of a round, in bytes; some of that is never touched."""


def main() -> int:
    """Run rounds for as many seconds as the first argument says; 1 if something was found."""
    ends = time.monotonic() + float(sys.argv[1])
    FOUND.mkdir(parents=True, exist_ok=True)
    rounds, findings = 0, 0
    while time.monotonic() < ends:
        rounds += 1
        seed = random.getrandbits(32)
        failures = [(c, said) for c in commands(seed) if (said := tried(c)) is not None]
        for number, (command, said) in enumerate(failures):
            findings += 1
            kept = FOUND / f"{seed}-{number}"
            kept.mkdir()
            (kept / "output.txt").write_text(said)
            for example in FOUND.glob("*.yaml"):
                shutil.copy(example, kept)
            print(said)
            print(f"found by `{' '.join(command)}`; see {kept}")
        print(f"{rounds} rounds of {EXAMPLES} examples of each test, {findings} findings")
    return min(findings, 1)


def commands(seed: int) -> list[list[str]]:
    """Return what a round runs: tests, the readers of routers' texts, and targets of the core."""
    rounds = [f"PERHOP_FUZZ={EXAMPLES}", f"PERHOP_FUZZ_CASES={CASES}", f"PERHOP_FUZZ_SEED={seed}"]
    cargo = os.environ.get("CARGO", "cargo")
    return [
        ["env", *rounds, sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", *TESTS],
        [sys.executable, "-m", "fuzzing.routers", f"--seconds={READERS_S}", f"--seed={seed}"],
        ["env", *rounds, cargo, "test", "--quiet", "--workspace", "fuzz_"],
    ]


def tried(command: list[str]) -> str | None:
    """Run a part of a round in a process of its own; what it says if it fails, hangs or dies."""
    done = subprocess.Popen(
        command,
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
