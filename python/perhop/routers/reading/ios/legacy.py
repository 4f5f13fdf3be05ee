"""Statements of QoS from before policy maps, at interfaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perhop.routers.reading.ios import police, queues
from perhop.routers.reading.ios.building import Built
from perhop.routers.reading.ios.defaults import COMMANDS
from perhop.routers.reading.ios.numbers import dscp, number, whole
from perhop.routers.reading.matching import Conditions, Rules, TooManyRulesError
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Direction, Loc, Place
    from perhop.routers.reading.ios.access_lists import AccessLists
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.defaults import Platform
    from perhop.routers.reading.ios.tree import Statement

_NOTE_BESIDE = "not modelled beside a policy map"


@dataclass(slots=True)
class _Limiter:
    """A `rate-limit`: the packets that it is for, and its policer."""

    statement: Statement
    rules: Rules
    policer: police.Policer


@dataclass(slots=True)
class Legacy:
    """The older statements of one interface."""

    lists: AccessLists
    platform: Platform
    account: Account
    limiters: dict[str, list[_Limiter]] = field(default_factory=dict)
    shapers: list[tuple[Statement, Rules, int, int]] = field(default_factory=list)
    queue: queues.QueueSettings = field(default_factory=queues.QueueSettings)
    used: list[Statement] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """True if there is a statement that can be modelled."""
        return bool(self.limiters or self.shapers or self.queue.statements)

    def takes(self, statement: Statement, words: tuple[str, ...]) -> bool:
        """Read a statement; False if it is not one of these."""
        match words[:1]:
            case ("rate-limit",):
                self._rate_limit(statement, words)
            case ("traffic-shape",):
                self._traffic_shape(statement, words)
            case ("random-detect",):
                queues.read_wred(statement, self.queue, self.account)
                self.used.append(statement)
            case ("fair-queue",):
                self._fair(statement, words)
            case ("hold-queue",):
                self._hold(statement, words)
            case _:
                return False
        return True

    def beside(self, direction: Direction) -> None:
        """Note the statements that a policy map in the same direction replaces."""
        if direction == "out":
            for statement in self.used:
                self.account.not_modelled(statement, _NOTE_BESIDE)
        for limiter in self.limiters.pop(direction, ()):
            self.account.not_modelled(limiter.statement, _NOTE_BESIDE)

    def built(self, direction: Direction, header: Statement, rate: int) -> Built | None:
        """Return the policy that the statements amount to; None for none."""
        limiters = self.limiters.get(direction, [])
        queued = direction == "out" and bool(self.shapers or self.queue.statements)
        if not limiters and not queued:
            return None
        classes: dict[str, Any] = {}
        places: dict[Loc, Place] = {(): header.place}
        for number_, limiter in enumerate(limiters, 1):
            policer = police.written(
                limiter.policer, limiter.statement, rate, self.account, absolute=True
            )
            if policer is None or limiter.rules.is_never:
                self.account.not_modelled(limiter.statement, "matches no packet")
                continue
            name = f"rate-limit-{number_}"
            classes[name] = {"match": limiter.rules.written(), "police": policer}
            places["classes", name] = limiter.statement.place
            if limiter.rules.is_any:
                for other in limiters[number_:]:
                    self.account.not_modelled(other.statement, "no packet is left for it")
                return Built({"classes": classes}, places)
        shape: dict[str, str] | None = None
        if direction == "out":
            shape = self._shaped(classes, places)
        classes["class-default"] = {"match": "any"}
        if queued:
            classes |= self.plain(header, rate).policy["classes"]
        return Built({"classes": classes}, places, shape)

    def plain(self, header: Statement, rate: int) -> Built:
        """Return a policy with one class, which has the queue of the statements."""
        queue = queues.written(self.queue, header, rate, self.platform, self.account)
        return Built(
            {"classes": {"class-default": {"match": "any", "queue": queue}}}, {(): header.place}
        )

    def _shaped(self, classes: dict[str, Any], places: dict[Loc, Place]) -> dict[str, str] | None:
        """Add the shapers of some packets, and return that of all."""
        shape: dict[str, str] | None = None
        for number_, (statement, rules, bits, size) in enumerate(self.shapers, 1):
            written = {"rate": format_rate(bits), "burst": format_size(size)}
            if rules.is_any:
                shape = written
            elif not rules.is_never:
                name = f"traffic-shape-{number_}"
                classes[name] = {
                    "match": rules.written(),
                    "bandwidth": format_rate(bits),
                    "shape": written,
                }
                places["classes", name] = statement.place
        return shape

    def _rules(self, statement: Statement, name: str) -> Rules | None:
        try:
            rules = self.lists.rules(name)
        except TooManyRulesError as error:
            self.account.not_modelled(statement, str(error))
            return None
        if rules is None:
            self.account.undefined(statement, f"access list {name}")
        return rules

    def _rate_limit(self, statement: Statement, words: tuple[str, ...]) -> None:
        account = self.account
        account.modelled(statement)
        direction = {"input": "in", "output": "out"}.get(words[1] if len(words) > 1 else "")
        rules: Rules | None = Rules.any()
        if words[2:3] == ("access-group",) and len(words) > 3:
            if words[3] == "rate-limit":
                account.not_modelled(statement, "rate-limit access lists are not modelled")
                return
            rules = self._rules(statement, statement.words[3])
        elif words[2:3] == ("dscp",) and len(words) > 3:
            point = dscp(words[3])
            rules = None if point is None else Rules.of(Conditions(dscp=frozenset({point})))
        elif words[2:3] == ("qos-group",):
            rules = None
        if direction is None or rules is None:
            account.not_modelled(statement, "a direction or packets that perhop does not know")
            return
        if any(word.endswith("continue") for word in words):
            account.not_modelled(statement, "actions that continue are not modelled")
            return
        policer = police.rate_limit(statement, account)
        if policer is not None:
            self.limiters.setdefault(direction, []).append(_Limiter(statement, rules, policer))

    def _traffic_shape(self, statement: Statement, words: tuple[str, ...]) -> None:
        account = self.account
        account.modelled(statement)
        rest = words[2:]
        rules: Rules | None = Rules.any()
        if words[1:2] == ("group",) and len(words) > 2:
            rules = self._rules(statement, statement.words[2])
            rest = words[3:]
        elif words[1:2] != ("rate",):
            account.not_modelled(statement, "adaptation to congestion is not modelled")
            return
        values = [number(word, 2**40) for word in rest[:3]]
        if rules is None or not values or not values[0] or None in values:
            account.not_modelled(statement, "expected a rate above zero, and bursts")
            return
        bits = values[0]
        sizes = [value or 0 for value in values[1:]]
        if not sizes:
            sizes = [self.platform.shape_bits(bits)]
            account.default(statement.place, "bc", f"{sizes[0]} bits", COMMANDS)
        self.shapers.append((statement, rules, bits, max(sum(sizes) // 8, 1)))
        self.used.append(statement)

    def _fair(self, statement: Statement, words: tuple[str, ...]) -> None:
        # The third, queues for reservations, may be 0.
        numbers = [whole(word, int(index < 2), 65535) for index, word in enumerate(words[1:])]
        if None in numbers or len(numbers) > 3:
            self.account.not_modelled(statement, "expected numbers of queues")
            return
        self.account.approximated(statement, queues.FAIR)
        self.queue.fair = statement
        self.queue.flows = numbers[1] if len(numbers) > 1 else None
        self.used.append(statement)

    def _hold(self, statement: Statement, words: tuple[str, ...]) -> None:
        size = whole(words[1], 1, 10**6) if len(words) == 3 else None
        if size is None or words[2] != "out":
            self.account.not_modelled(statement, "packets that arrive have no queue")
            return
        self.account.modelled(statement)
        self.queue.limit = queues.packets(size)
        self.queue.limit_statement = statement
        self.used.append(statement)
