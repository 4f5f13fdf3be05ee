"""Rules on strict priority and classes for telephony."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.wording import percent, rate_text
from perhop.scenario.model.queues import Red, Wred
from perhop.units import MILLISECOND, WHOLE, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass

UNLIMITED: Final = Rule(
    "unlimited-priority",
    Severity.WARNING,
    "A strict class without a policer that drops, or another limit.",
    "Strict classes are served first. Traffic that is marked for the class, by mistake or on "
    "purpose, can take all of the link, and the other classes starve.",
    "Police the class at the rate that it needs, or limit it: in IOS `priority RATE` or "
    "`priority percent SHARE`, in Junos a policer or `shaping-rate`.",
    "RFC 3246, section 2.8: an implementation by strict priority needs a limit, such as a token "
    "bucket",
)

SHARE: Final = Rule(
    "priority-share",
    Severity.NOTE,
    "Strict classes that may take more than a third of the link.",
    "The more strict traffic there is, the more its packets wait for each other, and the less the "
    "other classes' share can be planned.",
    "Keep the rates of strict classes within a third of the link.",
    "Cisco Enterprise QoS Solution Reference Network Design Guide: LLQ at most 33% of a link",
)

VOICE_RED: Final = Rule(
    "voice-red",
    Severity.WARNING,
    "RED or WRED in a strict class, apart from signalling, or a class for telephony.",
    "Voice and other constant streams do not slow down when packets are lost. Random drops only "
    "degrade them.",
    "Remove WRED from the class; its rate is limited by a policer or admission control.",
    "RFC 4594, section 4.1: active queue management should not be used for telephony",
)

VOICE_QUEUE: Final = Rule(
    "voice-queue",
    Severity.WARNING,
    "A queue in a strict class, apart from signalling, or a class for telephony, that can hold "
    "more than 30 ms.",
    "Voice that waits longer is late for the receiver's playout buffer. Its packets are better "
    "dropped than sent.",
    "Set a queue limit of less than 30 ms at the rate at which the class is served.",
    "ITU-T G.114: 150 ms mouth to ear, of which each hop can take only a part",
)

RULES: Final = (UNLIMITED, SHARE, VOICE_RED, VOICE_QUEUE)

THIRD: Final = WHOLE // 3
"""The share of a link for strict classes, in parts per billion."""

DEEPEST: Final = 30 * MILLISECOND
"""The longest queue of a class for telephony, in ps."""


def findings(policy: AttachedPolicy) -> Iterator[Finding]:
    """Find strict classes that can starve others, and classes that harm voice."""
    if not policy.is_output:
        return
    for _, classes in policy.levels:
        yield from _unlimited(classes)
        yield from _share(policy, classes)
    for judged in policy.classes:
        if judged.is_voice and judged.is_leaf and not judged.is_signalling:
            yield from _voice(judged)


def _unlimited(classes: Sequence[JudgedClass]) -> Iterator[Finding]:
    """Find strict classes without a limit that other classes wait for."""
    by_order = all(judged.strict for judged in classes)
    # In the order of priority the last class starves no other.
    found = [
        judged
        for judged in (classes[:-1] if by_order else classes)
        if judged.strict and not (_limited(judged) or judged.discards or judged.is_unclassified)
    ]
    if not found:
        return
    if by_order:
        names = ", ".join(quote(judged.class_name) for judged in found)
        yield Finding(
            UNLIMITED,
            found[0].place("priority"),
            f"classes are served in the order of priority, and nothing limits {names}: "
            "their traffic can starve the classes after them",
            "limit or police them, or use a scheduler with guarantees",
        )
        return
    turns = [judged for judged in classes if judged.class_.beside_strict]
    others = "all other classes"
    if turns:
        names = " and ".join(quote(judged.class_name) for judged in turns)
        others += f" but {names}, within what they are guaranteed"
    for judged in found:
        police = judged.class_.police
        why = "has no policer"
        if police is not None:
            why = (
                "has a policer that drops nothing"
                if not judged.polices
                else "is policed at the rate of the link"
            )
        yield Finding(
            UNLIMITED,
            judged.place("priority"),
            f"{judged} is strict and {why}: its traffic can starve {others}",
            "police it at the rate that it needs",
        )


def _limited(judged: JudgedClass) -> bool:
    """Return whether a class cannot take all of the link."""
    police = judged.class_.police
    rates = judged.ceilings
    if police is not None and judged.polices:
        rates.append(police.peak_rate or police.rate)
    for bandwidth in rates:
        if bandwidth.share is not None:
            if bandwidth.share < WHOLE:
                return True
        elif judged.capacity is None or (bandwidth.rate or 0) < judged.capacity:
            return True
    return False


def _share(policy: AttachedPolicy, classes: Sequence[JudgedClass]) -> Iterator[Finding]:
    """Find strict classes with more than a third of the link together."""
    strict = [judged for judged in classes if judged.strict and judged.guaranteed is not None]
    capacity = classes[0].capacity
    if not strict or capacity is None or classes[0].policy.scheduler == "priority":
        return
    if all(judged.strict for judged in classes):
        return
    total = sum(judged.guaranteed or 0 for judged in strict)
    if total * WHOLE > capacity * THIRD and total < capacity:
        names = " and ".join(quote(judged.class_name) for judged in strict)
        yield Finding(
            SHARE,
            strict[-1].place("police"),
            f"strict {names} may take {rate_text(total)} of {policy.where}, "
            f"{percent(total, capacity)} of {rate_text(capacity)}",
            f"keep strict classes within a third, {rate_text(capacity // 3)}",
        )


def _voice(judged: JudgedClass) -> Iterator[Finding]:
    """Find random drops and deep queues in a class for telephony."""
    queue = judged.class_.queue
    if queue is None:
        return
    if isinstance(queue.discipline, (Red, Wred)):
        word = "red" if isinstance(queue.discipline, Red) else "wred"
        yield Finding(
            VOICE_RED,
            judged.place("queue", word),
            f"{judged} drops packets at random, and voice does not slow down",
            "remove random drops from the class",
        )
    elif queue.discipline is not None:
        return  # CoDel and PIE keep the delay low, however long the queue may become.
    rate = judged.reach if judged.strict else judged.guaranteed
    if queue.limit is None or not rate or judged.has_default_queue:
        return
    size = queue.limit.size(rate)
    if judged.strict and judged.class_.police is not None and judged.polices:
        # No more than the policer's burst can wait for a link that is faster than the policer.
        size = min(size, max(judged.class_.police.burst, judged.class_.police.peak_burst or 0))
    delay = size * 8 * 1000 * MILLISECOND // rate
    if delay > DEEPEST:
        limited = judged.attached.capacity is None or rate < judged.attached.capacity
        served = "its limit" if limited else "the rate of the link"
        served = served if judged.strict else "its guarantee"
        yield Finding(
            VOICE_QUEUE,
            judged.place("queue", "limit"),
            f"packets of {judged} can wait {delay / MILLISECOND:,.0f} ms in its queue, at "
            f"{served} of {rate_text(rate)}",
            f"limit the queue to {format_size(DEEPEST * rate // (8 * 1000 * MILLISECOND))} (30 ms)",
        )
