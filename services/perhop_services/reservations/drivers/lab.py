"""A lab: reserved packets go before everything else, on every link from the first router on.

The first of these links polices to rate and burst and drops the rest; behind it nothing exceeds any
more. What the links do with other packets stays as it was, policies and counters too. A lab sends
packets the shortest way, so that a reservation for another one fails.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perhop.errors import PerhopError, UsageError
from perhop.lab.client import Lab
from perhop.scenario.model.matching import Match
from perhop_services.reservations.drivers.protocol import (
    RULE_NAME,
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class LabDriver:
    """A driver for all routers of a lab that is up."""

    needs_people = False

    def __init__(self, name: str = "") -> None:
        """Take the lab of this name, or the only one that is up at the time of a call."""
        self._name = name

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """Return the request to the lab."""
        del old
        asked = {"name": rule.name} if remove else _asked(rule)
        return json.dumps({"do": "release" if remove else "reserve", **asked}, indent=2)

    def expected(self, rule: Rule) -> Setting:
        """Return the exact setting of a rule."""
        return _setting(_asked(rule))

    def set(self, rule: Rule) -> None:
        """Reserve, or change a reservation in place."""
        if not rule.links:
            raise RefusedError("a lab polices at routers, and there is none on the way")
        self._do(lambda lab: lab.reserve(**_asked(rule)))

    def remove(self, name: str) -> None:
        """Release a reservation; do nothing if the lab has ended."""
        try:
            lab = self._lab()
        except UsageError:
            return
        except PerhopError as error:
            raise DriverError(str(error)) from None
        self._do(lambda _: lab.release(name))

    def installed(self) -> dict[str, Setting]:
        """Return the reservations of the lab."""
        return {name: _setting(each) for name, each in self._reserved().items()}

    def counters(self) -> dict[str, PolicerCounters]:
        """Return the counters of the lab."""
        keys = PolicerCounters.__dataclass_fields__
        return {
            name: PolicerCounters(**{key: each["counters"][key] for key in keys})
            for name, each in self._reserved().items()
        }

    def clear(self, name: str) -> None:
        """Clear the counters of a reservation."""
        self._do(lambda lab: lab.clear(name))

    def _reserved(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._do(lambda lab: found.update(lab.reserved()))
        return {name: each for name, each in found.items() if RULE_NAME.fullmatch(name)}

    def _lab(self) -> Lab:
        return Lab.find(self._name or None)

    def _do(self, what: Callable[[Lab], None]) -> None:
        try:
            lab = self._lab()
        except PerhopError as error:
            raise DriverError(str(error)) from None
        try:
            what(lab)
        except UsageError as error:
            raise RefusedError(str(error)) from None
        except PerhopError as error:
            raise DriverError(str(error)) from None


def _asked(rule: Rule) -> dict[str, Any]:
    """Return a rule as a request to a lab."""
    selector = rule.selector
    match: dict[str, Any] = {"source": rule.source, "destination": rule.destination}
    ports = {"source_port": selector.source_ports, "destination_port": selector.destination_ports}
    for key, pair in ports.items():
        if pair is not None:
            match[key] = "-".join(map(str, dict.fromkeys(pair)))
    if selector.protocol is not None:
        match["protocol"] = selector.protocol
    elif selector.source_ports or selector.destination_ports:
        match["protocol"] = ["tcp", "udp"]
    if selector.dscp is not None:
        match["dscp"] = selector.dscp
    terms = {"rate": rule.rate, "burst": rule.burst}
    return {"name": rule.name, "links": list(rule.links), "match": match, **terms}


def _setting(reservation: dict[str, Any]) -> Setting:
    """Return the setting of a reservation, requested or read back."""
    match = Match.model_validate(reservation["match"])
    packets = json.dumps(match.model_dump(mode="json", exclude_none=True), sort_keys=True)
    links = " ".join(reservation["links"])
    rate = reservation["rate"]
    return Setting(rate, reservation["burst"], f"{packets} by {links}", guaranteed=rate)
