"""Objects that `tc -j` prints, as commands of tc that make the same.

Rates are in bytes per second, sizes in bytes, and times in microseconds.
Source: `print_qdisc`, `print_class` and `print_filter` of iproute2, and `print_qopt`, `print_copt`,
`print_fopt` and `print_aopt` of its disciplines, classifiers and actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux.output import Object

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OWN_CLASSES", "class_of", "class_words", "filter_words", "qdisc_words"]

OWN_CLASSES: Final = frozenset({"htb", "hfsc", "cbq", "drr", "qfq"})
"""The disciplines whose classes a command adds; others have theirs from the beginning."""

_RATES: Final = frozenset({"rate", "ceil", "peakrate", "maxrate", "bandwidth", "m1", "m2"})
_TIMES: Final = frozenset({"latency", "target", "interval", "tupdate", "d"})
_NAMES: Final = {"lat": "latency"}
_STATE: Final = frozenset(
    (
        *("refcnt", "direct_packets_stat", "direct_qlen", "ver", "multiqueue", "offload"),
        *("offloaded", "ewma", "Scell_log", "orphan_mask", "low_rate_threshold", "refill_delay"),
        *("timer_slack", "horizon", "horizon_drop", "linklayer", "mpu", "level", "overhead"),
    )
)
"""Values that are not settings, or that tell more of a setting that stands beside them."""

_SIZE_TABLE: Final = ("linklayer", "overhead", "mpu", "mtu", "tsize")
"""The keys of a size table, which `tc -d` prints (`print_size_table`)."""

_OF_CLASSES: Final = ("prio", "quantum", "rate", "ceil", "burst", "cburst", "weight", "maxpkt")
_CURVES: Final = ("sc", "rt", "ls", "ul")
_FIRST_ROOT_TABLE: Final = 0x800


def qdisc_words(value: Object) -> list[str]:
    """Return the words of a qdisc after its interface: its place, its kind, its settings.

    Raises:
        ValueError: If the object is not one of tc.
    """
    kind = _text(value, "kind")
    handle = _text(value, "handle", "0:")
    if kind in ("ingress", "clsact"):
        return [kind]
    where = ["root"] if value.get("root") else ["parent", _text(value, "parent")]
    options = value.get("options")
    numbered = [] if handle in ("0:", "") else ["handle", handle]
    table = [
        word
        for key, each in value.inner("stab").pairs
        if key in _SIZE_TABLE
        for word in (key, _scalar(each))
    ]
    stab = ["stab", *table] if table else []
    return [*where, *numbered, *stab, kind, *_settings(kind, options)]


def _settings(kind: str, options: object) -> list[str]:
    if isinstance(options, str):
        words = options.split()
        return words if kind != "fq_codel" or "ecn" in words else [*words, "noecn"]
    if not isinstance(options, Object):
        return []
    if kind == "cake":
        return _cake(options)
    if kind == "netem":
        return _netem(options)
    words = []
    for key, value in options.pairs:
        if key not in _STATE:
            words += _setting(_NAMES.get(key, key), value)
    if kind == "fq_codel" and not options.get("ecn"):
        words.append("noecn")
    return words


def _netem(options: Object) -> list[str]:
    """Return the words of netem (`netem_print_opt`), which does not tell the distribution."""
    words: list[str] = []
    for key, value in options.pairs:
        if not isinstance(value, Object):
            words += _setting(key, value)
            continue
        name, *model = key.split("-")
        words += [name, *model]
        for part, number in value.pairs:
            if name == "rate":
                words += [_value(part, number)] if part == "rate" else []
            elif name == "delay" and part != "correlation":
                words.append(f"{_scalar(number)}s")
            elif number or part != "correlation":
                words.append(f"{100 * float(_scalar(number)):.9g}%")
    return words


def _cake(options: Object) -> list[str]:
    """Return the words of CAKE (`cake_print_opt`)."""
    words: list[str] = []
    for key, value in options.pairs:
        if key in ("diffserv", "flowmode", "atm", "autorate"):
            words.append(_scalar(value))
        elif key == "ack-filter":
            words += {"enabled": ["ack-filter"], "aggressive": ["ack-filter-aggressive"]}.get(
                _scalar(value), []
            )
        elif key == "rtt":
            words += [key, f"{_scalar(value)}us"]
        elif key == "bandwidth" and not isinstance(value, int):
            words.append("unlimited")
        elif key in ("bandwidth", "overhead", "mpu", "memlimit", "fwmark"):
            words += [key, _value(key, value)]
        elif value is True:
            words.append(key.replace("_", "-"))
    return words


def _setting(key: str, value: object) -> list[str]:
    if value is False:
        return []
    if value is True or value is None or value == "":
        return [key]
    if isinstance(value, list):
        return [key, *(_scalar(each) for each in value)]
    if isinstance(value, Object):
        if key in _CURVES:
            return [key, *_curve(value)]
        inner = value.get(key)
        return [key] if isinstance(inner, (Object, list)) else [key, _value(key, inner)]
    return [key, _value(key, value)]


def _curve(value: Object) -> list[str]:
    """Return a service curve; a first slope that lasts no time is none."""
    keys = ("m1", "d", "m2") if value.get("d") else ("m2",)
    return [word for key in keys if key in value for word in (key, _value(key, value[key]))]


def _value(key: str, value: object) -> str:
    if isinstance(value, (int, float)) and key in _RATES:
        return f"{value * 8}bit"
    if isinstance(value, (int, float)) and key in _TIMES:
        return f"{value}us"
    return _scalar(value)


def _scalar(value: object) -> str:
    if not isinstance(value, (str, int, float)):
        raise ValueError("unknown form of a value")
    return str(value)


def _text(value: Object, key: str, default: str | None = None) -> str:
    """Return a text of an object."""
    found = value.get(key, default)
    if not isinstance(found, (str, int)) or isinstance(found, bool):
        raise ValueError(f"it has no `{key}`")
    return str(found)


def class_of(value: Object, words: Sequence[str]) -> tuple[str, str, list[str], list[str]]:
    """Return the kind of a class, its number, its parent in words of tc, and its settings.

    Args:
        value: The object; empty for a line of text.
        words: The words of a line of text: ``class htb 1:10 parent 1:1 rate 2Mbit``.

    Raises:
        ValueError: If it is no class.
    """
    if not words:
        options = value.inner("options") or value
        keys = [key for key in (*_OF_CLASSES, *_CURVES) if key in options]
        settings = [word for key in keys for word in _setting(key, options[key])]
        kind = _text(value, "class" if "class" in value else "kind")
        above = ["root"] if value.get("root") else ["parent", _text(value, "parent")]
        return kind, _text(value, "handle"), above, settings
    if len(words) < 4:
        raise ValueError("the line ends too early")
    kind, number = words[1:3]
    above = ["root"] if words[3] == "root" else list(words[3:5])
    rest = list(words[3 + len(above) :])
    settings = []
    while rest:
        word = rest.pop(0)
        if word in (*_CURVES, "bounded", "isolated"):
            settings.append(word)
        elif word == "m1" and rest[1:3] == ["d", "0us"]:
            del rest[:3]
        else:
            value_of = rest.pop(0) if rest else ""
            if word not in ("leaf", *_STATE):
                settings += [word, value_of]
    return kind, number, above, settings


def class_words(kind: str, number: str, above: list[str], settings: list[str]) -> list[str]:
    """Return the words of a class after its interface."""
    return [*above, "classid", number, kind, *settings]


def filter_words(value: Object) -> list[str]:
    """Return the words of a filter after its interface and parent; none for what adds nothing.

    Raises:
        ValueError: If the object is not one of tc.
    """
    kind = _text(value, "kind")
    options = value.inner("options")
    if not options and kind != "matchall":
        return []  # the head of the filters of a priority
    words = ["protocol", _text(value, "protocol", "all"), "prio", _text(value, "pref", "0")]
    if value.get("chain"):
        words += ["chain", _text(value, "chain")]
    match kind:
        case "u32":
            return _u32(words, options)
        case "fw":
            mark = options.inner("fw") or options
            if "mark" in mark:
                words += ["handle", "/".join(_text(mark, key) for key in ("mark", "mask")
                                             if key in mark)]  # fmt: skip
            elif "handle" in options:
                words += ["handle", _text(options, "handle")]
            return [*words, kind, *_end(options)]
        case "flower":
            keys = options.inner("keys")
            return [*words, kind, *(w for pair in keys.pairs for w in _key(*pair)), *_end(options)]
        case "basic":
            known = ("flowid", "classid", "handle", "actions")
            matches = [key for key in options if key not in known]
            return [*words, kind, *(["match"] if matches else []), *_end(options)]
    return [*words, kind, *_end(options)]


def _u32(words: list[str], options: Object) -> list[str]:
    number = _text(options, "fh", "")
    if "ht_divisor" in options:
        if _hex(number.partition(":")[0]) >= _FIRST_ROOT_TABLE:
            return []  # the table of a priority
        return [*words, "handle", number, "u32", "divisor", _text(options, "ht_divisor")]
    words += ["handle", number, "u32"] if number else ["u32"]
    table = _text(options, "key_ht", "800")
    if _hex(table) < _FIRST_ROOT_TABLE:
        words += ["ht", f"{table}:{_text(options, 'bkt', '0')}:"]
    for match in options.every("match"):
        if not isinstance(match, Object):
            raise ValueError("unknown form of a match")
        at = _text(match, "offmask", "") + _text(match, "off", "0")
        comparison = [f"0x{_text(match, key)}" for key in ("value", "mask")]
        words += ["match", "u32", *comparison, "at", at]
    if "fwmark_value" in options:
        words += ["match", "mark", *(_text(options, f"fwmark_{key}") for key in ("value", "mask"))]
    if "link" in options:
        words += ["link", _text(options, "link")]
    if "hash_mask" in options:
        mask = f"0x{_text(options, 'hash_mask')}"
        words += ["hashkey", "mask", mask, "at", _text(options, "hash_off", "0")]
    if "indev" in options:
        words += ["indev", _text(options, "indev")]
    return [*words, *_end(options)]


def _hex(text: str) -> int:
    return int(text or "0", 16)


def _key(key: str, value: object) -> list[str]:
    """Return a key of flower."""
    if isinstance(value, Object):
        return [key, f"{_text(value, 'start')}-{_text(value, 'end')}"]
    if key == "ip_tos" and isinstance(value, int):
        return [key, hex(value)]
    names = {"ipv4": "ip"} if key == "eth_type" else {}
    said = _scalar(value)
    return [key, names.get(said, said)]


def _end(options: Object) -> list[str]:
    """Return the class and the actions of a filter."""
    words: list[str] = []
    for key in ("flowid", "classid"):
        if key in options:
            words += ["classid", _text(options, key).lstrip("*")]
            break
    for key, value in options.pairs:
        if key == "police" and isinstance(value, Object):
            words += _action("police", value)
        elif key == "actions" and isinstance(value, list):
            for each in value:
                if isinstance(each, Object):
                    words += _action(_text(each, "kind"), each)
    return words


def _action(kind: str, value: Object) -> list[str]:
    verdicts = [
        _text(each, "type")
        for each in value.every("control_action")
        if isinstance(each, Object) and "type" in each
    ]
    words: list[Any] = ["action", kind]
    match kind:
        case "police":
            for key in ("rate", "burst", "mtu", "peakrate", "pkts_rate"):
                if value.get(key):
                    words += [key, _value(key, value[key])]
            if verdicts:
                words += ["conform-exceed", "/".join(verdicts[:2])]
            return words
        case "gact":
            return ["action", *verdicts[:1]] if verdicts else words
        case "mirred":
            words += [_text(value, "direction", "egress")]
            words += [_text(value, "mirred_action", "redirect"), "dev", _text(value, "to_dev", "?")]
        case _:
            for key in ("mark", "priority", "queue_mapping", "ptype"):
                if key in value:
                    words += [key, _scalar(value[key])]
    return [*words, *verdicts[:1]]
