"""Parts of the code, and the tests that are to see a fault in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mutants import python, rust

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mutants.mutation import Mutation


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the code.

    Attributes:
        folder: Its source, relative to the root of the repository.
        crate: Its crate, whose own tests see its faults; None for Python.
        tests: The files of tests in Python that see its faults.
    """

    folder: str
    crate: str | None = None
    tests: tuple[str, ...] = ()

    def mutations(self, root: Path) -> Iterator[Mutation]:
        """Yield all faults that its code may have, by file and place."""
        make, suffix = (rust.mutations, "rs") if self.crate else (python.mutations, "py")
        for path in sorted((root / self.folder).rglob(f"*.{suffix}")):
            place = path.relative_to(root / self.folder)
            if place.stem not in {"tests", "lab"} and "tests" not in place.parts:
                yield from make(str(path.relative_to(root)), path.read_text("utf-8"))


def _crate(name: str) -> Area:
    return Area(f"crates/perhop-{name}/src", crate=f"perhop-{name}")


def _python(folder: str, *tests: str) -> Area:
    return Area(f"python/perhop/{folder}", tests=tuple(f"tests/test_{test}.py" for test in tests))


AREAS: Final = {
    "queue": _crate("queue"),
    "tcp": _crate("tcp"),
    "net": _crate("net"),
    "resolve": _python(
        "scenario/resolve",
        "resolve",
        "shares",
        "scenario_packets",
        "next_hops",
        "changes",
        "paths",
        "background",
        "starts",
        "tunnels",
        "link_classes",
        "asymmetric_links",
        "balance_changes",
        "link_loss",
        "applications",
        "ipv6",
        "path_mtu",
        "probes",
        "hfsc",
        "network",
        "scenario_broken",
        "warnings",
    ),
    "analysis": _python(
        "analysis",
        "analysis_tables",
        "analysis",
        "emodel",
        "calls",
        "losses",
        "responsiveness",
        "spreads",
        "arrivals",
        "comparison",
        "stations",
        "probes",
        "metrics",
        "marking",
        "absent",
        "applications",
        "costs",
        "warnings",
        "testing",
    ),
}
"""The areas by their names for `make mutants`."""
