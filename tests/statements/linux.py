"""Statements of Linux: tc, nft and iptables.

What filters and classes do is in `linux_classes.json` and `linux_shapers.json`, as Linux's own
classifiers and disciplines did it (`test_linux_classes`, `test_linux_shapers`): `COMPARED` has the
words of those cases. The rows here are for queues, whose settings no throughput shows.
"""

import json
from pathlib import Path

from statements.statement import Approximated, Statement

_RECORDED = Path(__file__).parents[1] / "linux_classes.json"

COMPARED = frozenset(
    word
    for case in json.loads(_RECORDED.read_text("utf-8"))
    for text in case["words"]
    for word in text.split()
)
"""Words that a case compares with Linux."""

ROOT = "tc qdisc add dev eth0 root "
HTB = f"""{ROOT}handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit
tc class add dev eth0 parent 1: classid 1:30 htb rate 10mbit
"""
FILTER = "tc filter add dev eth0 parent 1: protocol ip prio 1 "
U32 = f"{HTB}{FILTER}u32 match ip dport 80 0xffff flowid 1:10 "
QUEUE = "classes.all.queue"


def queue(words: str, other: str, source: str, **values: object) -> Statement:
    """Return a statement about a queue: `other` has other values, `values` are keys of the queue.

    Two underscores in a key are a dot.
    """
    paths = {f"{QUEUE}.{key.replace('__', '.')}": each for key, each in values.items()}
    names = [word for word in words.split() if not word[0].isdigit()]
    return Statement(" ".join(names), ROOT + words, ROOT + other, source, paths)


def cake(word: str, source: str, **values: object) -> Statement:
    """Return a statement about a word of CAKE."""
    rest = {f"cake__{key}": each for key, each in values.items()}
    other = "cake besteffort" if word != "besteffort" else "cake diffserv4"
    return queue(f"cake {word}", other, f"tc-cake(8), {source}", **rest)


CBQ = f"""{ROOT}handle 1: cbq bandwidth 10mbit avpkt 1000
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match u32 0 0 flowid 1:1
tc class add dev eth0 parent 1: classid 1:1 cbq bandwidth 10mbit rate 3mbit avpkt 1000 """
NFT = """nft -f - <<'END'
table inet q {{
 chain c {{
  type filter hook postrouting priority 0
  {}
 }}
}}
END
"""


TREE = f"""{ROOT}handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 2mbit ceil 4mbit """
ETS = f"""{ROOT}handle 1: ets bands 3 strict 1 quanta 1500 3000
{FILTER}u32 match ip dport 53 0xffff flowid 1:1
{FILTER}u32 match ip dport 80 0xffff flowid 1:2
{FILTER}u32 match u32 0 0 flowid 1:3
"""
CLASSIFIED = f"{HTB}iptables -t mangle -A POSTROUTING -p udp -m dscp --dscp-class {{}} -j CLASSIFY "

BY_PROTOCOL = f"""{HTB}tc filter add dev eth0 parent 1: proto {{}} prio 1 matchall flowid 1:10
tc filter add dev eth0 parent 1: proto {{}} prio 2 matchall flowid 1:30
"""


def limit(rate: str, police: str, burst: str) -> Statement:
    """Return a statement about a limit of nft, and the rate and bucket that it is."""
    place = "policers.limit.police"
    return Statement(
        f"limit rate over {rate}",
        HTB + NFT.format(f"udp dport 53 limit rate over {rate} drop"),
        HTB + NFT.format("udp dport 53 limit rate over 7 bytes/second drop"),
        "Linux, nft_limit_init (net/netfilter/nft_limit.c): the bucket holds what one unit of "
        "time brings, and the burst; nftables, limit.t.payload: units of bytes are of 1024",
        {f"{place}.rate": police, f"{place}.burst": burst},
    )


MATCH = f"{HTB}{FILTER}u32 match "

STATEMENTS = (
    queue("pfifo limit 50", "pfifo limit 60", "tc-pfifo(8), limit: packets", limit="50 packets"),
    queue("bfifo limit 30000", "bfifo limit 60000", "tc-bfifo(8), limit: bytes", limit="30 kB"),
    queue(
        "pfifo_head_drop limit 50",
        "pfifo limit 50",
        "Linux, pfifo_tail_enqueue (net/sched/sch_fifo.c): a full queue drops its first packet",
        limit="50 packets",
        drop="head",
    ),
    queue(
        "codel limit 100 target 10ms interval 50ms ecn",
        "codel limit 101 target 11ms interval 51ms noecn",
        "tc-codel(8): limit in packets, target, interval; ecn marks instead of dropping",
        limit="100 packets",
        codel={"target": "10 ms", "interval": "50 ms", "ecn": True},
    ),
    queue(
        "fq_codel limit 500 flows 64 target 10ms interval 50ms quantum 300 noecn",
        "fq_codel ecn",
        "tc-fq_codel(8): flows, quantum (bytes of a turn), noecn; the rest as codel",
        limit="500 packets",
        **{
            "fq-codel__flows": 64,
            "fq-codel__quantum": "300 B",
            "fq-codel__ecn": False,
            "fq-codel__target": "10 ms",
            "fq-codel__interval": "50 ms",
        },
    ),
    queue(
        "pie limit 100 target 20ms tupdate 20ms ecn",
        "pie noecn",
        "tc-pie(8): limit in packets, target, tupdate (the interval of updates), ecn",
        limit="100 packets",
        pie={"target": "20 ms", "update": "20 ms", "ecn": True},
    ),
    queue(
        "fq_pie limit 100 flows 64 target 20ms tupdate 20ms quantum 300 ecn",
        "fq_pie noecn",
        "tc-fq_pie(8): flows, quantum, target, tupdate, ecn",
        limit="100 packets",
        **{
            "fq-pie__flows": 64,
            "fq-pie__quantum": "300 B",
            "fq-pie__target": "20 ms",
            "fq-pie__update": "20 ms",
            "fq-pie__ecn": True,
        },
    ),
    queue(
        "red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 probability 0.05 ecn harddrop",
        "red limit 50000 min 10000 max 40000 avpkt 900 burst 15 probability 0.1 ecn",
        "tc-red(8): min and max of the average in bytes, probability at max, avpkt and burst for "
        "the average; ecn marks, but harddrop drops above max",
        limit="60 kB",
        red__min="15 kB",
        red__max="45 kB",
        red__probability="5%",
        red__ecn=True,
        red__harddrop=True,
        red__packet="1000 B",
    ),
    queue(
        "sfq limit 100 flows 64 depth 50 divisor 512 perturb 10 quantum 3000 headdrop",
        "sfq limit 90 flows 32 depth 40 divisor 256",
        "tc-sfq(8): limit, packets of a flow (depth), divisor (hash table), perturb in seconds, "
        "quantum; headdrop drops the first packet of a flow",
        limit="100 packets",
        sfq__flows=64,
        sfq__depth=50,
        sfq__divisor=512,
        sfq__perturb="10 s",
        sfq__quantum="3000 B",
        sfq__drop="head",
    ),
    queue("cake memlimit 1mb", "cake memlimit 2mb", "tc-cake(8), memlimit", limit="1 MiB"),
    cake("rtt 50ms", "rtt: the interval of CoDel is the RTT", rtt="50 ms"),
    *(
        cake(word, f"{word}: an RTT", rtt=word)
        for word in ("datacentre", "lan", "metro", "regional", "oceanic", "satellite")
    ),
    *(
        cake(word, f"{word}: the tins", diffserv=word)
        for word in ("besteffort", "precedence", "diffserv8", "diffserv4")
    ),
    *(
        cake(word, f"{word}: flow isolation", isolation=word)
        for word in (
            *("flowblind", "srchost", "dsthost", "hosts", "flows"),
            *("dual-srchost", "dual-dsthost"),
        )
    ),
    cake("wash", "wash: the DSCP is cleared after the tin is chosen", wash=True),
    cake("ingress", "ingress: drops count as sent", ingress=True),
    cake("ack-filter", "ack-filter: redundant ACKs are dropped", ack_filter="on"),
    cake("ack-filter-aggressive", "ack-filter-aggressive", ack_filter="aggressive"),
    limit("600000 bytes/minute", "80 kbps", "600000 B"),
    limit("3600 kbytes/hour burst 10 kbytes", "8.192 kbps", "3696640 B"),
    limit("10 mbytes/day", "970 bps", "10485760 B"),
    limit("604800000 bytes/week", "8 kbps", "604800000 B"),
    Statement(
        "pfifo_fast",
        f"{ROOT}pfifo_fast",
        f"{ROOT}prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "Linux, prio2band (net/sched/sch_generic.c): the bands of `prio by TOS`, as recorded",
        flows={"low": {"dscp": 10}, "high": {"dscp": 4}, "six": {"ip": 6, "dscp": 4}},
        expected={"low": "band2", "high": "band0", "six": "band1"},
    ),
    Statement(
        "htb cburst",
        f"{TREE}cburst 30k",
        f"{TREE}cmaxburst 40k",
        "iproute2, htb_parse_class_opt (tc/q_htb.c): cburst, cbuffer and cmaxburst are one; with "
        "the packet of 1500 bytes that overdraws it",
        {"classes.c10.shape": {"rate": "4 Mbps", "burst": "32220 B"}},
    ),
    Statement(
        "ets strict quanta",
        ETS,
        ETS.replace("root", "root stab overhead -14"),
        "Linux, ets_qdisc_dequeue (net/sched/sch_ets.c): a turn is quanta of qdisc_pkt_len, frames "
        "of 74 and 1514 bytes in turns of 1 to 2, in what the strict band leaves of 10 Mb/s of IP",
        flows={
            "first": {"mbps": 1, "port": 53},
            "small": {"mbps": 5, "size": 60, "port": 80},
            "large": {"mbps": 12},
        },
        expected={"first": 1.0, "small": 2.613, "large": 6.387},
        within=0.005,
    ),
    Statement(
        "stab linklayer adsl",
        f"{ROOT}handle 1: stab overhead 10 linklayer adsl tbf rate 1mbit burst 9k limit 9k",
        f"{ROOT}handle 1: stab overhead 10 linklayer ethernet tbf rate 1mbit burst 9k limit 9k",
        "iproute2, get_linklayer (tc/tc_util.c): adsl is atm",
        {"htb.overhead": "24 B atm"},
    ),
    Statement(
        "filter proto ip",
        BY_PROTOCOL.format("ip", "ipv6"),
        BY_PROTOCOL.format("ipv6", "ip"),
        "iproute2, tc_filter_modify (tc/tc_filter.c): any beginning of the word protocol is it",
        flows={"four": {"mbps": 1}, "six": {"mbps": 1, "ip": 6}},
        expected={"four": "c10", "six": "c30"},
    ),
    Statement(
        "--dscp-class BE",
        CLASSIFIED.format("BE") + "--set-class 1:10",
        CLASSIFIED.format("CS1") + "--set-class 1:10",
        "iptables, ds_classes (extensions/dscp_helper.c): BE is 0",
        flows={"a": {"mbps": 1}},
        expected={"a": "c10"},
    ),
    Statement(
        "txqueuelen",
        "ip link set dev eth0 txqueuelen 50\n" + ROOT + "pfifo",
        "ip link set dev eth0 txqueuelen 60\n" + ROOT + "pfifo",
        "tc-pfifo(8), limit: the default is the length of the interface's queue",
        {f"{QUEUE}.limit": "50 packets"},
    ),
)


def noted(words: str, text: str, how: str) -> Approximated:
    """Return a statement that Linux has and perhop does not, or not quite."""
    return Approximated(words, text, how)


_ACTIONS = (
    ("pedit", "pedit munge ip tos set 0xb8"),
    ("mirred egress redirect", "mirred egress redirect dev ifb0"),
    ("mirred egress mirror", "mirred egress mirror dev lo"),
    ("nat", "nat egress 10.0.0.0/8 192.0.2.1"),
    ("csum", "csum ip"),
    ("vlan", "vlan push id 5"),
    ("skbmod", "skbmod swap mac"),
    ("ctinfo", "ctinfo dscp 0xfc"),
    ("connmark", "connmark"),
    ("ct", "ct"),
    ("bpf", "bpf bytecode-file x"),
    ("sample", "sample rate 10 group 1"),
    ("simple", "simple sdata x"),
    ("tunnel_key", "tunnel_key unset"),
    ("mpls", "mpls pop"),
    ("xt", "xt -j MARK"),
    ("ipt", "ipt -j MARK"),
    ("ife", "ife encode"),
)

APPROXIMATED = (
    *(
        noted(words, f"{U32}action {said}", "action")
        for words, said in _ACTIONS
    ),
    noted("reclassify", f"{U32}action reclassify", "the verdict reclassify is not modelled"),
    noted("goto", f"{U32}action goto chain 1", "not modelled"),
    noted("jump", f"{U32}action jump 1", "the verdict jump is not modelled"),
    noted("pkts_rate", f"{U32}action police pkts_rate 100 pkts_burst 10 drop", "not modelled"),
    noted("fq", f"{ROOT}fq", "flow queues of FQ-CoDel"),
    *(
        noted(f"fq {word.split()[0]}", f"{ROOT}fq {word}", "not modelled")
        for word in (
            *("maxrate 1mbit", "low_rate_threshold 1mbit", "refill_delay 10ms", "orphan_mask 3"),
            *("timer_slack 1", "horizon 5s", "horizon_drop", "nopacing", "pacing", "flow_limit 9"),
        )
    ),
    noted("fq buckets quantum", f"{ROOT}fq buckets 64 quantum 3000", "flow queues of FQ-CoDel"),
    noted("pie alpha", f"{ROOT}pie alpha 3", "`alpha` is that of RFC 8033"),
    noted("pie beta", f"{ROOT}pie beta 10", "`beta` is that of RFC 8033"),
    noted("pie bytemode", f"{ROOT}pie bytemode", "not modelled"),
    noted("pie nobytemode", f"{ROOT}pie nobytemode", "not modelled"),
    noted("dq_rate_estimator", f"{ROOT}pie dq_rate_estimator", "not modelled"),
    noted("red adaptive", f"{ROOT}red limit 60000 avpkt 1000 adaptive", "stays as it begins"),
    noted("adaptative", f"{ROOT}red limit 60000 avpkt 1000 adaptative", "not modelled"),
    noted("red nodrop", f"{ROOT}red limit 60000 avpkt 1000 nodrop", "not modelled"),
    noted("red bandwidth", f"{ROOT}red limit 60000 avpkt 1000 bandwidth 1mbit", "not modelled"),
    noted("memory_limit", f"{ROOT}fq_codel memory_limit 1mb", "not modelled"),
    noted("drop_batch", f"{ROOT}fq_codel drop_batch 8", "not modelled"),
    noted("cake nat", f"{ROOT}cake nat", "connections are not looked up"),
    noted("cake fwmark", f"{ROOT}cake fwmark 0xf", "tins by firewall marks"),
    noted("cake autorate-ingress", f"{ROOT}cake autorate-ingress", "stays as it begins"),
    noted("mq", f"{ROOT}mq", "one queue instead of one for each queue"),
    noted("mqprio", f"{ROOT}mqprio num_tc 2 map 0 1 queues 1@0 1@1", "the card schedules"),
    noted("noqueue", f"{ROOT}noqueue", "a link of a scenario has a queue"),
    noted("peakrate", f"{ROOT}tbf rate 1mbit burst 9k limit 9k peakrate 2mbit mtu 2k", "`mtu`"),
    noted("direct_qlen", f"{ROOT}htb direct_qlen 100", "pass HTB unshaped"),
    noted("htb offload", f"{ROOT}htb offload", "pass HTB unshaped"),
    noted("ingress_block", f"{ROOT}ingress_block 5 prio", "shared block"),
    noted("netem delay", f"{ROOT}netem delay 9ms 2ms 25%", "correlation of `delay`"),
    noted("netem corrupt", f"{ROOT}netem corrupt 1%", "corrupted packets are lost"),
    noted("netem loss ecn", f"{ROOT}netem loss 1% ecn", "marks capable packets in place of losing"),
    noted("netem loss gemodel", f"{ROOT}netem loss gemodel 1% 10%", "not modelled"),
    noted("netem loss state", f"{ROOT}netem loss state 1%", "not modelled"),
    noted("netem reorder", f"{ROOT}netem delay 9ms reorder 5% 50%", "correlation of `reorder`"),
    noted("indev", f"{MATCH}u32 0 0 indev eth1 flowid 1:10", "interface of arrival"),
    noted("match icmp", f"{MATCH}icmp type 8 0xff flowid 1:10", "ICMP"),
    noted("match ether", f"{MATCH}ether src 02:00:00:00:00:01 ff:ff:ff:ff:ff:ff", "an Eth"),
    noted("avrate", f"{U32}action police avrate 1mbit drop", "not modelled"),
    noted("basic match", f"{HTB}{FILTER}basic match 'u32(u32 0 0 at 0)' flowid 1:10", "extended"),
    noted("qfq", f"{ROOT}qfq", "not modelled"),
    noted("cbq bounded isolated weight", CBQ + "bounded isolated weight 1mbit", "CBQ's estimator"),
    noted("cbq borrow", CBQ + "borrow", "CBQ's estimator"),
    noted("cbq ewma estimator", CBQ + "ewma 5 estimator 1s 8s", "not modelled"),
    noted("egress_block", f"{ROOT}egress_block 5 prio", "shared block"),
    noted("iifname", HTB + NFT.format("iifname eth1 meta priority set 1:10"), "what arrives"),
    noted("iif", HTB + NFT.format("iif eth1 meta priority set 1:10"), "what arrives"),
    noted("hashkey", f"{HTB}{FILTER}handle 5: u32 divisor 16\n{FILTER}u32 ht 800: match u32 0 0 "
          "hashkey mask 0xff at 12 link 5:", "all filters of its hash table"),
)  # fmt: skip

_SHELL = """
    apt apt-get break case cat declare do done echo elif else esac exec exit export expr f fi for
    function if in is kind local log logger loop printf read readonly rm select several shift
    sleep test then time type typeset until which while
"""
"""Words of shells and of scripts, and kinds of blocks."""

_COMMANDS = """
    a actions add b ch chain change chg cl class create del delete dev ethtool filt filter get
    help index ip6t ip6tables ipt6 iptables items key keys l length list lst map monitor name
    netdev netns nft of order q qd qdisc repl replace right root rule rules s show speed tc top
    ver
"""
"""Programs, objects and verbs of tc and nft with their abbreviations, and their places in words."""

_PARTS = """
    change_class change_qdisc framings has_handle latest
    another any attachments average big bit block bps burst_unit by bytes class_ class_of
    class_words classes classify command commands conditions conform cookie correlation delay_limit
    destination device diffserv direct direction dropped enabled exceed fh field filter_ filter_of
    filter_words fit_shares fragmentation gentle head hop illegal in_order interface
    interfaces is_output isolation it leaf left level linkshare malformed matches medium meet number
    next on open operator other out packet packets parse payload peak_burst peak_rate per percent
    policer policers policy ports ports_of qdisc_words queue rate_unit realtime remark rest save
    scheduler send shape share shares source space table the unclassified unknown unlimited update
    upperlimit value variation waiting word
"""
"""Names in the source, keys of policies, and parts of notes."""

_PRINTED = """
    ack_filter autorate control_action direct_packets_stat eth_type flowmode fq-codel fq-pie
    fwmark_value hash_mask hash_off ht_divisor in_hw key_ht mirred_action not_in_hw offloaded
    offmask offset prefix random range raw refcnt size to_dev
"""
"""Keys of what tc and nft print as JSON: `test_routers_linux_output` compares their states."""

_NAMES = """
    ah bridge dstnat esp gre icmp6 ifb icmpv6 igmp inet input inv ipencap ipip ipv4 ipv6-icmp mangle
    nonat ospf postrouting sctp security srcnat
"""
"""Names of protocols, families, devices, hooks and priorities."""

_UNITS = """
    day hour kmg kmgt mbytes minute ms msec msecs ns nsec nsecs sec second secs us usec usecs week
"""
"""Units of limits, which have a row each, of times, and suffixes of rates."""

_NO_EFFECT = """
    cvlan_ethtype hw_stats inheritdsfield munge no no-ack-filter no-split-gso no_percpu noatm
    nofrag none nowash off options ptype queue_mapping queues reject skip_hw skip_sw split-gso
    stolen verbose vlan_ethtype
"""
"""Words that change no packet of a scenario, switch something off that is off, or are refused."""

_NETEM = """
    distribution duplicate gap lat normal pareto paretonormal seed slot uniform
"""
"""Words of netem, which `test_routers_linux_netem` has; `test_delay_lines` compares with Linux."""

_NFT = """
    data define destroy devices dormant flags include lo named nfproto redefine rename ruleset
    statements undefine vmap
"""
"""Words of nft, which `test_routers_linux_nft_rules` has."""

_REFUSED = """
    blockid broadcast ce_threshold cgroup code determ df dst_mac eat ecn_prob experimental firstfrag
    flow horizon_cap host initial_quantum ip_flags ip_ttl l2tp mf multicast netrand otherhost
    pkts_burst plus prhk redflowlimit route rsvp rsvp6 src_mac tcindex tcp_flags vlan_id vlan_prio
"""
"""Words that the reader knows as it refuses what tc refuses beside them or in place of them:
`test_routers_linux_refused` compares with tc. Their lines are not modelled."""

_SPELLINGS = """
    no_dq_rate_estimator aggressive be ematch gact grio i mask maxpkt minburst multiqueue op restore
    tsize
"""
"""Other spellings of words that have a case (`be` is `BE`, `minburst` is the `mtu` of tc's police
and tbf, `aggressive` is `ack-filter-aggressive` in JSON, `no_dq_rate_estimator` the
default), and words beside others that a row has,
as in iproute2's sources: m_gact.c, q_gred.c (`grio`), q_qfq.c (`maxpkt`), q_prio.c (`multiqueue`),
tc_stab.c (`tsize`)."""

_NAT = "family masquerade ruleset snat"
"""Words of NAT: test_routers_translation.py."""

_ELSEWHERE = (
    "adb ash bash busybox c dash docker elsewhere env eval group ksh kubectl lxc lxc-attach nohup "
    "podman pssh rsh sh ssh sudo xargs zsh"
)
"""Commands that run others: test_routers_linux_elsewhere.py."""

OTHER_WORDS: frozenset[str] = frozenset(
    f"{_SHELL} {_COMMANDS} {_PARTS} {_PRINTED} {_NAMES} {_UNITS} {_NO_EFFECT} {_NETEM} {_NFT} "
    f"{_REFUSED} {_SPELLINGS} {_NAT} {_ELSEWHERE}".split()
)
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
