"""Rules, their severity, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from perhop.units import MILLISECOND

if TYPE_CHECKING:
    from perhop.routers.reading import Place


class Severity(StrEnum):
    """How likely a finding is a fault, in descending order."""

    ERROR = "error"
    """The configuration does not do what it says."""

    WARNING = "warning"
    """The configuration probably does not do what was meant."""

    NOTE = "note"
    """The configuration deserves a look: there may be a reason for it."""


RANKS: Final = {severity: rank for rank, severity in enumerate(reversed(Severity), 1)}
"""Severities as numbers; an error has the largest."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of fault.

    Attributes:
        name: The identifier, such as ``shadowed-class``.
        severity: The severity of its findings.
        what: The fault, in one sentence.
        why: Its effect.
        fix: The remedy.
        source: A document that explains the effect; "" if it follows from the configuration alone.
    """

    name: str
    severity: Severity
    what: str
    why: str
    fix: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at a line of a configuration.

    Attributes:
        rule: The rule that found it.
        place: File and line.
        message: The fault and its effect, with names and numbers of the configuration.
        fix: The remedy in this place.
    """

    rule: Rule
    place: Place
    message: str
    fix: str


RTTS: Final = (10 * MILLISECOND, 50 * MILLISECOND, 100 * MILLISECOND)
"""Round-trip times in ps if the user names none: a country, a continent, and another continent."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Facts that configurations do not tell.

    Attributes:
        rtts: Round-trip times of the paths across the router, in ps, ascending.
        untrusted: Interfaces whose senders may set any DSCP.
        ignored: Names of rules that are switched off.
    """

    rtts: tuple[int, ...] = RTTS
    untrusted: tuple[str, ...] = ()
    ignored: frozenset[str] = field(default_factory=frozenset)
