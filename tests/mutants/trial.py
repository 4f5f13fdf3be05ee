"""The tests of an area, run against a fault in a copy of the tree."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mutants.areas import Area
    from mutants.mutation import Mutation

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("crates", "python", "tests", "services", "docs")
FILES: Final = ("Cargo.toml", "Cargo.lock", "rustfmt.toml", "pyproject.toml", "conftest.py")
TREES: Final = ROOT / "target/mutants/trees"
"""The copies. They keep their places, so that other crates need not be compiled again. Beside this
folder, each area has one of what cargo compiles."""
MARKS: Final = "not real_hosts and not measures and not deadlines and not slow"
LOADED: Final = ("numpy", "polars", "pydantic", "pytest", "rich", "yaml")
"""Libraries that a trial in Python finds loaded: to load them takes as long as many a test."""

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
    """A copy of the tree, with no fault or with one."""

    def __init__(self, area: Area, folder: Path) -> None:
        """Copy the tree to a folder."""
        self._area, self._folder = area, folder
        ignored = shutil.ignore_patterns("node_modules", "__pycache__", "target", "*.proptest*")
        shutil.rmtree(folder, ignore_errors=True)
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in FILES:
            shutil.copy2(ROOT / name, folder / name)
        self._clock = time.time()
        self._log = folder / "output"
        if area.crate is None:
            for name in LOADED:
                importlib.import_module(name)
        else:
            # What stands compiled may have the fault that was tried last.
            (folder / area.folder / "lib.rs").touch()
        self._usual_s: dict[tuple[str, ...], float] = {}

    def of(self, mutation: Mutation) -> Outcome:
        """Put a fault into the copy, run the tests, and take it out again.

        Raises:
            SystemExit: If tests fail without a fault.
        """
        tests = self._area.tests_of(mutation.path)
        # Most faults are seen by the tests inside a crate, which compile in a second.
        stages = [tests] if self._area.crate is None else [(), tests]
        outcome = Outcome.ALIVE
        for stage in stages:
            if outcome is Outcome.ALIVE:
                self._measure(stage)
                self._write(mutation.path, mutation.mutated)
                try:
                    outcome = self._outcome(stage, HANGS * self._usual_s[stage] + SPARE_S)
                finally:
                    self._write(mutation.path, mutation.source)
        return outcome

    def _measure(self, tests: tuple[str, ...]) -> None:
        """Run tests without a fault, once."""
        if tests not in self._usual_s:
            if self._area.crate is not None:
                self._cargo(tests, BUILD_S, "--no-run")
            begin = time.monotonic()
            if self._outcome(tests, BUILD_S) is not Outcome.ALIVE:
                log = self._log.read_text("utf-8", errors="replace")
                raise SystemExit(f"the tests fail without a fault:\n{log[-3000:]}")
            self._usual_s[tests] = time.monotonic() - begin

    def _outcome(self, tests: tuple[str, ...], limit_s: float) -> Outcome:
        if self._area.crate is None:
            code = self._pytest(tests, limit_s)
        elif self._cargo(tests, BUILD_S, "--no-run") != 0:
            return Outcome.NO_CODE
        else:
            code = self._cargo(tests, limit_s)
        if code is None:
            return Outcome.HUNG
        return Outcome.KILLED if code else Outcome.ALIVE

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text(text, "utf-8")
        # Bytecode is known by whole seconds, and two texts may be equally long.
        self._clock = max(self._clock + 1, time.time())
        os.utime(path, (self._clock, self._clock))

    def _cargo(self, tests: tuple[str, ...], limit_s: float, *more: str) -> int | None:
        """Run test targets of the crate, or the tests inside it if there are none.

        Returns the exit code, or None at the limit.
        """
        chosen = [f"--test={test}" for test in tests] or ["--lib"]
        environment = os.environ | {
            "CARGO_PROFILE_DEV_DEBUG": "0",
            # Of its own: cargo takes crates of trees in one directory for the same, whatever tree
            # they were compiled from.
            "CARGO_TARGET_DIR": str(TREES.parent / self._folder.name),
            "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
            "PROPTEST_MAX_SHRINK_ITERS": "0",
        }
        cargo, crate = os.environ.get("CARGO", "cargo"), str(self._area.crate)
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [cargo, "test", "-q", "-p", crate, *chosen, *more],
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

    def _pytest(self, tests: tuple[str, ...], limit_s: float) -> int | None:
        """Run files of tests in a fork; return the exit code, or None at the limit."""
        child = os.fork()
        if child == 0:
            self._run_and_exit(tests)
        code = None
        end = time.monotonic() + limit_s
        try:
            while code is None and time.monotonic() < end:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                else:
                    time.sleep(0.02)
            return code
        finally:
            if code is None:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def _run_and_exit(self, tests: tuple[str, ...]) -> None:
        code = 1
        try:
            os.setsid()
            os.chdir(self._folder)
            with self._log.open("wb") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            python = str(self._folder / "python")
            sys.path.insert(0, python)
            os.environ["PYTHONPATH"] = python
            pytest = importlib.import_module("pytest")
            options = ["-x", "-q", "-p", "no:cacheprovider", "-m", MARKS]
            code = int(pytest.main([*options, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
