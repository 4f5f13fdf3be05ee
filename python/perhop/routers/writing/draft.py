"""What a configuration being written collects: gaps, notes and names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perhop.linux.gaps import Gap
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perhop.routers.writing.plan import Division, End
    from perhop.scenario.model.names import IpVersion

__all__ = ["Definitions", "Draft", "Names"]


@dataclass(slots=True)
class Draft:
    """The gaps and approximations of a configuration.

    Attributes:
        approximate: True to write approximations, each with a note; otherwise they are gaps.
        gaps: Parts of the scenario that the family cannot express.
        notes: Approximations, for comments in the configuration.
        versions: The versions of IP that the traffic of the scenario has.
    """

    approximate: bool = False
    gaps: list[Gap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: tuple[IpVersion, ...] = (4,)

    def gap(self, path: str, reason: str) -> None:
        """Add a part that the family cannot express."""
        self.gaps.append(Gap(path, reason))

    def whole(self, division: Division) -> None:
        """Add the guarantee of an only class, where the family gives it everything instead."""
        only = division.parts[0]
        limit = only.queue.limit if only.inside is None else None
        depends = only.inside is not None or (limit is not None and limit.unit == "time")
        alone = len(division.parts) == 1 and (only.ceiling is None or only.inside is None)
        if alone and depends and only.rate is not None and only.rate < division.capacity:
            reason = "the only class of a policy has all of its bandwidth; expected none here"
            self.gap(f"{only.place}.bandwidth", reason)

    def unshaped(self, end: End, words: str) -> None:
        """Note that an interface is not limited to the rate of its link.

        Args:
            end: The interface.
            words: What the configuration has instead of a limit, as a clause.
        """
        rate = format_rate(end.link.medium(end.node).rate)
        self.notes.append(
            f"{end.interface}: has to send at {rate} by itself: {words}, and a `shape` of the link "
            "would limit it"
        )

    def near(self, path: str, reason: str, instead: str) -> None:
        """Add a part that the family can only approximate.

        Args:
            path: The place in the scenario.
            reason: Why the family cannot express it exactly.
            instead: The approximation, as a noun phrase.
        """
        if self.approximate:
            self.notes.append(f"{path}: {reason}; approximated by {instead}")
        else:
            self.gap(path, f"{reason}; --approximate writes {instead}")


@dataclass(slots=True)
class Names:
    """Unique names for a configuration.

    Attributes:
        longest: The greatest length of a name.
        taken: The names in use, folded to lower case.
    """

    longest: int
    taken: set[str] = field(default_factory=set)

    @classmethod
    def besides(cls, reserved: Collection[str], longest: int) -> Names:
        """Return names that differ from reserved words."""
        return cls(longest, {word.lower() for word in reserved})

    def unique(self, wanted: str) -> str:
        """Return `wanted`, cut and numbered as necessary."""
        name, number = wanted[: self.longest], 1
        while name.lower() in self.taken:
            number += 1
            name = f"{wanted[: self.longest - len(str(number)) - 1]}_{number}"
        self.taken.add(name.lower())
        return name


@dataclass(slots=True)
class Definitions:
    """Named blocks of a configuration. Equal blocks that want the same name share it.

    Attributes:
        names: The names.
        bodies: The lines of each block by its name, in the order of definition.
    """

    names: Names
    bodies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def define(self, wanted: str, body: Sequence[str]) -> str:
        """Return the name of a block with these lines."""
        key = wanted, tuple(body)
        if key not in self._known:
            self._known[key] = name = self.names.unique(wanted)
            self.bodies[name] = key[1]
        return self._known[key]
