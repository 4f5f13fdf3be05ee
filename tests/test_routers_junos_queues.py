"""Schedulers, buffers and drop profiles of Junos, and rates of interfaces."""

import re
from pathlib import Path
from typing import Any

import pytest

import perhop
from exporting import classes, network
from junos import (
    attachment,
    notes,
    one,
    policy,
    reading,
)
from perhop import analysis
from perhop.routers.scenario import build
from perhop.routers.writing import write


@pytest.mark.parametrize(
    ("statement", "settings_"),
    [
        ("transmit-rate 30m;", {"bandwidth": "30 Mbps"}),
        ("transmit-rate percent 30;", {"bandwidth": "30%"}),
        ("transmit-rate { percent 30; exact; }", {"bandwidth": "30%", "borrow": False}),
        ("transmit-rate remainder 50;", {"bandwidth": "50%"}),
        ("transmit-rate remainder;", {}),
        ("shaping-rate 20m;", {"limit": "20 Mbps", "bandwidth": "20 Mbps"}),
        (
            "transmit-rate 1m; shaping-rate 20m burst-size 10k;",
            {"bandwidth": "1 Mbps", "shape": {"rate": "20 Mbps", "burst": "10 kB"}},
        ),
        ("priority strict-high;", {"priority": "strict"}),
        (
            "priority strict-high; transmit-rate 5m exact;",
            {"priority": "strict", "limit": "5 Mbps"},
        ),
    ],
)
def test_schedulers_say_what_a_class_gets(statement: str, settings_: dict[str, Any]) -> None:
    found = policy(one(statement))["best-effort"]
    assert {
        key: value for key, value in found.items() if key not in ("match", "queue")
    } == settings_


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        # 1 Gb/s holds 12.5 MB for 100 ms.
        ("transmit-rate percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 20;", "2500 kB"),
        ("transmit-rate percent 10; buffer-size temporal 8k;", "1 MB"),
        ("transmit-rate percent 10; buffer-size remainder;", "11875 kB"),
    ],
)
def test_buffers_become_limits(statement: str, limit: str) -> None:
    found = policy(one(statement, "transmit-rate percent 5; buffer-size percent 5;"))
    assert found["best-effort"]["queue"] == {"limit": limit}


def test_priorities_below_strict_order_borrowing() -> None:
    text = one("transmit-rate percent 10; priority low;", "transmit-rate percent 5; priority high;")
    found = policy(text)
    assert [found[name]["priority"] for name in ("best-effort", "network-control")] == [3, 0]
    assert {treatment for treatment, _ in notes(text).values()} == {"approximated"}


TURNS = """\
class-of-service {
    classifiers { dscp trust {
        forwarding-class voice { loss-priority low code-points ef; }
        forwarding-class video { loss-priority low code-points af41; }
    } }
    forwarding-classes { queue 0 data; queue 1 voice; queue 2 video; }
    interfaces {
        ge-0/0/0 { unit 0 { classifiers { dscp trust; } } }
        ge-0/0/1 { scheduler-map m; }
    }
    scheduler-maps { m {
        forwarding-class voice scheduler voice;
        forwarding-class video scheduler video;
        forwarding-class data scheduler data;
    } }
    schedulers {
        voice { priority strict-high; }
        video { transmit-rate percent VIDEO; priority HIGH; }
        data { transmit-rate percent 20; priority low; }
    }
}
interfaces { ge-0/0/1 { speed 10m; } }
"""


@pytest.mark.parametrize(
    ("video", "priority", "senders", "shares"),
    [
        # They take turns until the credit of `high` is used; only then may others send.
        (20, "high", "voice video data", {"voice": 8, "video": 2, "data": 0}),
        (40, "high", "voice video data", {"voice": 6, "video": 4, "data": 0}),
        # Turns are packet by packet, so that more credit than half of the link is not used.
        (70, "high", "voice video data", {"voice": 5, "video": 5, "data": 0}),
        (20, "medium-high", "voice video data", {"voice": 10, "video": 0, "data": 0}),
        # Without strict-high packets `high` precedes others within its credit, and borrows first.
        (40, "high", "video data", {"voice": 0, "video": 8, "data": 2}),
        # What `high` leaves of its credit is strict-high's.
        (40, "high", "voice data", {"voice": 10, "video": 0, "data": 0}),
    ],
)
def test_high_takes_turns_with_strict_high(
    video: int, priority: str, senders: str, shares: dict[str, int], tmp_path: Path
) -> None:
    """Juniper, Priority Scheduling Overview: strict-high "receives precedence over all other
    queues, except queues with high priority", with which it takes turns "until the strict-high
    queue is empty, the high priority queues are empty, or the high priority queues run out of
    bandwidth credit. Only when these conditions are met can lower priority queues send".
    """
    (tmp_path / "r.conf").write_text(TURNS.replace("VIDEO", str(video)).replace("HIGH", priority))
    dscps = {"voice": "ef", "video": "af41", "data": "be"}
    flows = "".join(
        f"  {name}: {{from: a, to: b, dscp: {dscps[name]}, "
        "udp: {rate: 11 Mbps, layer: ip, size: 1250 B}}\n"
        for name in senders.split()
    )
    text = (
        "perhop: 1\nname: turns\nnodes: {a: host, r: router, b: host}\nlinks:\n"
        "  - {ends: [a, r], rate: 1 Gbps}\n"
        "  - {ends: [r, b], rate: 10 Mbps, egress: {r: m}}\n"
        f"policies: {{m: {{from: r.conf, interface: ge-0/0/1}}}}\nflows:\n{flows}duration: 4 s\n"
    )
    run = perhop.run(perhop.parse(text, str(tmp_path / "turns.yaml")))
    counts = analysis.class_counters(run).filter(link="r>b")
    rates = {row["class"]: row["sent_bytes"] * 8 / 4e6 for row in counts.iter_rows(named=True)}
    assert {name: pytest.approx(each, abs=0.1) for name, each in shares.items()} == rates


def test_high_beside_strict_high_is_written_again() -> None:
    found = perhop.parse(
        network(
            classes(
                "v: match: {dscp: ef}, priority: strict, queue: {limit: 10 kB}",
                "h: match: {dscp: 1}, bandwidth: 30%, beside_strict: true, queue: {limit: 10 kB}",
                "m: match: {dscp: 2}, bandwidth: 30%, priority: 1, queue: {limit: 10 kB}",
                "l: match: any, bandwidth: 40%, priority: 3, queue: {limit: 10 kB}",
            )
        )
    )
    text, gaps = write(found, "junos", links=["r>s"])
    assert gaps == ()
    for name, priority in (("h", "high"), ("m", "medium-low"), ("l", "low")):
        [scheduler] = re.findall(rf"p-{name} \{{([^}}]*)\}}", text)
        assert f"priority {priority};" in scheduler
    again = reading(text).attachments[0].policy["classes"]
    assert [each.get("beside_strict", False) for each in again.values()] == [False, True] + [
        False
    ] * 2
    for family in ("ios", "vyos", "altq", "pf", "tc"):
        _, gaps = write(found, family, links=["r>s"])  # type: ignore[arg-type]
        assert any("h.beside_strict" in each.path for each in gaps), family


def test_turns_need_link_sharing_and_no_strict_class() -> None:
    strict = "a: match: {dscp: ef}, priority: strict"
    for settings, scheduler, said in (
        ("bandwidth: 10%, beside_strict: true", "wfq", "without `scheduler: link-sharing`"),
        ("priority: strict, beside_strict: true", "link-sharing", "beside `priority: strict`"),
    ):
        lines = (strict, f"b: match: {{dscp: 1}}, {settings}", "c: match: any")
        with pytest.raises(perhop.ScenarioError, match=said):
            perhop.parse(network(classes(*lines, scheduler=scheduler)))


@pytest.mark.parametrize(
    ("excess", "rates"),
    [
        # 4 and 3 Mb/s are guaranteed. By priority, `b` takes the other 3 Mb/s.
        ({}, {"a": 4, "b": 6}),
        ({"a": "high"}, {"a": 7, "b": 3}),
        ({"a": "medium-low", "b": "low"}, {"a": 7, "b": 3}),
    ],
)
def test_excess_priority_orders_what_exceeds_the_guarantees(
    excess: dict[str, str], rates: dict[str, int], tmp_path: Path
) -> None:
    more = {name: f"excess-priority {each};" for name, each in excess.items()}
    text = one(
        f"transmit-rate percent 40; priority low; {more.get('a', '')}",
        f"transmit-rate percent 30; priority medium-high; {more.get('b', '')}",
    )
    (tmp_path / "r.conf").write_text(text)
    found = build([tmp_path / "r.conf"], rate=10**7)
    run = perhop.run(found.scenario())
    sent = analysis.class_counters(run).filter(link="edge>next")
    seconds = found.scenario().duration / 1e12
    got = {
        row["class"]: row["sent_bytes"] * 8 / seconds / 1e6 for row in sent.iter_rows(named=True)
    }
    assert got == {
        "best-effort": pytest.approx(rates["a"], abs=0.4),
        "network-control": pytest.approx(rates["b"], abs=0.4),
    }


def test_guarantees_above_the_interface_shrink() -> None:
    found = policy(one("transmit-rate 900m;", "transmit-rate percent 30;"))
    assert [found[name]["bandwidth"] for name in ("network-control", "best-effort")] == [
        "25%",
        "75%",
    ]


def test_the_default_scheduler_map_is_listed() -> None:
    text = "class-of-service { interfaces { ge-0/0/0 { shaping-rate 50m; } } }\n"
    found = reading(text)
    assert found.attachments[0].shape == {"rate": "50 Mbps"}
    classes = found.attachments[0].policy["classes"]
    assert {name: each["bandwidth"] for name, each in classes.items()} == {
        "network-control": "5%",
        "best-effort": "95%",
    }
    assert classes["network-control"]["match"] == {
        "dscp": ["cs6", *range(49, 56), "cs7", *range(57, 64)]
    }
    said = {(each.setting, each.value) for each in found.defaults}
    assert ("scheduler-map", "queue 0: 95%, queue 3: 5%") in said
    assert ("speed", "1 Gbps") in said
    assert ("classifiers", "ipprec-compatibility") in said
    assert "forwarding-classes" in {setting for setting, _ in said}
    assert all(each.source for each in found.defaults)


@pytest.mark.parametrize(
    ("profile", "low", "high", "probability", "treatment"),
    [
        ("interpolate { fill-level [ 30 80 ]; drop-probability [ 0 100 ]; }", 30, 80, 100, None),
        (
            "interpolate { fill-level [ 0 25 50 100 ]; drop-probability [ 0 0 40 100 ]; }",
            *(25, 100, 100),
            "approximated",
        ),
        (
            "fill-level 40 drop-probability 5; fill-level 90 drop-probability 50;",
            *(40, 100, 50),  # the last step goes on to the full queue
            "approximated",
        ),
        ("fill-level 10 drop-probability 5;", 10, 100, 5, "approximated"),
    ],
)
def test_drop_profiles_become_random_early_detection(
    profile: str, low: int, high: int, probability: int, treatment: str | None
) -> None:
    text = one(
        "transmit-rate percent 80; drop-profile-map loss-priority any protocol any drop-profile p;",
        "transmit-rate percent 5;",
        more=f"drop-profiles {{ p {{ {profile} }} }}",
    )
    red = policy(text)["best-effort"]["queue"]["red"]
    assert (red["min"], red["max"]) == (f"{low} ms", f"{high} ms")
    assert red["probability"] == f"{probability}%"
    assert (red["gentle"], red["ecn"], red["weight"]) == (probability < 100, False, "100%")
    assert notes(text).get(6, (None,))[0] == treatment


def test_loss_priorities_become_thresholds_by_code_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 10 20 ]; drop-probability [ 0 100 ]; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    queue = policy(text)["best-effort"]["queue"]
    # 100 ms at 12 Mb/s are 100 packets of 1500 B.
    assert queue["limit"] == "100 packets"
    low, high = queue["wred"]["profiles"]
    assert (high["dscp"], high["min"], high["max"]) == ([8], "10 packets", "20 packets")
    assert (len(low["dscp"]), low["min"], low["max"]) == (63, "99 packets", "100 packets")


def test_lines_of_drop_profiles_go_on_above_their_last_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } rewrite-rules { dscp w; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 20 60 ]; drop-probability [ 0 80 ]; } } }
    rewrite-rules { dscp w {
        forwarding-class best-effort { loss-priority low code-point cs2; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    _, high = policy(text)["best-effort"]["queue"]["wred"]["profiles"]
    assert (high["min"], high["max"], high["probability"]) == ("20 packets", "70 packets", "100%")
    assert any("drop profiles see the new code point" in note for _, note in notes(text).values())


# Interfaces


@pytest.mark.parametrize(
    ("name", "statement", "rate"),
    [
        ("ge-0/0/0", "", 10**9),
        ("xe-0/0/0", "", 10**10),
        ("et-0/0/0:1", "speed 25g;", 25 * 10**9),
        ("so-0/0/0", "speed oc12;", 622_080_000),
        ("ge-0/0/0", "gigether-options { speed 100m; }", 10**8),
        ("ge-0/0/0", "unit 0 { bandwidth 622m; }", 622 * 10**6),
        ("ae0", "", None),
    ],
)
def test_interfaces_have_rates(name: str, statement: str, rate: int | None) -> None:
    text = f"interfaces {{ {name} {{ description x; {statement} }} }}\n"
    text += f"class-of-service {{ interfaces {{ {name} {{ unit 0; }} }} }}\n"
    found = attachment(text, name)
    assert found.rate == rate
    assert (found.rate_place is not None) == bool(statement)


def test_bundles_have_the_rates_of_their_links() -> None:
    text = "".join(f"set interfaces xe-0/0/{n} gigether-options 802.3ad ae0\n" for n in range(2))
    text += "set interfaces ae0 unit 0\nset class-of-service interfaces ae0 unit 0\n"
    assert attachment(text, "ae0").rate == 2 * 10**10


def test_units_with_profiles_have_policies_of_their_own() -> None:
    text = """\
set class-of-service traffic-control-profiles gold scheduler-map m shaping-rate 100m
set class-of-service traffic-control-profiles gold shaping-rate burst-size 64k
set class-of-service scheduler-maps m forwarding-class best-effort scheduler s
set class-of-service schedulers s transmit-rate percent 90
set class-of-service interfaces ge-0/0/3 unit 7 output-traffic-control-profile gold
"""
    (found,) = reading(text).attachments
    assert (found.interface, found.name) == ("ge-0/0/3.7", "m")
    assert found.shape == {"rate": "100 Mbps", "burst": "64 kB"}


@pytest.mark.parametrize("way", ["per-packet", "per-flow"])
def test_load_is_balanced_by_flow(way: str) -> None:
    text = f"""\
set policy-options policy-statement lb then load-balance {way}
set routing-options forwarding-table export lb
"""
    assert reading(text).balance == "per-flow"
    assert reading(text.split("\n")[0]).balance is None


@pytest.mark.parametrize("unit", ["percent", "proportion"])
def test_excess_rates_weigh_what_exceeds_the_guarantees(unit: str) -> None:
    text = one(f"transmit-rate percent 10; excess-rate {unit} 75;", "transmit-rate percent 5;")
    found = policy(text)
    assert {each["quantum"] for each in found.values()} == {"113550 B", "7570 B"}
    # Without guarantees, everything is shared by these weights.
    found = policy(one(f"excess-rate {unit} 75;", f"excess-rate {unit} 25;"))
    assert {each["bandwidth"] for each in found.values()} == {"75%", "25%"}
