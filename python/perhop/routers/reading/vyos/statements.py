"""Statements that several kinds of policies of VyOS have: bandwidths, classes and matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux.model import Filter, Options
from perhop.routers.reading.vyos import rates
from perhop.routers.reading.vyos.matches import in_order, test_of
from perhop.routers.reading.vyos.rates import ASSUMED, Rate
from perhop.units import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Device
    from perhop.routers.reading.vyos.tree import Node

__all__ = ["Statements"]

_NEWER: Final = "VyOS 1.4, python/vyos/qos"
_OLDER: Final = "VyOS 1.3.6, lib/Vyatta/Qos"
_LAST: Final = 65000
"""Classes have smaller numbers."""

_AUTOMATIC: Final = 0xC000
"""The priority that Linux gives the first filter without one, or with 0; later ones get less."""


class Statements:
    """Reads statements of a policy at an interface.

    Attributes:
        ledger: The account of lines that this changes.
        groups: The groups of matches.
        speed: The speed of the interface in bit/s; None if the configuration does not tell.
        older: True for `traffic-policy` of VyOS 1.3.
        source: The source of defaults.
        interface: The speed, or a share of it if it is unknown.
    """

    def __init__(
        self, ledger: Ledger, groups: Node | None, speed: int | None, *, older: bool
    ) -> None:
        self.ledger = ledger
        self.groups = groups
        self.speed = speed
        self.older = older
        self.source = _OLDER if older else _NEWER
        self.interface = Rate(ASSUMED, WHOLE) if speed is None else Rate(speed)

    def default(self, node: Node, *settings: str) -> None:
        """Note the defaults of settings that a node does not have: names and values in turn."""
        for key, value in zip(settings[::2], settings[1::2], strict=True):
            if key not in node.children:
                self.ledger.default(node.place, key, value, self.source)

    def options(self, node: Node, values: dict[str, str]) -> Options:
        """Return settings of tc at the line of a node."""
        return Options(node.place, values, self.ledger)

    def rate(self, node: Node, key: str, whole: Rate) -> Rate | None:
        """Return a bandwidth that may be a share of `whole`; None if there is none."""
        value = node.value(key)
        if value is None:
            return None
        try:
            return rates.of(value.word, whole)
        except ValueError as error:
            self.ledger.ignored(value.place, str(error))
            return None

    def of_interface(self, node: Node, key: str, whole: Rate) -> Rate | None:
        """Return a bandwidth whose share VyOS 1.4 takes of the speed of the interface.

        If the configuration does not tell the speed, it is a share of `whole`, the bandwidth of the
        policy, as in the documentation of VyOS.
        """
        value = node.value(key)
        share = None if value is None else rates.share(value.word)
        if value is None or share is None or self.older:
            return self.rate(node, key, whole)
        if self.speed is None and whole.share is None and share < WHOLE:
            self.ledger.approximated(
                value.place,
                "VyOS 1.4 takes the share of the speed of the interface, which the configuration "
                "does not tell; perhop takes it of the bandwidth of the policy",
            )
        return self.rate(node, key, whole if self.speed is None else self.interface)

    def classes(self, node: Node) -> list[Node]:
        """Return the classes in the order of their numbers."""
        found = [
            each for each in node.each("class") if each.word.isdecimal() and each.word.isascii()
        ]
        return sorted((each for each in found if 0 < int(each.word[:9]) < _LAST), key=_number)

    def filters(self, device: Device, classes: Sequence[Node], *, shaped: bool) -> None:
        """Add a filter for each match, in the order in which VyOS has them compared.

        In a shaper of VyOS 1.4 that is the `priority` of the class, or else the number of the match
        in its class; classes of the same number are compared in their order.
        """
        matches = [in_order(each, self.groups, self.ledger) for each in classes]
        for index, each in enumerate(classes):
            given = each.text_of("priority") if not self.older else None
            for number, match in enumerate(matches[index], 1):
                test = test_of(match, self.ledger, older=self.older)
                if test is None:
                    continue
                order = index + 1
                if shaped and not self.older:
                    ranked = given is not None and given.isdecimal() and len(given) < 5
                    order = int(given or 0) or (_AUTOMATIC - index) if ranked else number
                target = 0x10000 + int(each.word)
                device.filters.append(
                    Filter(0x10000, order, "u32", "all", "", (test,), target, (), match.place)
                )


def _number(node: Node) -> int:
    return int(node.word)
