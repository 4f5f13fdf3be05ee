"""Parts of the code, and the tests that are to see a fault in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mutants import python, rust

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mutants.mutation import Mutation


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the code.

    Attributes:
        folder: Its source, relative to the root of the repository.
        crate: Its crate, whose own tests see its faults; None for Python.
        tests: The tests that see a fault in files whose paths contain a key, those that take least
            time first: files of tests in Python, or test targets of the crate, which are tried
            after the tests inside it. The first key decides.
    """

    folder: str
    crate: str | None
    tests: Mapping[str, tuple[str, ...]]

    def mutations(self, root: Path) -> Iterator[Mutation]:
        """Yield all faults that its code may have, by file and place."""
        make, suffix = (rust.mutations, "rs") if self.crate else (python.mutations, "py")
        for path in sorted((root / self.folder).rglob(f"*.{suffix}")):
            place = path.relative_to(root / self.folder)
            if place.stem not in {"tests", "lab"} and "tests" not in place.parts:
                yield from make(str(path.relative_to(root)), path.read_text("utf-8"))

    def tests_of(self, path: str) -> tuple[str, ...]:
        """Return the tests that see a fault in a file, those that take least time first.

        Raises:
            KeyError: If no key is part of the path.
        """
        for part, tests in self.tests.items():
            if part in path.removeprefix(self.folder):
                return tests
        raise KeyError(path)


def _crate(name: str, tests: Mapping[str, tuple[str, ...]]) -> Area:
    return Area(f"crates/perhop-{name}/src", f"perhop-{name}", tests)


def _python(folder: str, first: tuple[str, ...], more: Mapping[str, tuple[str, ...]]) -> Area:
    def files(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"tests/test_{name}.py" for name in dict.fromkeys((*first, *names)))

    return Area(
        f"python/perhop/{folder}", None, {part: files(names) for part, names in more.items()}
    )


AREAS: Final = {
    "queue": _crate(
        "queue",
        {
            "/queue": ("aqm", "marks"),
            "/cbq": ("cbq",),
            "/hfsc": ("hfsc",),
            "/htb": ("htb", "marks"),
            "": ("marks", "reserved", "properties"),
        },
    ),
    "tcp": _crate("tcp", {"": ("replay", "packetdrill")}),
    "net": _crate("net", {"": ("network",)}),
    "resolve": _python(
        "scenario/resolve",
        ("resolve", "resolve_network", "resolve_elements", "resolve_traffic", "shares"),
        {
            "/elements": ("link_classes", "queues", "tunnels"),
            "/curves": ("hfsc",),
            "/shares": ("hfsc",),
            "/packets": ("scenario_packets",),
            "/paths": ("next_hops", "asymmetric_links"),
            "/tunnels": ("tunnels",),
            "/background": ("background",),
            "/steps": ("link_loss", "balance_changes", "path_mtu", "changes"),
            "/applications": ("applications",),
            "/servers": ("applications",),
            "": ("starts", "ipv6", "probes"),
        },
    ),
    "analysis": _python(
        "analysis",
        (
            "analysis_tables",
            "analysis_figures",
            "analysis_network",
            "analysis_paths",
            "analysis_judgement",
            "analysis_agreement",
        ),
        {
            "/agreement": ("crosscheck",),
            "/codepoints": ("crosscheck",),
            "/emodel": ("emodel", "calls"),
            "/calls": ("calls",),
            "/losses": ("losses",),
            "/responsiveness": ("responsiveness",),
            "/spreads": ("spreads",),
            "/arrivals": ("arrivals",),
            "/comp": ("comparison", "applications"),
            "/channels": ("stations",),
            "/hops": ("probes",),
            "/paths": ("paths",),
            "/timelines": ("report_delays",),
            "/windows": ("responsiveness", "calls"),
            "/distributions": ("analysis", "spreads"),
            "/ensembles": ("testing",),
            "/judgement": ("testing", "metrics", "analysis"),
            "/names": ("testing",),
            "": ("metrics", "absent", "analysis"),
        },
    ),
}
"""The areas by their names for `make mutants`."""
