"""CAKE as a queue of a scenario.

Sources: tc-cake(8); iproute2, tc/q_cake.c for the order in which keywords add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from perhop.scenario.model.cake import FRAMINGS, MOST_OVERHEAD, RTTS, Cake
from perhop.units import format_duration, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Options, Qdisc

__all__ = ["ALTERNATIVES", "FLAGS", "WORDS", "cake", "framings"]

_DIFFSERVS: Final = get_args(Cake.model_fields["diffserv"].annotation)
_ISOLATIONS: Final = get_args(Cake.model_fields["isolation"].annotation)
_ACK_FILTERS: Final = {
    "no-ack-filter": "off",
    "ack-filter": "on",
    "ack-filter-aggressive": "aggressive",
}
_CODINGS: Final = {"atm": "atm", "ptm": "ptm", "noatm": "none"}
_KEYWORDS: Final = FRAMINGS.keys() - {"none"}
_NO_EFFECT: Final = frozenset(
    ("unlimited", "nonat", "nowash", "egress", "raw", "split-gso", "no-split-gso", "via-ethernet")
)
_MISSING: Final = {
    "nat": "hosts are those of the packet's addresses: connections are not looked up",
    "fwmark": "tins by firewall marks are not modelled",
    "autorate-ingress": "the rate of the shaper stays as it begins",
}
ETHERNET: Final = 14
"""The bytes of an Ethernet header, which Linux counts unless a keyword sets an overhead."""

FLAGS: Final = frozenset(
    (
        *(*_DIFFSERVS, *_ISOLATIONS, *_ACK_FILTERS, *_CODINGS, *_KEYWORDS, *RTTS, *_NO_EFFECT),
        *("wash", "ingress", "nat", "autorate-ingress"),
    )
)
"""Words of CAKE without a value."""

WORDS: Final = FLAGS | {"bandwidth", "rtt", "overhead", "mpu", "memlimit", "fwmark"}
"""All words of CAKE."""

ALTERNATIVES: Final = (
    frozenset(_DIFFSERVS),
    frozenset(_ISOLATIONS),
    frozenset(_ACK_FILTERS),
    frozenset(("wash", "nowash")),
    frozenset(("ingress", "egress")),
    frozenset(("nat", "nonat")),
    frozenset(("split-gso", "no-split-gso")),
    frozenset(("bandwidth", "unlimited")),
    frozenset(("rtt", *RTTS)),
)
"""Words of which the last one counts (`cake_parse_opt` of iproute2)."""


def framings(words: Iterable[str]) -> list[str]:
    """Return the words among these that tell what a packet counts."""
    known = {*_CODINGS, *_KEYWORDS, "overhead", "mpu", "raw", "via-ethernet"}
    return [word for word in words if word in known]


def cake(qdisc: Qdisc, *, ip_sizes: bool, ledger: Ledger) -> dict[str, Any]:
    """Return the queue of a scenario for CAKE.

    Args:
        qdisc: The qdisc.
        ip_sizes: True if a size table takes the Ethernet header off what Linux counts.
        ledger: Where defaults, and differences, are noted.
    """
    options, place = qdisc.options, qdisc.place
    found: dict[str, Any] = {}
    bandwidth = options.rate("bandwidth")
    if bandwidth:
        found["bandwidth"] = format_rate(bandwidth)
    for key, words in (("diffserv", _DIFFSERVS), ("isolation", _ISOLATIONS)):
        given = [word for word in options.values if word in words]
        usual = Cake.model_fields[key].default
        if given:
            found[key] = given[-1]
        else:
            ledger.default(place, key, usual, "Linux, net/sched/sch_cake.c")
    preset = [word for word in options.values if word in RTTS]
    rtt = options.time("rtt")
    if rtt:
        found["rtt"] = format_duration(rtt)
    elif preset:
        found["rtt"] = preset[-1]
    overhead = _overhead(qdisc, ip_sizes=ip_sizes, ledger=ledger)
    if overhead:
        found["overhead"] = overhead
    for word, value in _ACK_FILTERS.items():
        if word in options.values:
            found["ack_filter"] = value
    for word in ("wash", "ingress"):
        if word in options.values:
            found[word] = True
    for word in options.values:
        if word in _MISSING:
            ledger.approximated(options.at(word), f"`{word}`: {_MISSING[word]}")
        elif word not in WORDS:
            ledger.approximated(options.at(word), f"`{word[:30]}` is not modelled")
    limit = options.size("memlimit")
    return {**({"limit": format_size(limit)} if limit else {}), "cake": found}


def _overhead(qdisc: Qdisc, *, ip_sizes: bool, ledger: Ledger) -> str:
    """Return the overhead in bytes; empty if there is none."""
    options: Options = qdisc.options
    total, mpu, coding, given = 0, 0, "none", False
    for word, value in options.values.items():
        if word in _CODINGS:
            coding = _CODINGS[word]
        elif word in _KEYWORDS:
            named = FRAMINGS[word]
            times = max(len(qdisc.lists.get(word, ())), 1)
            total, mpu, given = total + times * named.overhead, named.mpu or mpu, True
            coding = coding if named.coding == "none" else named.coding
        elif word == "overhead":
            total, given = _signed(value), True
        elif word == "mpu":
            mpu = options.number("mpu") or 0
    if (not given or "raw" in options.values) and not ip_sizes:
        header = f"{ETHERNET} B, the Ethernet header"
        ledger.default(qdisc.place, "overhead", header, "Linux, cake_calc_overhead")
        total += ETHERNET
    if not (0 <= total <= MOST_OVERHEAD and 0 <= mpu <= MOST_OVERHEAD):
        note = f"an overhead of {total} B with an mpu of {mpu} B is out of range"
        ledger.approximated(options.at("overhead"), note)
    total, mpu = (max(0, min(each, MOST_OVERHEAD)) for each in (total, mpu))
    if not total and not mpu and coding == "none":
        return ""
    words = [f"{total} B", *([coding] if coding != "none" else [])]
    return " ".join([*words, *([f"mpu {mpu} B"] if mpu else [])])


def _signed(text: str) -> int:
    """Return the number of `overhead`; out of range for a text that is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= 4 else MOST_OVERHEAD + 1
