"""Parts of links and classes: bandwidth, queue limits, overhead and ports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from perhop.hints import did_you_mean
from perhop.scenario.model.quantities import PACKETS, format_packets, schema_of
from perhop.scenario.model.text import Text
from perhop.units import (
    DURATION,
    NUMBER,
    RATE,
    SHARE,
    SIZE,
    U64_MAX,
    WHOLE,
    format_duration,
    format_rate,
    format_share,
    format_size,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
    quote,
)

_PICOBITS: Final = 8 * 10**12

PortRange = tuple[int, int]
"""The first and the last port."""


def _parse_ports(text: str) -> PortRange:
    match = re.fullmatch(r" *([0-9]{1,5})(?: *- *([0-9]{1,5}))? *", text, re.ASCII)
    if match is None:
        raise ValueError(f"{quote(text)} is not a port or range such as `5001` or `5000-5010`")
    low, high = int(match[1]), int(match[2] or match[1])
    if not (1 <= low <= 65535 and 1 <= high <= 65535):
        raise ValueError(f"{quote(text)} is out of range; expected ports from 1 to 65535")
    if low > high:
        raise ValueError(f"{quote(text)} ends before it starts; did you mean `{high}-{low}`?")
    return low, high


def _format_ports(ports: PortRange) -> str | int:
    low, high = ports
    return low if low == high else f"{low}-{high}"


MatchPorts = Annotated[
    PortRange,
    Text(
        _parse_ports,
        _format_ports,
        "a port or a range such as `5000-5010`",
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 65535},
                {"type": "string", "pattern": "^ *[0-9]{1,5}( *- *[0-9]{1,5})? *$"},
            ]
        },
        accepts=(str, int),
    ),
]
"""A port, or a range of ports, both ends included."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A part of a link: a share of its rate, or a rate.

    Attributes:
        share: Parts per billion, or None where `rate` says it.
        rate: Bits per second, or None where `share` says it.
    """

    share: int | None = None
    rate: int | None = None

    def of(self, capacity: int) -> int:
        """Bits per second of a link (or parent class) of `capacity`, rounded down."""
        if self.rate is not None:
            return self.rate
        return capacity * (self.share or 0) // WHOLE


def _parse_bandwidth(text: str) -> Bandwidth:
    if text.rstrip(" ").endswith("%"):
        bandwidth = Bandwidth(share=parse_share(text))
    else:
        try:
            bandwidth = Bandwidth(rate=parse_rate(text))
        except ValueError as error:
            if "needs a unit" not in str(error):
                raise
            raise ValueError("a bandwidth needs a unit, such as `10%` or `2 Mbps`") from None
    if not (bandwidth.share or bandwidth.rate):
        raise ValueError(f"{quote(text)} is zero; expected a bandwidth above zero")
    return bandwidth


def _format_bandwidth(bandwidth: Bandwidth) -> str:
    if bandwidth.rate is not None:
        return format_rate(bandwidth.rate)
    return format_share(bandwidth.share or 0)


ClassBandwidth = Annotated[
    Bandwidth,
    Text(
        _parse_bandwidth,
        _format_bandwidth,
        "a share such as `10%` or a rate such as `2 Mbps`",
        {"anyOf": [schema_of(SHARE), schema_of(RATE)]},
    ),
]
"""A share such as ``10%`` or a rate such as ``2 Mbps``."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a queue.

    Attributes:
        amount: Packets, bytes or picoseconds, above zero.
        unit: Unit of `amount`. A queue limited in time holds the bytes that drain in that time
            at the rate it is guaranteed.
    """

    amount: int
    unit: Literal["packets", "bytes", "time"]

    def size(self, rate: int) -> int:
        """Return the limit in bytes at a rate in bits per second, for packets of 1500 B.

        A limit in time holds at least a packet, as a queue must hold something.
        """
        match self.unit:
            case "bytes":
                return self.amount
            case "packets":
                return self.amount * 1500
            case "time":
                return max(self.amount * rate // _PICOBITS, 1500)


def _parse_limit(text: str) -> Limit:
    match = PACKETS.fullmatch(text)
    if match is not None and len(text) <= 40:
        limit = Limit(int(match[1]), "packets")
    elif re.search(rf"[0-9] *({'|'.join(SIZE.spellings)}) *$", text):
        limit = Limit(parse_size(text), "bytes")
    elif re.search(rf"[0-9] *({'|'.join(DURATION.spellings)}) *$", text):
        limit = Limit(parse_duration(text), "time")
    else:
        raise ValueError(
            f"{quote(text)} is not a queue limit; "
            "expected one such as `64 packets`, `100 kB` or `50 ms`"
        )
    if not limit.amount:
        raise ValueError(f"{quote(text)} holds nothing; expected a limit above zero")
    if limit.amount > U64_MAX:
        raise ValueError(f"{quote(text)} is more than 2^64 - 1 packets")
    return limit


def format_limit(limit: Limit) -> str:
    """Return the limit of a queue as a scenario states it, such as ``64 packets``."""
    match limit.unit:
        case "packets":
            return format_packets(limit.amount)
        case "bytes":
            return format_size(limit.amount)
        case "time":
            return format_duration(limit.amount)


_LIMIT_UNITS = "|".join([*SIZE.spellings, *DURATION.spellings])

QueueLimit = Annotated[
    Limit,
    Text(
        _parse_limit,
        format_limit,
        "a queue limit such as `64 packets`, `100 kB` or `50 ms`",
        {
            "type": "string",
            "pattern": rf"^ *([0-9]+ *packets?|{NUMBER} *({_LIMIT_UNITS})) *$",
            "examples": ["64 packets", "100 kB", "50 ms"],
        },
    ),
]
"""A limit in packets, bytes or time."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Layer-2 overhead of every packet.

    Attributes:
        size: Bytes added to a packet; with `cells`, bytes added before it is cut into cells.
        cells: True if the sum is padded to 48 bytes and sent in ATM cells of 53.
    """

    size: int
    cells: bool = False


OVERHEADS: dict[str, Overhead] = {
    "none": Overhead(0),
    "ethernet": Overhead(38),
    "pos": Overhead(7),
    "atm": Overhead(16, cells=True),
}
"""The named overheads.

- ``ethernet``: preamble 8, header 14, CRC 4 and the gap of 12 bytes (IEEE 802.3).
- ``pos``: PPP in HDLC-like framing with a 16-bit CRC, flag included (RFC 1662, RFC 2615).
- ``atm``: an AAL5 trailer of 8 and LLC/SNAP of 8, in cells of 53 bytes that carry 48 (RFC 2684).
"""


def _parse_overhead(text: str) -> Overhead:
    if text in OVERHEADS:
        return OVERHEADS[text]
    if not re.match(r" *-?[0-9]", text):
        names = ", ".join(OVERHEADS)
        message = (
            f"{quote(text)} is not an overhead; expected one of {names} or bytes such as `18 B`"
        )
        hint = did_you_mean(text, OVERHEADS)
        raise ValueError(f"{message}; {hint}" if hint else message)
    size = parse_size(text)
    if size > 65535:
        raise ValueError(f"{quote(text)} is more than a packet; expected at most 65535 B")
    return Overhead(size)


def _format_overhead(overhead: Overhead) -> str:
    for name, named in OVERHEADS.items():
        if overhead == named:
            return name
    return f"{overhead.size} B"


LinkOverhead = Annotated[
    Overhead,
    Text(
        _parse_overhead,
        _format_overhead,
        "one of none, ethernet, pos, atm or bytes such as `18 B`",
        {"anyOf": [{"enum": list(OVERHEADS)}, schema_of(SIZE)]},
    ),
]
"""Layer-2 overhead: a name, or bytes a packet."""
