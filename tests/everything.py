"""`make test` and `make test-fast`: which tests run when, and beside which others.

What measures real hosts waits for most of its time, but must have a processor at once when it wants
one. It runs one test after the other, while everything else runs on all processors at the lowest
priority: tests in Rust, and those in Python, of which the longest begin first.

Tests with real hosts, sockets or services have deadlines, which this load can exceed. Those that
fail run again at the end, alone.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tools import left_out

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest"]
PARALLEL = [*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder", "-n"]
LOW = ["nice", "-n", "19"]
TEST = [os.environ.get("CARGO", "cargo"), "test", "--quiet"]
CARGO = [*TEST, "--workspace", "--no-fail-fast"]
STATIC = [sys.executable, "tests/static_agent.py"]
MEASURED = [*PYTEST, "-m", "measures"]
RUST_TRIES: Final = 2
"""How often a target in Rust may run again, alone."""


def fast() -> int:
    """Run the tests of less than half a second; return what pytest returns."""
    chosen = "not slow and not real_hosts and not measures"
    # These compute all the time.
    processors = str(len(os.sched_getaffinity(0)))
    code = subprocess.run([*PARALLEL, processors, "-m", chosen])
    print("Left out: tests marked slow, real_hosts, measures, and those of crates/*/tests.")
    return code.returncode


class Output:
    """What a command said, once it has ended, and its exit code."""

    code = -1
    text = ""


@contextmanager
def beside(title: str, command: list[str], environment: dict[str, str]) -> Iterator[Output]:
    """Run a command beside others, and print what it said when it has ended."""
    output = Output()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as told,
        subprocess.Popen(command, env=environment, stdout=told, stderr=told) as process,
    ):
        try:
            yield output
            output.code = process.wait()
        finally:
            process.terminate()
            told.seek(0)
            output.text = told.read()
            print(f"\n{title}:", output.text, sep="\n")


def opens_sockets(package: str) -> bool:
    """Return whether a crate calls the system, and so depends on the machine's load."""
    manifest = ROOT / "crates" / package / "Cargo.toml"
    return manifest.exists() and bool(
        re.search(r"^(perhop-socket|nix)\b", manifest.read_text("utf-8"), re.MULTILINE)
    )


def failed_in_rust(text: str) -> dict[str, list[str]]:
    """Return the tests that failed by the options of cargo that name their target.

    A target that ended without a list of them has none.
    """
    found = {}
    parts = re.split(r"to rerun pass `([^`]+)`", text)
    for said, target in zip(parts[::2], parts[1::2], strict=False):
        lists = re.findall(r"^failures:\n((?: {4}\S+\n)+)\ntest result", said, re.MULTILINE)
        found[target] = lists[-1].split() if lists else []
    return found


def rust_again(rust: Output) -> int:
    """Run tests in Rust that failed, of targets that open sockets, alone; return the exit code."""
    failed = failed_in_rust(rust.text)
    packages = [re.match(r"-p (\S+)", each) for each in failed]
    if not failed or not all(each and opens_sockets(each[1]) for each in packages):
        return rust.code
    for each, tests in failed.items():
        # With one package alone, its dependencies have other features and are compiled again.
        target = re.sub(r"^-p \S+ (?=--test )", "--workspace ", each)
        chosen = ["--exact", *tests] if tests else []
        command = [*TEST, *target.split(), "--", "--test-threads=1", *chosen]
        for _ in range(RUST_TRIES):
            said = " ".join(["cargo test", target, *tests])
            print(f"\nFailed under load, runs again alone: {said}", flush=True)
            if not (code := subprocess.run(command).returncode):
                break
        else:
            return code
    return 0


def keeping(command: list[str], cache: Path) -> list[str]:
    """Return a command of pytest that keeps the names of failed tests in the folder `cache`."""
    return [*command, "-o", f"cache_dir={cache}"]


def python_again(code: int, cache: Path, environment: dict[str, str]) -> int:
    """Run tests in Python that failed and have deadlines again, alone; return the exit code."""
    failed = cache / "v" / "cache" / "lastfailed"
    if code != pytest.ExitCode.TESTS_FAILED or not failed.exists():
        return code
    print("\nFailed under load, run again alone:", flush=True)
    chosen = ["-m", "measures or real_hosts or deadlines"]
    again = [*PYTEST, *chosen, "--last-failed", "--last-failed-no-failures", "none"]
    subprocess.run(keeping(again, cache), env=environment)
    # Tests without deadlines were not run again, and are still among those that failed.
    return int(bool(json.loads(failed.read_text("utf-8"))))


def everything() -> int:
    """Run all tests and tell what was left out; return 1 if one failed."""
    with tempfile.TemporaryDirectory() as folder:
        skipped, first, second = (Path(folder, name) for name in ("skipped", "first", "second"))
        # What fails is not tried again beside others, but alone.
        environment = {**os.environ, "PERHOP_SKIPPED": str(skipped), "PERHOP_ONCE": "yes"}
        with beside("What measures real hosts", keeping(MEASURED, first), environment) as real:
            # A compiler would take the processors from tests that have deadlines.
            compiled = subprocess.run([*LOW, *CARGO, "--no-run"], env=environment)
            if linked := subprocess.run(STATIC, stdout=subprocess.PIPE, text=True).stdout.strip():
                environment["PERHOP_STATIC_AGENT"] = linked
            with beside("Tests in Rust", [*LOW, *CARGO], environment) as rust:
                parallel = [*LOW, *PARALLEL, "auto", "-m", "not measures"]
                code = subprocess.run(keeping(parallel, second), env=environment).returncode
        del environment["PERHOP_ONCE"]
        codes = [
            compiled.returncode,
            rust_again(rust),
            python_again(real.code, first, environment),
            python_again(code, second, environment),
        ]
        if skipped.exists():
            print("\n".join(left_out(skipped.read_text("utf-8").splitlines())))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(fast() if sys.argv[1:] == ["fast"] else everything())
