"""Rules on policers and shapers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.policies import EXPEDITED
from perhop.routers.lint.wording import rate_text, time_text
from perhop.units import MILLISECOND, SECOND, format_duration, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.lint.findings import Settings
    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass
    from perhop.routers.lint.tcp import Simulations
    from perhop.routers.reading import Place
    from perhop.scenario.model.classes import Shape

BELOW_PACKET: Final = Rule(
    "burst-below-packet",
    Severity.ERROR,
    "A policer whose burst is smaller than a full packet.",
    "The bucket never holds enough tokens for a packet of 1500 bytes, so that none conforms, "
    "whatever the rate is. In classes for telephony, packets of 200 bytes count: 20 ms of G.711.",
    "Set a burst of several packets at least.",
    "RFC 2697, section 2: a burst should be at least the largest possible packet",
)

TCP: Final = Rule(
    "tcp-burst",
    Severity.WARNING,
    "A policer whose burst is too small for TCP at the round-trip time of its paths.",
    "TCP sends in bursts of up to a window per round-trip time, and takes the drops of a policer "
    "for congestion. With a burst below rate · RTT one connection gets less than the policer's "
    "rate; perhop simulates one connection of CUBIC for each round-trip time (`--rtt`).",
    "Set the burst to rate · RTT at least, better twice as much, or shape instead.",
    "Cisco, Comparing Traffic Policing and Traffic Shaping: a normal burst of rate / 8 · 1.5 s; "
    "Junos policer documentation: burst by rate and time",
)

NO_EFFECT: Final = Rule(
    "policer-without-effect",
    Severity.WARNING,
    "A policer at or above the rate of its interface, or of the class around it.",
    "Nothing exceeds it: the interface is the limit.",
    "Lower the rate of the policer, correct the rate of the interface, or remove the policer.",
)

PASSES_ALL: Final = Rule(
    "policer-passes-all",
    Severity.NOTE,
    "A policer that neither drops nor marks packets.",
    "It only counts. Where it was left by a migration, the limit that it names does not exist.",
    "Set the action on packets that exceed: drop, or a new code point.",
)

SHAPER: Final = Rule(
    "shaper-without-effect",
    Severity.WARNING,
    "A shaper above the rate of its interface.",
    "Packets never wait for its tokens: queues build at the interface, and the classes share its "
    "rate instead of the shaper's.",
    "Shape below the rate of the interface, or correct the rate of the interface.",
)

SHAPER_BURST: Final = Rule(
    "shaper-burst",
    Severity.NOTE,
    "A shaper with a burst of more than 125 ms, or, with a strict class, 30 ms of its rate.",
    "After idle time the burst leaves at the rate of the interface. A policer at the provider "
    "drops what is above its own burst, and voice behind the burst waits for tokens.",
    "Set a burst of 10 ms of the rate where there is voice, or at most the provider's burst.",
    "Cisco Enterprise QoS Solution Reference Network Design Guide: an interval of 10 ms for voice",
)

TINY: Final = Rule(
    "tiny-rate",
    Severity.WARNING,
    "A policer or shaper of less than 64 kb/s for other traffic than control packets.",
    "Rates of Cisco IOS are in bit/s here and in kbit/s there: `police 10000` is 10 kb/s, and "
    "`bandwidth 10000` is 10 Mb/s. Mostly a thousandth of what was meant is left.",
    "Give the rate in the unit that the statement has, or write the unit.",
    "Cisco IOS Quality of Service Solutions Command Reference, `police`: rates in bits per second",
)

RULES: Final = (TINY, BELOW_PACKET, TCP, NO_EFFECT, PASSES_ALL, SHAPER, SHAPER_BURST)

FULL_PACKET: Final = 1500
VOICE_PACKET: Final = 200
"""Bytes of an IP packet with 20 ms of G.711: 160 of voice and 40 of headers."""

POOR: Final = 0.75
"""The share of a policer's rate below which TCP gets too little: Reno's share without any burst and
with a single loss in each cycle, as its window goes from half to full."""

_LEAST_RATE: Final = 64_000
"""A rate in bit/s below which a mistaken unit is more likely than the rate."""

_FAR_BELOW: Final = 4
"""The part of rate · RTT below which a burst is too small without a simulation."""

_SHAPE_BURST: Final = 125 * MILLISECOND
_SHAPE_BURST_VOICE: Final = 30 * MILLISECOND


def findings(
    policy: AttachedPolicy, settings: Settings, simulations: Simulations
) -> Iterator[Finding]:
    """Find policers and shapers that have no effect, or too much."""
    yield from _shapers(policy)
    for judged in policy.classes:
        police = judged.class_.police
        if police is None or judged.discards:
            continue
        yield from _buckets(judged)
        actions = police.actions if police.three_colours else police.actions[:2]
        if not any(action.drops or action.remark is not None for action in actions):
            yield Finding(
                PASSES_ALL,
                judged.place("police"),
                f"the policer of {judged} sends packets that exceed, and does not mark them",
                "drop or mark them, or remove the policer",
            )
            continue
        rate, capacity = judged.of(police.rate), judged.capacity
        if rate is not None and rate < _LEAST_RATE and judged.is_leaf and _is_for_tcp(judged):
            yield Finding(
                TINY,
                judged.place("police", "rate"),
                f"the policer of {judged} lets {rate_text(rate)} pass: a packet of 1500 B takes "
                f"{time_text(1500 * 8 / rate)}",
                "correct the unit, if another rate is meant",
            )
        if capacity is not None and rate is not None and rate >= capacity:
            if not judged.strict:
                yield Finding(
                    NO_EFFECT,
                    judged.place("police", "rate"),
                    f"the policer of {judged} has a rate of {rate_text(rate)}, and the "
                    f"{rate_text(capacity)} of {policy.where} are the limit{_told(policy)}",
                    "lower its rate, or remove it",
                )
        elif rate and _is_for_tcp(judged):
            yield from _too_small(judged, rate, settings, simulations)


def _buckets(judged: JudgedClass) -> Iterator[Finding]:
    """Find bursts below a packet."""
    police = judged.class_.police
    assert police is not None
    if judged.protocols == {1}:
        return  # policers of ICMP expect short packets
    least, what = (VOICE_PACKET, "of voice") if judged.is_voice else (FULL_PACKET, "of full size")
    for key, burst in (("burst", police.burst), ("peak_burst", police.peak_burst)):
        if burst is not None and burst < least:
            yield Finding(
                BELOW_PACKET,
                judged.place("police", key),
                f"the policer of {judged} has a burst of {format_size(burst)}: a packet {what}, "
                f"{least} B, never conforms",
                f"set a burst of at least {least} B, better of several packets",
            )


def _is_for_tcp(judged: JudgedClass) -> bool:
    """Return whether a class polices TCP by drops."""
    if not judged.polices or judged.class_.police is None:
        return False
    if judged.class_.police.burst < FULL_PACKET:
        return False
    if "control-plane" in judged.attached.attachment.interface.lower():
        return False  # policers that protect the router itself
    numbers = judged.protocols
    if judged.is_voice or judged.code_points & EXPEDITED:
        # Telephony, unless the match names TCP.
        return 6 in numbers and 1 not in numbers
    return 6 in numbers


def _too_small(
    judged: JudgedClass, rate: int, settings: Settings, simulations: Simulations
) -> Iterator[Finding]:
    """Find a burst with which TCP gets much less than the rate."""
    police = judged.class_.police
    assert police is not None
    link = judged.capacity or 10 * rate
    burst = police.burst + (police.excess_burst or 0)
    needed = 2 * rate * settings.rtts[-1] // (8 * SECOND)
    if burst >= max(needed, 20 * FULL_PACKET):
        return
    longest = settings.rtts[-1]
    goodput = simulations.goodput(police, rate, link, longest)
    if goodput is None:
        if burst * 8 * SECOND >= rate * longest // _FAR_BELOW:
            return
        gets = f"one TCP connection gets less at {format_duration(longest)} round-trip time"
    elif goodput >= POOR * rate:
        return
    else:
        others = [(rtt, simulations.goodput(police, rate, link, rtt)) for rtt in settings.rtts]
        shown = [f"{rate_text(got)} at {format_duration(rtt)}" for rtt, got in others if got]
        gets = f"one TCP connection gets {', '.join(shown)} round-trip time"
    yield Finding(
        TCP,
        judged.place("police", "burst"),
        f"of the {rate_text(rate)} of the policer of {judged}, {gets}: the burst of "
        f"{format_size(burst)} is {time_text(burst * 8 / rate)} of the rate",
        f"set a burst of {format_size(_rounded(needed))} (2 · rate · RTT), or shape",
    )


def _rounded(size: int) -> int:
    """Return a number of bytes rounded up to whole packets and kilobytes."""
    return max(-(-size // 1000) * 1000, 20 * FULL_PACKET)


def _told(policy: AttachedPolicy) -> str:
    """Return where the rate of an interface is stated, for messages."""
    place = policy.attachment.rate_place
    return f" ({place})" if place is not None and policy.shape is None else ""


def _shapers(policy: AttachedPolicy) -> Iterator[Finding]:
    """Find shapers without effect, and shapers with large bursts."""
    if not policy.is_output:
        return
    voice = any(judged.is_voice for judged in policy.classes)
    name = quote(policy.attachment.name)
    if policy.shape is not None:
        of = policy.attachment.rate
        yield from _shaper(
            policy,
            policy.shape,
            of,
            f"the shaper of policy {name}",
            policy.attachment.place(("shape",)),
            voice=voice,
        )
    for judged in policy.classes:
        if judged.class_.shape is not None:
            inside = [each for each in policy.classes if each.loc[: len(judged.loc)] == judged.loc]
            yield from _shaper(
                policy,
                judged.class_.shape,
                judged.capacity,
                f"the shaper of {judged}",
                judged.place("shape"),
                voice=any(each.is_voice for each in inside),
            )


def _shaper(
    policy: AttachedPolicy,
    shape: Shape,
    capacity: int | None,
    what: str,
    place: Place,
    *,
    voice: bool,
) -> Iterator[Finding]:
    """Find what is wrong with a shaper of a link or class of `capacity`."""
    rate = shape.rate.rate if capacity is None else shape.rate.of(capacity)
    if not rate:
        return
    if capacity is not None and rate > capacity:
        yield Finding(
            SHAPER,
            place,
            f"{what} has a rate of {rate_text(rate)}, and the {rate_text(capacity)} of "
            f"{policy.where} are the limit",
            "shape to less than the rate of the interface",
        )
        return
    longest = _SHAPE_BURST_VOICE if voice else _SHAPE_BURST
    lasts = shape.burst * 8 * SECOND // rate
    if lasts > longest:
        yield Finding(
            SHAPER_BURST,
            place,
            f"{what} lets {format_size(shape.burst)} leave at once, {lasts // MILLISECOND} ms of "
            f"{rate_text(rate)}",
            f"set a burst of {format_size(max(rate // 800, FULL_PACKET))} (10 ms)",
        )
