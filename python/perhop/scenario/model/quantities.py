"""Quantities with units, whole numbers and stretches of time, as fields of the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from perhop.hints import did_you_mean
from perhop.scenario.model.text import Text
from perhop.units import (
    DURATION,
    RATE,
    SHARE,
    SIZE,
    WHOLE,
    Quantity,
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

if TYPE_CHECKING:
    from collections.abc import Callable


def _at_least_one(quantity: Quantity) -> Callable[[str], int]:
    """A parser that refuses zero."""

    def parse(text: str) -> int:
        value = quantity.parse(text)
        if not value:
            raise ValueError(f"{quote(text)} is zero; expected a {quantity.name} above zero")
        return value

    return parse


def schema_of(quantity: Quantity) -> dict[str, Any]:
    """The JSON Schema of what a file may say for a quantity."""
    return {"type": "string", "pattern": quantity.pattern, "examples": [quantity.example]}


_A_RATE = "a rate such as `10 Mbps`"
_A_DURATION = "a duration such as `100 ms`"
_A_SIZE = "a size such as `64 KiB`"
_A_SHARE = "a share such as `1%`"


def _positive(quantity: Quantity, write: Callable[[int], str], expected: str) -> Text:
    """A quantity above zero."""
    return Text(_at_least_one(quantity), write, expected, schema_of(quantity))


ANY_RATE = Text(parse_rate, format_rate, _A_RATE, schema_of(RATE))
"""Bits per second, perhaps zero."""

ANY_DURATION = Text(parse_duration, format_duration, _A_DURATION, schema_of(DURATION))
"""Picoseconds, perhaps zero."""

ANY_SHARE = Text(parse_share, format_share, _A_SHARE, schema_of(SHARE))
"""Parts per billion, perhaps zero."""

ANY_SIZE = Text(parse_size, format_size, _A_SIZE, schema_of(SIZE))
"""Bytes, perhaps zero."""


Rate = Annotated[int, _positive(RATE, format_rate, _A_RATE)]
"""Bits per second, above zero."""

Duration = Annotated[int, ANY_DURATION]
"""Picoseconds; as an instant, since the scenario's start."""

PositiveDuration = Annotated[int, _positive(DURATION, format_duration, _A_DURATION)]
"""Picoseconds, above zero."""

Size = Annotated[int, _positive(SIZE, format_size, _A_SIZE)]
"""Bytes, above zero."""

Share = Annotated[int, _positive(SHARE, format_share, _A_SHARE)]
"""Parts per billion, above zero."""


Chance = Annotated[int, ANY_SHARE]
"""A probability in parts per billion, perhaps zero."""


def _parse_loss(text: str) -> int:
    share = parse_share(text)
    if share == WHOLE:
        raise ValueError("`100%` loses every packet; expected less")
    return share


Loss = Annotated[int, Text(_parse_loss, format_share, _A_SHARE, schema_of(SHARE))]
"""The probability of a loss in parts per billion, below 100%."""


def _size(low: int, high: int, example: str) -> Text:
    """A size from `low` to `high` bytes."""

    def parse(text: str) -> int:
        size = parse_size(text)
        if not low <= size <= high:
            raise ValueError(f"{quote(text)} is out of range; expected {low} B to {high} B")
        return size

    return Text(parse, format_size, f"a size such as `{example}`", schema_of(SIZE))


WriteSize = Annotated[int, _size(1, 2**20, "128 KiB")]
"""The bytes that an application writes at once: up to the longest write of iperf3, 1 MiB."""

SegmentSize = Annotated[int, _size(536, 65495, "1448 B")]
"""A TCP payload in bytes: from the least that RFC 9293 lets a peer assume to what IPv4 holds."""

DatagramSize = Annotated[int, _size(1, 65507, "1470 B")]
"""A UDP payload in bytes that IPv4 holds."""

QuicDatagram = Annotated[int, _size(1200, 65507, "1452 B")]
"""The UDP payload of a QUIC packet in bytes, at least what every path carries (RFC 9000)."""

QuicWindow = Annotated[int, _size(1200, 2**40, "4 MiB")]
"""A window of QUIC's flow control in bytes."""

Certificates = Annotated[int, _size(1, 65535, "2 kB")]
"""The length of a server's TLS certificates in bytes."""

ExchangeSize = Annotated[int, _size(1, 10**12, "100 kB")]
"""The size of a request or response of an application in bytes: up to 1 TB."""

EchoSize = Annotated[int, _size(0, 65507, "56 B")]
"""An ICMP echo payload in bytes that IPv4 holds."""


LARGEST_WINDOW = 65535 << 14
"""The largest window in bytes that TCP can say (RFC 7323, section 2.3)."""


def _parse_window_size(text: str) -> int:
    size = _at_least_one(SIZE)(text)
    if size > LARGEST_WINDOW:
        raise ValueError(
            f"{quote(text)} is more than {LARGEST_WINDOW} B, the largest window that TCP can say"
        )
    return size


WindowSize = Annotated[
    int, Text(_parse_window_size, format_size, "a size such as `64 KiB`", schema_of(SIZE))
]
"""A TCP window in bytes."""

QUANTA = 64, 2**24
"""The least quantum, so that few turns add up to a packet, and the greatest, in bytes."""

Quantum = Annotated[int, _size(*QUANTA, "3000 B")]
"""The bytes that a turn of a class adds to what it may send."""

PacketSize = Annotated[int, _size(1, 65535, "1500 B")]
"""The length of an IP packet in bytes."""


Mtu = Annotated[int, _size(576, 65535, "1500 B")]
"""The longest IP packet of a link in bytes; at least what every host must take (RFC 791)."""

OuterBytes = Annotated[int, _size(20, 400, "60 B")]
"""The bytes that a tunnel adds to a packet; at least those of an IPv4 header."""


# Whole numbers


def _count(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not low <= int(text) <= high:
            raise ValueError(f"{quote(text)} is out of range; expected {low} to {high}")
        return int(text)

    return parse


def _whole(low: int, high: int, what: str = "a whole number") -> Text:
    """A whole number from `low` to `high`."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Text(_count(low, high), int, f"{what} from {low} to {high}", schema, accepts=(int,))


ANY_COUNT = Text(
    _count(0, 2**53), int, "a whole number", {"type": "integer", "minimum": 0}, accepts=(int,)
)
"""A number of things, perhaps none."""


def _parse_ratio(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text, re.ASCII) is None:
        raise ValueError(f"{quote(text)} is not a number with up to six decimals, such as 1.5")
    whole, _, part = text.partition(".")
    return 10**6 * int(whole) + int(part.ljust(6, "0"))


def _format_ratio(ratio: int) -> float:
    return ratio // 10**6 if ratio % 10**6 == 0 else ratio / 10**6


ANY_RATIO = Text(
    _parse_ratio,
    _format_ratio,
    "a number such as 1.5",
    {"type": "number", "minimum": 0, "maximum": 999_999_999},
    accepts=(int, float),
)
"""A ratio in parts per million, perhaps zero."""

PriorityCode = Annotated[int, _whole(0, 7)]
"""A traffic class at layer 2: the priority code point of a VLAN tag, or the traffic class of an
MPLS label."""

Frames = Annotated[int, _whole(1, 256)]
"""Number of frames in an aggregate."""

ContentionWindow = Annotated[int, _whole(0, 32767)]
"""A contention window, in slots."""

Retries = Annotated[int, _whole(0, 255)]
"""Number of retransmissions of a frame."""

Gap = Annotated[int, _whole(1, 10**9)]
"""The packets from one that skips a link's delay to the next that may."""

Headers = Annotated[int, _whole(1, 16)]
"""Number of VLAN tags or MPLS labels of a packet."""

Streams = Annotated[int, _whole(1, 1000)]
"""Number of connections of a flow."""

FEWEST_SEEDS: Final = 6
"""Fewer runs have no confidence interval of their median of 95%."""

MOST_SEEDS: Final = 1000
"""The most runs of an ensemble."""


def parse_seeds(text: str) -> int:
    """Return a number of runs; ValueError unless it is one, or enough for an interval."""
    if int(text) != 1 and not FEWEST_SEEDS <= int(text) <= MOST_SEEDS:
        raise ValueError(
            f"{quote(text)} is not a number of runs for an interval; expected 1, or "
            f"{FEWEST_SEEDS} to {MOST_SEEDS}"
        )
    return int(text)


Seeds = Annotated[
    int,
    Text(
        parse_seeds,
        int,
        f"1, or a whole number from {FEWEST_SEEDS} to {MOST_SEEDS}",
        {
            "anyOf": [
                {"const": 1},
                {"type": "integer", "minimum": FEWEST_SEEDS, "maximum": MOST_SEEDS},
            ]
        },
        accepts=(int,),
    ),
]
"""Number of runs with different seeds: one, or enough for an interval."""

ObjectCount = Annotated[int, _whole(1, 1000)]
"""Number of equal objects of a page."""

FlowQueues = Annotated[int, _whole(1, 65535)]
"""Number of queues that flows are spread over."""

Coupling = Annotated[int, _whole(1, 100)]
"""A coupling factor (RFC 9332, section 2.1)."""


def _thousandths(low: float, high: float) -> Text:
    """A number with up to three decimals, held in thousandths."""
    bounds = f"{low:g} to {high:g}"

    def parse(text: str) -> int:
        if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text, re.ASCII) is None:
            raise ValueError(
                f"{quote(text)} is not a number with up to three decimals, such as 1.5"
            )
        whole, _, part = text.partition(".")
        number = 1000 * int(whole) + int(part.ljust(3, "0"))
        if not 1000 * low <= number <= 1000 * high:
            raise ValueError(f"{quote(text)} is out of range; expected {bounds}")
        return number

    return Text(
        parse,
        lambda number: number // 1000 if number % 1000 == 0 else number / 1000,
        f"a number from {bounds}",
        {"type": "number", "minimum": low, "maximum": high},
        accepts=(int, float),
    )


Sigma = Annotated[int, _thousandths(0.001, 5)]
"""The standard deviation of a logarithm in thousandths."""

ParetoShape = Annotated[int, _thousandths(1.05, 10)]
"""The shape of a Pareto distribution in thousandths."""

PacketCount = Annotated[int, _whole(0, 1000, "a whole number of packets")]
"""A number of packets, or zero."""

MeanBurst = Annotated[int, _thousandths(1, 1000)]
"""A mean number of packets in a row, in thousandths."""

Burst = Annotated[int, _whole(1, 1000, "a whole number of packets")]
"""Number of packets that follow each other at once."""

EPHEMERAL_PORTS = (49152, 65535)
"""Range of the senders' own ports (RFC 6335)."""

Port = Annotated[int, _whole(1, 65535, "a port")]
"""A TCP or UDP port."""


def _parse_version(text: str) -> int:
    if text != "1":
        raise ValueError(f"this perhop reads version 1 of the format, not {quote(text)}")
    return 1


Version = Annotated[
    Literal[1],
    Text(_parse_version, int, "the version of the format, 1", {"const": 1}, accepts=(int,)),
]
"""The version of the scenario format."""

PACKETS = re.compile(r" *([0-9]+) *packets? *", re.ASCII)


def format_packets(count: int) -> str:
    """`count` as it is written: ``10 packets``."""
    return f"{count} packet" if count == 1 else f"{count} packets"


def _packets(most: int) -> Text:
    """A number of packets from one to `most`."""

    def parse(text: str) -> int:
        match = PACKETS.fullmatch(text) or re.fullmatch(r"([0-9]+)", text, re.ASCII)
        if match is None or len(text) > 40:
            raise ValueError(f"{quote(text)} is not a number of packets, such as `10 packets`")
        if not 1 <= int(match[1]) <= most:
            raise ValueError(f"{quote(text)} is out of range; expected 1 to {most} packets")
        return int(match[1])

    return Text(
        parse,
        format_packets,
        "a number of packets such as `10 packets`",
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": most},
                {"type": "string", "pattern": "^ *[0-9]+ *packets? *$"},
            ]
        },
        accepts=(str, int),
    )


ANY_PACKETS = _packets(1000)
"""A number of packets, from one."""

Packets = Annotated[int, ANY_PACKETS]
"""A number of full-sized packets (segments)."""

DelayLimit = Annotated[int, _packets(2**32 - 1)]
"""The packets that a delay line holds: any number that netem takes, and not none."""


def parse_window(text: str) -> tuple[int, int]:
    """Return the start and the end in picoseconds of `text`, such as ``62 s..90 s``.

    Raises:
        ValueError: `text` is no stretch of time; the message says why and what was expected.
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise ValueError(f"{quote(text)} is not a stretch of time such as `62 s..90 s`")
    start, end = parse_duration(first), parse_duration(last)
    if start >= end:
        raise ValueError(
            f"{quote(text)} ends before it starts; expected a stretch like `62 s..90 s`"
        )
    return start, end


def format_window(window: tuple[int, int]) -> str:
    """A stretch of time as it is written: ``62 s..90 s``."""
    return f"{format_duration(window[0])}..{format_duration(window[1])}"


_INSTANT = DURATION.pattern.removeprefix("^").removesuffix("$")

Window = Annotated[
    tuple[int, int],
    Text(
        parse_window,
        format_window,
        "a stretch of time such as `62 s..90 s`",
        {
            "type": "string",
            "pattern": rf"^{_INSTANT}\.\.{_INSTANT}$",
            "examples": ["62 s..90 s"],
        },
    ),
]
"""A stretch of time: its start and end in picoseconds."""


USUAL_TTL = 64
"""The time to live that packets begin with, as the Assigned Numbers recommend (RFC 1700)."""


def _parse_ttls(text: str) -> tuple[int, int]:
    match = re.fullmatch(r" *([0-9]{1,4}) *(?:\.\. *([0-9]{1,4}) *)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"{quote(text)} is not a time to live such as `3`, or a range like `1..8`")
    low, high = int(match[1]), int(match[2] or match[1])
    if not (1 <= low <= 255 and 1 <= high <= 255):
        raise ValueError(f"{quote(text)} is out of range; expected 1 to 255")
    if low > high:
        raise ValueError(f"{quote(text)} ends before it starts; did you mean `{high}..{low}`?")
    return low, high


def _format_ttls(ttls: tuple[int, int]) -> str | int:
    low, high = ttls
    return low if low == high else f"{low}..{high}"


Ttls = Annotated[
    tuple[int, int],
    Text(
        _parse_ttls,
        _format_ttls,
        "a time to live such as `3`, or a range like `1..8`",
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 255},
                {"type": "string", "pattern": r"^ *[0-9]{1,4} *(\.\. *[0-9]{1,4} *)?$"},
            ]
        },
        accepts=(str, int),
    ),
]
"""Times to live: the least and the greatest."""


def _parse_priority(text: str) -> str | int:
    if text == "strict":
        return text
    if re.fullmatch("[0-7]", text, re.ASCII) is None:
        hint = did_you_mean(text, ["strict"])
        message = f"{quote(text)} is unknown; expected strict, or a number from 0 to 7"
        raise ValueError(f"{message}; {hint}" if hint else message)
    return int(text)


def _parse_when_full(text: str) -> str | int:
    if text in _WHEN_FULL:
        return text
    if text.isalpha():
        hint = did_you_mean(text, _WHEN_FULL)
        message = f"{quote(text)} is unknown; expected wait, drop, or a duration"
        raise ValueError(f"{message}; {hint}" if hint else message)
    return _at_least_one(DURATION)(text)


_WHEN_FULL = ["wait", "drop"]

WhenFull = Annotated[
    str | int,
    Text(
        _parse_when_full,
        lambda value: value if isinstance(value, str) else format_duration(value),
        "wait, drop, or a duration such as `18 ms`",
        {"anyOf": [{"enum": _WHEN_FULL}, schema_of(DURATION)]},
    ),
]
"""``wait``, ``drop``, or picoseconds after which a sender tries again."""


Priority = Annotated[
    str | int,
    Text(
        _parse_priority,
        lambda priority: priority,
        "strict, or a number from 0 to 7",
        {"anyOf": [{"const": "strict"}, {"type": "integer", "minimum": 0, "maximum": 7}]},
        accepts=(str, int),
    ),
]
"""``strict``, or the order of borrowing: 0 goes first, 7 last."""
