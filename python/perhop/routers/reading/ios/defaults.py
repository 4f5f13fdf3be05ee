"""The platform that a configuration is for, and the values that it leaves to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.tree import Statement

COMMANDS: Final = "Cisco IOS Quality of Service Solutions Command Reference"
XE_GUIDE: Final = "Cisco IOS-XE QoS Congestion Management Configuration Guide"
PACKET: Final = 1500
"""Bytes of the packets that IOS-XE assumes for queue limits."""

ASSUMED_RATE: Final = 100_000_000
"""The rate in bit/s for which times are converted where no interface tells."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The kind of system that a configuration is for.

    Attributes:
        xe: True for IOS-XE, false for classic IOS.
        hqf: True for releases with the hierarchical queueing framework: IOS-XE, and IOS from 15.0.
            Release 12.4(20)T has it as well, but a configuration says only `version 12.4`.
        reserves: True for releases before 12.4, all of which refuse guarantees above
            `max-reserved-bandwidth`.
    """

    xe: bool
    hqf: bool = False
    reserves: bool = False

    @property
    def source(self) -> str:
        """The document of queue limits and thresholds."""
        return XE_GUIDE if self.xe else COMMANDS

    def queue_packets(self, rate: int, *, priority: bool) -> int:
        """Return the default queue limit in packets, of a class at a rate in bit/s."""
        if not self.xe:
            return 64
        if priority:
            return 512
        return max(64, rate // 20 // (8 * PACKET))

    def shape_bits(self, rate: int) -> int:
        """Return the default committed burst of a shaper in bits."""
        if self.xe or self.hqf:
            return rate * 4 // 1000
        return 8000 if rate <= 320_000 else rate * 25 // 1000


def police_bytes(rate: int) -> int:
    """Return the default burst of a policer in bytes."""
    return max(rate // 32, 1500)


def priority_bytes(rate: int) -> int:
    """Return the default burst of `priority` in bytes: 200 ms of its rate."""
    return max(rate // 40, 1)


def platform_of(statements: Sequence[Statement], account: Account) -> Platform:
    """Return the platform of a configuration, from what it says at its top level."""
    version: Statement | None = None
    xe: Statement | None = None
    for statement in statements:
        first = statement.word(0)
        if first == "version" and version is None:
            version = statement
        elif (first == "platform" and statement.word(1) in _XE_PLATFORM) or _XE_IMAGE.search(
            statement.text
        ):
            xe = xe or statement
    major = re.match("[0-9]{1,3}", version.word(1)) if version is not None else None
    if version is not None and major is not None and int(major[0]) >= 16:
        return Platform(xe=True)
    if xe is not None:
        return Platform(xe=True)
    if version is None and statements:
        place = Place(statements[0].place.file, 0)
        account.default(place, "version", "classic IOS", "assumption: no line tells the release")
    release = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", version.word(1)) if version else None
    old = release is not None and (int(release[1]), int(release[2])) < (12, 4)
    return Platform(xe=False, hqf=major is not None and int(major[0]) >= 15, reserves=old)


_XE_PLATFORM: Final = frozenset(
    {"qfp", "punt-keepalive", "console", "hardware", "ipsec", "resource"}
)
_XE_IMAGE: Final = re.compile(
    r"^boot system .*(packages\.conf|asr1000|isr4[234]|csr1000|c8[0-9]{3}v?-|cat9k|ios-?xe)"
    r"|^license udi pid (ISR4|ASR1|CSR|C8[0-9]{3}|C9[0-9]{3})",
    re.IGNORECASE,
)

_KINDS: Final = (
    ("hundredgig", 100_000),
    ("fortygig", 40_000),
    ("twentyfivegig", 25_000),
    ("tengig", 10_000),
    ("fivegig", 5_000),
    ("twogig", 2_500),
    ("gigabit", 1_000),
    ("fastethernet", 100),
    ("ethernet", 10),
    ("vlan", 1_000),
)
_OTHER_KINDS: Final = {
    "serial": (1_544_000, "T1"),
    "pos": (155_000_000, "OC-3"),
    "atm": (155_520_000, "OC-3"),
    "hssi": (45_045_000, "HSSI"),
    "bri": (64_000, "a B channel"),
}
_SHORT: Final = {
    "hu": "hundredgig",
    "fo": "fortygig",
    "twe": "twentyfivegig",
    "te": "tengig",
    "fi": "fivegig",
    "tw": "twogig",
    "gi": "gigabit",
    "g": "gigabit",
    "ge": "gigabit",
    "gig": "gigabit",
    "fa": "fastethernet",
    "f": "fastethernet",
    "fe": "fastethernet",
    "e": "ethernet",
    "eth": "ethernet",
    "et": "ethernet",
    "vl": "vlan",
    "se": "serial",
    "s": "serial",
    "po": "",
    "at": "atm",
    "hs": "hssi",
    "br": "bri",
}


def same_interface(name: str) -> str:
    """Return a name that all spellings of an interface have in common, such as of ``Gi 0/1``."""
    match = re.match(r"([a-z-]+) *(.*)", name.lower())
    if match is None:
        return name
    kind = _SHORT.get(match[1], match[1])
    known = (start for start, _ in _KINDS if kind.startswith(start))
    return f"{next(known, kind)} {match[2]}"


def kind_rate(interface: str) -> tuple[int, str] | None:
    """Return the rate of a kind of interface in bit/s, and its name; None if it has none."""
    name = interface.lower().removeprefix("range ")
    kind = re.split(r"[0-9 ]", name, maxsplit=1)[0].strip()
    kind = _SHORT.get(kind, kind)
    for start, megabits in _KINDS:
        if kind.startswith(start):
            return megabits * 10**6, "Ethernet"
    return _OTHER_KINDS.get(kind)
