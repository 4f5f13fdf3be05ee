"""Flows and pings on real sockets, between namespaces that Linux joins."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import MEASURES, REAL_HOSTS
from perhop._core import Namespaces
from perhop.engines.traffic import Traffic, gaps, job
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, parse
from test_namespaces import without_rights
from tools import need, unable

LAB: dict[str, Any] = {
    "perhop": 1,
    "name": "real",
    "nodes": {"here": "host", "between": "router", "there": "host"},
    "links": [
        {"ends": ["here", "between"], "rate": "1 Gbps"},
        {"ends": ["between", "there"], "rate": "1 Gbps"},
    ],
}


def scenario(**parts: object) -> Scenario:
    return parse(json.dumps({**LAB, **parts}), "real.yaml")


@pytest.fixture
def lab() -> Callable[[Scenario], Namespaces]:
    """Namespaces in a row, joined by veth pairs, the middle one a router."""

    need("ip")

    def build(scenario: Scenario) -> Namespaces:
        try:
            namespaces = Namespaces(3)
        except OSError as error:
            unable(error)
        here, between, there = (f"{address}" for address in scenario.addresses.values())

        def ip(host: int, *lines: str) -> None:
            code, _, errors = namespaces.run(host, ["ip", "-batch", "-"], "\n".join(lines).encode())
            assert code == 0, errors.decode()

        for host, near, far in ((0, "right", "left"), (1, "right", "left")):
            place = f"/proc/{os.getpid()}/fd/{namespaces.fd(host + 1)}"
            ip(host, f"link add {near} type veth peer name {far} netns {place}")
        for host, own, device, via in ((0, here, "right", between), (2, there, "left", between)):
            ip(
                host,
                f"address add {own}/32 dev {device}",
                f"link set {device} up",
                f"route add {via} dev {device}",
                f"route add default via {via} src {own}",
            )
        ip(
            1,
            f"address add {between}/32 dev left",
            "link set left up",
            "link set right up",
            f"route add {here} dev left",
            f"route add {there} dev right src {between}",
        )
        namespaces.write_sysctl(1, "net.ipv4.ip_forward", "1")
        namespaces.write_sysctl(1, "net.ipv4.icmp_ratelimit", "0")
        return namespaces

    return build


def clear_marks(namespaces: Namespaces) -> None:
    """Have the router clear the DSCP of what goes right."""
    need("nft")
    rules = (
        "table ip clear { chain forward { type filter hook forward priority 0; "
        'oifname "right" ip dscp set cs0; }; }'
    )
    code, _, errors = namespaces.run(1, ["nft", "-f", "-"], rules.encode())
    assert code == 0, errors.decode()


def run(scenario: Scenario, namespaces: Namespaces) -> tuple[Traffic, dict[str, pl.DataFrame]]:
    traffic = Traffic(scenario, 1, namespaces)
    traffic.start(time.monotonic_ns() + 10_000_000)
    while not traffic.finished:
        time.sleep(0.01)
    return traffic, traffic.tables()


FLOWS: dict[str, Any] = {
    "bulk": {"from": "here", "to": "there", "tcp": {"window": "64 KiB"}, "dscp": "af11"},
    "call": {"from": "here", "to": "there", "udp": {"rate": "1 Mbps", "size": "100 B"}, "dscp": 46},
}
PINGS: dict[str, Any] = {
    "echo": {"from": "here", "to": "there", "dscp": "cs1", "every": "50 ms"},
    "trace": {"from": "here", "to": "there", "protocol": "udp", "ttl": "1..4", "every": "100 ms"},
}


@MEASURES
def test_flows_and_pings_cross_a_router(lab: Callable[[Scenario], Namespaces]) -> None:
    whole = scenario(
        flows={name: {**flow, "stop": "500 ms"} for name, flow in FLOWS.items()},
        pings={name: {**ping, "stop": "400 ms"} for name, ping in PINGS.items()},
        duration="1 s",
        report={"interval": "100 ms"},
    )
    traffic, tables = run(whole, lab(whole))
    intervals = tables["intervals"]
    sums = dict(intervals.group_by("flow").agg(pl.col("bytes").sum()).iter_rows())
    # 1 Mb/s for half a second, in datagrams of 100 B.
    assert sums["call"] == 62_500
    assert sums["bulk"] == traffic.delivered()["bulk"] > 1_000_000
    call = intervals.filter(pl.col("flow") == "call")
    assert call["lost"].sum() == 0
    assert 0 < call["owd_s"].drop_nulls().median() < 0.1  # type: ignore[operator]
    bulk = intervals.filter(pl.col("flow") == "bulk")
    # Linux tells what it smooths, not what single segments measured.
    assert tables["srtts"]["samples"].sum() >= bulk["srtt_samples"].sum() > 0
    assert 0 < bulk["srtt_min_s"].min() < 0.1  # type: ignore[operator]
    assert bulk["rtt_samples"].sum() == len(tables["rtts"]) == 0
    assert bulk["rtt_s"].null_count() == len(bulk)
    assert bulk["end_s"].max() == 1.0
    counters = traffic.counters
    assert counters["window_asked bulk"] == 65_536
    assert 32_768 < counters["window_got bulk"] <= 2 * 65_536
    # What was sent is what arrived, in both directions.
    codepoints = tables["codepoints"]
    arrived = codepoints.group_by("flow", "node").agg(pl.col("dscp_arrived").unique()).sort("flow")
    assert sorted(arrived.rows()) == [
        ("bulk", "here", [10]),
        ("bulk", "there", [10]),
        ("call", "there", [46]),
    ]
    pings = tables["pings"]
    echo = pings.filter(pl.col("ping") == "echo")
    assert echo["answer"].to_list() == ["echo reply"] * 8
    assert echo["dscp_arrived"].to_list() == echo["dscp_echoed"].to_list() == [8] * 8
    trace = pings.filter(pl.col("ping") == "trace")
    first = trace.filter(pl.col("ttl") == 1)
    assert set(first["node"]) == {"between"} and set(first["answer"]) == {"time exceeded"}
    second = trace.filter(pl.col("ttl") == 2)
    assert set(second["node"]) == {"there"} and set(second["answer"]) == {"port unreachable"}
    # It is not sent beyond its destination, once that has answered.
    assert trace.filter(pl.col("ttl") > 2).height <= 2


@MEASURES
def test_marks_that_a_router_clears_are_found(lab: Callable[[Scenario], Namespaces]) -> None:
    whole = scenario(
        flows={name: {**flow, "stop": "300 ms"} for name, flow in FLOWS.items()},
        pings={"echo": {**PINGS["echo"], "stop": "300 ms"}},
        duration="600 ms",
    )
    namespaces = lab(whole)
    clear_marks(namespaces)
    traffic, tables = run(whole, namespaces)
    arrived = {
        (flow, node): dict(zip(those["dscp_arrived"], those["packets"], strict=True))
        for (flow, node), those in tables["codepoints"]
        .group_by("flow", "node", "dscp_arrived")
        .agg(pl.col("packets").sum())
        .group_by("flow", "node")
    }
    assert traffic.counters["unseen_packets"] == 0
    assert set(arrived["call", "there"]) == {0}
    assert set(arrived["bulk", "here"]) == {10}
    # How many segments a super-packet was is an estimate, by the size of a full one.
    bulk = arrived["bulk", "there"]
    assert bulk[0] > 0.95 * sum(bulk.values())
    echo = tables["pings"]
    assert set(echo["dscp_sent"]) == {8}
    assert set(echo["dscp_arrived"]) == set(echo["dscp_echoed"]) == {0}


@REAL_HOSTS
def test_who_refuses_is_named(lab: Callable[[Scenario], Namespaces]) -> None:
    whole = scenario(
        flows={"bulk": {"from": "here", "to": "there", "stop": "200 ms"}}, duration="300 ms"
    )
    namespaces = lab(whole)
    code, _, errors = namespaces.run(
        1, ["ip", "route", "replace", "prohibit", str(whole.address_of("there"))], b""
    )
    assert code == 0, errors.decode()
    with pytest.warns(RuntimeWarning, match=r"bulk: cannot connect to 10\.0\.0\.3:5001: .+"):
        _, tables = run(whole, namespaces)
    assert tables["intervals"]["bytes"].sum() == 0


@REAL_HOSTS
def test_ctrl_c_keeps_what_was_measured(lab: Callable[[Scenario], Namespaces]) -> None:
    whole = scenario(flows={"call": {**FLOWS["call"], "stop": "60 s"}}, duration="60 s")
    traffic = Traffic(whole, 1, lab(whole))
    traffic.start(time.monotonic_ns())
    while traffic.delivered()["call"] < 10_000:
        time.sleep(0.01)
    traffic.stop()
    assert traffic.finished
    assert traffic.stopped_s is not None and 0 < traffic.stopped_s < 60
    intervals = traffic.tables()["intervals"]
    assert intervals["bytes"].sum() >= 10_000
    assert math.isclose(intervals["end_s"].max(), traffic.stopped_s)  # type: ignore[arg-type]


@MEASURES
def test_a_user_without_rights_has_traffic_too() -> None:
    if not int(Path("/proc/sys/user/max_user_namespaces").read_text()):
        unable("there are no user namespaces")
    flows = {name: {**flow, "stop": "200 ms"} for name, flow in FLOWS.items()}
    whole = scenario(flows=flows, pings={"echo": PINGS["echo"]}, duration="500 ms")
    there = {"here": ["127.0.0.1"], "between": ["127.0.0.9"], "there": ["127.0.0.2"]}
    written = json.dumps(job(whole, 1, hosts={"here": 0, "there": 0}, addresses=there))
    told = without_rights(f"""
import time
from perhop._core import Traffic
Namespaces.enable()
traffic = Traffic({written!r}, Namespaces(1))
traffic.start(time.monotonic_ns())
while not traffic.finished:
    time.sleep(0.01)
print(traffic.take_warnings(), traffic.delivered()["call"], traffic.delivered()["bulk"])
names, places = traffic.tables()["pings"]["answer"]
print(*(names[place] for place in places), sep=",")
""")
    assert told.returncode == 0, told.stderr
    delivered, answers = told.stdout.splitlines()
    warnings, call, bulk = delivered.split()
    assert (warnings, call) == ("[]", "25000")
    assert int(bulk) > 100_000
    assert answers.split(",") == ["echo reply"] * 10


@pytest.mark.parametrize(
    ("flow", "place"),
    [
        ({"tcp": {"stack": "solaris-8"}}, "flows.x.tcp.stack"),
        ({"tcp": {"congestion_control": "ledbat++"}}, "flows.x.tcp.congestion_control"),
        ({"tcp": {"congestion_control": "bbr"}}, "flows.x.tcp.congestion_control"),
        ({"tcp": {"hystart": False}}, "flows.x.tcp.hystart"),
        ({"tcp": {"reno_friendly": False}}, "flows.x.tcp.reno_friendly"),
        ({"tcp": {"initial_window": "3 packets"}}, "flows.x.tcp.initial_window"),
        ({"tcp": {"limited_transmit": False}}, "flows.x.tcp.limited_transmit"),
        ({"tcp": {"loss_detection": "sack"}}, "flows.x.tcp.loss_detection"),
        ({"tcp": {"prr": False}}, "flows.x.tcp.prr"),
        ({"tcp": {"quick_acks": False}}, "flows.x.tcp.quick_acks"),
        ({"tcp": {"mss": "1460 B", "timestamps": True}}, "flows.x.tcp.mss"),
        ({"tcp": {"delayed_ack": "0 s"}}, "flows.x.tcp.delayed_ack"),
        ({"udp": {"rate": "1 Mbps", "size": "15 B"}}, "flows.x.udp.size"),
        ({"udp": {"rate": "1 Mbps", "size": "1473 B"}}, "flows.x.udp.size"),
    ],
)
def test_what_linux_cannot_do_is_named(flow: dict[str, Any], place: str) -> None:
    whole = scenario(flows={"x": {"from": "here", "to": "there", "stop": "1 s", **flow}})
    assert [gap.path for gap in gaps(whole)] == [place]
    with pytest.raises(UnsupportedError, match=place.replace(".", r"\.")):
        Traffic(whole, 1, None)


def test_no_flow_is_sent_from_a_port_at_which_another_one_arrives() -> None:
    udp = {"stop": "1 s", "udp": {"rate": "1 Mbps"}}
    ask = {"from": "here", "to": "there", "port": 53, "source_port": 123, **udp}
    answer = {"from": "there", "to": "here", "port": 123, **udp}
    whole = scenario(flows={"ask": ask, "answer": answer})
    reason = "answer arrives at port 123 of here, so that no other socket can send from it"
    assert [str(gap) for gap in gaps(whole)] == [f"flows.ask.source_port: {reason}"]
    assert gaps(scenario(flows={"ask": ask, "answer": {**answer, "port": 124}})) == []


def test_what_fits_depends_on_the_link() -> None:
    flow = {"from": "here", "to": "there", "stop": "1 s", "tcp": {"mss": "8960 B"}}
    assert [gap.path for gap in gaps(scenario(flows={"x": flow}))] == ["flows.x.tcp.mss"]
    near, far = ({**link, "mtu": "9000 B"} for link in LAB["links"])
    # Both ends agree on the size of segments.
    one = scenario(flows={"x": flow}, links=[near, LAB["links"][1]])
    assert [gap.path for gap in gaps(one)] == ["flows.x.tcp.mss"]
    assert gaps(scenario(flows={"x": flow}, links=[near, far])) == []


def test_flows_of_a_host_that_contradict_each_other() -> None:
    ends = {"from": "here", "to": "there", "stop": "1 s"}
    whole = scenario(
        flows={"a": {**ends, "tcp": {"sack": False}}, "b": ends, "c": {**ends, "tcp": {}}}
    )
    assert {gap.path for gap in gaps(whole)} == {"flows.b.tcp.sack", "flows.c.tcp.sack"}


def test_linux_tunes_a_window_up_to_what_the_model_does() -> None:
    ends = {"from": "here", "to": "there", "stop": "1 s"}
    for window, tuned in (({}, True), ({"window": "8 KiB"}, False)):
        tcp = {"stack": "linux-6", **window}
        nodes = job(scenario(flows={"x": {**ends, "tcp": tcp}}), 1)["nodes"]
        settings = [dict(node["settings"]) for node in nodes if node["settings"]]
        assert len(settings) == 2
        rmem = "4096 131072 6291456" if tuned else None
        assert {host.get("net.ipv4.tcp_rmem") for host in settings} == {rmem}


def test_what_the_defaults_ask_every_linux_does() -> None:
    ends = {"from": "here", "to": "there", "stop": "1 s"}
    for tcp in ({}, {"stack": "linux-6"}, {"window": "8 KiB"}, {"pacing": True}):
        assert gaps(scenario(flows={"x": {**ends, "tcp": tcp}})) == []
