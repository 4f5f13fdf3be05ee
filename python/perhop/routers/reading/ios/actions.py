"""The statements of a class in a policy map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.effect import OF_A_CLASS
from perhop.routers.reading.ios import queues
from perhop.routers.reading.ios.numbers import dscp, number, percent, precedence, whole
from perhop.routers.reading.ios.police import MAX_RATE, RATES, Burst, Policer, Rate, read_police
from perhop.scenario.model.dscp import format_dscp

if TYPE_CHECKING:
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.tree import Statement

MAX_RATIO: Final = 65536


@dataclass(slots=True)
class Shaper:
    """What a `shape` statement says.

    Attributes:
        statement: The statement.
        rate: The committed rate.
        bits: The committed burst in bits, or None.
        excess: The excess burst in bits, or None.
        peak: True for a rate that includes the excess burst in every interval.
    """

    statement: Statement
    rate: Rate
    bits: Burst | None = None
    excess: Burst | None = None
    peak: bool = False


@dataclass(slots=True)
class Settings:
    """What the statements of a class say, before defaults.

    Attributes:
        header: The ``class`` statement.
        statements: The statement of each setting.
        bandwidth: The guarantee, or None.
        remaining: A share of the bandwidth that is left, in parts per billion.
        ratio: A weight in the bandwidth that is left.
        level: The level of a priority class; 0 for others.
        priority: The rate of the policer of `priority`, or None.
        priority_burst: Its burst, or None.
        police: The policer, or None.
        drop: The statement that drops all packets, or None.
        shape: The shaper, or None.
        mark: The new code point, or None.
        link_marks: The new classes at layer 2, by their key in a mark.
        queue: What the statements say about the queue.
        child: The name of the policy that divides the class, or None.
    """

    header: Statement
    statements: dict[str, Statement] = field(default_factory=dict)
    bandwidth: Rate | None = None
    remaining: int | None = None
    ratio: int | None = None
    level: int = 0
    priority: Rate | None = None
    priority_burst: Burst | None = None
    police: Policer | None = None
    drop: Statement | None = None
    shape: Shaper | None = None
    mark: int | None = None
    link_marks: dict[str, int] = field(default_factory=dict)
    queue: queues.QueueSettings = field(default_factory=queues.QueueSettings)
    child: str | None = None

    def limits_priority(self, rate: int) -> bool:
        """Return whether the policer of `priority` decides, of a class at a rate in bit/s."""
        if self.priority is None or self.police is None or self.police.rate is None:
            return self.priority is not None
        return self.priority.of(rate) < self.police.rate.of(rate)

    @property
    def marks(self) -> Any:
        """The marks of the class as a scenario states them; None without any."""
        point = None if self.mark is None else format_dscp(self.mark)
        if not self.link_marks:
            return point
        return ({} if point is None else {"dscp": point}) | self.link_marks

    @property
    def queues(self) -> bool:
        """True if the class has a queue, and not only conditions packets."""
        return bool(
            self.level
            or self.bandwidth
            or self.remaining is not None
            or self.ratio is not None
            or self.shape
            or self.queue.statements
        )


def read_settings(header: Statement, statements: list[Statement], account: Account) -> Settings:
    """Return what the statements of a class say; the last of several decides."""
    found = Settings(header)
    last: dict[str, Statement] = {}
    live: list[Statement] = []
    for statement in statements:
        key = _key(statement)
        negated = statement.starts("no") or statement.starts("default")
        taken = [last.pop(each) for each in _taken(key, last, negated=negated)]
        for before in taken:
            note = f"{'removed' if negated else 'replaced'} in line {statement.place.line}"
            account.not_modelled(before, note)
            account.ignored(before.children, note)
        if negated:
            if taken:
                account.modelled(statement)
            else:
                account.not_modelled(statement, _NOTHING)
            continue
        if key:
            last[key] = statement
        live.append(statement)
    kept = {id(statement) for statement in last.values()}
    for statement in live:
        if id(statement) in kept or not _key(statement):
            _read(statement, found, account)
            account.ignored(statement.children, "unknown statement")
    return found


_NOTHING: Final = "has no effect: the class has no such statement before it"

_MARKS_OF_IP: Final = ("set dscp", "set precedence")
"""A packet has one of these marks (Quality of Service Solutions Command Reference, set dscp)."""


def _taken(key: str, last: dict[str, Statement], *, negated: bool) -> list[str]:
    """Return the settings that a statement replaces or takes back."""
    if negated and key in _ALL_OF_WRED:
        return [each for each in last if each.startswith("random-detect")]
    keys = _MARKS_OF_IP if key in _MARKS_OF_IP and not negated else (key,)
    return [each for each in keys if each in last]


_ALL_OF_WRED: Final = tuple(
    f"random-detect{kind}" for kind in ("", " dscp-based", " prec-based", " precedence-based")
)
"""Statements whose negation ends WRED, with its thresholds and constant."""


def _key(statement: Statement) -> str:
    """Return the setting of a statement; "" for statements that add to each other."""
    words = [word.lower() for word in statement.words]
    if words[:1] == ["no"] or words[:1] == ["default"]:
        words = words[1:]
    match words:
        case ["bandwidth", "remaining", *_]:
            return "bandwidth remaining"
        case ["random-detect", "exponential-weighting-constant" | "exponential-weight", *_]:
            return "random-detect weight"
        case ["random-detect", _, "values", *rest]:
            end = rest.index("minimum-thresh") if "minimum-thresh" in rest else len(rest)
            return " ".join(words[: 3 + end])
        case ["set", *rest]:
            rest = rest[1:] if rest[:1] == ["ip"] else rest
            return " ".join(["set", *rest[: 2 if rest[1:2] == ["tunnel"] else 1]])
        case ["random-detect" | "description", *rest]:
            return " ".join([words[0], *rest[:2]])
        case ["queue-limit", "dscp" | "precedence" | "cos" | "qos-group" | "discard-class", *_]:
            return " ".join(words[:3])
        case ["fair-queue", "queue-limit", *_]:
            return "fair-queue queue-limit"
        case ["shape", kind, *_] if kind in ("average", "peak"):
            return "shape"
        case ["shape", kind, *_]:
            return f"shape {kind}"
        case [first, *_]:
            return first
    return ""


def _read(statement: Statement, found: Settings, account: Account) -> None:
    words = [word.lower() for word in statement.words[1:]]
    match statement.word(0):
        case "bandwidth":
            _bandwidth(statement, words, found, account)
        case "priority":
            _priority(statement, words, found, account)
        case "police":
            found.police = read_police(statement, account)
            if found.police is not None:
                found.statements["police"] = statement
        case "shape":
            _shape(statement, words, found, account)
        case "queue-limit":
            queues.read_limit(statement, found.queue, account)
        case "random-detect":
            queues.read_wred(statement, found.queue, account)
        case "fair-queue":
            queues.read_fair(statement, found.queue, account)
        case "set":
            _mark(statement, words, found, account)
        case "service-policy" if len(words) == 1:
            account.modelled(statement)
            found.child = statement.words[1]
            found.statements["child"] = statement
        case "drop" if not words:
            account.modelled(statement)
            found.drop = statement
        case "description":
            account.modelled(statement)
        case first:
            account.not_modelled(statement, _OTHERS.get(first, OF_A_CLASS))


_OTHERS: Final = {
    "compress": "header compression is not modelled",
    "netflow-sampler": "it measures only",
    "estimate": "it measures only",
    "account": "it measures only",
    "log": "it reports only",
    "fragment": "fragmentation is not modelled",
    "trust": "trust of ports is not modelled",
    "admit": "admission control is not modelled",
    "queue-buffers": "the buffers of switches are not modelled",
    "service-policy": "expected the name of a policy map",
}


def _without_account(statement: Statement, words: list[str], account: Account) -> list[str]:
    """Return the words before ``account``, which adds the overhead of layer 2 to packets."""
    if "account" not in words:
        return words
    account.approximated(statement, "the overhead of layer 2 is that of the link")
    return words[: words.index("account")]


def _bandwidth(statement: Statement, words: list[str], found: Settings, account: Account) -> None:
    account.modelled(statement)
    words = _without_account(statement, words, account)
    match words:
        case ["remaining", "percent", word] if percent(word) is not None:
            found.remaining, found.ratio = percent(word), None
        case ["remaining", "ratio", word] if whole(word, 1, MAX_RATIO) is not None:
            found.ratio, found.remaining = whole(word, 1, MAX_RATIO), None
        case ["percent", word] if percent(word) is not None:
            found.bandwidth = Rate(share=percent(word) or 0)
        case [word] | [word, "kbps"] if number(word):
            found.bandwidth = Rate(min((number(word) or 0) * 1000, MAX_RATE))
        case [word, "mbps" | "gbps" as unit] if number(word):
            found.bandwidth = Rate(min((number(word) or 0) * RATES[unit], MAX_RATE))
        case _:
            account.not_modelled(statement, "expected a bandwidth above zero")
            return
    key = "remaining" if words[0] == "remaining" else "bandwidth"
    found.statements[key] = statement


def _priority(statement: Statement, words: list[str], found: Settings, account: Account) -> None:
    account.modelled(statement)
    level = 1
    if words[:1] == ["level"] and len(words) > 1:
        level = whole(words[1], 1, 8) or 0
        words = words[2:]
    rate: Rate | None = None
    if words[:1] == ["percent"] and len(words) > 1:
        share = percent(words[1])
        rate = None if share is None else Rate(share=share)
        words = words[2:] if rate is not None else ["?"]
    elif words and number(words[0]):
        rate = Rate(min((number(words[0]) or 0) * 1000, MAX_RATE))
        words = words[1:]
    burst: Burst | None = None
    if words and rate is not None and number(words[0], 2**40):
        burst = Burst(number(words[0], 2**40) or 0)
        words = words[1:]
    if words or not level:
        account.not_modelled(statement, "expected `priority` with a rate and a burst above zero")
        return
    found.level, found.priority, found.priority_burst = level, rate, burst
    found.statements["priority"] = statement


def _shape(statement: Statement, words: list[str], found: Settings, account: Account) -> None:
    account.modelled(statement)
    words = _without_account(statement, words, account)
    kind, rest = words[0] if words else "", words[1:]
    if kind not in ("average", "peak"):
        account.not_modelled(statement, f"`shape {kind}` is not modelled")
        return
    if rest[:1] == ["percent"]:
        share = percent(rest[1]) if len(rest) > 1 else None
        rate = Rate(share=share or 0)
        rest = rest[2:]
    else:
        rate = Rate(number(rest[0]) or 0) if rest else Rate()
        rest = rest[1:]
    if rest[:1] and rest[0] in RATES:
        rate = Rate(min(rate.bits * RATES[rest[0]], MAX_RATE))
        rest = rest[1:]
    bursts = [Burst(time=value * 1000) if rate.share else Burst(value) for value in _numbers(rest)]
    if not (rate.bits or rate.share) or len(bursts) > 2 or (rest[:1] and not bursts):
        account.not_modelled(statement, "expected a rate above zero, and up to two bursts")
        return
    found.shape = Shaper(statement, rate, peak=kind == "peak")
    if bursts and (bursts[0].bytes or bursts[0].time):
        found.shape.bits = bursts[0]
    if len(bursts) == 2:
        found.shape.excess = bursts[1]
    found.statements["shape"] = statement


def _numbers(words: list[str]) -> list[int]:
    values = [number(word, 2**40) for word in words if word not in ("ms", "bc", "be", "bits")]
    return [value for value in values if value is not None] if None not in values else []


def _mark(statement: Statement, words: list[str], found: Settings, account: Account) -> None:
    account.modelled(statement)
    if words[:1] == ["ip"]:
        words = words[1:]
    match words:
        case ["dscp", word] if dscp(word) is not None:
            found.mark = dscp(word)
        case ["precedence", word] if precedence(word) is not None:
            found.mark = 8 * (precedence(word) or 0)
        case ["cos", word] if whole(word, 0, 7) is not None:
            found.link_marks["pcp"] = int(word)
            found.statements["pcp"] = statement
            return
        case ["mpls", "experimental", *kind, word] if whole(word, 0, 7) is not None and kind in (
            [],
            ["topmost"],
            ["imposition"],
        ):
            found.link_marks["mpls_tc"] = int(word)
            found.statements["mpls_tc"] = statement
            return
        case ["dscp" | "precedence", "tunnel", *_]:
            account.not_modelled(statement, "there are no tunnels")
            return
        case ["dscp" | "precedence", "cos" | "dscp" | "precedence" | "qos-group" | "exp", *_]:
            account.not_modelled(statement, "tables of marks are not modelled")
            return
        case [kind, *_] if kind in ("dscp", "precedence"):
            account.not_modelled(statement, "no code point that perhop knows")
            return
        case _:
            account.not_modelled(statement, _MARKS.get(" ".join(words[:1]), "unknown mark"))
            return
    found.statements["mark"] = statement


_MARKS: Final = {
    "cos": "expected a value from 0 to 7",
    "cos-inner": "the inner of two VLAN tags has no mark",
    "wlan": "wireless networks have no priorities of users",
    "mpls": "expected `set mpls experimental topmost` with a value from 0 to 7",
    "qos-group": "there are no QoS groups",
    "discard-class": "there are no discard classes",
    "atm-clp": "ATM cells have no loss priority",
    "fr-de": "there is no frame relay",
    "vlan": "there are no VLANs",
}
