"""CAKE, in the words of tc-cake(8)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import StrictBool

from perhop.hints import did_you_mean
from perhop.scenario.model.disciplines import DisciplineModel
from perhop.scenario.model.network import Limit
from perhop.scenario.model.quantities import Rate, schema_of
from perhop.scenario.model.text import Text
from perhop.units import DURATION, MILLISECOND, SECOND, format_duration, parse_duration, quote

__all__ = ["FRAMINGS", "RTTS", "Cake", "Coding", "Framing", "FramingBytes"]

Coding = Literal["none", "atm", "ptm"]


@dataclass(frozen=True, slots=True)
class Framing:
    """Length on the wire that a shaper or scheduler counts for a packet.

    Attributes:
        overhead: Bytes added to an IP packet.
        mpu: Least length after that.
        coding: `atm` for cells of 53 bytes that carry 48, `ptm` for 65 bytes that carry 64.
    """

    overhead: int = 0
    mpu: int = 0
    coding: Coding = "none"

    def charge(self, size: int) -> int:
        """Return the bytes that count for an IP packet of `size` bytes."""
        length = max(size + self.overhead, self.mpu)
        if self.coding == "atm":
            return -(-length // 48) * 53
        return length + -(-length // 64) if self.coding == "ptm" else length


FRAMINGS: Final[Mapping[str, Framing]] = {
    "none": Framing(),
    "conservative": Framing(48, coding="atm"),
    "ipoa-vcmux": Framing(8, coding="atm"),
    "ipoa-llcsnap": Framing(16, coding="atm"),
    "bridged-vcmux": Framing(24, coding="atm"),
    "bridged-llcsnap": Framing(32, coding="atm"),
    "pppoa-vcmux": Framing(10, coding="atm"),
    "pppoa-llc": Framing(14, coding="atm"),
    "pppoe-vcmux": Framing(32, coding="atm"),
    "pppoe-llcsnap": Framing(40, coding="atm"),
    "pppoe-ptm": Framing(30, coding="ptm"),
    "bridged-ptm": Framing(22, coding="ptm"),
    "docsis": Framing(18, 64),
    "ethernet": Framing(38, 84),
    "ether-vlan": Framing(4),
}
"""The keywords of overheads (tc-cake(8), overhead compensation parameters)."""

MOST_OVERHEAD: Final = 256
"""The most bytes of an overhead and of an `mpu` that tc takes."""

_CODINGS: Final = {"atm": "atm", "ptm": "ptm", "noatm": "none"}
_WORD: Final = re.compile(r" *(?:(mpu) +)?(?:([0-9]{1,3}) *B|([a-z-]+))(?= |$)")
_EXPECTED: Final = (
    "a keyword of tc-cake such as `ethernet` or `pppoe-ptm`, or bytes such as `44 B ptm mpu 84 B`"
)


def _parse_framing(text: str) -> Framing:
    """Return the sum of keywords and bytes, as tc adds them up."""
    overhead, mpu = 0, 0
    coding: str = "none"
    rest = text.rstrip()
    while rest:
        found = _WORD.match(rest)
        is_mpu, size, word = found.groups() if found else (None, None, rest.strip())
        if size is not None and is_mpu:
            mpu = int(size)
        elif size is not None:
            overhead += int(size)
        elif word in _CODINGS and not is_mpu:
            coding = _CODINGS[word]
        elif word in FRAMINGS and not is_mpu:
            named = FRAMINGS[word]
            overhead, mpu = overhead + named.overhead, named.mpu or mpu
            coding = coding if named.coding == "none" else named.coding
        else:
            message = f"{quote(word)} is not an overhead; expected {_EXPECTED}"
            hint = did_you_mean(word, FRAMINGS)
            raise ValueError(f"{message}; {hint}" if hint else message)
        assert found is not None
        rest = rest[found.end() :]
    if not text.strip():
        raise ValueError(f"is empty; expected {_EXPECTED}")
    for name, bytes_ in (("an overhead", overhead), ("an mpu", mpu)):
        if bytes_ > MOST_OVERHEAD:
            raise ValueError(
                f"{bytes_} B is too much for {name}; expected {MOST_OVERHEAD} B or less"
            )
    return Framing(overhead, mpu, coding)  # type: ignore[arg-type]


def _format_framing(framing: Framing) -> str:
    for name, named in FRAMINGS.items():
        if framing == named:
            return name
    coding = "" if framing.coding == "none" else f" {framing.coding}"
    return f"{framing.overhead} B{coding}{f' mpu {framing.mpu} B' if framing.mpu else ''}"


RTTS: Final[Mapping[str, int]] = {
    "datacentre": MILLISECOND // 10,
    "lan": MILLISECOND,
    "metro": 10 * MILLISECOND,
    "regional": 30 * MILLISECOND,
    "internet": 100 * MILLISECOND,
    "oceanic": 300 * MILLISECOND,
    "satellite": SECOND,
    "interplanetary": 1000 * SECOND,
}
"""The keywords of round-trip times (iproute2, tc/q_cake.c), in picoseconds."""

_RTT: Final = "a duration such as `50 ms`, or a keyword of tc-cake such as `regional`"
_LEAST_RTT: Final = MILLISECOND // 1000


def _parse_rtt(text: str) -> int:
    if text in RTTS:
        return RTTS[text]
    if re.fullmatch(r" *[a-z]+ *", text):
        message = f"{quote(text)} is not a round-trip time; expected {_RTT}"
        hint = did_you_mean(text, RTTS)
        raise ValueError(f"{message}; {hint}" if hint else message)
    found = parse_duration(text)
    if found < _LEAST_RTT:
        raise ValueError(f"{quote(text)} is too short; expected 1 us or more")
    return found


def _format_rtt(rtt: int) -> str:
    return next((name for name, named in RTTS.items() if rtt == named), format_duration(rtt))


_KEYWORDS: Final = "|".join((*FRAMINGS, "atm", "noatm"))
_RTT_SCHEMA: Final = {"anyOf": [{"enum": list(RTTS)}, schema_of(DURATION)]}


FramingBytes = Annotated[
    Framing,
    Text(
        _parse_framing,
        _format_framing,
        _EXPECTED,
        {
            "type": "string",
            "pattern": rf"^ *(({_KEYWORDS}|ptm|(mpu +)?[0-9]{{1,3}} *B)( +|$))+$",
            "examples": [*FRAMINGS, "44 B ptm mpu 84 B"],
        },
    ),
]
"""The layer-2 overhead that rates count."""


class Cake(DisciplineModel):
    """Common Applications Kept Enhanced (Høiland-Jørgensen, Täht and Morton, 2018).

    A shaper, tins by DSCP, flow queues with fairness of hosts, COBALT, and an ACK filter.
    """

    usual_limit = Limit(10240 * 1514, "bytes")
    random = True

    bandwidth: Rate | None = None
    """The rate of the shaper. By default the link limits it."""

    overhead: FramingBytes = Framing()
    """The layer-2 overhead of a packet that the shaper counts: keywords of tc-cake, or bytes with
    `atm`, `ptm` and `mpu`. By default it counts IP packets, whatever the overhead of the link."""

    diffserv: Literal["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"] = (
        "diffserv3"
    )
    """The division of packets into tins by their DSCP."""

    isolation: Literal[
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
    ] = "triple-isolate"
    """The assignment of packets to queues, and the hosts between which CAKE is fair."""

    rtt: Annotated[int, Text(_parse_rtt, _format_rtt, _RTT, _RTT_SCHEMA)] = 100 * MILLISECOND
    """The usual round-trip time, or a keyword of tc-cake: the interval of COBALT. Its target is a
    twentieth."""

    ack_filter: Literal["off", "on", "aggressive"] = "off"
    """The removal of TCP acknowledgements that later ones in the same queue supersede."""

    wash: StrictBool = False
    """With `true`, the DSCP of packets becomes 0 after they are assigned to a tin."""

    ingress: StrictBool = False
    """With `true`, dropped packets count for the shaper, because they have crossed the bottleneck
    before it."""

    @property
    def tins(self) -> tuple[str, ...]:
        """The names of tins in results, if there are several."""
        match self.diffserv:
            case "besteffort":
                return ()
            case "diffserv3":
                return ("best-effort", "bulk", "voice")
            case "diffserv4":
                return ("best-effort", "bulk", "video", "voice")
            case "diffserv8" | "precedence":
                return tuple(f"tin{number}" for number in range(8))

    @property
    def target(self) -> int:
        """The target of the delay in picoseconds."""
        return max(self.rtt // 20, _LEAST_RTT)

    def default_limit(self) -> Limit:
        """Return four times the bytes of a round trip, as Linux does (`cake_reconfigure`)."""
        if self.bandwidth is None:
            return self.usual_limit
        bytes_ = max(self.bandwidth * self.rtt * 4 // (8 * SECOND), 4 << 20)
        return Limit(min(bytes_, self.usual_limit.amount), "bytes")

    def aim(self, limit: Limit) -> Limit:
        """Return the target of the delay."""
        del limit
        return Limit(self.target, "time")
