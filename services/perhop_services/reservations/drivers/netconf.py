"""A router with Junos over NETCONF: a policer and a term of a filter for each rule.

The filter is the driver's own: its terms are rules, and a last one that accepts what they do not
match. An interface of the router has it as input filter, alone or in a list. Each change replaces
the filter in one confirmed commit, which the router undoes unless the rules read back as they were
sent (`perhop.routers.pushing`). Junos counts from zero then, and the driver reads no counters.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from perhop.errors import PerhopError, UsageError
from perhop.routers.pushing.connection import connect, need_libraries
from perhop.routers.pushing.junos import Junos, in_digits, made, statements, tree
from perhop.routers.pushing.target import target
from perhop.routers.pushing.transaction import transact
from perhop.scenario import parse_dscp
from perhop_services.reservations.drivers.protocol import (
    RULE_NAME,
    DriverError,
    NotCountedError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
)
from perhop_services.reservations.drivers.text import JunosDriver
from perhop_services.reservations.model import Selector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from perhop.routers.pushing.netconf import Router

_TIMEOUT_S: Final = 30.0
_CONFIRM_S: Final = 60
_LAST: Final = "perhop_others"
"""The term for packets of no rule."""

_LEAST_RATE: Final = 8_000
_LEAST_BURST: Final = 1_500

Words = tuple[str, ...]


class NetconfDriver(JunosDriver):
    """Juniper Junos over NETCONF."""

    needs_people = False

    def __init__(
        self,
        *,
        host: str = "",
        user: str = "perhop",
        port: str = "830",
        key: str = "",
        known_hosts: str = "",
        filter: str = "perhop",  # noqa: A002
    ) -> None:
        """Create the driver of a router.

        Args:
            host: Its name or address.
            user: The user to log in as.
            port: The TCP port.
            key: A file with the private key; by default the keys of the agent and of `~/.ssh`.
            known_hosts: A file with host keys; by default `~/.ssh/known_hosts`.
            filter: The name of the firewall filter, which has no other terms than rules.

        Raises:
            UsageError: There is no host, or the address is malformed.
        """
        if not host:
            raise UsageError("the driver `netconf` needs a host: netconf:host=r1.example.net")
        super().__init__(filter=filter)
        self._name = filter
        self._target = target(f"netconf://{user}@{host}:{port}")
        self._key = key or None
        self._known_hosts = known_hosts or None

    def set(self, rule: Rule) -> None:  # type: ignore[override]
        """Set a rule, in one commit with all others."""
        if rule.rate < _LEAST_RATE or rule.burst < _LEAST_BURST:
            raise RefusedError(
                f"Junos polices from {_LEAST_RATE} bit/s with bursts from {_LEAST_BURST} B"
            )
        lines = self.configuration(rule).splitlines()
        words = [tuple(line.split()[1:]) for line in lines if line.startswith("set ")]
        self._change(_Change(self._name, rule.name, words))

    def remove(self, name: str) -> None:  # type: ignore[override]
        """Remove a rule."""
        self._change(_Change(self._name, name, []))

    def installed(self) -> dict[str, Setting]:
        """Return the rules in the running configuration."""
        with self._router() as router:
            found = router.configuration("running", _asked(self._name))
        return {} if found is None else _settings(statements(found), self._name)

    def counters(self) -> dict[str, PolicerCounters]:
        """Refuse: counters are not in what NETCONF defines."""
        raise NotCountedError(f"the driver reads no counters of {self._target}")

    def clear(self, name: str) -> NoReturn:
        """Refuse: counters are not in what NETCONF defines."""
        raise DriverError(f"the driver cannot clear the counters of {name} at {self._target}")

    def _change(self, change: _Change) -> None:
        with self._router() as router:
            transact(router, change, seconds=_CONFIRM_S, approve=lambda _: True)

    @contextmanager
    def _router(self) -> Iterator[Router]:
        """Open a session with the router.

        Raises:
            DriverError: It fails.
            RefusedError: The filter has terms of others.
        """
        try:
            need_libraries()
            from perhop.routers.pushing.netconf import Router

            client = connect(
                self._target, key=self._key, known_hosts=self._known_hosts, timeout=_TIMEOUT_S
            )
            with Router(client, self._target, _TIMEOUT_S) as router:
                yield router
        except PerhopError as error:
            raise DriverError(str(error)) from None


class _Change:
    """The change of one rule, as `transact` takes it: with a policer and a term, or without."""

    remedies = Junos.remedies

    def __init__(self, filter_name: str, rule: str, words: list[Words]) -> None:
        self._path: Words = ("firewall", "family", "inet", "filter", filter_name, "term")
        self._policer: Words = ("firewall", "policer", rule)
        self._rule = rule
        self._words = words
        self.filter = _asked(filter_name)

    def edit(self, current: Element | None) -> str:
        """Return the filter with the rule before the last term, or without it, and its policer."""
        found = self.lines(current)
        terms = _below(found, self._path)
        others = [name for name in terms if not RULE_NAME.fullmatch(name) and name != _LAST]
        if others:
            raise RefusedError(
                f"the filter {self._path[-2]} has terms that are no rules of perhop, such as "
                f"{others[0]}; give the driver a filter of its own: filter=NAME"
            )
        kept = [
            (*self._path, name, *words)
            for name, lines in terms.items()
            if name not in (self._rule, _LAST)
            for words in lines
        ]
        last: Words = (*self._path, _LAST, "then", "accept")
        own = [words for words in self._words if words[: len(self._path)] == self._path]
        policer = [words for words in self._words if words[:3] == self._policer]
        gone = not policer and self._rule in _below(found, self._policer[:2])
        edited = tree([*kept, *own, last, *(policer or [self._policer] * gone)])
        for path, operation in (
            ("firewall/family/inet/filter", "replace"),
            ("firewall/policer", "delete" if gone else "replace"),
        ):
            for each in edited.findall(path):
                each.set("nc:operation", operation)
        return made(edited)

    def lines(self, configuration: Element | None) -> tuple[str, ...]:
        """Return the statements of a configuration."""
        return () if configuration is None else tuple(statements(configuration))

    def differences(self, configuration: Element | None) -> list[str]:
        """Return how the rule of a router differs from the one to set; none if it does not."""
        wanted = {in_digits(" ".join(words)) for words in self._words}
        names = (" ".join((*self._path, self._rule, "")), " ".join((*self._policer, "")))
        there = {in_digits(line) for line in self.lines(configuration) if line.startswith(names)}
        return [
            *(f"lacks: {line}" for line in sorted(wanted - there)),
            *(f"also has: {line}" for line in sorted(there - wanted)),
        ]


def _asked(filter_name: str) -> str:
    """Return the subtree filter for all policers and one filter."""
    path = ("firewall", "family", "inet", "filter", filter_name)
    asked = tree([path])
    firewall = asked.find("firewall")
    assert firewall is not None
    firewall.append(firewall.makeelement("policer", {}))
    return made(asked)


def _below(lines: tuple[str, ...] | list[str], path: Words) -> dict[str, list[Words]]:
    """Return the statements below a path, by the word after it and without both."""
    start = " ".join((*path, ""))
    found: dict[str, list[Words]] = {}
    for line in lines:
        if line.startswith(start):
            name, *words = line.removeprefix(start).split(" ")
            found.setdefault(name, []).append(tuple(words))
    return found


def _settings(lines: list[str], filter_name: str) -> dict[str, Setting]:
    """Return the rules in statements: a policer or a term without the other has nothing of it."""
    terms = _below(lines, ("firewall", "family", "inet", "filter", filter_name, "term"))
    policers = _below([in_digits(line) for line in lines], ("firewall", "policer"))
    found = {}
    for name in dict.fromkeys((*terms, *policers)):
        if RULE_NAME.fullmatch(name):
            limits = {words[-2]: words[-1] for words in policers.get(name, []) if len(words) > 1}
            found[name] = Setting(
                _number(limits.get("bandwidth-limit", "")),
                _number(limits.get("burst-size-limit", "")),
                _packets(terms.get(name, [])),
            )
    return found


def _number(text: str) -> int:
    """Return a number in digits; 0 for other text, which no rule has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _packets(term: list[Words]) -> str:
    """Return the packets of a term as `Rule.packets` spells them; "" for those of no rule."""
    values: dict[str, list[str]] = {}
    for words in term:
        if words[:1] == ("from",) and len(words) == 3:
            values.setdefault(words[1], []).append(words[2])
    try:
        source, destination = (
            values[f"{end}-address"][0].removesuffix("/32") for end in ("source", "destination")
        )
        ports = _ports(values.get("source-port")), _ports(values.get("destination-port"))
        dscp = parse_dscp(values["dscp"][0]) if "dscp" in values else None
    except (KeyError, ValueError):
        return ""
    protocols = values.get("protocol", [])
    selector = Selector(None, *ports, dscp)
    said = str(selector)
    if len(protocols) == 1:
        said = said.replace("any protocol", protocols[0], 1)
    return f"{source} > {destination}, {said}"


def _ports(values: list[str] | None) -> tuple[int, int] | None:
    if values is None:
        return None
    low, _, high = values[0].partition("-")
    return int(low), int(high or low)
