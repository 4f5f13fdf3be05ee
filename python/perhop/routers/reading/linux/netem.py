"""netem: the delay, losses and duplicates of an interface, as those of its link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.linux import units
from perhop.scenario.model.quantities import format_packets
from perhop.units import WHOLE, format_duration, format_rate, format_share

if TYPE_CHECKING:
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Qdisc

__all__ = ["medium", "waiting"]

_LIMIT: Final = 1000
"""The packets of a delay line without `limit` (iproute2, q_netem.c)."""

_PACKET: Final = 1500
_SPEED: Final = 10**9
"""The rate of an interface that no script tells, in bit/s."""

_KNOWN: Final = frozenset({"limit", "rate", "distribution", "gap"})
_LISTS: Final = frozenset({"delay", "latency", "loss", "corrupt", "duplicate", "reorder"})

_DISTRIBUTIONS: Final = ("uniform", "normal", "pareto", "paretonormal")


def medium(qdisc: Qdisc, rate: int | None, ledger: Ledger) -> dict[str, Any]:
    """Return keys of a link for the delay, losses and duplicates of netem.

    Args:
        qdisc: The discipline, before everything that an interface sends.
        rate: The rate of the interface in bit/s, if it is known.
        ledger: Where differences are noted.
    """
    place, found = qdisc.place, dict[str, Any]()
    for key in qdisc.options.values:
        if key == "ecn":
            note = "`ecn` of netem marks capable packets in place of losing them: not modelled"
            ledger.ignored(place, note)
        elif key not in _KNOWN:
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
    if delay:
        found["delay"] = format_duration(delay)
    if jitter:
        found |= _variation(qdisc, delay, jitter, ledger)
    if share := _chance(qdisc, "reorder", ledger):
        gap = qdisc.options.number("gap") or 1
        found["reorder"] = {"share": format_share(round(share * WHOLE)), "gap": gap}
    found |= _line(qdisc, delay, rate, ledger)
    return found


def _variation(qdisc: Qdisc, delay: int, jitter: int, ledger: Ledger) -> dict[str, Any]:
    """Return the keys of a link for jitter."""
    place = qdisc.place
    named = qdisc.options.values.get("distribution", "uniform")
    if named not in _DISTRIBUTIONS:
        ledger.approximated(place, f"distribution `{named[:20]}` is that of netem's table `normal`")
        named = "normal"
    words = [*qdisc.lists.get("delay", ()), *qdisc.lists.get("latency", ())]
    if any("%" in word and units.share(word) for word in words):
        ledger.approximated(place, "the correlation of `delay` is not modelled")
    if not delay:
        ledger.ignored(place, "`delay` has a jitter around nothing, which is not modelled")
        return {}
    found: dict[str, Any] = {"by": format_duration(jitter)}
    if named != "uniform":
        found["distribution"] = named
    if qdisc.options.rate("rate"):
        # `netem_enqueue` counts the delay from the departure of the packet before.
        found["in_order"] = True
        ledger.approximated(place, "packets are spaced by `rate` before their jitter, not after it")
    return {"variation": found}


def delays(qdisc: Qdisc) -> tuple[int, int]:
    """Return the delay and the jitter in picoseconds."""
    words = [*qdisc.lists.get("delay", ()), *qdisc.lists.get("latency", ())]
    times = [units.time(word) for word in words[:2] if "%" not in word]
    delay, jitter = [*times, 0, 0][:2]
    return delay, jitter


def waiting(qdisc: Qdisc, rate: int, ledger: Ledger) -> int:
    """Return the packets of a delay line that wait for its `rate`, which are not delayed yet."""
    limit = qdisc.options.number("limit")
    limit = _LIMIT if limit is None else limit
    delay, _ = delays(qdisc)
    delayed = -(-rate * delay // (_PACKET * 8 * 10**12))
    if delay:
        note = (
            f"of the {limit} packets of its `limit` {min(delayed, limit)} are delayed and the "
            f"others wait for its `rate`, as with packets of {_PACKET} B"
        )
        ledger.approximated(qdisc.place, note)
    return max(limit - delayed, 1)


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


def _line(qdisc: Qdisc, delay: int, rate: int | None, ledger: Ledger) -> dict[str, Any]:
    """Return the limit of the delay line of a link.

    Note one that is less than what the rate brings in the delay.
    """
    limit = qdisc.options.number("limit")
    if limit is None:
        limit = _LIMIT
        ledger.default(qdisc.place, "limit", f"{_LIMIT} packets", "iproute2, q_netem.c")
    if not delay:
        return {}
    if not limit:
        ledger.approximated(qdisc.place, "the delay line holds one packet, netem's none")
    found = {"delay_limit": format_packets(max(limit, 1))}
    most = limit * _PACKET * 8 * 10**12 // delay
    if most >= (rate or _SPEED):
        return found
    of = format_rate(rate) if rate else f"{format_rate(_SPEED)}, if that is its rate,"
    needed = -(-(rate or _SPEED) * delay // (_PACKET * 8 * 10**12))
    note = (
        f"its delay line holds {limit} packets: no more than {format_rate(most)} of the {of} pass "
        f"with packets of {_PACKET} B, and the rest is dropped; `limit {needed}` holds all"
    )
    ledger.fault(qdisc.place, note, Fault.SHORT_LINE)
    return found
