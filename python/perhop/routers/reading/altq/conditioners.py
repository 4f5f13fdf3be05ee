"""Traffic conditioners of altq.conf: they meter, mark and drop what an interface receives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.altq import filters
from perhop.routers.reading.altq.interface import Conditioner, Interface
from perhop.routers.reading.altq.values import count, rate, size
from perhop.routers.reading.configuration import Attachment, scenario_name
from perhop.routers.reading.matching import MAX_RULES, Rules
from perhop.scenario.model.dscp import format_dscp
from perhop.units import format_rate, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.altq.ledger import Ledger, Statement
    from perhop.routers.reading.configuration import Loc, Place

_MAX_CONDITIONERS: Final = 1023
_MAX_WORDS: Final = 256

_DROP_ALL: Final = {"rate": "1 bps", "burst": "1 B"}
"""A policer to which no packet conforms."""


class _ActionError(Exception):
    """An action that perhop does not have; the message says why."""


def read(ledger: Ledger, interface: Interface, statement: Statement, words: Sequence[str]) -> None:
    """Read a conditioner, after the name of its interface."""
    name = words[0] if words else ""
    if not name or name.startswith("<"):
        ledger.ignored(statement, "names no conditioner")
    elif name in interface.conditioners or len(interface.conditioners) >= _MAX_CONDITIONERS:
        ledger.ignored(statement, "the interface has a conditioner of this name, or too many")
    else:
        tokens = re.findall(r"[<>]|[^\s<>]+", " ".join(words[1:]))
        try:
            if len(tokens) > _MAX_WORDS:
                raise _ActionError("the action is too long")
            settings = _class(_action(tokens))
        except _ActionError as error:
            ledger.ignored(statement, str(error))
            interface.lost.add(name)
            return
        interface.conditioners[name] = Conditioner(statement, settings)


Action = tuple[str, list[int], list["Action"], bool]
"""Its word, numbers, actions for each colour, and whether it is colour-aware."""


def _action(tokens: list[str], depth: int = 0) -> Action:
    """Take an action in angle brackets."""
    if depth > 8:
        raise _ActionError("the action has too many levels")
    if not tokens or tokens.pop(0) != "<":
        raise _ActionError("expected an action in angle brackets")
    word = tokens.pop(0) if tokens else ""
    numbers: list[int] = []
    actions: list[Action] = []
    aware = False
    for kind in {"mark": "d", "tbmeter": "rs", "trtcm": "rsrs", "tswtcm": "rrt"}.get(word, ""):
        text = tokens.pop(0) if tokens else ""
        value = {"r": rate, "s": size, "d": count, "t": count}[kind](text)
        if (not value and kind != "d") or value is None:
            raise _ActionError(f"{quote(text)} is no value of {quote(word)}")
        numbers.append(value)
    for _ in range({"tbmeter": 2, "trtcm": 3, "tswtcm": 3}.get(word, 0)):
        actions.append(_action(tokens, depth + 1))
    while tokens and tokens[0] != ">":
        option = tokens.pop(0)
        if option not in ("coloraware", "colorblind"):
            raise _ActionError(f"{quote(option)} is not understood")
        aware = option == "coloraware"
    if not tokens:
        raise _ActionError("the action does not end")
    tokens.pop(0)
    return word, numbers, actions, aware


def _class(action: Action) -> dict[str, Any]:
    """Return the keys of a class that does what an action says."""
    word, numbers, actions, aware = action
    if word == "pass":
        return {}
    if word == "drop":
        return {"police": dict(_DROP_ALL)}
    if word == "mark":
        return {"mark": _dscp(numbers[0])}
    results = [_result(each) for each in actions]
    if word == "tbmeter":
        conform, exceed = results
        police: dict[str, Any] = {
            "rate": format_rate(numbers[0]),
            "burst": format_size(numbers[1]),
            "exceed": exceed,
        }
    elif word == "trtcm":
        if numbers[2] < numbers[0]:
            raise _ActionError("the peak rate is below the committed rate")
        conform, exceed, violate = results
        police = {
            "rate": format_rate(numbers[0]),
            "burst": format_size(numbers[1]),
            "peak_rate": format_rate(numbers[2]),
            "peak_burst": format_size(numbers[3]),
            "exceed": exceed,
            "violate": violate,
            **({"colour_aware": True} if aware else {}),
        }
    else:
        raise _ActionError(f"perhop does not have {quote(word)}")
    return {"police": police if conform == "send" else {**police, "conform": conform}}


def _result(action: Action) -> str | dict[str, Any]:
    """Return the action of a policer on one colour."""
    word, numbers, _, _ = action
    if word == "pass":
        return "send"
    if word == "drop":
        return "drop"
    if word == "mark":
        return {"remark": _dscp(numbers[0])}
    raise _ActionError("perhop has no meter behind a meter")


def _dscp(octet: int) -> str | int:
    if octet > 0xFF:
        raise _ActionError(f"{octet:#x} is no octet")
    return format_dscp(octet >> 2)


def attachments(ledger: Ledger, interface: Interface) -> Iterator[Attachment]:
    """Return the policy of what an interface receives, if it has conditioners."""
    if not interface.conditioners:
        return
    rules = filters.ordered(interface.conditioned)[: MAX_RULES // len(interface.conditioners)]
    for each in interface.conditioned[MAX_RULES // len(interface.conditioners) :]:
        ledger.ignored(each.statement, "the interface has too many filters")
    written: dict[str, Any] = {}
    places: dict[Loc, Place] = {}
    names = dict.fromkeys(each.target for each in rules)
    done: set[str] = set()
    for target in names:
        done.add(target)
        match = Rules(
            tuple(
                (each.target == target, each.conditions)
                for each in rules
                if each.target == target or each.target not in done
            )
        ).written()
        conditioner = interface.conditioners[target]
        if match == []:
            continue
        name = scenario_name(target, written)
        places["classes", name] = conditioner.statement.place
        written[name] = {"match": match, **conditioner.settings}
        if match == "any":
            break
    for target, conditioner in interface.conditioners.items():
        if target not in names:
            ledger.approximated(
                conditioner.statement, "no filter names it, so that perhop leaves it out"
            )
    if not written:
        return
    if "any" not in [each["match"] for each in written.values()]:
        name = scenario_name("others", written)
        written[name] = {"match": "any"}
    places[()] = interface.device.statement.place
    yield Attachment(
        interface.device.interface,
        "in",
        f"{interface.device.interface}-in",
        {"classes": written},
        places,
        rate=interface.device.rate,
        rate_place=None if interface.device.rate is None else interface.device.statement.place,
    )
