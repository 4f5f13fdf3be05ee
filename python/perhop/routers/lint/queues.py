"""Rules on queue limits and the thresholds of RED and WRED."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import RTTS, Finding, Rule, Severity
from perhop.routers.lint.wording import listed, quoted, rate_text, time_text
from perhop.scenario.model.network import Limit, format_limit
from perhop.scenario.model.quantities import format_packets
from perhop.scenario.model.queues import Red, Wred, wred_defaults
from perhop.units import SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.lint.findings import Settings
    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass
    from perhop.routers.reading import Loc

SHORT: Final = Rule(
    "short-queue",
    Severity.WARNING,
    "A queue for TCP that holds less than a tenth of the bandwidth-delay product at the shortest "
    "round-trip time.",
    "A queue that is far smaller than rate · RTT overflows at every burst. TCP halves its window "
    "before the link is full, and the class does not use its bandwidth.",
    "Raise the queue limit towards rate · RTT, divided by the root of the number of connections.",
    "Appenzeller, Keslassy and McKeown, Sizing Router Buffers (SIGCOMM 2004)",
)

LONG: Final = Rule(
    "long-queue",
    Severity.WARNING,
    "A queue that holds more than ten times the bandwidth-delay product at the guarantee of its "
    "class, and more than one at the rate of the link, at the longest round-trip time and at least "
    "100 ms.",
    "TCP fills the queue, and every packet of the class waits in it: more than a second in "
    "congestion.",
    "Lower the queue limit to rate · RTT, or use an active queue management such as FQ-CoDel.",
    "Gettys and Nichols, Bufferbloat: Dark Buffers in the Internet (ACM Queue, 2011); RFC 7567",
)

THRESHOLDS: Final = Rule(
    "wred-thresholds",
    Severity.WARNING,
    "Thresholds of RED or WRED that cannot be reached, or that are in the wrong order.",
    "The queue is full before the average reaches the threshold, so that packets are dropped at "
    "the tail, whatever their code point. With a maximum that is not above the minimum, all "
    "packets are dropped at once.",
    "Set the queue limit above all maximum thresholds, or lower the thresholds; defaults are up "
    "to 40 packets in classic IOS.",
    "Cisco IOS Quality of Service Solutions Command Reference, `random-detect`",
)

PROFILE: Final = Rule(
    "wred-code-point",
    Severity.NOTE,
    "Thresholds of WRED for a code point of a precedence that the class does not match.",
    "No packet of the class has the code point, so that the thresholds have no effect. Often the "
    "match or the thresholds have a wrong code point.",
    "Match the code point in the class, or remove its thresholds.",
)

RULES: Final = (SHORT, LONG, THRESHOLDS, PROFILE)


def findings(policy: AttachedPolicy, settings: Settings) -> Iterator[Finding]:
    """Find queues of the wrong size, and thresholds that cannot be reached."""
    if not policy.is_output:
        return
    by_default: dict[Rule, list[tuple[Finding, JudgedClass]]] = {}
    for judged in policy.classes:
        if judged.is_leaf and not judged.discards and not _stands_in(judged):
            for finding in _limit(judged, settings):
                if judged.has_default_queue and finding.rule is SHORT:
                    continue  # the platform's choice for all its interfaces: nobody set it
                if judged.has_default_queue:
                    by_default.setdefault(finding.rule, []).append((finding, judged))
                else:
                    yield finding
            yield from _wred(judged)
            yield from _red(judged)
    # A default of the platform is one finding, however many classes have it.
    for (first, _), *others in by_default.values():
        more = f"; the same for {quoted([each.name for _, each in others])}"
        yield replace(first, message=f"{first.message}{more if others else ''}")


# The limit


def _stands_in(judged: JudgedClass) -> bool:
    """Return whether a class of IOS has a queue only in perhop: it marks or polices, no more.

    In IOS its packets are in the queue of `class-default`.
    """
    class_ = judged.class_
    settings = (class_.bandwidth, class_.limit, class_.shape, class_.priority)
    own = judged.has_share or any(each is not None for each in settings)
    ios = judged.attached.family.startswith("ios")
    return ios and not own and not judged.is_default and judged.has_default_queue


def _limit(judged: JudgedClass, settings: Settings) -> Iterator[Finding]:
    """Find a queue that is too short or too long for TCP."""
    if judged.class_.queue is None and judged.attached.family != "scenario":
        return  # the limit would be perhop's default, not that of the router
    queue = judged.class_.effective_queue
    limit = queue.effective_limit(in_class=True)
    guaranteed = judged.guaranteed_or_rest
    if judged.is_voice or not guaranteed or judged.policy.scheduler == "priority":
        return
    if 6 not in judged.protocols:
        return
    most = judged.reach or guaranteed
    size = limit.size(guaranteed)
    told = f"{format_limit(limit)}, {time_text(size * 8 / guaranteed)} at {rate_text(guaranteed)}"
    place = judged.place("queue", "limit")
    if size * 8 * SECOND * 10 < guaranteed * settings.rtts[0]:
        yield Finding(
            SHORT,
            place,
            f"the queue of {judged} holds {told}: far less than the round-trip time of "
            f"{format_duration(settings.rtts[0])}",
            f"raise the limit towards {_amount(guaranteed * settings.rtts[0] // (8 * SECOND))} "
            "(rate · RTT)",
        )
        return
    if queue.discipline is not None and not isinstance(queue.discipline, (Red, Wred)):
        return  # the limit is not the delay that it aims at
    size = min(size, _highest(judged, guaranteed) or size)
    rtt = max(settings.rtts[-1], RTTS[-1])
    if size * 8 * SECOND > 10 * guaranteed * rtt and size * 8 * SECOND > most * rtt:
        alone = (
            f", and {time_text(size * 8 / most)} at {rate_text(most)}" if most != guaranteed else ""
        )
        yield Finding(
            LONG,
            place,
            f"the queue of {judged} holds {told}{alone}: packets wait as long in congestion",
            f"lower the limit to {_amount(most * rtt // (8 * SECOND))} "
            "(rate · RTT), or use FQ-CoDel",
        )


def _highest(judged: JudgedClass, rate: int) -> int | None:
    """Return the bytes above which RED or WRED drops every packet; None without."""
    discipline = judged.class_.effective_queue.discipline
    if isinstance(discipline, Red):
        return discipline.effective_max.size(rate) * (2 if discipline.gentle else 1)
    if isinstance(discipline, Wred):
        found = _thresholds(judged, discipline)
        return max((high.size(rate) for _, high in found.values()), default=None)
    return None


def _amount(size: int) -> str:
    """Return a limit as bytes and as packets of 1500 B."""
    packets = max(size // 1500, 2)
    return f"{format_packets(packets)} of 1500 B"


# Thresholds


def _wred(judged: JudgedClass) -> Iterator[Finding]:
    """Find thresholds of WRED that cannot be reached, or for packets of other classes."""
    wred = judged.class_.effective_queue.discipline
    if not isinstance(wred, Wred):
        return
    limit = judged.class_.effective_queue.effective_limit(in_class=True)
    seen = _seen(judged)
    levels = {point >> 3 for point in seen}
    for index, profile in enumerate(wred.profiles):
        # Thresholds for the other code points of a precedence are common in templates.
        others = [point for point in profile.dscp if point >> 3 not in levels]
        at: Loc = ("queue", "wred", "profiles", index)
        # Thresholds without a line of their own are defaults of the platform, or those of a loss
        # priority of Junos, which has all other code points.
        stated = (*judged.loc, *at) in judged.attached.attachment.places
        if others and stated:
            yield Finding(
                PROFILE,
                judged.place(*at),
                f"{judged} has WRED thresholds for {listed(others)}, which it does not match",
                "match the code point, or remove its thresholds",
            )
    wrong: dict[Loc, dict[tuple[str, Limit, Limit], list[int]]] = {}
    for point, (low, high) in sorted(_thresholds(judged, wred).items()):
        what = _unreachable(low, high, limit, judged)
        if what:
            own = next((i for i, p in enumerate(wred.profiles) if point in p.dscp), None)
            loc: Loc = ("queue", "wred") if own is None else ("queue", "wred", "profiles", own)
            wrong.setdefault(loc, {}).setdefault((what, low, high), []).append(point)
    for loc, groups in wrong.items():
        # Of the thresholds in one line, the highest minimum has the worst problem.
        (what, low, high), points = max(groups.items(), key=lambda item: item[0][1].amount)
        more = f", as for {len(groups) - 1} other thresholds" if len(groups) > 1 else ""
        yield Finding(
            THRESHOLDS,
            judged.place(*loc),
            f"WRED of {judged} drops {listed(points)} {_between(low, high)}: {what}{more}",
            _remedy(what),
        )


def _red(judged: JudgedClass) -> Iterator[Finding]:
    """Find thresholds of RED that cannot be reached."""
    queue = judged.class_.effective_queue
    red = queue.discipline
    if isinstance(red, Red):
        limit = queue.effective_limit(in_class=True)
        what = _unreachable(red.min, red.effective_max, limit, judged)
        if what:
            yield Finding(
                THRESHOLDS,
                judged.place("queue", "red"),
                f"RED of {judged} drops {_between(red.min, red.effective_max)}: {what}",
                _remedy(what),
            )


def _unreachable(low: Limit, high: Limit, limit: Limit, judged: JudgedClass) -> str:
    """Return what is wrong with thresholds; "" for nothing."""
    rate = judged.guaranteed_or_rest or judged.capacity
    if len({low.unit, high.unit, limit.unit}) == 1:
        first, last, most = low.amount, high.amount, limit.amount
    elif rate:
        first, last, most = low.size(rate), high.size(rate), limit.size(rate)
    else:
        return ""
    if last <= first:
        return "the maximum is not above the minimum"
    if first >= most:
        return f"the queue is full before, at {format_limit(limit)}"
    if last > most:
        return f"the queue is full before the maximum, at {format_limit(limit)}"
    return ""


def _between(low: Limit, high: Limit) -> str:
    return f"from {format_limit(low)} to {format_limit(high)}"


def _remedy(what: str) -> str:
    if "not above" in what:
        return "set the maximum above the minimum"
    return "raise the queue limit above the maximum threshold, or lower the thresholds"


def _thresholds(judged: JudgedClass, wred: Wred) -> dict[int, tuple[Limit, Limit]]:
    """Return the thresholds of each code point that packets of the class may have."""
    seen = _seen(judged)
    found = {
        point: (Limit(each.min, "packets"), Limit(each.max, "packets"))
        for point, each in wred_defaults(wred.by, in_class=True).items()
        if point in seen
    }
    for profile in wred.profiles:
        found |= {point: (profile.min, profile.max) for point in profile.dscp if point in seen}
    return found


def _seen(judged: JudgedClass) -> frozenset[int]:
    """Return the code points that packets may have in the queue of a class."""
    points = judged.code_points or frozenset(range(64))
    if judged.mark is not None:
        points = frozenset({judged.mark})
    police = judged.class_.police
    actions = police.actions if police is not None else ()
    return points | {action.remark for action in actions if action.remark is not None}
