"""Policers: `police` in its forms, and `rate-limit` of interfaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.ios.defaults import COMMANDS, police_bytes
from perhop.routers.reading.ios.numbers import dscp, number, percent, precedence, share_text, whole
from perhop.routers.reading.ios.tree import CONTINUED
from perhop.routers.reading.ios.unchecked import PRECEDENCE
from perhop.scenario.model.dscp import format_dscp
from perhop.units import WHOLE, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.tree import Statement

Action = str | dict[str, str | int]

_COLOURS: Final = ("conform", "exceed", "violate")
RATES: Final = {"bps": 1, "kbps": 10**3, "mbps": 10**6, "gbps": 10**9}
"""Units of rates, in bit/s."""

_SIZES: Final = {"bytes": 1, "kbytes": 10**3, "mbytes": 10**6, "gbytes": 10**9}
_TIMES: Final = {"ms": 10**3, "us": 10**6}
_BURSTS: Final = ("bc", "burst", "conform-burst")
_EXCESS_BURSTS: Final = ("be", "peak-burst", "excess-burst")
_MAX_BURST: Final = 2**40
_LEAST_RATE: Final = 8000
"""The lowest rate in bit/s (Cisco IOS Quality of Service Solutions Command Reference, `police`)."""

MAX_RATE: Final = 2**48
"""The highest rate, in bit/s; higher ones are the same to any router."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in bit/s, or a share in parts per billion of what the policy divides."""

    bits: int = 0
    share: int = 0

    def of(self, capacity: int) -> int:
        """Return the rate in bit/s."""
        return capacity * self.share // WHOLE if self.share else self.bits

    def text(self) -> str:
        """Return the rate as a scenario states it."""
        return share_text(self.share) if self.share else format_rate(self.bits)


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst in bytes, or a time in microseconds at the rate."""

    bytes: int = 0
    time: int = 0

    def of(self, rate: int) -> int:
        """Return the burst in bytes at a rate in bit/s."""
        return max(rate * self.time // (8 * 10**6), 1) if self.time else self.bytes


@dataclass(slots=True)
class Policer:
    """What a statement says, before defaults."""

    rate: Rate | None = None
    burst: Burst | None = None
    excess: Burst | None = None
    peak: Rate | None = None
    actions: dict[str, Action] = field(default_factory=dict)


class _Words:
    """The words of a statement, one after the other."""

    def __init__(self, words: list[str]) -> None:
        self.words = [word.lower() for word in words]
        self.at = 0

    @property
    def word(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, *known: str) -> str:
        """Go past the next word if it is one of these, and return it."""
        word = self.word
        if word and word in known:
            self.at += 1
            return word
        return ""


def read_police(statement: Statement, account: Account) -> Policer | None:
    """Return what a `police` statement and its block say; None if it is not modelled."""
    found = Policer()
    words = _Words(statement.words[1:])
    account.modelled(statement)
    problem = _rates(words, found)
    problem = problem or _actions(words, found, statement, account)
    for child in statement.children:
        if child.kind == CONTINUED:
            continue
        account.modelled(child)
        inner = _Words(child.words)
        problem_of_child = _actions(inner, found, child, account)
        if problem_of_child:
            account.not_modelled(child, problem_of_child)
        account.ignored(child.children, "unknown statement")
    if problem is None and (found.rate is None or not (found.rate.bits or found.rate.share)):
        problem = "no rate above zero"
    fault = None
    if problem is None and found.rate is not None and 0 < found.rate.bits < _LEAST_RATE:
        problem, fault = f"IOS refuses it: the least rate is {_LEAST_RATE} bit/s", Fault.REFUSED
    if problem is not None:
        account.not_modelled(statement, problem, fault)
        for child in statement.children:
            account.not_modelled(child, "its policer is not modelled")
        return None
    return found


def _rates(words: _Words, found: Policer) -> str | None:
    """Read rates and bursts up to the first action; return what is not modelled."""
    words.take("cir", "rate", "aggregate-rate")
    if words.word in ("flow", "aggregate", "cir-percent"):
        return f"`police {words.word}` is not modelled"
    found.rate = _rate(words)
    if found.rate is None:
        return f"no rate: {words.word}" if words.word else "no rate"
    if words.word in ("pps", "cps"):
        return f"rates in {words.word} are not modelled"
    while words.word and not _is_colour(words.word):
        keyword = words.take(*_BURSTS, *_EXCESS_BURSTS)
        if keyword and number(words.word, _MAX_BURST) is None:
            return f"no burst after {keyword}"
        if keyword in _BURSTS:
            found.burst = _burst(words, found.rate)
        elif keyword:
            found.excess = _burst(words, found.rate)
        elif words.take("pir", "peak-rate"):
            found.peak = _rate(words)
            if found.peak is None:
                return "no peak rate"
        elif words.word[:1].isdigit():
            # Without keywords: first the normal burst, then the maximum.
            if number(words.word, _MAX_BURST) is None:
                return f"no burst: {words.word}"
            if found.burst is None:
                found.burst = _burst(words, found.rate)
            else:
                found.excess = _burst(words, found.rate)
        elif not words.take("account", "qos-group"):
            break
    return None


def _rate(words: _Words) -> Rate | None:
    if words.take("percent"):
        share = percent(words.word)
        words.at += 1
        return None if share is None else Rate(share=share)
    bits = number(words.word)
    if bits is None:
        return None
    words.at += 1
    if words.take("percent"):
        share = percent(str(bits))
        return None if share is None else Rate(share=share)
    return Rate(min(bits * RATES.get(words.take(*RATES), 1), MAX_RATE))


def _burst(words: _Words, rate: Rate) -> Burst | None:
    """Return a burst; numbers after a share are milliseconds."""
    amount = number(words.word, _MAX_BURST)
    if amount is None:
        return None
    words.at += 1
    if unit := words.take(*_TIMES):
        return Burst(time=amount * (10**6 // _TIMES[unit])) if amount else None
    size = words.take(*_SIZES, "byte")
    words.take("packets")
    if rate.share and not size:
        return Burst(time=amount * 1000) if amount else None
    return Burst(min(amount * _SIZES.get(size, 1), _MAX_BURST)) if amount else None


def _actions(words: _Words, found: Policer, statement: Statement, account: Account) -> str | None:
    """Read actions; return what is not modelled."""
    while words.word:
        colour = words.word.removesuffix("-action")
        if colour.endswith("-color"):
            return "colour-aware policing is not modelled"
        if colour not in _COLOURS:
            return f"unknown word {words.word}"
        words.at += 1
        begun = words.at
        while words.word and not _is_colour(words.word):
            words.at += 1
        parts = words.words[begun : words.at]
        action, note = _action(parts)
        if note:
            account.approximated(statement, note)
        if action is not None and not (action == "send" and colour in found.actions):
            found.actions[colour] = action
    return None


def _is_colour(word: str) -> bool:
    return word.endswith(("-action", "-color")) or word in _COLOURS


def _action(words: list[str]) -> tuple[Action | None, str]:
    """Return an action as a scenario states it, and a note if IOS does something else."""
    if words[:1] == ["set"]:
        words = [f"set-{words[1]}-transmit" if len(words) > 1 else "", *words[2:]]
    match words:
        case ["transmit"]:
            return "send", ""
        case ["drop"]:
            return "drop", ""
        case ["set-dscp-transmit", word]:
            point = dscp(word)
            if point is not None:
                return {"remark": format_dscp(point)}, ""
        case ["set-prec-transmit" | "set-precedence-transmit", word]:
            level = precedence(word)
            if level is not None:
                return {"remark": format_dscp(8 * level)}, PRECEDENCE
    return "send", f"{' '.join(words) or 'no action'}: packets are sent as they are"


def written(
    found: Policer, statement: Statement, capacity: int, account: Account, *, absolute: bool
) -> dict[str, Any] | None:
    """Return a policer as a scenario states it, with the platform's defaults.

    Args:
        found: What the statement says.
        statement: The statement, for notes.
        capacity: The rate in bit/s that shares are of.
        account: Where the defaults are listed.
        absolute: True to state shares as rates.
    """
    assert found.rate is not None
    rate = found.rate.of(capacity)
    if rate < 1:
        account.not_modelled(statement, "less than 1 bit/s")
        return None

    def text(value: Rate) -> str:
        return format_rate(value.of(capacity)) if absolute else value.text()

    def burst(value: Burst | None, setting: str, at: int) -> str:
        if value is not None and value.of(at) > 0:
            return format_size(value.of(at))
        usual = format_size(police_bytes(at))
        account.default(statement.place, setting, usual, f"{COMMANDS}, police")
        return usual

    conform = found.actions.get("conform", "send")
    exceed = found.actions.get("exceed", "drop")
    policer: dict[str, Any] = {"rate": text(found.rate), "burst": burst(found.burst, "bc", rate)}
    if found.peak is not None:
        peak = found.peak.of(capacity)
        if peak < rate:
            account.approximated(statement, "the peak rate is raised to the committed rate")
            policer["peak_rate"] = policer["rate"]
        else:
            policer["peak_rate"] = text(found.peak)
        policer["peak_burst"] = burst(found.excess, "be", max(peak, rate))
    elif found.actions.get("violate", exceed) != exceed:
        policer["excess_burst"] = burst(found.excess, "be", rate)
    if conform != "send":
        policer["conform"] = conform
    policer["exceed"] = exceed
    if policer.keys() & {"peak_rate", "excess_burst"}:
        policer["violate"] = found.actions.get("violate", "drop")
    return policer


def rate_limit(statement: Statement, account: Account) -> Policer | None:
    """Return what a `rate-limit` says after the packets that it is for: rate, bursts, actions."""
    words = _Words(statement.words[2:])
    for keyword in ("access-group", "dscp", "qos-group"):
        if words.take(keyword):
            words.take("rate-limit")
            words.at += 1
    found = Policer()
    values = list(_numbers(words))
    if len(values) != 3 or not values[0] or not values[1]:
        account.not_modelled(statement, "expected a rate and two bursts above zero")
        return None
    found.rate, found.burst = Rate(values[0]), Burst(values[1])
    problem = _actions(words, found, statement, account)
    if problem is not None:
        account.not_modelled(statement, problem)
        return None
    if values[2] > values[1]:
        account.approximated(statement, "no extended burst, in which IOS drops some of the packets")
    return found


def _numbers(words: _Words) -> Iterator[int]:
    while (value := whole(words.word, 0, _MAX_BURST)) is not None:
        words.at += 1
        yield value
