"""The registry of drivers, by their names on the command line: ``r1=linux:netns=r1``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop_services.reservations.drivers.file import FileDriver
from perhop_services.reservations.drivers.lab import LabDriver
from perhop_services.reservations.drivers.linux import LinuxDriver
from perhop_services.reservations.drivers.text import IosDriver, JunosDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop_services.reservations.drivers.protocol import Driver


def _netconf() -> Callable[..., Driver]:
    """Return the driver for NETCONF, which takes long to import."""
    from perhop_services.reservations.drivers.netconf import NetconfDriver

    return NetconfDriver


_DRIVERS: Final[dict[str, Callable[[], Callable[..., Driver]]]] = {
    "file": lambda: FileDriver,
    "lab": lambda: LabDriver,
    "linux": lambda: LinuxDriver,
    "ios": lambda: IosDriver,
    "junos": lambda: JunosDriver,
    "netconf": _netconf,
}


def driver(text: str) -> Driver:
    """The driver of a text: ``KIND`` or ``KIND:KEY=VALUE,…``, ``file:PATH``, and ``lab:NAME``.

    Raises:
        UsageError: There is no such driver, or it takes no such key.
    """
    kind, _, rest = text.partition(":")
    if kind not in _DRIVERS:
        raise UsageError(f"{kind!r} is not a driver; expected one of {', '.join(_DRIVERS)}")
    make = _DRIVERS[kind]()
    if kind == "file":
        if not rest:
            raise UsageError("the driver `file` needs a path: file:PATH")
        return make(rest)
    if kind == "lab":
        return make(rest)
    given: dict[str, Any] = {}
    known = list(inspect.signature(make).parameters)
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if key not in known or not equals:
            raise UsageError(f"{part!r} means nothing to {kind}; expected {_keys(known)}")
        given[key] = value
    return make(**given)


def _keys(known: list[str]) -> str:
    return ", ".join(f"{key}=…" for key in known) or "nothing"
