"""Limiters of VyOS: policers of received packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Attachment, Fault
from perhop.routers.reading.linux.classify import EVERY, classify, matches
from perhop.routers.reading.linux.model import Device, Outcome
from perhop.routers.reading.linux.policers import policer
from perhop.routers.reading.matching import TooManyRulesError
from perhop.units import format_share

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Loc, Place
    from perhop.routers.reading.vyos.statements import Statements
    from perhop.routers.reading.vyos.tree import Node

__all__ = ["limiter"]

_MTU: Final = "packets above `mtu` exceed in Linux; policers of perhop have no largest packet"
_LAST: Final = 0xC000
"""The rank of classes of priority 0: Linux gives their filters a number of its own."""

_PRIORITY: Final = 20
"""The default `priority` of classes."""


def limiter(statements: Statements, node: Node) -> Attachment | None:
    """Return the policers of received packets."""
    device = Device("")
    classes = statements.classes(node)
    classes.sort(key=lambda each: (_rank(each), int(each.word)))
    statements.filters(device, classes, shaped=False)
    default = node.get("default")
    if default is not None:  # its filter, of priority 255, takes all packets before those
        late = {0x10000 + int(each.word) for each in classes if _rank(each) == _LAST}
        device.filters = [each for each in device.filters if each.target not in late]
    try:
        verdicts = classify([EVERY], device.filters, lambda _: Outcome())
        keys = list(dict.fromkeys(verdict.target for verdict in verdicts))
        rules = matches([(v.packets.header, v.target) for v in verdicts], keys)
    except TooManyRulesError as error:
        statements.ledger.ignored(node.place, f"its classes: {error}")
        return None
    nodes = {0x10000 + int(each.word): each for each in classes}
    found: dict[str, Any] = {}
    places: dict[Loc, Place] = {(): node.place}
    polices = {each.word: _policer(statements, each) for each in classes}
    for key in keys:
        if rules[key].is_never:
            continue
        own = nodes.get(key, default)
        name = f"class{key & 0xFFFF}" if key else "default"
        found[name] = {"match": rules[key].written()}
        if own is None:
            continue
        places["classes", name] = own.place
        police = polices[own.word] if key else _policer(statements, own)
        if police is not None:
            found[name]["police"] = police
    for each in classes:
        if f"class{each.word}" not in found:
            note = "no match leads packets to this class"
            statements.ledger.ignored(each.place, note, Fault.UNUSED)
    return Attachment("", "in", node.word, {"classes": found}, places)


def _policer(statements: Statements, node: Node) -> dict[str, Any] | None:
    node.value("description")
    rate = statements.rate(node, "bandwidth", statements.interface)
    values = {"burst": node.text_of("burst") or "15k"}
    statements.default(node, "burst", "15k")
    exceed, conform = node.text_of("exceed") or "drop", node.text_of("not-exceed") or "ok"
    statements.default(node, "exceed", "drop", "not-exceed", "ok")
    values["conform-exceed"] = f"{exceed}/{conform}"
    if (mtu := node.value("mtu")) is not None:
        statements.ledger.approximated(mtu.place, _MTU)
    if rate is None:
        return None
    values["rate"] = f"{rate.bits}bit"
    found = policer(statements.options(node, values), "")
    if found is not None and rate.share is not None:
        found["rate"] = format_share(rate.share)
    return found


def _rank(node: Node) -> int:
    """Return the order of a limiter's class."""
    text = node.text_of("priority") or ""
    return (int(text) or _LAST) if text.isdecimal() and len(text) < 5 else _PRIORITY
