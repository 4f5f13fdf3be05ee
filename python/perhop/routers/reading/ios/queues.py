"""Queues: their limits, weighted random early detection, and fair queueing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.ios.defaults import COMMANDS, PACKET
from perhop.routers.reading.ios.numbers import dscp, number, precedence, share_text, whole
from perhop.scenario.model.dscp import format_dscp
from perhop.scenario.model.queues import wred_defaults
from perhop.units import WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.defaults import Platform
    from perhop.routers.reading.ios.tree import Statement

_TIMES: Final = {"ms": 10**3, "us": 1}
FAIR: Final = "fair queueing as fq-codel that never drops early: each flow gets an equal share"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of a queue, in packets or in microseconds.

    Attributes:
        low: The minimum.
        high: The maximum.
        denominator: One of so many packets is dropped at the maximum.
        time: True for microseconds.
    """

    low: int
    high: int
    denominator: int = 10
    time: bool = False

    def packets(self, rate: int) -> Thresholds:
        """Return the same thresholds in packets of 1500 bytes, at a rate in bit/s."""
        if not self.time:
            return self
        low, high = (
            max(value * rate // (8 * 10**6 * PACKET), 1) for value in (self.low, self.high)
        )
        return Thresholds(low, max(high, low + 1), self.denominator)


@dataclass(slots=True)
class Wred:
    """What `random-detect` statements say.

    Attributes:
        by: `dscp` or `precedence`.
        weight: The weight of the average, in parts per billion; None by default.
        ecn: True if packets are marked instead of dropped.
        profiles: The thresholds of code points.
        stated: The statement with the thresholds of a code point.
        statements: All statements.
    """

    by: str = "precedence"
    weight: int | None = None
    ecn: bool = False
    profiles: dict[tuple[int, ...], Thresholds] = field(default_factory=dict)
    stated: dict[int, Statement] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def places(self, profiles: Sequence[Mapping[str, Any]]) -> dict[int, Place]:
        """Return the lines of those of a scenario's profiles that statements give, by index."""
        first = [dscp(str(each["dscp"][0])) for each in profiles]
        return {
            index: self.stated[point].place
            for index, point in enumerate(first)
            if point is not None and point in self.stated
        }


@dataclass(slots=True)
class QueueSettings:
    """What the statements of a class say about its queue."""

    limit: str | None = None
    limit_statement: Statement | None = None
    wred: Wred | None = None
    fair: Statement | None = None
    flows: int | None = None

    @property
    def statements(self) -> list[Statement]:
        """The statements that say it."""
        found = [*(self.wred.statements if self.wred is not None else ())]
        found += [each for each in (self.limit_statement, self.fair) if each is not None]
        return found


def read_limit(statement: Statement, settings: QueueSettings, account: Account) -> None:
    """Read ``queue-limit N [packets|bytes|ms|us]``."""
    words = [word.lower() for word in statement.words[1:]]
    unit = words[1] if len(words) == 2 else "packets"
    amount = number(words[0], 2**40) if len(words) in (1, 2) else None
    if words[:1] and words[0] in ("dscp", "precedence", "cos", "qos-group", "discard-class"):
        account.not_modelled(statement, "thresholds of tail drop by mark are not modelled")
    elif words[:1] == ["percent"]:
        account.not_modelled(statement, "shares of the buffers of switches are not modelled")
    elif not amount or unit not in ("packets", "packet", "bytes", "byte", "ms", "us"):
        account.not_modelled(statement, "expected a limit above zero in packets, bytes, ms or us")
    else:
        account.modelled(statement)
        settings.limit = _limit(amount, unit)
        settings.limit_statement = statement


def _limit(amount: int, unit: str) -> str:
    if unit in _TIMES:
        return f"{amount} {unit}"
    return f"{amount} B" if unit.startswith("byte") else packets(amount)


def packets(amount: int) -> str:
    """Return a number of packets as a scenario states it."""
    return f"{amount} packet{'s' if amount != 1 else ''}"


def read_wred(statement: Statement, settings: QueueSettings, account: Account) -> None:
    """Read a `random-detect` statement."""
    words = [word.lower() for word in statement.words[1:]]
    wred = settings.wred or Wred()
    account.modelled(statement)
    match words:
        case [] | ["prec-based"] | ["precedence-based"]:
            wred.by = "precedence"
        case ["dscp-based"]:
            wred.by = "dscp"
        case ["ecn"]:
            wred.ecn = True
        case ["exponential-weighting-constant" | "exponential-weight", word]:
            exponent = whole(word, 1, 16)
            if exponent is None:
                account.not_modelled(statement, "expected a constant from 1 to 16")
                return
            wred.weight = WHOLE >> exponent
        case ["dscp" | "precedence", *rest] if "percent" in rest:
            account.not_modelled(statement, "shares of the buffers of switches are not modelled")
            return
        case ["dscp" | "precedence" as kind, *rest]:
            points, rest = _points(kind, rest)
            thresholds = _thresholds(statement, rest, account) if points else None
            if thresholds is None:
                note = "expected a code point, and a maximum above the minimum"
                values = [number(word, 2**40) or 0 for word in rest[:2]]
                reversed_ = points and len(values) == 2 and values[0] > values[1] > 0
                account.not_modelled(statement, note, Fault.INVALID if reversed_ else None)
                return
            wred.profiles.pop(points, None)
            wred.profiles[points] = thresholds
            wred.stated |= dict.fromkeys(points, statement)
        case _:
            account.not_modelled(statement, f"`random-detect {words[0]}` is not modelled")
            return
    wred.statements.append(statement)
    settings.wred = wred


def _points(kind: str, words: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """Return the code points of a profile, and the words after them."""
    if words[:1] == ["values"]:  # until `minimum-thresh`
        end = words.index("minimum-thresh") if "minimum-thresh" in words else len(words)
        marks, rest = words[1:end], words[end:]
    else:
        marks, rest = words[0].split(",") if words else [], words[1:]
    points: list[int] = []
    for word in marks:
        value = precedence(word) if kind == "precedence" else dscp(word)
        if value is None:
            return (), []
        points += range(8 * value, 8 * value + 8) if kind == "precedence" else (value,)
    return tuple(points), list(rest)


def _thresholds(statement: Statement, words: list[str], account: Account) -> Thresholds | None:
    """Return the minimum, the maximum, and the denominator of the probability."""
    values: list[int] = []
    units: set[str] = set()
    for word in words:
        value = number(word, 2**40)
        if value is not None:
            values.append(value)
        elif word in ("mark-prob", "minimum-thresh", "maximum-thresh"):
            continue
        elif word in ("packets", "packet", "bytes", "byte", "ms", "us") and len(values) <= 2:
            units.add(word.removesuffix("s") if word.startswith(("p", "b")) else word)
        else:
            return None
    unit = units.pop() if units else "packet"
    if len(values) not in (2, 3) or units:
        return None
    factor = _TIMES.get(unit, 1)
    if values[0] > values[1]:
        return None
    low, high = ((v // PACKET if unit == "byte" else v * factor) for v in values[:2])
    if unit != "packet":
        account.approximated(statement, f"thresholds in packets of {PACKET} bytes")
    low = max(low, 1)
    if high <= low:
        high = low + 1
        account.approximated(statement, "the maximum is one packet above the minimum")
    denominator = values[2] if len(values) == 3 else 10
    if not 0 < denominator <= 65536:
        return None
    return Thresholds(low, high, denominator, time=unit in _TIMES)


def read_fair(statement: Statement, settings: QueueSettings, account: Account) -> None:
    """Read ``fair-queue [queues]``."""
    words = statement.words[1:]
    if len(words) > 1 or (words and whole(words[0], 1, 65535) is None):
        if [word.lower() for word in words[:1]] == ["queue-limit"]:
            account.not_modelled(statement, "the limit of a flow's queue is not modelled")
            return
        account.not_modelled(statement, "expected a number of queues")
        return
    account.approximated(statement, FAIR)
    settings.fair = statement
    settings.flows = whole(words[0], 1, 65535) if words else None


def written(
    settings: QueueSettings,
    header: Statement,
    rate: int,
    platform: Platform,
    account: Account,
    *,
    priority: bool = False,
) -> dict[str, Any]:
    """Return a queue as a scenario states it, with the platform's defaults.

    Args:
        settings: What the statements say.
        header: The statement of the class, to which defaults belong.
        rate: The rate in bit/s from which the default limit follows.
        platform: The platform.
        account: Where the defaults are listed.
        priority: True for a strict class.
    """
    usual = platform.queue_packets(rate, priority=priority)
    limit = settings.limit
    if limit is None:
        limit = packets(usual)
        account.default(header.place, "queue-limit", limit, platform.source)
    queue: dict[str, Any] = {"limit": limit}
    if settings.wred is not None:
        size = int(limit.split()[0]) if limit.endswith(("packets", "packet")) else usual
        queue["wred"] = _wred(settings.wred, size, rate, platform, account)
        if settings.fair is not None:
            account.not_modelled(settings.fair, "beside random-detect, one queue for all flows")
    elif settings.fair is not None:
        flows = settings.flows
        if flows is None:
            flows = 16 if platform.xe else 256
            account.default(settings.fair.place, "fair-queue", f"{flows} queues", platform.source)
        queue["fq-codel"] = {"flows": flows, "target": "1 h", "interval": "2 h", "ecn": False}
    return queue


def _wred(
    wred: Wred, limit: int, rate: int, platform: Platform, account: Account
) -> dict[str, Any]:
    found: dict[str, Any] = {"by": wred.by}
    own = {point for points in wred.profiles for point in points}
    place = wred.statements[0].place
    profiles: list[dict[str, Any]] = []
    if platform.xe:
        defaults = _scaled(wred.by, max(limit // 2, 2))
        grouped: dict[tuple[int, int], list[int]] = {}
        for point in range(64):
            if point not in own:
                grouped.setdefault(defaults[point], []).append(point)
        profiles = [_profile(points, Thresholds(*pair)) for pair, points in grouped.items()]
        value = f"maximum {max(limit // 2, 2)} packets, minimum by mark, probability 1/10"
        account.default(place, "random-detect", value, platform.source)
        if wred.by == "dscp" and grouped:
            account.approximated(
                wred.statements[0], "thresholds in proportion to those of classic IOS"
            )
    elif len(own) < 64:
        value = "minimum 20 to 35 packets by precedence, maximum 40, probability 1/10"
        if wred.by == "dscp":
            value = "minimum 20 to 36 packets by DSCP, maximum 40, probability 1/10"
        account.default(place, "random-detect", value, f"{COMMANDS}, random-detect")
    seen: set[int] = set()
    alike: dict[Thresholds, list[int]] = {}
    for points, thresholds in reversed(wred.profiles.items()):
        same = alike.setdefault(thresholds.packets(rate), [])
        same.extend(point for point in points if point not in seen)
        seen |= set(points)
    profiles += [_profile(sorted(points), each) for each, points in alike.items() if points]
    if profiles:
        found["profiles"] = sorted(profiles, key=lambda each: dscp(str(each["dscp"][0])) or 0)
    if wred.weight is None:
        account.default(place, "exponential-weighting-constant", "9", f"{COMMANDS}, random-detect")
    else:
        found["weight"] = share_text(wred.weight)
    if wred.ecn:
        found["ecn"] = True
    return found


def _scaled(by: str, maximum: int) -> dict[int, tuple[int, int]]:
    """Return the thresholds of IOS-XE for a maximum in packets."""
    if by == "precedence":
        return {point: (max(maximum * (8 + (point >> 3)) // 16, 1), maximum) for point in range(64)}
    classic = wred_defaults("dscp", in_class=True)
    return {
        point: (max(maximum * each.min // each.max, 1), maximum) for point, each in classic.items()
    }


def _profile(points: Sequence[int], thresholds: Thresholds) -> dict[str, Any]:
    low = min(thresholds.low, thresholds.high - 1)
    return {
        "dscp": [format_dscp(point) for point in points],
        "min": packets(low),
        "max": packets(thresholds.high),
        "probability": share_text(WHOLE // thresholds.denominator),
    }
