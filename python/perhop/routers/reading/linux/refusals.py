"""Commands that tc, or the kernel, refuses: nothing is added, and the interface has no policy.

Sources: the parsers of iproute2 (tc/q_*.c, tc/f_*.c, tc/m_*.c), whose words the reasons have;
`*_change` and `*_init` of net/sched; the commands of Linux's selftests (tools/testing/selftests/
tc-testing) that must fail.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.cake import FLAGS as CAKE_FLAGS
from perhop.routers.reading.linux.cake import WORDS as CAKE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.routers.reading.linux.model import Action, Filter

__all__ = ["RefusedError", "action", "class_", "filter_", "illegal", "qdisc", "unknown"]


class RefusedError(Exception):
    """A command that tc or the kernel refuses; the message is theirs."""


_INVALID: Final = "RTNETLINK answers: Invalid argument"
_INCOMPLETE: Final = "Command line is not complete"
_MOST_BANDS: Final = 16
_LAST_OF_BAND_2: Final = 6
"""The priorities up to the last one that the default priomap of prio leads to band 2."""

_MOST_PRIO: Final = 0xFFFF
_MOST_GAIN: Final = 32
_MOST_COOKIE: Final = 32
_MOST_FLOWS: Final = 65536
_WEIGHTS_OF_RED: Final = 31

_QDISCS: Final[Mapping[str, str]] = {
    "prio": "bands priomap",
    "ets": "bands strict quanta priomap",
    "pfifo": "limit",
    "bfifo": "limit",
    "pfifo_head_drop": "limit",
    "tbf": "limit latency mtu minburst mpu rate burst buffer maxburst peakrate overhead linklayer",
    "htb": "default r2q direct_qlen debug offload",
    "hfsc": "default",
    "drr": "",
    "codel": "limit target interval ce_threshold ecn noecn",
    "fq_codel": "limit flows quantum target interval ce_threshold ce_threshold_selector "
    "memory_limit drop_batch ecn noecn",
    "pie": "limit target tupdate alpha beta ecn noecn bytemode nobytemode dq_rate_estimator "
    "no_dq_rate_estimator",
    "sfq": "quantum perturb limit divisor flows headdrop depth min max probability redflowlimit "
    "burst ecn harddrop",
    "red": "limit min max burst avpkt probability bandwidth ecn nodrop harddrop adaptive "
    "adaptative qevent",
    "fq": "limit flow_limit quantum initial_quantum maxrate low_rate_threshold buckets pacing "
    "nopacing refill_delay orphan_mask ce_threshold timer_slack horizon horizon_cap horizon_drop "
    "bands priomap weights",
    "fq_pie": "limit flows target tupdate alpha beta quantum memory_limit ecn_prob ecn noecn "
    "dq_rate_estimator no_dq_rate_estimator bytemode nobytemode",
    "cake": " ".join(sorted(CAKE)),
}
"""The words of disciplines; others are not checked."""

_NETEM: Final = (
    *("limit", "latency", "delay", "distribution", "loss", "drop", "duplicate", "reorder", "gap"),
    *("corrupt", "ecn", "rate", "slot", "seed"),
)
"""The words of netem, which tc abbreviates."""

_CAKE_BYTES: Final = {"overhead": (-64, 256), "mpu": (0, 256)}

_CLASSES: Final[Mapping[str, str]] = {
    "htb": "prio mtu mpu overhead quantum burst buffer maxburst cburst cbuffer cmaxburst ceil rate "
    "linklayer",
    "drr": "quantum",
    "ets": "quantum",
}

_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("rate", "ceil", "peakrate", "bandwidth", "maxrate"), units.rate),
    **dict.fromkeys(("burst", "buffer", "maxburst", "cburst", "cbuffer", "cmaxburst"), units.size),
    **dict.fromkeys(("latency", "target", "interval", "tupdate"), units.time),
    **dict.fromkeys(("bands", "strict", "flows", "r2q", "direct_qlen", "depth"), units.number),
    **dict.fromkeys(("buckets", "flow_limit"), units.number),
    "divisor": units.number,
}
_COUNTS_PACKETS: Final = ("pfifo", "codel", "fq_codel", "pie", "sfq", "fq", "fq_pie")
_PROTOCOLS: Final = (
    "loop pup pupat ip x25 arp bpq ieeepup ieeepupat dec dna_dl dna_rc dna_rt lat diag cust sca "
    "rarp atalk aarp ipx ipv6 ppp_disc ppp_ses atmmpoa atmfate 802_3 ax25 all 802_2 snap ddcmp "
    "wan_ppp ppp_mp localtalk can ppptalk tr_802_2 mobitex control irda econet tipc profinet aoe "
    "ethercat 802.1q 802.1ad mpls_uc mpls_mc teb cfm"
)
_VERDICTS: Final = "ok pass drop shot continue pipe reclassify stolen trap goto jump"
_ACTIONS: Final = (
    "police gact mirred skbedit pedit connmark ctinfo ct csum vlan nat bpf sample xt ipt simple "
    "tunnel_key mpls skbmod ife gate random"
)
_TAGGED: Final = frozenset({"802.1q", "802.1ad", "0x8100", "0x88a8"})
_IP_PROTOCOLS: Final = frozenset({"ip", "ipv6", "0x800", "0x0800", "0x86dd"})
_WITHOUT_VALUE: Final = frozenset({"skip_sw", "skip_hw", "verbose"})
_OF_FLOWER: Final = frozenset({"tcp", "udp", "sctp", "icmp", "icmpv6", "l2tp"})
_WITH_PORTS: Final = frozenset({"tcp", "udp", "sctp", "6", "11", "84"})
_POLICE: Final = (
    "rate burst buffer maxburst mtu minburst mpu peakrate avrate overhead linklayer estimator "
    "conform-exceed index pkts_rate pkts_burst cookie hw_stats"
)


def unknown(word: str) -> RefusedError:
    """Return the refusal of a word that a command does not have."""
    return RefusedError(f'What is "{word[:40]}"?')


def illegal(key: str) -> RefusedError:
    """Return the refusal of a value."""
    return RefusedError(f'Illegal "{key}"')


def _words(kind: str, known: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse words that a kind does not have, and values that are none."""
    if kind not in known:
        return
    words = known[kind].split()
    for word in values:
        if word not in words:
            raise unknown(word)
    for key, text in values.items():
        if kind == "cake" and key in CAKE_FLAGS:
            continue
        reader = _READERS.get(key)
        if key == "limit" and kind in _COUNTS_PACKETS:
            reader = units.number
        elif key == "limit" or (key == "quantum" and kind != "ets"):
            reader = units.size
        if not text and reader is not None:
            raise RefusedError(_INCOMPLETE)
        if reader is not None and "%" not in text:
            try:
                reader(text)
            except ValueError:
                raise illegal(key) from None


def qdisc(kind: str, values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
    """Refuse the settings of a discipline that tc or the kernel refuses.

    Raises:
        RefusedError: They are refused.
    """
    _words(kind, _QDISCS, values)
    match kind:
        case "ets":
            _ets(values, lists)
        case "prio":
            _prio(values, lists)
        case "tbf":
            _tbf(values)
        case "htb" if "default" in values:
            if not re.fullmatch("(0x)?[0-9a-fA-F]{1,8}", values["default"]):
                raise RefusedError(illegal("default").args[0] if values["default"] else _INCOMPLETE)
        case "cake":
            _cake(values)
        case "netem":
            _netem(values, lists)
        case "fq_pie":
            _fq_pie(values)
        case "red":
            _red(values)
        case "fq_codel" if _count(values.get("flows", "")) > _MOST_FLOWS:
            raise RefusedError(f"{_INVALID}: more than {_MOST_FLOWS} flows")
        case "sfq":
            divisor = _count(values.get("divisor", ""))
            if divisor & (divisor - 1) or divisor > _MOST_FLOWS:
                raise RefusedError(f"{_INVALID}: divisor is no power of two up to {_MOST_FLOWS}")


def _count(text: str) -> int:
    return units.number(text) if text else 0


def _red(values: Mapping[str, str]) -> None:
    """Refuse what `red_parse_opt` of iproute2 refuses."""
    sizes = {}
    for key in ("limit", "avpkt", "min", "max"):
        try:
            sizes[key] = units.size(values.get(key, "")) or 0 if key in values else 0
        except ValueError:
            raise illegal(key) from None
    limit, packet = sizes["limit"], sizes["avpkt"]
    if not limit or not packet:
        raise RefusedError("RED: Required parameter (limit, avpkt) is missing")
    most = sizes["max"] or (sizes["min"] * 3 or limit // 4)
    least = sizes["min"] or most // 3
    burst = _count(values.get("burst", "")) or (2 * least + most) // (3 * packet)
    wanted = burst + 1 - least / packet  # `tc_red_eval_ewma`
    shares = (0.5**power for power in range(1, _WEIGHTS_OF_RED + 1))
    if wanted < 1 or all(wanted > (1 - (1 - share) ** burst) / share for share in shares):
        raise RefusedError("RED: failed to calculate EWMA constant.")
    if most < least:
        raise RefusedError("RED: failed to calculate probability.")


def _ets(values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
    bands, strict = (_count(values.get(key, "")) for key in ("bands", "strict"))
    for key, number in (("bands", bands), ("strict", strict)):
        if number > _MOST_BANDS:
            raise RefusedError(f'The number of "{key}" must be <= {_MOST_BANDS}')
    quanta = lists.get("quanta", ())
    if "quanta" in lists and not quanta:
        raise RefusedError(_INCOMPLETE)
    if any(_count(each) == 0 for each in quanta if each.isdigit()):
        raise RefusedError('"quanta" must be > 0')
    priomap = lists.get("priomap", ())
    if len(priomap) > _MOST_BANDS:
        raise RefusedError('"priomap" index cannot be higher than 15')
    if not (bands or strict or quanta):
        raise RefusedError('One of "bands", "quanta" or "strict" needs to be specified')
    needed = strict + len(quanta)
    if bands and bands < needed:
        raise RefusedError("Not enough total bands to cover all the strict bands and quanta")
    bands = bands or needed
    if any(int(each) >= bands for each in priomap):
        raise RefusedError('"priomap" element is out of bounds')
    if bands > _MOST_BANDS:
        raise RefusedError(f"{_INVALID}: {bands} bands, {_MOST_BANDS} at most")


def _prio(values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
    bands = _count(values["bands"]) if "bands" in values else 3
    priomap = lists.get("priomap", ())
    if len(priomap) > _MOST_BANDS:
        raise RefusedError('"priomap" index > TC_PRIO_MAX=15')
    if any(int(each) >= bands for each in priomap):
        raise RefusedError('"priomap" element is out of bands')
    if not 2 <= bands <= _MOST_BANDS:
        raise RefusedError(f"{_INVALID}: {bands} bands, 2 to {_MOST_BANDS}")
    if bands == 2 and len(priomap) < _LAST_OF_BAND_2:
        raise RefusedError(f"{_INVALID}: the default priomap has band 2, which 2 bands lack")


def _tbf(values: Mapping[str, str]) -> None:
    rate = units.rate(values["rate"]) if "rate" in values and "%" not in values["rate"] else 1
    burst = next((values[key] for key in ("burst", "buffer", "maxburst") if key in values), "")
    if "rate" not in values or not rate:
        raise RefusedError('tbf: the "rate" parameter is mandatory.')
    if not burst or not units.size(burst):
        raise RefusedError('tbf: the "burst" parameter is mandatory.')
    if "limit" in values and "latency" in values:
        raise RefusedError('tbf: specifying both "latency" and "limit" is not allowed')
    if "limit" not in values and "latency" not in values:
        raise RefusedError('tbf: either "limit" or "latency" is required.')
    if "peakrate" in values:
        if "mtu" not in values and "minburst" not in values:
            raise RefusedError('tbf: when "peakrate" is specified, "mtu" must also be specified.')
        if "%" not in values["peakrate"] and units.rate(values["peakrate"]) <= rate:
            raise RefusedError(f"{_INVALID}: peakrate is lower than or equals to rate")


def _cake(values: Mapping[str, str]) -> None:
    for key, (least, most) in _CAKE_BYTES.items():
        text = values.get(key, "0")
        if not re.fullmatch("[+-]?[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise RefusedError(f'Illegal "{key}", valid range is {least} to {most}')
    for key, reader in (("memlimit", units.size), ("fwmark", units.number)):
        if key in values:
            try:
                reader(values[key])
            except ValueError:
                raise RefusedError(f'Illegal value for "{key}": "{values[key][:40]}"') from None


def _fq_pie(values: Mapping[str, str]) -> None:
    for key in ("alpha", "beta"):
        if key in values and not (values[key].isdigit() and int(values[key]) <= _MOST_GAIN):
            raise illegal(key)


def _netem(values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
    """Refuse what `netem_parse_opt` of iproute2 refuses."""
    if "slot" not in values:  # it has several values
        for word in values:
            if not any(each.startswith(word) for each in _NETEM) and not word[0].isdigit():
                _netem_value(lists)
                raise unknown(word)
    _netem_value(lists)
    times = [*lists.get("delay", ()), *lists.get("latency", ())]
    delay, jitter = (any(times[n : n + 1]) and bool(units.time(times[n])) for n in (0, 1))
    if "reorder" in lists and not delay:
        raise RefusedError("reordering not possible without specifying some delay")
    if values.get("gap", "0") != "0" and "reorder" not in lists:
        raise RefusedError("gap specified without reorder probability")
    if "distribution" in values and not (delay and jitter):
        raise RefusedError("distribution specified but no latency and jitter values")
    for key, reader in (("limit", units.size), ("rate", units.rate)):
        if key in values:
            try:
                reader(values[key])
            except ValueError:
                raise illegal(key) from None


def _netem_value(lists: Mapping[str, Sequence[str]]) -> None:
    """Refuse the first value of a list of netem."""
    for key, some in lists.items():
        first = next((each for each in some if each != "random"), "")
        reader: Callable[[str], object] = units.share
        if key in ("delay", "latency"):
            reader = units.time
        if first in ("state", "gemodel"):
            continue
        try:
            value = reader(first)
            if isinstance(value, Fraction) and value > 1:
                raise ValueError(first)
        except ValueError:
            if key == "loss":
                said = f"Unknown loss parameter: {first}" if not first else 'Illegal "loss percent"'
                raise RefusedError(said) from None
            raise illegal("latency" if key == "delay" else key) from None


_CURVE: Final = re.compile(
    r"(m1 \S+ )?(d \S+ )?m2 \S+|(umax \S+ dmax \S+ |dmax \S+ )?rate \S+", re.ASCII
)
"""The words of a service curve, in the order that tc wants (`hfsc_get_sc`)."""


def class_(kind: str, values: Mapping[str, str], *, numbered: bool) -> None:
    """Refuse the settings of a class that tc or the kernel refuses.

    Raises:
        RefusedError: They are refused.
    """
    if kind in ("htb", "hfsc") and not numbered:
        raise RefusedError(f"{_INVALID}: it has no `classid`")
    _words(kind, _CLASSES, values)
    if kind == "htb":
        rate = values.get("rate", "")
        if not rate or ("%" not in rate and not units.rate(rate)):
            raise RefusedError('"rate" is required.')
        for key in ("prio", "mtu", "mpu", "overhead"):
            try:
                units.number(values.get(key, "0"))
            except ValueError:
                raise illegal(key) from None
        if values.get("linklayer", "atm") not in ("ethernet", "atm", "adsl"):
            raise illegal("linklayer")
    if kind == "hfsc":
        for key, text in values.items():
            if key not in ("rt", "ls", "sc", "ul"):
                raise RefusedError(f'HFSC: What is "{key[:20]}" ?')
            if not _CURVE.fullmatch(text):
                raise RefusedError(f'HFSC: Illegal "{key}"')
        curves = [key for key in ("rt", "ls", "sc", "ul") if key in values]
        if not curves:
            raise RefusedError("HFSC: no parameters given")
        if curves == ["ul"] or set(curves) == {"ul", "rt"}:
            raise RefusedError("HFSC: Upper-limit Service Curve without Link-Share Service Curve")
    if kind == "drr" and values.get("quantum") and not units.size(values["quantum"]):
        raise RefusedError("Error: Attribute failed policy validation.")


def filter_(kind: str, given: Mapping[str, str], words: Sequence[str]) -> None:
    """Refuse the general part of a filter, and one without what its classifier needs.

    Raises:
        RefusedError: It is refused.
    """
    prio = given.get("prio", "0")
    if not re.fullmatch("(0x[0-9a-fA-F]+|[0-9]+)", prio) or int(prio, 0) > _MOST_PRIO:
        raise RefusedError(f'argument "{prio[:20]}" is wrong: invalid priority value')
    protocol = given.get("protocol", "all").lower()
    if protocol not in _PROTOCOLS.split() and not re.fullmatch(
        "0x[0-9a-f]{1,4}|[0-9]{1,5}", protocol
    ):
        raise RefusedError(f'argument "{protocol[:20]}" is wrong: invalid protocol')
    handle = given.get("handle", "")
    match kind:
        case "fw":
            for part in handle.split("/") if handle else ():
                if not re.fullmatch("0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", part):
                    raise illegal("handle")
                if int(part, 0) > 0xFFFFFFFF:
                    raise illegal("handle")
            if bool(handle) != bool(words):
                missing = "a classid or an action" if handle else "a handle"
                raise RefusedError(f"{_INVALID}: fw needs {missing}")
        case "matchall" | "basic" if not words:
            raise RefusedError(f"{_INVALID}: {kind} needs a classid or an action")
        case "u32":
            if words and not {"match", "divisor", "hashkey", "offset"} & set(words):
                raise RefusedError("Error: cls_u32: Selector not specified.")
        case "flower":
            _flower(protocol, words)
    for word, value in zip(words, [*words[1:], ""], strict=False):
        if word == "cookie" and len(value) > _MOST_COOKIE:
            raise RefusedError(
                f'argument "{value[:50]}" is wrong: {len(value)} Max allowed size {_MOST_COOKIE}'
            )


def _flower(protocol: str, words: Sequence[str]) -> None:
    """Refuse keys of flower without the key, or the protocol, that they need before them."""
    tagged = protocol in _TAGGED or not {"vlan_ethtype", "cvlan_ethtype"}.isdisjoint(words)
    ip = tagged or protocol in _IP_PROTOCOLS
    number = ""
    left = list(words)
    while left and left[0] not in ("action", "classid", "flowid"):
        key = left.pop(0)
        if key in _WITHOUT_VALUE or not left:
            continue
        value = left.pop(0)
        match key:
            case "ip_proto":
                named = value in _OF_FLOWER
                if not ip or not (named or re.fullmatch("(0x)?[0-9a-fA-F]{1,2}", value)):
                    raise illegal(key)
                number = value.removeprefix("0x").lstrip("0").lower()
            case "src_ip" | "dst_ip" if not ip:
                raise illegal(key)
            case "src_port" | "dst_port":
                ports = re.fullmatch("([0-9]{1,5})(?:-([0-9]{1,5}))?(/.*)?", value)
                if number not in _WITH_PORTS or ports is None:
                    raise illegal(key)
                if ports[2] and int(ports[2]) <= int(ports[1]):
                    raise illegal(key)


def beside(other: Filter, protocol: str, kind: str) -> None:
    """Refuse a filter beside another one of the same priority.

    Raises:
        RefusedError: Its protocol or its classifier is another one (`tcf_chain_tp_find`).
    """
    if other.protocol != protocol and not any(
        each.startswith("0x") for each in (other.protocol, protocol)
    ):
        raise RefusedError("Error: Protocol mismatch for filter with specified priority.")
    if other.kind != kind:
        raise RefusedError("Error: Specified filter kind does not match existing one.")


def action(made: Action) -> None:
    """Refuse an action that tc does not have, and a policer without what it needs.

    Raises:
        RefusedError: It is refused.
    """
    if made.kind not in _ACTIONS.split():
        raise RefusedError(f"Bad action type {made.kind[:20]}")
    if made.kind != "police":
        return
    values = made.values
    for key in values:
        if key not in _POLICE.split() and key not in _VERDICTS.split():
            raise RefusedError(f"Bad action type {key[:20]}")
    for part in values.get("conform-exceed", "").split("/"):
        if part and part not in _VERDICTS.split():
            raise RefusedError(f'bad action parsing: "{part[:20]}"')
    burst = any(key in values for key in ("burst", "buffer", "maxburst"))
    if "rate" in values and not burst:
        raise RefusedError("'burst' requires 'rate'.")
    if not {"rate", "avrate", "mtu", "pkts_rate", "index"} & values.keys():
        raise RefusedError("'rate' or 'avrate' or 'mtu' or 'pkts_rate' MUST be specified.")
