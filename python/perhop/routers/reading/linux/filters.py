"""Filters of tc: the classifiers u32, fw, flower, basic and matchall, and their actions."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux import u32, units
from perhop.routers.reading.linux.ledger import RefusedError
from perhop.routers.reading.linux.model import Action, Filter, Test
from perhop.routers.reading.linux.refusals import illegal, twice, unknown
from perhop.routers.reading.linux.u32 import UnsupportedMatchError
from perhop.routers.reading.matching import OF_VERSION, Conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.ledger import Ledger

__all__ = ["Words", "actions", "filter_of", "ports_of"]

_VERSIONS: Final = {"ip": 4, "0x0800": 4, "0x800": 4, "ipv6": 6, "0x86dd": 6}
"""The versions of IP by the protocols of filters."""

_EVERY: Final = ("all", "", "0x0003", "0x3")
_VERDICTS: Final = frozenset(
    {"ok", "pass", "drop", "shot", "continue", "pipe", "reclassify", "stolen", "trap"}
)
_ACTIONS: Final = frozenset(
    {"police", "gact", "mirred", "skbedit", "pedit", "connmark", "ctinfo", "ct", "csum", "vlan"}
    | {"nat", "bpf", "sample", "xt", "ipt", "simple", "tunnel_key", "mpls", "skbmod", "ife"}
)
_MOST_RANDOM: Final = 10000
_BARE: Final = frozenset({"pedit", "csum", "vlan"})
_DIRECTIONS: Final = frozenset({"egress", "ingress", "redirect", "mirror"})
_OF_ACTIONS: Final = frozenset({"cookie", "index", "hw_stats"})
_INDEV: Final = "the interface of arrival is no condition of a scenario"
_TAGGED: Final = frozenset({"802.1q", "802.1ad", "0x8100", "0x88a8"})
_FLAGS: Final = frozenset({"skip_sw", "skip_hw", "not_in_hw", "in_hw", "verbose", "no_percpu"})


class Words(list[str]):
    """The words of a command that are not read yet, the next one last."""

    __slots__ = ()

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)
        self.reverse()

    @property
    def next(self) -> str:
        """The next word; "" at the end."""
        return self[-1] if self else ""

    def take(self) -> str:
        """Return the next word, and go on."""
        try:
            return self.pop()
        except IndexError:
            raise RefusedError("Command line is not complete") from None

    def all(self) -> list[str]:
        """Return the remaining words in order, which stay."""
        return self[::-1]


def filter_of(
    kind: str,
    words: Words,
    base: Filter,
    ledger: Ledger,
    place: Place,
) -> Filter:
    """Return a filter from its general part, and the words after its classifier.

    Raises:
        ValueError: If the words are malformed.
    """
    match kind:
        case "u32":
            _u32(words, base, ledger, place)
        case "fw":
            _fw(words, base, ledger, place)
        case "flower":
            _flower(words, base, ledger, place)
        case "matchall":
            base.tests = (_every(base.protocol),)
            _common(words, base, ledger, place)
        case "basic":
            base.tests = (_every(base.protocol),)
            if words.next == "match":
                base.tests = None
                ledger.ignored(place, "extended matches of `basic` are not modelled")
            else:
                _common(words, base, ledger, place)
        case _:
            base.tests = None
            ledger.ignored(place, f"the classifier {kind[:20]} looks at more than headers")
    return base


def _every(protocol: str) -> Test:
    """Return the test of a filter that only its protocol limits."""
    if protocol in _EVERY:
        return Test()
    return Test(OF_VERSION.get(_VERSIONS.get(protocol, 0), Conditions(dscp=frozenset())))


def _common(words: Words, base: Filter, ledger: Ledger, place: Place) -> None:
    """Read the class and the actions, which end every filter."""
    while words:
        word = words.take()
        if word in ("classid", "flowid"):
            base.target = _class(words.take().lstrip("*"))
        elif word in ("action", "police"):
            if word == "police":
                words.append("police")
            base.actions = (*base.actions, *actions(words))
        elif word == "order" and words.next.isdigit():
            words.take()
        elif word in _FLAGS:
            pass
        elif word in _OF_ACTIONS:
            words.take()
        elif word == "ematch" or not re.fullmatch("[a-z_]+", word):
            ledger.approximated(place, f"`{word[:30]}` of the filter is not modelled")
        else:
            raise unknown(word)


def actions(words: Words) -> list[Action]:
    """Return the actions that follow ``action``."""
    found: list[Action] = []
    while words or not found:
        if words.next == "action":
            words.take()
        if words.next == "gact":
            words.take()
            if words.next == "action":  # as tc shows it
                continue
            if words and words.next not in _VERDICTS and words.next not in ("goto", "jump"):
                raise RefusedError(f"Bad action type {words.next[:20]}")
        kind = words.next or words.take()
        if kind == "stolen":
            raise RefusedError("Bad action type stolen")
        if kind in _VERDICTS or kind in ("goto", "jump"):
            words.take()
            values = {}
            if kind == "goto" and words.next == "chain":
                words.take()
            if kind in ("goto", "jump") and not words.take().isdigit():
                raise RefusedError(f"Bad action type {kind}")
            if words.next == "random":
                words.take()
                values["random"] = ""
                _random(words)
            found.append(Action("gact", values, kind))
        elif kind in _ACTIONS or re.fullmatch("[a-z_]+", kind):
            if kind in ("flowid", "classid"):
                break
            words.take()
            values, verdict = _settings(words, kind)
            found.append(Action(kind, values, verdict))
        else:
            break
        if words.next != "action":
            break
    return found


def _random(words: Words) -> None:
    """Take the words after `random`, and refuse what tc refuses; it shows "type" before them."""
    kind = words.take()
    if kind != "type" and not any(each.startswith(kind) for each in ("netrand", "determ")):
        raise illegal("random type")
    verdict, share = words.take(), words.take()
    if kind == "type":
        return
    if verdict not in _VERDICTS:
        raise RefusedError(f"Bad action type {verdict[:20]}")
    if not share.isdigit() or int(share) > _MOST_RANDOM:
        raise RefusedError(f"Illegal probability val {share[:20]}")


def _settings(words: Words, kind: str) -> tuple[dict[str, str], str]:
    """Return the settings of an action, up to the next one or the class of the filter."""
    values: dict[str, str] = {}
    verdict = ""
    said = words.all()
    ends = (at for at, word in enumerate(said) if word in ("action", "flowid", "classid"))
    twice(kind, said[: next(ends, len(said))])
    while words and words.next not in ("action", "flowid", "classid"):
        word = words.take()
        if word in _VERDICTS:
            verdict = word
        elif word == "conform-exceed":
            values[word] = words.take()
        elif kind in _BARE or word in _DIRECTIONS:
            values[word] = ""
        elif word in ("ptype", "inheritdsfield", "police", "munge", "save", "restore"):
            values[word] = words.take() if word == "ptype" else ""
        else:
            values[word] = words.take() if words else ""
    return values, verdict


def _u32(words: Words, base: Filter, ledger: Ledger, place: Place) -> None:
    keys: list[u32.Key] = []
    version = _VERSIONS.get(base.protocol, 4)
    marks: list[tuple[int, int]] = []
    lost = ""
    divisor = beyond = False
    while words:
        word = words.next
        if word == "match":
            words.take()
            if words.next == "mark":
                words.take()
                try:
                    marks.append((units.number(words.take()), units.number(words.take())))
                except ValueError:
                    raise illegal("match") from None
                continue
            said = words.all()
            try:
                some, rest, version = u32.keys(said, version)
            except UnsupportedMatchError as error:
                lost = str(error)
                break
            except IndexError:
                raise illegal("match") from None
            except ValueError:
                raise illegal("match") from None
            keys += some
            used = said[: len(said) - len(rest)]
            beyond = beyond or used[0] in ("tcp", "udp") or any("nexthdr" in w for w in used)
            words = Words(rest)
        elif word == "divisor":
            words.take()
            size = words.take()
            if size not in _DIVISORS:
                raise illegal("divisor")
            divisor = True
            base.made = _table(base.handle)
        elif word == "ht":
            words.take()
            said_table = words.take()
            base.table = _table(said_table, word)
            base.bucket = int(said_table.split(":")[1:2][0] or "0", 16) if ":" in said_table else 0
        elif word == "link":
            words.take()
            base.link = _table(words.take(), word)
        elif word in ("hashkey", "offset", "sample", "indev", "order"):
            if word in ("hashkey", "offset"):
                words.take()
                if words.next not in ("mask", "at", "plus", "shift", "eat"):
                    raise unknown(words.next or words.take())
                if word == "hashkey":
                    base.hashed = True
                    ledger.approximated(place, "it leads to all filters of its hash table")
                while words and words.next not in ("match", "link", "flowid", "classid", "ht"):
                    if words.take() == "eat":
                        note = (
                            "`eat` moves the offsets of the filters behind the link: not modelled"
                        )
                        ledger.ignored(place, note)
            elif word == "sample":
                base.bucket = -1
                while words and words.next not in ("match", "link", "flowid", "classid"):
                    words.take()
            else:
                words.take()
                value = words.take()
                if word == "order" and not value.isdigit():
                    raise illegal("order")
                if word == "indev":
                    lost = _INDEV
        else:
            break
    if beyond and base.table in (0, _ROOT_TABLE):
        # `nexthdr` is the offset that a link computes, 0 without one (`u32_classify`).
        lost = lost or "`nexthdr` (tcp, udp) is the IP header without a link's `offset`"
    if not lost:
        try:
            headers = _compared(keys, version, base, ledger, linked=beyond)
        except UnsupportedMatchError as error:
            lost = str(error)
        else:
            base.tests = tuple(Test(header, tuple(marks)) for header in headers)
    if lost:
        base.tests = None
        ledger.ignored(place, lost)
        return
    if divisor:
        base.tests = ()
    _common(words, base, ledger, place)


def _compared(
    keys: list[u32.Key], version: int, base: Filter, ledger: Ledger, *, linked: bool
) -> list[Conditions]:
    """Return the packets with these bytes, for each version of IP that the filter has.

    Args:
        keys: The comparisons.
        version: The version of IP whose header they are for, as their words tell.
        base: The filter.
        ledger: Where differences are noted.
        linked: True if a link tells where the header after that of IP begins.

    Raises:
        UnsupportedMatchError: If the comparisons are no conditions of a scenario.
    """
    if base.protocol not in _EVERY:
        header, note = u32.conditions(keys, _VERSIONS.get(base.protocol, 4))
        found = [header & _every(base.protocol).header]
    elif not any(mask for *_, mask in keys):
        return [Conditions()]
    else:
        other = 4 if version == 6 else 6
        header, note = u32.conditions(keys, version)
        found = [header & OF_VERSION[version]]
        try:
            found += [] if linked else [u32.conditions(keys, other)[0] & OF_VERSION[other]]
        except UnsupportedMatchError:
            chance = f"packets of IPv{other} that have these bytes by chance are left out"
            note = f"{note}; {chance}" if note else chance
    if note:
        ledger.approximated(base.place, note)
    return found


_ROOT_TABLE: Final = 0x800


def _class(text: str) -> int:
    try:
        return units.classid(text)
    except ValueError:
        raise illegal("classid") from None


_DIVISORS: Final = frozenset(str(1 << power) for power in range(9))


def _table(text: str, word: str = "divisor") -> int:
    if not re.fullmatch("(0x)?[0-9a-fA-F]*(:[0-9a-fA-F]*){0,2}", text):
        raise illegal(word)
    return int(text.partition(":")[0] or "0", 16) & 0xFFF


def _fw(words: Words, base: Filter, ledger: Ledger, place: Place) -> None:
    value, _, mask = base.handle.partition("/")
    header = _every(base.protocol).header
    if not value:
        base.tests = (Test(header),)
        base.by_mark = True
    else:
        bits = units.number(mask) if mask else 0xFFFFFFFF
        base.tests = (Test(header, ((units.number(value) & bits, bits),)),)
        base.masks = (bits,)
    while words:
        word = words.take()
        if word in ("classid", "flowid"):
            base.target = _class(words.take())
        elif word in ("action", "police"):
            if word == "police":
                words.append("police")
            base.actions = (*base.actions, *actions(words))
        elif word == "indev":
            words.take()
            base.tests = None
            ledger.ignored(place, _INDEV)
        elif word in _OF_ACTIONS:
            words.take()
        elif word != "order":
            raise unknown(word)


def ports_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return ranges of ports from ``80``, ``80-90`` or ``80:90``."""
    match = re.fullmatch(r"([0-9]{1,5})(?:[-:]([0-9]{1,5}))?", text, re.ASCII)
    if match is None:
        raise ValueError(f"`{text[:40]}` is not a port")
    return ((int(match[1]), int(match[2] or match[1])),)


def _flower(words: Words, base: Filter, ledger: Ledger, place: Place) -> None:
    """Read the keys of flower; each stands once."""
    header = _every(base.protocol).header
    known = u32.PROTOCOLS
    names = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp"}
    said: list[tuple[str, str, object]] = []
    while words:
        key = words.next
        if key in ("classid", "flowid", "action", "police"):
            break
        words.take()
        if key in _FLAGS:
            continue
        value = words.take()
        said.append(_compared_by(key, value))
        match key:
            case "ip_proto":
                number = known.get(value.lower()) or int(value, 16)  # tc-flower(8)
                some = frozenset({names[number]} if number in names else ())
                header &= Conditions(protocols=some)
            case "src_ip":
                header &= Conditions(source=(ip_network(value, strict=False),))
            case "dst_ip":
                header &= Conditions(destination=(ip_network(value, strict=False),))
            case "src_port":
                header &= Conditions(source_ports=ports_of(value))
            case "dst_port":
                header &= Conditions(destination_ports=ports_of(value))
            case "ip_tos":
                tos, _, mask = value.partition("/")
                bits = int(mask or "0xff", 16)
                # `flower_parse_ip_tos_ttl`: the value is decimal if it can be, the mask never.
                wanted = int(tos, 10 if tos.isdecimal() else 16)
                if bits & 3:
                    ledger.approximated(place, "it compares the bits of ECN, too")
                header &= Conditions(dscp=u32.dscps(wanted, bits))
            case "vlan_ethtype" | "cvlan_ethtype" if base.protocol not in _TAGGED:
                reason = f"Can't set \"{key}\" if ethertype isn't 802.1Q or 802.1AD"
                raise RefusedError(reason)
            case "eth_type" | "vlan_ethtype" | "cvlan_ethtype":
                header &= _every(value.replace("ipv4", "ip")).header
            case _:
                base.tests = None
                reason = f"the key {key[:20]} of flower is no condition of a scenario"
                ledger.ignored(place, reason)
                return
    base.tests = (Test(header),)
    base.masks = ("flower", *sorted(each[:2] for each in said))
    base.key = (header, base.masks)
    _common(words, base, ledger, place)


def _compared_by(key: str, value: str) -> tuple[str, str, object]:
    """Return a key of flower, its mask, and its value."""
    if key in ("src_ip", "dst_ip"):
        network = ip_network(value, strict=False)
        return key, str(network.prefixlen), network
    if key in ("src_port", "dst_port"):
        return key, "range" if "-" in value else value.partition("/")[2], value
    return key, value.partition("/")[2], value
