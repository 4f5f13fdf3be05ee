"""The tests of an area, run against a fault in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mutants.areas import Area
    from mutants.mutation import Mutation

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("crates", "python", "tests", "services", "docs")
FILES: Final = ("Cargo.toml", "Cargo.lock", "rustfmt.toml", "pyproject.toml", "conftest.py")
LOW: Final = ("nice", "-n", "19")
MARKS: Final = "not real_hosts and not measures and not deadlines"

HANGS: Final = 3.0
"""Tests that take this many times as long as without a fault, and `SPARE_S` more, hang."""
SPARE_S: Final = 30.0
BUILD_S: Final = 1800.0


class Outcome(Enum):
    """What became of a fault."""

    KILLED = "killed"
    HUNG = "hung"
    ALIVE = "alive"
    NO_CODE = "does not compile"


class Trials:
    """A copy of the tree.

    Attributes:
        usual_s: The time that the tests take without a fault, in seconds.
    """

    usual_s: float

    def __init__(self, area: Area, folder: Path) -> None:
        """Copy the tree to an empty folder, and run the tests there without a fault.

        Raises:
            SystemExit: If they fail.
        """
        self._area, self._folder = area, folder
        ignored = shutil.ignore_patterns("node_modules", "__pycache__", "target", "*.proptest*")
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in FILES:
            shutil.copy2(ROOT / name, folder / name)
        self._clock = time.time()
        self._log = folder / "output"
        tests = [test for test in area.tests if (ROOT / test).exists()]
        self._tests = [sys.executable, "-m", "pytest", "-x", "-q", "-m", MARKS, *tests]
        if area.crate is not None:
            self._tests = [os.environ.get("CARGO", "cargo"), "test", "-q", "-p", area.crate]
            if self._run([*self._tests, "--no-run"], BUILD_S) != 0:
                raise SystemExit(f"{area.crate} does not compile:\n{self._log.read_text()}")
        begin = time.monotonic()
        if self._run(self._tests, BUILD_S) != 0:
            raise SystemExit(f"the tests fail without a fault:\n{self._log.read_text()[-3000:]}")
        self.usual_s = time.monotonic() - begin

    def of(self, mutation: Mutation) -> Outcome:
        """Put a fault into the copy, run the tests, and take it out again."""
        path = self._folder / mutation.path
        self._write(path, mutation.mutated)
        try:
            return self._outcome()
        finally:
            self._write(path, mutation.source)

    def _outcome(self) -> Outcome:
        compiled = self._area.crate is None or self._run([*self._tests, "--no-run"], BUILD_S) == 0
        if not compiled:
            return Outcome.NO_CODE
        code = self._run(self._tests, HANGS * self.usual_s + SPARE_S)
        if code is None:
            return Outcome.HUNG
        return Outcome.KILLED if code else Outcome.ALIVE

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Bytecode is known by whole seconds, and two texts may be equally long.
        self._clock = max(self._clock + 1, time.time())
        os.utime(path, (self._clock, self._clock))

    def _run(self, command: list[str], limit_s: float) -> int | None:
        """Return the exit code of a command; None if it takes longer than the limit."""
        environment = os.environ | {
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_TARGET_DIR": str(ROOT / "target/mutants"),
            "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
            "PROPTEST_MAX_SHRINK_ITERS": "0",
            "PYTHONPATH": str(self._folder / "python"),
        }
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [*LOW, *command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
