"""The network of a scenario file as the calendar has it: links in one direction, and paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perhop._core import Calendar, CalendarLink, PathConstraints
from perhop.errors import UsageError
from perhop.units import NANOSECOND
from perhop_services.common.errors import BadRequestError

if TYPE_CHECKING:
    from perhop.scenario import Scenario
    from perhop.scenario.model.topology import Reservable
    from perhop_services.reservations.model import Direction, Wishes

MAX_CLASSES: Final = 64
"""Greatest number of service classes of a network."""


@dataclass(frozen=True, slots=True)
class DirectedLink:
    """A link in one direction.

    Attributes:
        name: Its name in results, such as ``r1>r2``.
        source: The node that sends into it.
        target: The node that receives.
        rate: Bits per second.
        delay: Nanoseconds.
        reservable: Part of `rate` that may be reserved.
        classes: The part of each class, in the order of `Network.classes`.
        back: The number of the other direction.
    """

    name: str
    source: str
    target: str
    rate: int
    delay: int
    reservable: int
    classes: tuple[int, ...]
    back: int


class Network:
    """Nodes and links by number, as the calendar knows them."""

    def __init__(self, scenario: Scenario) -> None:
        """Read the network of a scenario; every link without `reservable` has none.

        Raises:
            UsageError: Nothing can be reserved in it, or it has too many classes.
        """
        self.name = scenario.name
        self.title = scenario.title or scenario.name
        self.nodes = list(scenario.nodes)
        self.hosts = [name for name, node in scenario.nodes.items() if node.kind == "host"]
        self.addresses = {name: str(each) for name, each in scenario.addresses.items()}
        self._node_numbers = {name: number for number, name in enumerate(self.nodes)}
        names = {
            name for link in scenario.links if link.reservable for name in link.reservable.classes
        }
        if len(names) > MAX_CLASSES:
            raise UsageError(
                f"{self.name} has {len(names)} classes; expected {MAX_CLASSES} at most"
            )
        self.classes = sorted(names)
        self.links: list[DirectedLink] = []
        directions = list(scenario.directions.items())
        for number, (name, (link, end)) in enumerate(directions):
            own, rate = link.reservable, link.medium(end).rate
            self.links.append(
                DirectedLink(
                    name=name,
                    source=end,
                    target=link.other(end),
                    rate=link.capacity(end),
                    delay=link.medium(end).delay // NANOSECOND,
                    reservable=min(own.total.of(rate), link.capacity(end)) if own else 0,
                    classes=tuple(_share(own, each, rate) for each in self.classes),
                    # Both directions of a link stand next to each other.
                    back=number ^ 1,
                )
            )
        if not any(link.reservable for link in self.links):
            raise UsageError(
                f"nothing of {self.name} can be reserved; expected a link with a key such as "
                "`reservable: 50%`"
            )
        self._link_numbers = {link.name: number for number, link in enumerate(self.links)}

    @property
    def specs(self) -> list[CalendarLink]:
        """The links as the calendar takes them."""
        return [
            CalendarLink(
                self.node(link.source),
                self.node(link.target),
                link.delay,
                link.reservable,
                list(link.classes),
            )
            for link in self.links
        ]

    @cached_property
    def host_pairs(self) -> list[tuple[str, str] | None]:
        """The first two hosts whose shortest path leads over each link; None without any."""
        calendar = Calendar(0, self.specs)
        found = calendar.host_pairs([self.node(name) for name in self.hosts])
        return [pair and (self.nodes[pair.source], self.nodes[pair.destination]) for pair in found]

    def node(self, name: str) -> int:
        """The number of a node.

        Raises:
            BadRequestError: There is none of that name.
        """
        if name not in self._node_numbers:
            raise BadRequestError(f"there is no node {name!r} in {self.name}")
        return self._node_numbers[name]

    def link(self, name: str) -> int:
        """The number of a link in one direction.

        Raises:
            BadRequestError: There is none of that name.
        """
        if name not in self._link_numbers:
            raise BadRequestError(
                f"there is no link {name!r} in {self.name}; one is {self.links[0].name!r}"
            )
        return self._link_numbers[name]

    def has_link(self, name: str) -> bool:
        """Return whether there is a link of that name."""
        return name in self._link_numbers

    def class_number(self, name: str | None) -> int | None:
        """The number of a class; None for the links as a whole.

        Raises:
            BadRequestError: There is none of that name.
        """
        if name is None:
            return None
        if name not in self.classes:
            known = ", ".join(self.classes) or "none"
            raise BadRequestError(f"there is no class {name!r} in {self.name}; there are: {known}")
        return self.classes.index(name)

    def limits(self, wishes: Wishes, source: str, target: str) -> PathConstraints:
        """Wishes about a path. Only routers forward, so it avoids all hosts but its ends.

        Raises:
            BadRequestError: They name something that there is not.
        """
        others = [name for name in self.hosts if name not in (source, target)]
        return PathConstraints(
            [self.node(name) for name in (*wishes.avoid_nodes, *others)],
            [self.link(name) for name in wishes.avoid_links],
            [self.node(name) for name in wishes.via],
            wishes.max_hops,
            wishes.max_delay,
        )

    def reserved(self, path: list[int], direction: Direction) -> list[int]:
        """The links that a reservation over `path` takes part of: there, back, or both."""
        back = [self.links[number].back for number in reversed(path)]
        match direction:
            case "forward":
                return path
            case "reverse":
                return back
            case "both":
                return path + back

    def names(self, links: list[int]) -> tuple[str, ...]:
        """The names of links."""
        return tuple(self.links[number].name for number in links)


def _share(own: Reservable | None, class_: str, rate: int) -> int:
    """Return the rate that a class may have of a link's `rate`; all of it without named classes."""
    if own is None:
        return 0
    if not own.classes:
        return own.total.of(rate)
    return own.classes[class_].of(rate) if class_ in own.classes else 0
