"""Statements with several settings in one line, such as ``bandwidth-limit 1m burst-size-limit 9k``.

Junos takes the settings of one level in one `set` command; they are separate statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place

Statement = list["str | list[tuple[str, Place]]"]
"""Words, and lists of words with their lines."""


def _settings(one_word: str, none: str = "") -> dict[str, int]:
    """Return settings with the least number of words of their values: 1 or 0."""
    return dict.fromkeys(one_word.split(), 1) | dict.fromkeys(none.split(), 0)


_FROM: Final = _settings(
    """
    address source-address destination-address prefix-list source-prefix-list protocol
    destination-prefix-list protocol-except next-header port source-port destination-port
    port-except source-port-except destination-port-except dscp dscp-except precedence
    precedence-except traffic-class forwarding-class loss-priority icmp-type icmp-code tcp-flags
    packet-length ttl payload-protocol fragment-flags interface
    """,
    "tcp-established tcp-initial is-fragment first-fragment",
)

_THEN: Final = _settings(
    """
    policer count loss-priority forwarding-class dscp traffic-class prefix-action next
    hierarchical-policer routing-instance
    """,
    "accept discard log syslog sample port-mirror reject service-filter-hit",
) | {"three-color-policer": 2}

_COLOURS: Final = _settings(
    """
    committed-information-rate committed-burst-size excess-burst-size peak-information-rate
    peak-burst-size
    """,
    "color-aware color-blind",
)

_PLACED: Final = _settings(
    """
    scheduler-map shaping-rate output-traffic-control-profile guaranteed-rate delay-buffer-rate
    input-scheduler-map scheduler-map-chassis unit classifiers rewrite-rules
    """
)

_BELOW: Final = {
    "from": _FROM,
    "then": _THEN,
    "if-exceeding": {"bandwidth-limit": 1, "bandwidth-percent": 1, "burst-size-limit": 1},
    "interpolate": {"fill-level": 1, "drop-probability": 1},
    "single-rate": _COLOURS,
    "two-rate": _COLOURS,
    "aggregate": {"bandwidth-limit": 1, "burst-size-limit": 1},
    "premium": {"bandwidth-limit": 1, "burst-size-limit": 1},
}
"""For each level, its settings with the least number of words of their values."""

_BELOW_NAME: Final = {
    "schedulers": {
        "transmit-rate": 1,
        "shaping-rate": 1,
        "buffer-size": 1,
        "priority": 1,
        "drop-profile-map": 6,
        "excess-rate": 1,
        "excess-priority": 1,
        "explicit-congestion-notification": 0,
    },
    "traffic-control-profiles": _PLACED,
    "class": _settings("queue-num priority policing-priority pfc-priority", "no-loss"),
}
"""The same for levels of which each instance has a name."""


def separated(above: str, statement: Statement) -> list[Statement]:
    """Return a statement as one for each of its settings.

    Args:
        above: The word of the level in which the statement stands.
        statement: The words of the statement.
    """
    if len(statement) < 3:
        return [statement]
    found: list[Statement] = []
    known: dict[str, int] = _BELOW.get(above, {})
    start, free = 0, 0
    for index, word in enumerate(statement):
        if not isinstance(word, str):
            continue
        if word in known and index >= free:
            if index > start:
                found.append(statement[:index])
                statement = [*statement[:start], *_BLANK[: index - start], *statement[index:]]
            free = index + known[word] + 1
        elif index >= free:
            below = _BELOW.get(word)
            if below is None and word in _BELOW_NAME and index + 2 < len(statement):
                below, free = _BELOW_NAME[word], index + 2
                start = index + 2
            elif below is not None:
                start, free = index + 1, index + 1
            if below is not None:
                known = below
    found.append(statement)
    return [[word for word in each if word != ""] for each in found]


_BLANK: Final = [""] * 64
