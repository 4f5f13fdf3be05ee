"""Statements that perhop takes at their word: no document that says what they do was compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perhop.routers.reading.ios.tree import Statement

_NOT_COMPARED: Final = "not compared with a router"
PRECEDENCE: Final = f"the last three bits of the DSCP become zero; {_NOT_COMPARED}"
"""The note of marks by precedence: documents speak of its three bits only."""

UNCHECKED: Final[dict[tuple[str, ...], str]] = {
    ("drop",): f"all packets of the class are discarded, as its name says; {_NOT_COMPARED}",
    ("set", "precedence"): PRECEDENCE,
    ("set", "ip", "precedence"): PRECEDENCE,
    ("random-detect", "ecn"): f"ECN instead of drops, as its name says; {_NOT_COMPARED}",
    ("hold-queue",): f"the buffer of the interface, as its name says; {_NOT_COMPARED}",
    ("set", "mpls"): f"the code of the label that is sent, as its name says; {_NOT_COMPARED}",
    ("object-group", "ip", "address"): f"a group of addresses, as its name says; {_NOT_COMPARED}",
    ("frame-relay", "cir"): f"the rate of a shaper, as its name says; {_NOT_COMPARED}",
    ("frame-relay", "bc"): f"the burst of the shaper, as its name says; {_NOT_COMPARED}",
    ("ip", "load-sharing"): f"load sharing as its name says; {_NOT_COMPARED}",
}
"""Notes of statements, by their first words."""

_FIRST: Final = frozenset(words[0] for words in UNCHECKED)

SPELLINGS: Final = frozenset(
    (
        *("any4", "any6", "ipv4", "addrgroup", "log-input", "v4-network", "v6-network"),
        *("network-object", "port-object", "service-object"),
        *("aggregate-rate", "conform-burst", "excess-burst", "peak-burst", "peak-rate"),
        "insert-before",
    )
)
"""Words that the documents of the commands do not have, and that some releases write."""


def unchecked(statement: Statement) -> str | None:
    """Return the note of a statement that was not compared with a router; None for others."""
    first = statement.word(0)
    if first in _FIRST:
        words = (first, statement.word(1), statement.word(2))
        for count in (3, 2, 1):
            if words[:count] in UNCHECKED:
                return UNCHECKED[words[:count]]
    if first in ("description", "remark"):
        return None
    spelt = next((word for word in statement.words if word.lower() in SPELLINGS), None)
    return None if spelt is None else f"{spelt} as its name says; {_NOT_COMPARED}"
