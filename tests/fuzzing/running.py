"""Runs of fuzz tests: a few fixed examples with every test, and new ones for any time."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, note, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from perhop.scenario import dump

if TYPE_CHECKING:
    from perhop.scenario import Scenario

EXAMPLES: Final = int(os.environ.get("PERHOP_FUZZ", "0"))
"""Number of new examples of each test; 0 for the fixed ones."""

FOUND: Final = Path("runs", "fuzz")
"""File with the current example, so that it is there whatever happens."""


def fuzzed(examples: int) -> Any:
    """A test of `examples` fixed examples, or, by `make fuzz`, of as many new ones as it wants."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    quiet.append(HealthCheck.function_scoped_fixture)
    if EXAMPLES:
        return settings(
            max_examples=EXAMPLES,
            database=DirectoryBasedExampleDatabase(FOUND / "examples"),
            suppress_health_check=quiet,
            print_blob=True,
        )
    return settings(
        max_examples=examples, derandomize=True, database=None, suppress_health_check=quiet
    )


def record(scenario: Scenario) -> None:
    """Have a finding shown as a scenario file, which stays in `FOUND` if the process dies."""
    text = dump(scenario)
    note(text)
    if EXAMPLES:
        test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split()[0]
        FOUND.mkdir(parents=True, exist_ok=True)
        (FOUND / f"{test}.yaml").write_text(text)


def memory_mb() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
