"""netem: the delay, losses and duplicates of an interface, as those of its link."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.linux import units
from perhop.units import WHOLE, format_duration, format_rate, format_share

if TYPE_CHECKING:
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Qdisc

__all__ = ["medium"]

_LIMIT: Final = 1000
"""The packets of a delay line without `limit` (iproute2, q_netem.c)."""

_PACKET: Final = 1500
_SPEED: Final = 10**9
"""The rate of an interface that no script tells, in bit/s."""

_KNOWN: Final = frozenset({"limit", "rate", "distribution", "duplicate", "ecn"})
_LISTS: Final = frozenset({"delay", "latency", "loss", "corrupt", "duplicate"})


def medium(qdisc: Qdisc, rate: int | None, ledger: Ledger) -> dict[str, Any]:
    """Return keys of a link for the delay, losses and duplicates of netem.

    Args:
        qdisc: The discipline, before everything that an interface sends.
        rate: The rate of the interface in bit/s, if it is known.
        ledger: Where differences are noted.
    """
    place, found = qdisc.place, dict[str, Any]()
    for key in qdisc.options.values:
        if key not in _KNOWN:
            ledger.ignored(place, f"`{key[:20]}` of netem is not modelled")
    for key in qdisc.lists:
        if key not in _LISTS:
            ledger.ignored(place, f"`{key[:20]}` of netem is not modelled")
    shares = {key: _chance(qdisc, key, ledger) for key in ("loss", "corrupt", "duplicate")}
    lost = 1 - (1 - shares["loss"]) * (1 - shares["corrupt"])
    if shares["corrupt"]:
        ledger.approximated(place, "corrupted packets are lost, as receivers drop them")
    if lost:
        found["loss"] = format_share(min(round(lost * WHOLE), WHOLE - 1))
    if shares["duplicate"]:
        found["duplicate"] = format_share(min(round(shares["duplicate"] * WHOLE), WHOLE - 1))
    delay, jitter = delays(qdisc)
    if jitter:
        # The half width of a uniform distribution of the same deviation.
        named = qdisc.options.values.get("distribution", "uniform")
        half = jitter if named == "uniform" else round(jitter * sqrt(3))
        half = min(half, delay)
        found |= {"delay": format_duration(delay - half), "jitter": format_duration(2 * half)}
        ledger.approximated(
            place, f"the jitter ({named}) is uniform and keeps the order of packets"
        )
    elif delay:
        found["delay"] = format_duration(delay)
    _line(qdisc, delay, rate, ledger)
    return found


def delays(qdisc: Qdisc) -> tuple[int, int]:
    """Return the delay and the jitter in picoseconds."""
    words = [*qdisc.lists.get("delay", ()), *qdisc.lists.get("latency", ())]
    times = [units.time(word) for word in words[:2] if "%" not in word]
    delay, jitter = [*times, 0, 0][:2]
    return delay, jitter


def _chance(qdisc: Qdisc, key: str, ledger: Ledger) -> float:
    """Return a probability."""
    words = [word for word in qdisc.lists.get(key, ()) if word != "random"]
    if not words:
        return 0.0
    try:
        share = float(units.share(words[0]))
    except ValueError:
        ledger.ignored(qdisc.place, f"`{key} {' '.join(words)[:40]}` of netem is not modelled")
        return 0.0
    if len(words) > 1:
        ledger.approximated(qdisc.place, f"the correlation of `{key}` is not modelled")
    return min(share, 1.0)


def _line(qdisc: Qdisc, delay: int, rate: int | None, ledger: Ledger) -> None:
    """Note a delay line that holds less than what the rate brings in the delay."""
    limit = qdisc.options.number("limit")
    if limit is None:
        limit = _LIMIT
        ledger.default(qdisc.place, "limit", f"{_LIMIT} packets", "iproute2, q_netem.c")
    if not delay:
        return
    most = limit * _PACKET * 8 * 10**12 // delay
    if most >= (rate or _SPEED):
        return
    of = format_rate(rate) if rate else f"{format_rate(_SPEED)}, if that is its rate,"
    needed = -(-(rate or _SPEED) * delay // (_PACKET * 8 * 10**12))
    note = (
        f"its delay line holds {limit} packets: no more than {format_rate(most)} of the {of} pass "
        f"with packets of {_PACKET} B, and the rest is dropped, which is not modelled; "
        f"`limit {needed}` holds all"
    )
    ledger.ignored(qdisc.place, note, Fault.SHORT_LINE)
