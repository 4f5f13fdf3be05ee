"""What `perhop lab open` shows, and in which program."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Final

from perhop.errors import UnsupportedError, UsageError
from perhop.hints import did_you_mean, listed
from perhop.units import quote

if TYPE_CHECKING:
    from perhop.lab import Lab

__all__ = ["reader_of", "watched"]

_WINDOW: Final = ("wireshark", "-k", "-i", "-")
_LINES: Final = (("tshark", "-l", "-n", "-i", "-"), ("tcpdump", "-l", "-n", "-r", "-"))
"""Programs that print lines, the preferred one first."""


def watched(lab: Lab, place: str) -> list[str]:
    """Return the directed links of a place: a directed link, or those that begin at a node.

    Raises:
        UsageError: There is no such place.
    """
    status = lab.status()
    links = [*status["links"]]
    if place in links:
        return [place]
    if place in status["nodes"]:
        return [link for link in links if link.partition(">")[0] == place]
    known = [*links, *status["nodes"]]
    hint = did_you_mean(place, known)
    said = f"; {hint}" if hint else listed(known)
    raise UsageError(f"{quote(place)} is neither a directed link nor a node{said}")


def reader_of(given: str | None) -> list[str]:
    """Return the command that shows packets: the given one, or the first that is installed.

    Raises:
        UsageError: The given command is malformed.
        UnsupportedError: No program is installed.
    """
    if given is not None:
        try:
            command = shlex.split(given)
        except ValueError as error:
            raise UsageError(f"--with: {error}") from None
        if not command:
            raise UsageError("--with: expected a command such as `tcpdump -nr -`")
        return command
    windows = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    for each in (*([_WINDOW] if windows else []), *_LINES):
        if shutil.which(each[0]):
            return [*each]
    raise UnsupportedError(
        "there is no wireshark (which needs a display), tshark or tcpdump; install one, or name "
        "a program by --with"
    )
