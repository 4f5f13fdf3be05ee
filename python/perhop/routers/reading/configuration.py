"""The common result of all readers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from perhop.errors import UsageError
from perhop.files import too_large
from perhop.scenario.model.classes import MAX_CLASSES
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

AS_STATED: Final[Mapping[str, int]] = MappingProxyType({})
"""No rates in place of those that a configuration states."""

T = TypeVar("T")

_NO_MEDIUM: Final[Mapping[str, str]] = MappingProxyType({})

MAX_SIZE: Final = 2**24
"""The largest configuration, in bytes."""

Direction = Literal["in", "out"]
"""The packets that an interface receives, or those that it sends."""

Loc = tuple[str | int, ...]
"""Keys to a value in a policy, such as ``("classes", "voice", "police")``."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a configuration.

    Attributes:
        file: The name in messages.
        text: The content; lines end with a line feed.
    """

    file: str
    text: str


class Place(NamedTuple):
    """A line of a file.

    Attributes:
        file: The name of the file.
        line: The number of the line, from 1; 0 is the whole file.
        part: The number of an object of JSON among those that begin on the line, from 0.
    """

    file: str
    line: int
    part: int = 0

    def __str__(self) -> str:
        """Return ``FILE:LINE``."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Refused(NamedTuple, Generic[T]):
    """A statement that the device refuses.

    Attributes:
        node: The statement, or one of several that exclude each other.
        reason: The reason.
        undefined: True if it names what is not defined, which its reader notes.
    """

    node: T
    reason: str
    undefined: bool = False


class Treatment(StrEnum):
    """What became of a line of a configuration."""

    MODELLED = "modelled"
    """The policy does what the line says."""

    APPROXIMATED = "approximated"
    """The policy does something similar; the note says how they differ."""

    NOT_MODELLED = "not modelled"
    """The policy ignores the line; the note says why."""


class Fault(StrEnum):
    """A kind of fault of a configuration, because of which a line does not do what it says."""

    UNDEFINED = "undefined"
    """The line names something that no file defines, such as an access list."""

    EMPTY = "empty"
    """No packet meets the conditions of the class, which is left out."""

    SHADOWED = "shadowed"
    """Earlier classes take all packets of the class, which is left out."""

    INVALID = "invalid"
    """The line has a value that has no meaning."""

    UNUSED = "unused"
    """No filter or rule leads packets to the class, which is left out."""

    REFUSED = "refused"
    """The device refuses the line, so that its interface has no policy."""

    SHORT_LINE = "short line"
    """A delay line holds fewer packets than the rate brings in its delay, and drops others."""

    WITHOUT_EFFECT = "without effect"
    """The device accepts the line, which does nothing there."""

    UNCONGESTED = "uncongested"
    """Packets leave faster than the line says, so that no queue of the policy fills."""

    ABOVE_PARENT = "above parent"
    """The guarantees of a class and of those beside it exceed that of the class around them."""

    UNCLASSIFIED = "unclassified"
    """No filter leads all packets to a class, and others are dropped."""

    BELOW_GUARANTEE = "below guarantee"
    """The ceiling of a class is below its guarantee, which it therefore never gets."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line about quality of service, and what became of it.

    Attributes:
        place: The line.
        text: Its text, without indentation.
        treatment: What became of it.
        note: How it was approximated, or why it is not modelled; "" for a modelled line.
        fault: A fault of the configuration at the line, if the reader found one.
        fault_note: The fault in words; often one of the notes.
        selects: True if the line selects packets: a condition, a filter or a classifier; None if
            the reader does not tell.
    """

    place: Place
    text: str
    treatment: Treatment
    note: str = ""
    fault: Fault | None = None
    fault_note: str = ""
    selects: bool | None = None


@dataclass(frozen=True, slots=True)
class Default:
    """A value that the configuration leaves to its platform.

    Attributes:
        place: The line to which the default belongs, such as that of a class.
        setting: The setting in the words of the platform, such as ``queue-limit``.
        value: The value with its unit, such as ``64 packets``.
        source: The document or release that states the default.
    """

    place: Place
    setting: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A policy at an interface, in one direction.

    Attributes:
        interface: The interface as the configuration spells it; "" for a policy that no interface
            uses.
        direction: The packets that the policy applies to.
        name: The policy's name in the configuration.
        policy: The policy as a scenario states it below `policies`: mappings, lists and texts with
            units; the last class matches ``any``. With direction `in`, classes only match, police
            and mark.
        places: The line of each value of `policy`, by its keys; a value without a line of its own
            has that of the nearest key above it. ``()`` is the line of the policy.
        rate: The rate of the interface in bit/s; None if the configuration does not tell.
        rate_place: The line that tells the rate.
        shape: A shaper of everything that the interface sends, as ``{rate: …, burst: …}`` with
            units; the policy divides its rate.
        medium: Delay, jitter, loss and duplicates of what the interface sends, as keys of a link.
    """

    interface: str
    direction: Direction
    name: str
    policy: dict[str, Any]
    places: Mapping[Loc, Place]
    rate: int | None = None
    rate_place: Place | None = None
    shape: dict[str, str] | None = None
    medium: Mapping[str, str] = field(default_factory=lambda: _NO_MEDIUM)

    def place(self, loc: Loc) -> Place:
        """Return the line of the value at `loc`, or of the nearest key above it."""
        while loc not in self.places and loc:
            loc = loc[:-1]
        return self.places[loc]


class HostCommand(NamedTuple):
    """A command of a script that changes the queueing of its host.

    Attributes:
        place: Its line.
        interface: The interface; "" for a command about all.
        words: The program and its words, as far as a shell would expand them; after ``nft`` the
            lines of a file.
    """

    place: Place
    interface: str
    words: tuple[str, ...]


class Refusal(NamedTuple):
    """An interface without a policy, because its device refuses a line.

    Attributes:
        interface: The interface.
        place: The first line that is refused.
        reason: The reason in the words of the device.
    """

    interface: str
    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a configuration says about quality of service.

    Attributes:
        family: The family and syntax, such as ``ios``, ``junos``, ``altq``, ``pf``, ``tc``,
            ``vyos``.
        lines: Every line about quality of service, once, in the order of the files.
        defaults: The defaults that the policies contain.
        attachments: Policies at interfaces, then policies that no interface uses.
        balance: How the router shares load among paths of equal cost, as a scenario's `balance`
            spells it; None if the configuration does not tell.
        refusals: Interfaces without a policy, because the device refuses a line.
        commands: The commands of scripts of Linux, in the order in which they would run; empty for
            other families, for what tools print, and for more than `MOST_COMMANDS`.
    """

    family: str
    lines: tuple[Line, ...]
    defaults: tuple[Default, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    balance: Literal["per-flow", "per-destination", "per-packet"] | None = None
    refusals: tuple[Refusal, ...] = ()
    commands: tuple[HostCommand, ...] = ()
    counts: Counter[Treatment] = field(init=False)
    """The number of lines with each treatment."""

    def __post_init__(self) -> None:
        """Count the lines."""
        object.__setattr__(self, "counts", Counter(line.treatment for line in self.lines))


def too_many_classes(place: Place, where: str) -> UsageError:
    """Return the error about a policy with more classes than a scenario can have.

    Args:
        place: The line of the class that is one too many, or of the policy.
        where: The name of the interface or policy.
    """
    return UsageError(
        f"{place}: {quote(where)} has more than {MAX_CLASSES:,} classes, the most that perhop "
        "reads; take classes that matter, with the rest as one class"
    )


def source(content: bytes | str, file: str) -> Source:
    """Return a configuration as text: UTF-8, or else Latin-1, with any kind of line ends.

    Raises:
        UsageError: If it is longer than `MAX_SIZE`, or contains a null byte.
    """
    if len(content) > MAX_SIZE:
        raise UsageError(f"{file}: {too_large(f'{len(content):,} bytes', MAX_SIZE)}")
    if isinstance(content, bytes):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
    else:
        text = content
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"{file}:{line}: contains a null byte; expected a text file")
    return Source(file, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


def scenario_name(text: str, taken: Collection[str] = ()) -> str:
    """Return the name of a scenario's class or policy that is nearest to `text`.

    Args:
        text: A name in a configuration.
        taken: Names that other classes have; a number after the name avoids them.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("-")[:60] or "_"
    if not re.match(r"[A-Za-z_]", name) or name.lower() in ("null", "true", "false"):
        name = f"_{name}"
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
