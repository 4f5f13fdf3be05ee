"""Shapers and classes whose rates count bytes of layer 2, from scenario to result and to Linux.

`test_linux_classes` compares them with Linux, and `framing.rs` with longer packets.
"""

import json
from typing import Any

import pytest

import perhop
from perhop import linux
from perhop.engines.plan import plan
from perhop.errors import ScenarioError
from perhop.routers.reading.configuration import Source
from perhop.routers.reading.linux import read
from perhop.routers.writing import write
from perhop.scenario import Scenario, dump, parse

SIZE = 60
FRAMES = SIZE / (SIZE + 14)
"""The share of IP bytes in a frame of an Ethernet."""

TEXT = """
perhop: 1
name: framed
duration: 3 s
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 100 Mbps}}
  - {{ends: [r, b], rate: 10 Mbps, {link}}}
policies: {{{policies}}}
flows:
  small: {{from: a, to: b, dscp: ef, udp: {{rate: 8 Mbps, size: 60 B, layer: ip}}}}
  large: {{from: a, to: b, udp: {{rate: 8 Mbps, size: 1500 B, layer: ip}}}}
"""
PREFIXED = "egress: {r: p}"
SHAPED = f"{PREFIXED}, shape: {{r: {{rate: 2 Mbps, overhead: 14 B}}}}"


def scenario(link: str, policies: str = "") -> Scenario:
    return parse(TEXT.format(link=link, policies=policies), "x")


def policy(classes: str, more: str = "overhead: 14 B") -> str:
    return f"p: {{{more}, classes: {{{classes}}}}}"


def sent(made: Scenario) -> dict[str, float]:
    """Return what each flow has sent in IP bytes, in Mb/s after a second."""
    intervals = perhop.run(made).intervals
    late = intervals.filter(intervals["start_s"] >= 1).to_dicts()
    sizes = {"small": SIZE, "large": 1500}
    return {
        name: sum(row["packets"] for row in late if row["flow"] == name) * size * 8e-6 / 2
        for name, size in sizes.items()
    }


def test_the_shaper_of_a_link_counts_frames() -> None:
    made = scenario("shape: {r: {rate: 400 kbps, burst: 4 kB, overhead: 14 B}}")
    found = sent(made)
    # Both flows have as many bytes: 25 packets of 60 beside one of 1500.
    frames = (found["small"] / SIZE) * (SIZE + 14) + (found["large"] / 1500) * 1514
    assert frames == pytest.approx(0.4, rel=0.01)
    assert parse(dump(made), "x") == made


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("limit: 400 kbps", "overhead: 14 B"),
        ("bandwidth: 400 kbps, borrow: false", "overhead: 14 B"),
        ("shape: {rate: 400 kbps, burst: 4 kB}", "overhead: 14 B"),
        ("limit: 400 kbps", "scheduler: drr, overhead: 14 B"),
        ("limit: 400 kbps", "scheduler: link-sharing, overhead: 14 B"),
        ("upperlimit: {rate: 400 kbps}", "scheduler: hfsc, overhead: 14 B"),
        (
            "priority: strict, shape: {rate: 400 kbps, burst: 4 kB}",
            "scheduler: htb, htb: {overhead: 14 B}",
        ),
    ],
)
def test_ceilings_count_frames(key: str, more: str) -> None:
    rest = "match: any" + ", bandwidth: 4 Mbps" * ("htb" in more)
    found = sent(
        scenario(PREFIXED, policy(f"ef: {{match: {{dscp: ef}}, {key}}}, x: {{{rest}}}", more))
    )
    assert found["small"] == pytest.approx(0.4 * FRAMES, rel=0.01)


@pytest.mark.parametrize("scheduler", ["wfq", "drr", "link-sharing", "hfsc"])
def test_classes_share_frames(scheduler: str) -> None:
    """A link of 10 Mb/s of IP, of which both classes have as many bytes of frames."""
    classes = "ef: {match: {dscp: ef}, bandwidth: 50%}, x: {match: any, bandwidth: 50%}"
    found = sent(scenario(PREFIXED, policy(classes, f"scheduler: {scheduler}, overhead: 14 B")))
    large = 1500 / 1514
    assert found["small"] == pytest.approx(10 * FRAMES / (FRAMES + large), rel=0.005)
    assert found["large"] == pytest.approx(10 * large / (FRAMES + large), rel=0.005)


def test_classes_inside_count_what_those_around_count() -> None:
    inner = "classes: {a: {match: {dscp: ef}}, b: {match: any}}"
    outer = policy(f"all: {{match: any, {inner}}}")
    content: Any = plan(scenario(PREFIXED, outer), 1)["network"]["links"][1]["ends"][0]
    around = content["discipline"]["classes"]
    inside = around["classes"][0]["discipline"]["classes"]
    assert around["framing"] == inside["framing"] == {"overhead": 14, "mpu": 0, "coding": "none"}


@pytest.mark.parametrize("scheduler", ["htb", "altq-cbq"])
def test_some_schedulers_have_no_overhead_of_the_policy(scheduler: str) -> None:
    with pytest.raises(ScenarioError, match=r"policies\.p\.overhead: .*does not have here"):
        scenario(PREFIXED, policy("x: {match: any}", f"scheduler: {scheduler}, overhead: 14 B"))


def test_bounded_classes_of_cbq_count_frames() -> None:
    """`cbq_update` charges `qdisc_pkt_len` (net/sched/sch_cbq.c of Linux 6.1)."""
    class_ = "tc class add dev eth0 parent 1: classid"
    filter_ = "tc filter add dev eth0 parent 1: protocol"
    text = (
        "tc qdisc add dev eth0 root handle 1: cbq bandwidth 10mbit avpkt 1000\n"
        f"{class_} 1:1 cbq bandwidth 10mbit rate 400kbit allot 1514 bounded\n"
        f"{class_} 1:2 cbq bandwidth 10mbit rate 9mbit allot 1514\n"
        f"{filter_} ip prio 1 u32 match ip tos 0xb8 0xfc flowid 1:1\n"
        f"{filter_} all prio 2 u32 match u32 0 0 flowid 1:2\n"
    )
    (attachment,) = read([Source("wan.sh", text)]).attachments
    assert attachment.policy["overhead"] == "14 B"
    found = sent(scenario(PREFIXED, f"p: {json.dumps(attachment.policy)}"))
    assert found["small"] == pytest.approx(0.4 * FRAMES, rel=0.01)


CURVES = policy(
    "ef: {match: {dscp: ef}, realtime: {rate: 1 Mbps}}, x: {match: any}",
    "scheduler: hfsc, overhead: {}",
)
QUANTA = policy(
    "ef: {match: {dscp: ef}, quantum: 3 kB}, x: {match: any, quantum: 1500 B}",
    "scheduler: drr, overhead: {}",
)
SHARES = policy("ef: {match: {dscp: ef}}, x: {match: any}", "overhead: {}")


def written(link: str, policies: str) -> tuple[list[str], list[str]]:
    """Return the commands of tc, and the places of gaps."""
    made = linux.mapping(scenario(link, policies))
    return list(made.interfaces["r>b"].tc), [gap.path for gap in made.gaps]


@pytest.mark.parametrize(
    ("policies", "overhead", "table", "each"),
    [
        (CURVES, "14 B", " handle 1: hfsc", ""),
        (CURVES, "24 B atm", " handle 1: stab overhead 10 linklayer atm hfsc", ""),
        (CURVES, "none", " handle 1: stab overhead -14 hfsc", ""),
        (QUANTA, "20 B mpu 64 B", " handle 1: stab overhead 6 mpu 64 htb", ""),
        (SHARES, "14 B", " handle 1: stab overhead -14 htb", " overhead 14"),
        (SHARES, "24 B atm", " handle 1: stab overhead -14 htb", " overhead 24 linklayer atm"),
    ],
)
def test_linux_counts_the_same_bytes(policies: str, overhead: str, table: str, each: str) -> None:
    shape = f"shape: {{r: {{rate: 2 Mbps, overhead: {overhead}}}}}"
    lines, gaps = written(f"{PREFIXED}, {shape}", policies.replace("{}", overhead))
    assert gaps == []
    assert table in lines[0]
    classes = [line for line in lines if line.startswith("class")]
    if each:
        assert all(line.endswith(each) for line in classes)
    else:
        assert not any("overhead" in line for line in classes)


def test_perhop_reads_the_bytes_that_it_wrote() -> None:
    lines, _ = written(SHAPED, CURVES.replace("{}", "14 B"))
    text = "".join(f"tc {line}\n" for line in lines)
    text += "tc filter add dev r-b parent 1: protocol all matchall flowid 1:11\n"
    (attachment,) = read([Source("wan.sh", text)]).attachments
    assert attachment.policy["overhead"] == "14 B"
    assert attachment.shape == {"rate": "2 Mbps", "overhead": "14 B"}


@pytest.mark.parametrize(
    ("link", "policies", "place"),
    [
        (PREFIXED, SHARES.replace("{}", "14 B"), "policies.p.overhead"),
        (SHAPED, SHARES.replace("{}", "none"), "links.1.shape.r.overhead"),
        (SHAPED, SHARES.replace("{}", "18 B"), "links.1.shape.r.overhead"),
        ("shape: {r: {rate: 2 Mbps, overhead: 9 B ptm}}", "", "links.1.shape.r.overhead"),
        (
            SHAPED,
            policy("x: {match: any, policy: q}") + ", q: {classes: {all: {match: any}}}",
            "policies.p.classes.x.policy",
        ),
        (
            PREFIXED,
            policy(
                "x: {match: any, bandwidth: 1 Mbps, classes: "
                "{y: {match: any, bandwidth: 1 Mbps, policy: q}}}",
                "scheduler: htb, htb: {overhead: 14 B}",
            )
            + ", q: {classes: {all: {match: any}}}",
            "policies.p.classes.x.classes.y.policy",
        ),
        (
            SHAPED,
            policy("x: {match: any, shape: {rate: 400 kbps}}", "overhead: none"),
            "links.1.shape.r.overhead",
        ),
        (
            SHAPED,
            policy("x: {match: any, bandwidth: 50%, borrow: false}", "overhead: none"),
            "links.1.shape.r.overhead",
        ),
        (f"{PREFIXED}, overhead: 38 B", SHARES.replace("{}", "14 B"), "policies.p.overhead"),
        (
            f"{PREFIXED}, overhead: 38 B",
            policy("ef: {match: {dscp: ef}, limit: 1 Mbps}, x: {match: any}", "overhead: none"),
            "policies.p.overhead",
        ),
        (
            f"{PREFIXED}, overhead: 14 B, shape: {{r: {{rate: 2 Mbps}}}}",
            SHARES.replace("{}", "14 B"),
            "links.1.shape.r.overhead",
        ),
        (
            SHAPED,
            CURVES.replace("{}", "14 B").replace("any}", "any, queue: {limit: 9 kB}}"),
            "policies.p.classes.x.queue",
        ),
    ],
)
def test_linux_counts_the_same_bytes_everywhere(link: str, policies: str, place: str) -> None:
    assert place in written(link, policies)[1]


@pytest.mark.parametrize("overhead", ["38 B", "atm"])
def test_a_shaper_counts_what_it_says_whatever_the_link_adds(overhead: str) -> None:
    lines, gaps = written(f"{SHAPED}, overhead: {overhead}", SHARES.replace("{}", "14 B"))
    assert gaps == []
    assert all(line.endswith(" overhead 14") for line in lines if line.startswith("class"))
    lines, gaps = written(f"overhead: {overhead}, shape: {{r: {{rate: 2 Mbps}}}}", "")
    assert gaps == []
    assert not any("overhead" in line for line in lines if line.startswith("class"))


@pytest.mark.parametrize(
    ("link", "policies", "faster"),
    [
        # A packet of 40 B has 78 B on the link.
        ("overhead: 38 B, shape: {r: {rate: 5128205 bps}}", "", False),
        ("overhead: 38 B, shape: {r: {rate: 5128206 bps}}", "", True),
        ("overhead: 38 B, shape: {r: {rate: 9 Mbps, overhead: 38 B}}", "", False),
        # One of 1500 B takes 32 cells for its 1516 B; at 40 B two, each way.
        ("overhead: atm, shape: {r: {rate: 9 Mbps, overhead: 16 B atm}}", "", False),
        ("overhead: atm, shape: {r: {rate: 9 Mbps, overhead: 18 B}}", "", True),
        (PREFIXED, policy("x: {match: any, bandwidth: 1 Mbps}", "scheduler: htb"), False),
        (
            PREFIXED,
            policy("x: {match: any, bandwidth: 1 Mbps}", "scheduler: htb, htb: {rate: 10 Mbps}"),
            False,
        ),
        (
            PREFIXED,
            policy(
                "x: {match: any, bandwidth: 1 Mbps}", "scheduler: htb, htb: {rate: 10000001 bps}"
            ),
            True,
        ),
        (f"{PREFIXED}, overhead: 38 B", SHARES.replace("{}", "none"), False),
    ],
)
def test_linux_may_send_faster_than_the_link(link: str, policies: str, *, faster: bool) -> None:
    made = linux.mapping(scenario(link, policies))
    assert made.interfaces["r>b"].htb.faster is faster


@pytest.mark.parametrize(
    ("rate", "places"), [("2 Mbps", []), ("2001 kbps", ["links.1.shape.r.rate"])]
)
def test_linux_has_no_shaper_around_a_faster_policy(rate: str, places: list[str]) -> None:
    link = f"{PREFIXED}, shape: {{r: {{rate: 2 Mbps}}}}"
    htb = policy("x: {match: any, bandwidth: 1 Mbps}", f"scheduler: htb, htb: {{rate: {rate}}}")
    assert written(link, htb)[1] == places


def test_the_overhead_of_the_link_may_be_that_of_its_classes() -> None:
    link = f"{PREFIXED}, overhead: 18 B"
    assert written(link, SHARES.replace("{}", "18 B"))[1] == []
    assert written(link, CURVES.replace("{}", "18 B"))[1] == []


def test_other_families_count_ip_packets() -> None:
    made = scenario(SHAPED, SHARES.replace("{}", "14 B"))
    _, gaps = write(made, "junos")
    places = [gap.path for gap in gaps]
    assert {"policies.p.overhead", "links.1.shape.r.overhead"} <= {*places}
    text, gaps = write(made, "junos", approximate=True)
    assert "policies.p.overhead: perhop writes rates of IP packets; approximated" in text
    assert not {"policies.p.overhead", "links.1.shape.r.overhead"} & {gap.path for gap in gaps}
