"""Commands that tc, or the kernel, refuses: nothing is added, and the interface has no policy.

Sources: the parsers of iproute2 (tc/q_*.c, tc/f_*.c, tc/m_*.c), whose words the reasons have;
`*_change` and `*_init` of net/sched; the commands of Linux's selftests (tools/testing/selftests/
tc-testing) that must fail.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.cake import FLAGS as CAKE_FLAGS
from perhop.routers.reading.linux.cake import WORDS as CAKE
from perhop.routers.reading.linux.ledger import AbsentError, PresentError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.routers.reading.linux.model import Action, Filter

__all__ = [
    "AbsentError",
    "PresentError",
    "RefusedError",
    "action",
    "class_",
    "filter_",
    "illegal",
    "qdisc",
    "unknown",
]

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


def _chance(text: str) -> object:
    """Read a share up to 1."""
    if units.share(text) > 1:
        raise ValueError(text)
    return units.share(text)


def _cell(text: str) -> object:
    """Read a size, and the cell of its rate table, which is a power of two."""
    size, slash, cell = text.partition("/")
    if slash and units.number(cell).bit_count() != 1:
        raise ValueError(text)
    return units.size(size)


def _whole(text: str) -> object:
    """Read a number with a sign."""
    return units.number(text.removeprefix("-"))


_LATENCY: Final = (
    *((units.time, "latency"), (units.time, "latency")),
    (_chance, "latency"),
)
_NETEM: Final[Mapping[str, Sequence[tuple[Callable[[str], object], str]]]] = {
    "limit": ((units.size, "limit"),),
    **dict.fromkeys(("latency", "delay"), _LATENCY),
    **dict.fromkeys(("loss", "drop"), ((_chance, "loss percent"), (_chance, "loss correlation"))),
    **{key: ((_chance, key), (_chance, key)) for key in ("reorder", "corrupt", "duplicate")},
    "gap": ((units.number, "gap"),),
    "ecn": (),
    "distribution": ((str, ""),),
    "rate": ((units.rate, "rate"), *((_whole, "packet overhead"),) * 3),
    "slot": ((units.time, "slot"), (units.time, "slot")),
    "packets": ((units.number, "slot packets"),),
    "bytes": ((units.number, "slot bytes"),),
    "seed": ((str, "seed"),),
}
"""The words of netem, which tc abbreviates, with their values: the first is needed."""

_NETEM_MODELS: Final[Mapping[str, Sequence[tuple[Callable[[str], object], str]]]] = {
    "random": _NETEM["loss"],
    "state": tuple((_chance, f"loss p{way}") for way in (13, 31, 32, 23, 14)),
    "gemodel": tuple((_chance, f"loss gemodel {letter}") for letter in "prhk"),
}
_MODELS: Final = {
    **dict.fromkeys(("loss", "drop"), tuple(_NETEM_MODELS)),
    "slot": ("distribution",),
}
_DISTRIBUTIONS: Final = ("normal", "pareto", "paretonormal", "experimental", "uniform")

_LINK_LAYERS: Final = ("ethernet", "atm", "adsl")
_CAKE_BYTES: Final = {"overhead": (-64, 256), "mpu": (0, 256)}

_CLASSES: Final[Mapping[str, str]] = {
    "htb": "prio mtu mpu overhead quantum burst buffer maxburst cburst cbuffer cmaxburst ceil rate "
    "linklayer",
    "drr": "quantum",
    "ets": "quantum",
}

_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(
        ("rate", "ceil", "peakrate", "bandwidth", "maxrate", "low_rate_threshold"), units.rate
    ),
    **dict.fromkeys(("burst", "buffer", "maxburst", "cburst", "cbuffer", "cmaxburst"), _cell),
    **dict.fromkeys(
        ("latency", "target", "interval", "tupdate", "rtt", "ce_threshold"), units.time
    ),
    **dict.fromkeys(("refill_delay", "timer_slack", "horizon"), units.time),
    **dict.fromkeys(
        ("bands", "strict", "flows", "r2q", "direct_qlen", "depth", "buckets"), units.number
    ),
    **dict.fromkeys(("flow_limit", "divisor", "drop_batch", "redflowlimit"), units.number),
    **dict.fromkeys(("memory_limit", "initial_quantum", "min", "max"), units.size),
    **dict.fromkeys(("mpu", "overhead", "index", "pkts_rate", "pkts_burst"), units.number),
    **dict.fromkeys(("mtu", "minburst"), _cell),
    "avrate": units.rate,
    "perturb": _whole,
    "probability": units.share,
}
_TWICE: Final[Mapping[str, tuple[str, str]]] = {
    "htb": ('Double "{}" spec', "rate ceil"),
    "tbf": (
        'tbf: duplicate "{}" specification',
        "limit latency buffer/burst/maxburst mtu/minburst rate peakrate",
    ),
    "police": (
        'Error: duplicate "{}"',
        "rate avrate peakrate buffer/burst/maxburst mtu/minburst",
    ),
    "ets": ('Duplicate "{}"', "bands strict quanta priomap"),
}
"""The words that a kind has once at most."""
_COUNTS_PACKETS: Final = ("pfifo", "codel", "fq_codel", "pie", "sfq", "fq", "fq_pie")
_PROTOCOLS: Final = (
    "loop pup pupat ip x25 arp bpq ieeepup ieeepupat dec dna_dl dna_rc dna_rt lat diag cust sca "
    "rarp atalk aarp ipx ipv6 ppp_disc ppp_ses atmmpoa atmfate 802_3 ax25 all 802_2 snap ddcmp "
    "wan_ppp ppp_mp localtalk can ppptalk tr_802_2 mobitex control irda econet tipc profinet aoe "
    "ethercat 802.1q 802.1ad mpls_uc mpls_mc teb cfm"
)
_FILTERS: Final = (
    "route",
    "u32",
    "fw",
    "flow",
    "bpf",
    "basic",
    "cgroup",
    "flower",
    "matchall",
    "rsvp",
    "rsvp6",
    "tcindex",
)
_VERDICTS: Final = "ok pass drop shot continue pipe reclassify stolen trap goto jump"
_ACTIONS: Final = (
    "police gact mirred skbedit pedit connmark ctinfo ct csum vlan nat bpf sample xt ipt simple "
    "tunnel_key mpls skbmod ife gate random"
)
_TAGGED: Final = frozenset({"802.1q", "802.1ad", "0x8100", "0x88a8"})
_IP_PROTOCOLS: Final = frozenset({"ip", "ipv6", "0x800", "0x0800", "0x86dd"})
_WITHOUT_VALUE: Final = frozenset({"skip_sw", "skip_hw", "verbose"})
_KEYS: Final = (
    "indev ct_state ct_zone ct_mark ct_label vlan_id num_of_vlans vlan_prio vlan_ethtype cvlan_id "
    "cvlan_prio cvlan_ethtype mpls mpls_label mpls_tc mpls_bos mpls_ttl pppoe_sid "
    "ppp_proto dst_mac "
    "src_mac ip_proto ip_tos ip_ttl dst_ip src_ip dst_port src_port tcp_flags ip_flags type code "
    "arp_tip arp_sip arp_op arp_tha arp_sha enc_dst_ip enc_src_ip enc_key_id enc_dst_port enc_tos "
    "enc_ttl enc_flags geneve_opts vxlan_opts erspan_opts gtp_opts pfcp_opts l2tpv3_sid hw_tc cfm "
    "spi"
)
_BYTE: Final = "(0*[0-9]{1,2}|0*1[0-9]{2}|0*2[0-4][0-9]|0*25[0-5]|(0x)?0*[0-9a-fA-F]{1,2})"
_MAC: Final = "([0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}(/.*)?"
_FORMS: Final = {
    **dict.fromkeys(("ip_tos", "ip_ttl"), f"{_BYTE}(/(0x)?0*[0-9a-fA-F]{{1,2}})?"),
    **dict.fromkeys(("src_mac", "dst_mac"), _MAC),
    "tcp_flags": "(0x)?0*[0-9a-fA-F]{1,3}(/(0x)?0*[0-9a-fA-F]{1,3})?",
    "ip_flags": "((no)?(first)?frag|(no)?firstfrag)(/(no)?(first)?frag)*",
}
"""The values of keys of flower."""

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


def twice(kind: str, words: Sequence[str]) -> None:
    """Refuse words that stand more than once.

    Raises:
        RefusedError: One does.
    """
    said, names = _TWICE.get(kind, ("", ""))
    for name in names.split():
        if sum(words.count(each) for each in name.split("/")) > 1:
            raise RefusedError(said.format(name))


def _words(kind: str, known: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse words that a kind does not have, and values that are none."""
    if kind not in known:
        return
    words = known[kind].split()
    for word in values:
        if word not in words:
            raise unknown(word)
    for key, text in values.items():
        if kind == "cake" and (key in CAKE_FLAGS or key in _CAKE_BYTES):
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
                if kind == "tbf":
                    said = f'tbf: illegal value for "{key}": "{text[:40]}"'
                    raise RefusedError(said) from None
                raise illegal(key) from None
    if values.get("linklayer", "atm") not in _LINK_LAYERS:
        layer = values["linklayer"][:40]
        said = f'tbf: illegal value for "linklayer": "{layer}"'
        raise RefusedError(said) if kind == "tbf" else illegal("linklayer")


def qdisc(
    kind: str,
    values: Mapping[str, str],
    lists: Mapping[str, Sequence[str]],
    words: Sequence[str],
) -> None:
    """Refuse the settings of a discipline that tc or the kernel refuses.

    Raises:
        RefusedError: They are refused.
    """
    twice(kind, words)
    _words(kind, _QDISCS, values)
    match kind:
        case "ets":
            _ets(values, lists)
        case "prio":
            _prio(values, lists)
        case "tbf":
            _tbf(values)
        case "htb" | "hfsc" if "default" in values:
            most = 8 if kind == "htb" else 4
            if not values["default"]:
                raise RefusedError(_INCOMPLETE)
            if not re.fullmatch(f"(0x)?0*[0-9a-fA-F]{{1,{most}}}", values["default"]):
                said = 'HFSC: Illegal "default"'
                raise illegal("default") if kind == "htb" else RefusedError(said)
        case "cake":
            _cake(values)
        case "netem":
            _netem(words)
        case "pie" | "fq_pie":
            for key, most in (("alpha", _MOST_GAIN), ("beta", _MOST_GAIN), ("ecn_prob", 100)):
                text = values.get(key, "0")
                if not re.fullmatch("[0-9]{1,3}", text) or int(text) > most:
                    raise illegal(key)
        case "red":
            _red(values)
        case "fq_codel" if _count(values.get("flows", "")) > _MOST_FLOWS:
            raise RefusedError(f"{_INVALID}: more than {_MOST_FLOWS} flows")
        case "sfq":
            _sfq(values)
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
    limit = units.size(values.get("limit", "0")) or units.time(values.get("latency", "0"))
    if not limit:
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


def _sfq(values: Mapping[str, str]) -> None:
    if units.number(values.get("limit", "2")) < 2:
        raise RefusedError('Illegal "limit", must be > 1')
    if values.get("perturb", "").startswith("-"):
        raise RefusedError("Error: sch_sfq: invalid perturb period.")
    for key in ("min", "max", "burst", "probability"):
        if key in values and "redflowlimit" not in values:
            raise RefusedError("Required parameter (redflowlimit) is missing")
    sizes = [units.size(values[key]) for key in ("min", "max") if key in values]
    if len(sizes) == 2 and sizes[0] >= sizes[1]:
        raise RefusedError('"min" is not smaller than "max"')


def _netem(words: Sequence[str]) -> None:
    """Refuse what `netem_parse_opt` of iproute2 refuses."""
    left, given, times = [*reversed(words)], set(), [0, 0]
    while left:
        said = left.pop()
        word = next((each for each in _NETEM if each.startswith(said)), "")
        if not word:
            raise unknown(said)
        given.add("loss" if word == "drop" else word)
        if word in ("loss", "drop", "slot") and left:
            model = next((each for each in _MODELS[word] if each.startswith(left[-1])), "")
            if not model and not left[-1][0].isdigit():
                kind = "slot" if word == "slot" else "loss"
                raise RefusedError(f"Unknown {kind} parameter: {left[-1][:40]}")
            if model:
                left.pop()
            word = model or word
        for position, (reader, name) in enumerate({**_NETEM, **_NETEM_MODELS}[word]):
            if position and not (left and re.match("-?[0-9]", left[-1])):
                break
            if not left:
                raise RefusedError(_INCOMPLETE)
            text = left.pop()
            try:
                value = reader(text)
            except ValueError:
                raise illegal(name) from None
            if name == "latency" and position < len(times):
                times[position] = int(bool(value))
            if word == "distribution" and text not in _DISTRIBUTIONS:
                raise RefusedError(f"No distribution data for {text[:40]}")
    if "reorder" in given and not times[0]:
        raise RefusedError("reordering not possible without specifying some delay")
    if "gap" in given and "reorder" not in given:
        raise RefusedError("gap specified without reorder probability")
    if "distribution" in given and not all(times):
        raise RefusedError("distribution specified but no latency and jitter values")
    if "ecn" in given and "loss" not in given:
        raise RefusedError("ecn requested without loss model")


_CURVE: Final = re.compile(
    r"(m1 \S+ )?(d \S+ )?m2 \S+|(umax \S+ dmax \S+ |dmax \S+ )?rate \S+", re.ASCII
)
"""The words of a service curve, in the order that tc wants (`hfsc_get_sc`)."""

_OF_CURVES: Final = {
    **dict.fromkeys(("m1", "m2", "rate"), units.rate),
    **dict.fromkeys(("d", "dmax"), units.time),
    "umax": units.size,
}


def class_(kind: str, values: Mapping[str, str], words: Sequence[str], *, numbered: bool) -> None:
    """Refuse the settings of a class that tc or the kernel refuses.

    Raises:
        RefusedError: They are refused.
    """
    if kind in ("htb", "hfsc", "") and not numbered:
        raise RefusedError(f"{_INVALID}: it has no `classid`")
    twice(kind, words)
    _words(kind, _CLASSES, values)
    if kind == "htb":
        rate = values.get("rate", "")
        if not rate or ("%" not in rate and not units.rate(rate)):
            raise RefusedError('"rate" is required.')
        for key in ("prio", "mtu"):
            try:
                units.number(values.get(key, "0"))
            except ValueError:
                raise illegal(key) from None
    if kind == "hfsc":
        for key, text in values.items():
            if key not in ("rt", "ls", "sc", "ul"):
                raise RefusedError(f'HFSC: What is "{key[:20]}" ?')
            if not _CURVE.fullmatch(text):
                raise RefusedError(f'HFSC: Illegal "{key}"')
            parts = text.split()
            for name, value in zip(parts[::2], parts[1::2], strict=True):
                try:
                    _OF_CURVES[name](value)
                except ValueError:
                    raise RefusedError(f'HFSC: Illegal "{name}"') from None
        curves = [key for key in ("rt", "ls", "sc", "ul") if key in values]
        if not curves:
            raise RefusedError("HFSC: no parameters given")
        if curves == ["ul"] or set(curves) == {"ul", "rt"}:
            raise RefusedError("HFSC: Upper-limit Service Curve without Link-Share Service Curve")
    if kind == "ets" and "quantum" in values:
        if not values["quantum"]:
            raise RefusedError(_INCOMPLETE)
        if not values["quantum"].isdigit():
            raise RefusedError('Illegal "quanta" element')
        if not int(values["quantum"]):
            raise RefusedError('"quanta" must be > 0')
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
    if not re.fullmatch("0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", given.get("chain", "0")):
        raise RefusedError(f'argument "{given["chain"][:20]}" is wrong: invalid chain index value')
    if not kind:
        raise RefusedError("Error: Filter kind and protocol must be specified.")
    if kind not in _FILTERS:
        option = f', hence option "{words[0][:20]}" is unparsable' if words else ""
        raise RefusedError(f'Unknown filter "{kind[:20]}"{option}')
    handle = given.get("handle", "")
    match kind:
        case "u32" if not re.fullmatch("(0x)?[0-9a-fA-F]*(:[0-9a-fA-F]*){0,2}", handle):
            raise RefusedError("Illegal filter ID")
        case "flower" | "matchall" | "basic" if not re.fullmatch(
            "|0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", handle
        ):
            raise illegal("handle")
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
    version = 6 if protocol in ("ipv6", "0x86dd") else 4
    number = ""
    left = list(words)
    while left and left[0] not in ("action", "classid", "flowid", "police"):
        key = left.pop(0)
        if not any(each.startswith(key) for each in (*_KEYS.split(), *_WITHOUT_VALUE)):
            raise unknown(key)
        if key in _WITHOUT_VALUE:
            continue
        if not left:
            raise RefusedError(_INCOMPLETE)
        value = left.pop(0)
        if key in _FORMS and not re.fullmatch(_FORMS[key], value):
            raise illegal(key)
        match key:
            case "ip_proto":
                named = value in _OF_FLOWER
                if not ip or not (named or re.fullmatch("(0x)?[0-9a-fA-F]{1,2}", value)):
                    raise illegal(key)
                number = value.removeprefix("0x").lstrip("0").lower()
            case "src_ip" | "dst_ip" if not ip:
                raise illegal(key)
            case "src_ip" | "dst_ip" if not tagged and not _prefix(value, version):
                raise RefusedError(f'Error: inet prefix is expected rather than "{value[:50]}".')
            case "vlan_id" | "vlan_prio" if protocol not in _TAGGED:
                raise RefusedError(f"Can't set \"{key}\" if ethertype isn't 802.1Q or 802.1AD")
            case "src_port" | "dst_port":
                ports = re.fullmatch("([0-9]{1,5})(?:-([0-9]{1,5}))?(/.*)?", value)
                if number not in _WITH_PORTS or ports is None:
                    raise illegal(key)
                if max(int(ports[1]), int(ports[2] or 0)) > _MOST_PRIO:
                    raise illegal(key)
                if ports[2] and not 0 < int(ports[1]) < int(ports[2]):
                    raise illegal(key)


def _prefix(text: str, version: int) -> bool:
    """Return whether a text is an address or a prefix, as tc abbreviates it, too."""
    if text in ("any", "all", "default"):
        return True
    short = re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}(/[0-9]{1,2})?", text)
    try:
        return ip_network(text, strict=False).version == version
    except ValueError:
        return version == 4 and short is not None


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
    values = made.values
    match made.kind:
        case "skbedit":
            _skbedit(values)
        case "mirred":
            first = next(iter(values), "egress")
            if first not in ("egress", "ingress", "index"):
                raise RefusedError(f"mirred option not supported {first[:40]}")
            if "index" not in values and (
                {"redirect", "mirror"}.isdisjoint(values) or not {"dev", "blockid"} & values.keys()
            ):
                raise RefusedError(_INCOMPLETE)
    if made.kind != "police":
        if values.get("index") and not values["index"].isdigit():
            raise illegal("index")
        return
    for key in values:
        if key not in _POLICE.split() and key not in _VERDICTS.split():
            raise RefusedError(f"Bad action type {key[:20]}")
    for part in values.get("conform-exceed", "").split("/"):
        if part and part not in _VERDICTS.split():
            raise RefusedError(f'bad action parsing: "{part[:20]}"')
    found = {_ALIASES.get(key, key): _of_police(key, text) for key, text in values.items()}
    if not any(found.get(key) for key in ("rate", "avrate", "mtu", "pkts_rate", "index")):
        raise RefusedError("'rate' or 'avrate' or 'mtu' or 'pkts_rate' MUST be specified.")
    if bool(found.get("rate")) != bool(found.get("burst")):
        raise RefusedError("'burst' requires 'rate'.")
    if bool(found.get("pkts_rate")) != bool(found.get("pkts_burst")):
        raise RefusedError("'pkts_burst' requires 'pkts_rate'.")
    if found.get("peakrate") and not found.get("rate"):
        raise RefusedError("'rate' must be specified, if 'peakrate' is.")
    if found.get("peakrate") and not found.get("mtu"):
        raise RefusedError("'mtu' is required, if 'peakrate' is requested.")
    if found.get("rate") and found.get("pkts_rate"):
        raise RefusedError("'rate' and 'pkts_rate' are not allowed in same action.")


_ALIASES: Final = {"buffer": "burst", "maxburst": "burst", "minburst": "mtu"}


def _of_police(key: str, text: str) -> object:
    """Return the value of a word of a policer; its text if it is no quantity."""
    reader = _READERS.get(key)
    if reader is None and key != "linklayer":
        return text
    if not text:
        raise RefusedError(_INCOMPLETE)
    try:
        if reader is None and text not in _LINK_LAYERS:
            raise ValueError(text)
        return reader(text) if reader and "%" not in text else text
    except ValueError:
        name = {"burst": "buffer", "maxburst": "buffer", "minburst": "mtu"}.get(key, key)
        raise RefusedError(f'Error: argument "{text[:40]}" is wrong: {name}') from None


_PACKETS: Final = ("host", "broadcast", "multicast", "otherhost")


def _skbedit(values: Mapping[str, str]) -> None:
    if not values:
        raise RefusedError(_INCOMPLETE)
    for key, text in values.items():
        try:
            match key:
                case "priority":
                    units.classid(text)
                case "mark":
                    for part in text.split("/"):
                        units.number(part)
                case "queue_mapping" | "index":
                    units.number(text)
                case "ptype" if text not in _PACKETS:
                    raise RefusedError(f"Illegal ptype ({text[:20]})")
                case "ptype" | "inheritdsfield" | "hw_stats" | "cookie":
                    pass
                case _:
                    raise unknown(key)
        except ValueError:
            raise RefusedError(f"Illegal {key}") from None
