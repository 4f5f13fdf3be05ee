"""Warnings: what makes results mean less than they seem to, in every form of a result."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perhop
from conftest import SLOW
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.scenario import Scenario, parse
from perhop.scenario.rules.warnings import is_random, warnings

BASE = """\
perhop: 1
name: warned
nodes: {{a: host, b: host, r: router{nodes}}}
links:
  - {{ends: [a, r], rate: 100 Mbps, delay: 1 ms}}
  - {{ends: [r, b], rate: 10 Mbps, delay: 5 ms{link}}}
{policies}flows:
  f: {{from: a, to: b, {flow}}}
duration: 4 s
{more}"""

TCP = "tcp: {}"


def scenario(
    flow: str = TCP, *, nodes: str = "", link: str = "", policies: str = "", more: str = ""
) -> Scenario:
    """A flow over two links, with something of one's own."""
    text = BASE.format(flow=flow, nodes=nodes, link=link, policies=policies, more=more)
    return parse(text, "x")


def found(given: Scenario) -> dict[str, str]:
    """The warnings by their places."""
    return {".".join(map(str, each.loc)): each.message for each in warnings(given)}


POLICED = """\
policies:
  p:
    classes:
      x: {{match: {match}, police: {{rate: 5 Mbps, burst: {burst}}}}}
      y: {{match: any}}
"""


def policed(burst: str, match: str = "{dscp: be}") -> dict[str, Any]:
    """Arguments of `scenario` for a policer in front of the slow link."""
    return {"link": ", egress: {r: p}", "policies": POLICED.format(burst=burst, match=match)}


PARETO = (
    "udp: {{rate: 1 Mbps, size: 10 B, "
    "bursts: {{on: {mean}, off: {mean}, lengths: pareto, shape: {shape}}}}}"
)

CBQ = """\
policies:
  p: {scheduler: altq-cbq, cbq: {rate: 8 Mbps}, classes: {x: {match: any, bandwidth: 8 Mbps}}}
"""


CURVES = """\
policies:
  p:
    scheduler: hfsc
    classes: {x: {match: any, realtime: {umax: 1500 B, dmax: 1 ms, rate: 1 Mbps}}}
"""
"""Some 12 Mb/s in the first millisecond, and 1 Mb/s later."""


@pytest.mark.parametrize(
    ("given", "path", "part"),
    [
        ({"nodes": ", lonely: host"}, "nodes.lonely", "no link"),
        (policed("1 kB"), "policies.p.classes.x.police.burst", "1500 B"),
        (
            {"flow": PARETO.format(mean="10 ms", shape=1.2)},
            "flows.f.udp.bursts",
            "uncertain by about 41%",
        ),
        ({"link": ", mtu: 1400 B"}, "flows.f.tcp", "1400 B: TCP sends shorter ones, as both"),
        ({"link": ", mtu: 1400 B", "flow": "udp: {rate: 1 Mbps}"}, "flows.f.udp", "fragments"),
        (
            {"flow": "udp: {replay: {packets: 9 s 100 B}}"},
            "flows.f.udp.replay",
            "sends nothing",
        ),
        (
            {
                "link": ", egress: {r: p}",
                "policies": CBQ,
                "more": "changes: [{at: 1 s, on: r>b, rate: 6 Mbps}]\n",
            },
            "changes.0",
            "8 Mbps",
        ),
        (
            {"link": ", egress: {r: p}", "policies": CURVES},
            "policies.p.classes",
            "demand 12 Mbps of link `r>b`, which has 10 Mbps",
        ),
    ],
)
def test_each_kind_is_found_at_its_place(given: dict[str, str], path: str, part: str) -> None:
    said = found(scenario(**given))
    assert list(said) == [path]
    assert part in said[path]


@pytest.mark.parametrize(
    "given",
    [
        {},
        policed("1500 B"),
        {"flow": PARETO.format(mean="1 ms", shape=1.9)},
        {"link": ", mtu: 1500 B"},
        {"link": ", mtu: 1400 B", "flow": "tcp: {mss: 1360 B}"},
        {"flow": "udp: {replay: {packets: 3 s 100 B}}"},
    ],
)
def test_nothing_is_said_of_what_is_well(given: dict[str, str]) -> None:
    assert found(scenario(**given)) == {}


RANDOM = [
    {"link": ", loss: 1%"},
    {"link": ", jitter: 1 ms"},
    {"link": ", queue: {red: {}}"},
    {"link": ", queue: {pie: {}}"},
    {"flow": "udp: {rate: 1 Mbps, pattern: poisson}"},
    {"flow": "udp: {rate: 1 Mbps, sizes: exponential}"},
    {"flow": "udp: {rate: 1 Mbps, bursts: {on: 50 ms, off: 50 ms}}"},
    {"more": "changes: [{at: 1 s, on: r>b, loss: 1%}]\n"},
]
DETERMINED = [
    {},
    {"link": ", queue: {codel: {}}"},
    {"link": ", queue: {dualpi2: {}}"},
    {"flow": "udp: {rate: 1 Mbps, bursts: {on: 50 ms, off: 50 ms, lengths: equal}}"},
]


@pytest.mark.parametrize("given", [*RANDOM, *DETERMINED])
def test_a_seed_matters_where_something_is_random(given: dict[str, str]) -> None:
    built = scenario(**given)
    one, two = perhop.run(built, seed=1), perhop.run(built, seed=2)
    differs = not one.intervals.equals(two.intervals) or not one.queues.equals(two.queues)
    assert is_random(built) == differs == (given in RANDOM)
    said = [warned.message for warned in two.warnings if not warned.path]
    assert said == (
        [] if differs else ["seed 2 changes nothing: nothing in the scenario is random"]
    )
    assert not [warned for warned in one.warnings if not warned.path]


def command(*arguments: str) -> str:
    """Return the output of perhop."""
    words = [str(Path(sys.executable).with_name("perhop")), *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@SLOW
def test_warnings_are_part_of_every_form_of_a_result(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(BASE.format(flow=TCP, nodes=", lonely: host", link="", policies="", more=""))
    out = tmp_path / "run"
    message = "has no link, so that nothing reaches it"
    said = command("run", str(file), "--out", str(out))
    assert f"warning: nodes.lonely: {message}" in said
    dataset = Dataset.read(out)
    assert [(each.path, each.message) for each in dataset.warnings] == [("nodes.lonely", message)]
    expected = [{"path": "nodes.lonely", "message": message}]
    assert analysis.summary(dataset)["warnings"] == expected
    assert message in report.page(dataset)
    as_json = command("run", str(file), "--out", str(out), "--json")
    assert json.loads(as_json)["warnings"] == expected


@pytest.mark.parametrize("mtu", [576, 1400])
def test_segments_fit_the_mtu_of_their_path(mtu: int) -> None:
    """A link with a small MTU is no black hole: RFC 1191, as real hosts do."""
    dataset = perhop.run(scenario(link=f", mtu: {mtu} B"))
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate is not None
    payload = (mtu - 40 - 12) / mtu if scenario().flows["f"].tcp.timestamps else (mtu - 40) / mtu
    assert rate == pytest.approx(10e6 * payload, rel=0.02)


def test_what_is_still_under_way_is_not_lost() -> None:
    text = """\
perhop: 1
name: late
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, delay: 100 ms}]
pings: {p: {from: a, to: b, every: 50 ms}}
duration: 1 s
"""
    ping = analysis.summary(perhop.run(parse(text, "x")))["pings"]["p"]
    assert (ping["sent"], ping["received"], ping["under_way"], ping["loss"]) == (20, 16, 4, 0)
    lossy = text.replace("delay: 100 ms", "delay: 100 ms, loss: 20%").replace("1 s", "100 s")
    ping = analysis.summary(perhop.run(parse(lossy, "x")))["pings"]["p"]
    assert ping["under_way"] <= 5
    assert ping["loss"] == pytest.approx(1 - 0.8**2, abs=0.03)
