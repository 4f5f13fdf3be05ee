"""Objects that `nft -j list ruleset` prints, as rules in the words of nft.

Source: libnftables-json(5).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux.output import Object

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.nft import Ruleset

__all__ = ["add"]

_MOST_WORD: Final = 200


def add(value: Object, rules: Ruleset, place: Place, text: str) -> None:
    """Add a chain or a rule to the rules; other objects say nothing about packets."""
    for kind in ("chain", "rule"):
        own = value.inner(kind)
        if not own:
            continue
        table = f"{own.get('family', 'ip')} {own.get('table')}"
        name = str(own.get("chain", own.get("name")))
        if kind == "chain":
            rules.chain(table, name, _chain(own), place, text)
        else:
            rules.rule(table, name, _rule(own), place, text)


def _chain(own: Object) -> list[str]:
    """Return the words of a chain; those of one without a hook are none."""
    names = {"hook": "hook", "dev": "device", "prio": "priority", "policy": "policy"}
    given = {word: own.get(key) for key, word in names.items()}
    if isinstance(several := given["device"], list):
        given["device"] = ",".join(map(str, several))
    return [
        part
        for word, value in given.items()
        if isinstance(value, (str, int))
        for part in (word, str(value), ";")
    ]


def _rule(own: Object) -> list[str]:
    expressions = own.get("expr")
    words: list[str] = []
    for each in expressions if isinstance(expressions, list) else ():
        if isinstance(each, Object) and len(each) == 1:
            ((kind, value),) = each.items()
            words += _statement(kind, value)
        else:
            words.append(_whole(each))
    return words


def _statement(kind: str, value: object) -> list[str]:
    """Return a statement; one in unknown words if perhop does not have it."""
    if kind in ("counter", "log"):
        return []
    if value is None or kind == "reject":
        return [kind]
    if kind in ("jump", "goto") and isinstance(value, Object):
        return [kind, str(value.get("target"))]
    if kind == "match" and isinstance(value, Object):
        sign = str(value.get("op"))
        signs = [] if sign == "==" else [sign]
        return [*_field(value.get("left")), *signs, *_values(value.get("right"))]
    if kind == "mangle" and isinstance(value, Object):
        return [*_field(value.get("key")), "set", *_values(value.get("value"))]
    if kind == "limit" and isinstance(value, Object):
        return _limit(value)
    if kind == "vmap" and isinstance(value, Object):
        return [*_field(value.get("key")), "vmap", *_verdicts(value.get("data"))]
    return [f"{kind}{_whole(value)}"]


def _limit(value: Object) -> list[str]:
    over = ["over"] if value.get("inv") else []
    unit, per = value.get("rate_unit", "packets"), value.get("per", "second")
    words = ["limit", "rate", *over, str(value.get("rate")), f"{unit}/{per}"]
    if value.get("burst"):
        words += ["burst", str(value["burst"]), str(value.get("burst_unit", "packets"))]
    return words


def _field(value: object) -> list[str]:
    if isinstance(value, Object):
        payload, meta = value.inner("payload"), value.inner("meta")
        if payload.keys() == {"protocol", "field"}:
            return [str(payload["protocol"]), str(payload["field"])]
        if value.inner("ct").get("key") == "state":
            return ["ct", "state"]
        if "key" in meta:
            key = str(meta["key"])
            known = key in ("mark", "priority", "l4proto", "nfproto", "protocol")
            return ["meta", key] if known else [key]
    return [_whole(value)]


def _values(value: object) -> list[str]:
    several = value.get("set") if isinstance(value, Object) else None
    if isinstance(several, list):
        return ["{", *(_one(each) for each in several), "}"]
    return [_one(value)]


def _verdicts(value: object) -> list[str]:
    """Return a map of verdicts; one in unknown words if perhop does not have it."""
    several = value.get("set") if isinstance(value, Object) else None
    words: list[str] = []
    for each in several if isinstance(several, list) else ():
        if not isinstance(each, list) or len(each) != 2 or not isinstance(each[1], Object):
            return [_whole(value)]
        for kind, to in each[1].items():
            names = [str(to.get("target"))] if isinstance(to, Object) else []
            words += [_one(each[0]), ":", kind, *names, ","]
    return ["{", *words, "}"] if words else [_one(value)]


def _one(value: object) -> str:
    if isinstance(value, Object):
        prefix, limits = value.inner("prefix"), value.get("range")
        if prefix:
            return f"{prefix.get('addr')}/{prefix.get('len')}"
        if isinstance(limits, list) and len(limits) == 2:
            return f"{limits[0]}-{limits[1]}"[:_MOST_WORD]
    return str(value) if isinstance(value, (str, int)) else _whole(value)


def _whole(value: object) -> str:
    """Return an object that no words of a modelled rule are for."""
    return json.dumps(value)[:_MOST_WORD]
