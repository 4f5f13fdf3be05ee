"""Captures: files of the packets at a node's end of a link.

The engine that carries packets writes them. This module decides on interfaces and files, and
protects files that are not captures.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop.errors import OutputError, UnsupportedError, UsageError
from perhop.hints import did_you_mean
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from io import FileIO

    from perhop.engines import plans
    from perhop.scenario import Scenario

__all__ = [
    "SNAPLEN",
    "Capture",
    "capture_plan",
    "planned",
    "refuse_foreign",
    "unsupported",
    "writing",
]

SNAPLEN: Final = 128
"""The default number of bytes that are kept of a packet: all headers, and little else."""

_MAGIC: Final = (b"\x0a\x0d\x0d\x0a", b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1")
"""The first bytes of captures: those of pcapng, and of pcap in either byte order."""

_INSTEAD: Final = {
    "kernel": "use --engine emu for captures",
    "live": "capture on the hosts, with tcpdump",
}
"""The engines that write no captures, and what to do."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A file, and the interfaces whose packets it captures.

    Attributes:
        path: The file.
        interfaces: The interfaces: those of the senders of these directed links, "r1>r2".
        snaplen: The bytes of a packet that are kept; 0 for all.
    """

    path: Path
    interfaces: tuple[str, ...]
    snaplen: int


def capture_plan(scenario: Scenario, seed: int, capture: Capture) -> plans.CapturePlan:
    """Return a capture as the core takes it."""
    directions = scenario.directions
    title = scenario.title and f": {scenario.title}"

    def interface(name: str) -> plans.InterfacePlan:
        link, sender = directions[name]
        rate = link.medium(sender).rate
        end = f"{sender}'s end of its link to {link.other(sender)}, {format_rate(rate)}"
        return {"name": name, "description": end, "speed": rate}

    return {
        "snaplen": capture.snaplen,
        "application": f"perhop {version('perhop')}",
        "comment": f"{scenario.name}{title}, seed {seed}",
        "interfaces": [interface(name) for name in capture.interfaces],
    }


def unsupported(engine: str, path: str | os.PathLike[str]) -> UnsupportedError:
    """Return the error of an engine that writes no captures."""
    return UnsupportedError(f"the {engine} engine does not write {path}; {_INSTEAD[engine]}")


def planned(
    scenario: Scenario,
    engine: str,
    captures: Mapping[str, str | os.PathLike[str]],
    snaplen: int,
    out: str | os.PathLike[str] | None,
) -> list[Capture]:
    """Return the files to write, as `captures` names them by link, or by node with one link.

    Links with the same file become interfaces of that file.

    Raises:
        UsageError: If a link is unknown, a node has no or several links, or a file is in the
            folder of the dataset.
        OutputError: If a file exists and is not a capture.
        UnsupportedError: If the engine writes no captures.
    """
    if engine in _INSTEAD and captures:
        raise unsupported(engine, next(iter(captures.values())))
    if not 0 <= snaplen < 2**31:
        raise UsageError(f"{snaplen} bytes of a packet cannot be kept; expected 0 to 2^31 - 1")
    files: dict[Path, tuple[Path, list[str]]] = {}
    for link, file in captures.items():
        path = Path(file)
        _, interfaces = files.setdefault(path.resolve(), (path, []))
        interface = _interface(scenario, link)
        if interface not in interfaces:
            interfaces.append(interface)
    for resolved, (path, _) in files.items():
        if out is not None and resolved.is_relative_to(Path(out).resolve()):
            raise UsageError(
                f"{path} is in the folder of the results, which is perhop's; give another place"
            )
        refuse_foreign(path)
    return [Capture(path, tuple(interfaces), snaplen) for path, interfaces in files.values()]


def _interface(scenario: Scenario, link: str) -> str:
    """Return the directed link that `link` names: itself, or the only one of a node."""
    directions = scenario.directions
    if link in directions:
        return link
    if link not in scenario.nodes:
        hint = did_you_mean(link, [*directions, *scenario.nodes])
        raise UsageError(
            f"there is no link {quote(link)}; {hint or f'expected one of {_listed(directions)}'}"
        )
    own = [name for name, (_, sender) in directions.items() if sender == link]
    if not own:
        raise UsageError(f"{quote(link)} has no links; there is nothing to capture")
    if len(own) > 1:
        raise UsageError(f"{quote(link)} has {len(own)} links; say which: {_listed(own)}")
    return own[0]


def _listed(names: Mapping[str, object] | list[str]) -> str:
    shown = ", ".join(quote(name) for name in list(names)[:8])
    return shown if len(names) <= 8 else f"{shown}, …"


def refuse_foreign(path: Path) -> None:
    """Raise OutputError if `path` is an existing file that is not a capture."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise _unwritable(path, error) from error
    if start not in _MAGIC:
        raise OutputError(f"{path} exists and is not a capture; give another name")


@contextmanager
def writing(captures: list[Capture]) -> Iterator[list[FileIO]]:
    """Open the files of captures, empty. A pipe waits for its reader.

    Raises:
        OutputError: If a file cannot be opened or written.
    """
    paths = [capture.path for capture in captures]
    with ExitStack() as opened:
        try:
            # Without a buffer, so that a file ends with a whole packet whenever it ends.
            yield [opened.enter_context(path.open("wb", buffering=0)) for path in paths]
        except OSError as error:
            if error.filename is None or Path(error.filename) not in paths:
                raise
            raise _unwritable(Path(error.filename), error) from error


def _unwritable(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"cannot write {path}: {reason}; give another file")
