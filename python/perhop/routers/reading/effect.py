"""Lines that a reader could not use, or only in part, and whose effect may be large.

A line has a large effect if it could change what a class gets by more than 5%: it says which
packets a class has, or how much of the link. Lines that nothing uses, and settings of marks,
buffers, drops and bursts, have none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Fault, Treatment
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.configuration import Configuration, Line

__all__ = ["CAUTION", "OF_A_CLASS", "UNREAD", "caution", "decisive", "shown"]

CAUTION: Final = "can change what a class gets by more than 5%"
"""What the caution about a configuration says, in any case."""

OF_A_CLASS: Final = "unknown statement of a class"
"""The note of a line that may do anything to what its class gets."""

UNREAD: Final = "it runs commands that perhop does not read"
"""The note of a line that runs others, which may do anything."""

_MOST_SHOWN: Final = 3

_IDLE: Final = re.compile(
    r"\buses it\b|no packets of protocol|nothing (?:uses|inherits) it"
    r"|(?:removed|replaced) (?:in|by) line|deleted by line"
    r"|another rate is given|tells the rate|measures only|has no effect|^inactive|adds no rule"
    r"|the router itself|load sharing|hash of|is the same as|refers to the group|has the queue$"
    r"|no packet (?:has|is left)|no bandwidth, or not the one|limits what may be guaranteed"
    r"|the packets are discarded|before it takes all packets|matches no packet"
    r"|^its (?:class|qdisc|policer|queue) is not modelled$"
    r"|its policy is not for direction|connections are not looked up|no filter leads packets"
    r"|the rate of the link$|queues go with|tables of marks|marks of policy routing|are taken"
    r"|loads nothing of the file|^log-input\b"
)
"""Notes on lines that decide nothing: nothing uses them, or another line has the same note."""

_SMALL: Final = re.compile(
    r"\bRED\b|drop profile|thresholds?\b|average|\bbuffers?\b|fixed limits|overhead|code points?\b"
    r"|\bmark(?:ed|s)?\b|colours?\b|\bbursts?\b|the even ones|balances|maximum is one|probabilit"
    r"|\bECN\b|RFC 8033|served after the priority classes|sustained rate|flow queues|replies, which"
    r"|last three bits|token bucket|the transmit ring|fragmentation|header compression|pause frames"
    r"|one value|\bIPv6\b|as packets arrive|limit of a flow|congestion only|default: |adaptive"
    r"|(?:routes|delays) of rules"
    r"|taken as the rate of the interface$|within their guarantees|fair queueing as|HTB unshaped"
    r"|settings of the (?:hardware|platform)"
    r"|by the (?:source|destination)|its own queue|never borrows: its `ceil` has no effect"
)
"""Notes on approximations that change delay, loss or marks, or shares by little."""

_OTHER_FAULTS: Final = frozenset((Fault.EMPTY, Fault.SHADOWED, Fault.UNUSED))
"""Faults of classes that get no packets in a router either."""

_DECIDES: Final = re.compile(
    r"\b(?:bandwidth|pbandwidth|rate|ceil|maxrate|minrate|shap\w*|polic(?:e|er|ing)\w*|priorit\w*"
    r"|prio|transmit-\w+|excess-\w+|weights?|quantum|quanta|bands|priomap|match\w*|class\w*|filters?"
    r"|term|from|then|permit|deny|percent|remaining|scheduler\S*|queues?|service-policy|qdisc|htb"
    r"|hfsc|cbq|drr|qfq|ets|dev|if-exceeding|bandwidth-limit|limiter|ceiling|flowid|mark|limit"
    r"|[rlu]s|sc|pass|cos|qos|rate-limit|traffic-shape|queue-list|priority-list|srr-queue|wrr-queue"
    r"|custom-queue-list|access-group|access-list|linkshare|realtime|upperlimit|jump|goto"
    r"|(?<=\s-)[jgP]|ip6?tables-restore|(?i:reject)|(?i:(?<=\s)drop)(?![-\w]))\b"
)


def decisive(configuration: Configuration) -> Iterator[Line]:
    """Yield the lines that are not modelled, or approximated, and whose effect may be large."""
    for line in configuration.lines:
        if line.treatment is Treatment.MODELLED or line.fault in _OTHER_FAULTS:
            continue
        if _IDLE.search(line.note):
            continue
        unread = line.note == OF_A_CLASS or UNREAD in line.note
        if not unread and not _DECIDES.search(line.text):
            continue
        if line.treatment is Treatment.APPROXIMATED and _SMALL.search(line.note):
            continue
        yield line


def caution(configuration: Configuration) -> str | None:
    """Return the caution about a configuration's results in a sentence; None without cause."""
    lines = list(decisive(configuration))
    if not lines:
        return None
    count = "a line that is" if len(lines) == 1 else f"{len(lines):,} lines that are"
    return (
        f"{count} not modelled, or approximated, {CAUTION}: {shown(lines)}; `perhop import` prints "
        "all"
    )


def shown(lines: Sequence[Line]) -> str:
    """Return the first of some lines with their notes, and the number of the others."""
    some = "; ".join(
        f"{line.place}: {quote(line.text, 60)} ({line.note})" for line in lines[:_MOST_SHOWN]
    )
    more = len(lines) - _MOST_SHOWN
    return some + (f"; and {more:,} more" if more > 0 else "")
