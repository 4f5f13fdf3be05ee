"""Source NAT at an interface, whose policy compares addresses that packets have at other places.

An interface translates packets before its policy sees them, and received packets after that. So a
class that matches an inner source in what is sent, or an inner destination in what is received, has
other packets than in perhop, which translates none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perhop.routers.reading.conditions import Networks
    from perhop.routers.reading.configuration import Direction, Place
    from perhop.routers.reading.matching import Conditions

__all__ = ["compared", "note_of"]


def note_of(direction: Direction, translation: Place) -> str:
    """Return the note on a line that compares addresses of translated packets."""
    when = "after" if direction == "out" else "before"
    return f"its addresses are compared {when} the NAT of {translation}; perhop has none"


def compared(conditions: Conditions, direction: Direction) -> Networks:
    """Return the prefixes that conditions compare with the address that NAT changes.

    Those of all addresses of a version are none.
    """
    found = conditions.source if direction == "out" else conditions.destination
    return tuple(each for each in found or () if each.prefixlen)
