"""`perhop diff`: two policies under the same traffic."""

import itertools
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import SLOW, Outcome
from fake_reader import CAUTION, IOS, Reader, attachment, configuration
from perhop import UsageError
from perhop.report.difference import difference_lines, difference_tables
from perhop.routers.difference import Difference, Side, as_object, compare
from perhop.routers.difference.configurations import MOST_ALONE, _turns

OLD: dict[str, Any] = {
    "classes": {
        "VOICE": {
            "match": {"dscp": ["ef", "cs5"]},
            "priority": "strict",
            "police": {"rate": "10%", "burst": "20 kB"},
        },
        "web": {"match": {"protocol": "tcp", "destination_port": 80}, "bandwidth": "40%"},
        "rest": {"match": "any"},
    }
}

CAUTIONS = [f"warning: {name}: {CAUTION}" for name in ("old.cfg", "new.cfg")]


def changed() -> dict[str, Any]:
    """A policy with less for `web`, a class more, `VOICE` renamed and without `cs5`."""
    classes = deepcopy(OLD["classes"])
    classes["web"]["bandwidth"] = "20%"
    voice = {**classes.pop("VOICE"), "match": {"dscp": "ef"}}
    scavenger = {"match": {"dscp": "cs1"}, "bandwidth": "5%"}
    return {"classes": {"class-voice": voice, "scavenger": scavenger, **classes}}


@pytest.fixture
def files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, Any], dict[str, Any]], tuple[Side, Side]]:
    """Makes two configurations with some policies."""
    reader = Reader.instead(monkeypatch)

    def make(old: dict[str, Any], new: dict[str, Any]) -> tuple[Side, Side]:
        sides = []
        for name, policy in (("old.cfg", old), ("new.cfg", new)):
            (tmp_path / name).write_text(IOS)
            at = replace(attachment("Gi0/1", policy=policy), rate=2 * 10**6)
            reader.by_name[name] = configuration(at)
            sides.append(Side(str(tmp_path / name), is_configuration=True))
        return sides[0], sides[1]

    return make


def throughput(found: Difference, load: int, flow: str) -> tuple[float, ...]:
    return tuple(
        value or 0.0 for value in found.loads[load].compared.flows[flow]["throughput"].values
    )


def test_classes_are_paired_and_saturated(files: Callable[..., tuple[Side, Side]]) -> None:
    found = compare(*files(OLD, changed()))
    assert found.names == ("old.cfg", "new.cfg")
    assert found.classes == {
        "VOICE": ("VOICE", "class-voice"),
        "web": ("web", "web"),
        "rest": ("rest", "rest"),
        "scavenger": ("rest", "scavenger"),
    }
    names = ["each class alone", "all classes that are not strict", "all classes together"]
    assert [load.name for load in found.loads] == names
    # Alone, a class gets the link, or what its policer lets pass.
    assert throughput(found, 0, "web") == pytest.approx((1.95e6, 1.95e6), rel=0.02)
    assert throughput(found, 0, "VOICE") == pytest.approx((0.2e6, 0.2e6), rel=0.05)
    # Without the strict class, classes share the link by their guarantees: 40:50, 20:5:65.
    assert "VOICE" not in found.loads[1].compared.flows
    assert throughput(found, 1, "web") == pytest.approx((0.87e6, 0.43e6), rel=0.05)
    both = [sum(throughput(found, 2, flow)[side] for flow in found.classes) for side in (0, 1)]
    assert both == pytest.approx([1.95e6, 1.95e6], rel=0.03)
    assert {(each.packets, each.old, each.new) for each in found.moved} == {
        ("DSCP cs5, tcp, port 80", "VOICE", "web"),
        ("DSCP cs5", "VOICE", "rest"),
        ("DSCP cs1, tcp, port 80", "web", "scavenger"),
    }
    written = as_object(found)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    web = written["loads"]["all classes that are not strict"]["web"]
    assert web["throughput_bps"]["change"] == pytest.approx(-0.5, abs=0.02)
    *tables, moved = difference_tables(found)
    assert [table.title.lower() for table in tables] == names
    assert [row[0] for row in tables[0].rows] == [
        "VOICE → class-voice",
        "web",
        "rest",
        "rest → scavenger",
    ]
    assert moved.rows[0][1:] == ("VOICE", "web")
    # The largest change of each class.
    assert len(difference_lines(found)) == 3 + len(CAUTIONS)
    assert "rest → scavenger gets " in difference_lines(found)[1]


def test_a_policy_does_not_differ_from_itself(files: Callable[..., tuple[Side, Side]]) -> None:
    found = compare(*files(OLD, deepcopy(OLD)))
    assert found.moved == ()
    assert difference_lines(found) == [
        "From old.cfg to new.cfg, no throughput changes by more than 1%.",
        *CAUTIONS,
    ]
    for load in found.loads:
        for quantities in load.compared.flows.values():
            assert all(each.values[0] == each.values[1] for each in quantities.values())


def test_a_class_that_no_flow_reaches_is_named(files: Callable[..., tuple[Side, Side]]) -> None:
    policy = {"classes": {"from": {"match": {"source": "fe80::/10"}}, "rest": {"match": "any"}}}
    found = compare(*files(policy, {"classes": {"rest": {"match": "any"}}}))
    *cautions, remark = found.remarks
    assert cautions == CAUTIONS
    assert remark.startswith("old.cfg: class from has no flow: ")
    assert list(found.classes) == ["rest"]


def test_a_class_of_pings_is_compared(files: Callable[..., tuple[Side, Side]]) -> None:
    policy = {"classes": {"icmp": {"match": {"protocol": "icmp"}}, "rest": {"match": "any"}}}
    found = compare(*files(policy, deepcopy(policy)))
    alone = as_object(found)["loads"]["each class alone"]
    assert alone["icmp"]["throughput_bps"] is None
    assert alone["icmp"]["delay_median_s"]["new"] > 0.002


@pytest.mark.parametrize("limit", ["64 packets", "4000 packets", "8000 packets"])
def test_identical_classes_are_identical_alone(
    files: Callable[..., tuple[Side, Side]], limit: str
) -> None:
    """Whatever waits in the queue of one class is nothing to the next one."""
    queue = {"queue": {"limit": limit}}
    codes = ("af11", "af21", "af31")
    classes = {
        **{code: {"match": {"dscp": code}, "bandwidth": "25%", **queue} for code in codes},
        "rest": {"match": "any", **queue},
    }
    found = as_object(compare(*files({"classes": classes}, {"classes": deepcopy(classes)})))
    alone = found["loads"]["each class alone"]
    assert [alone[code].pop("old_class") for code in codes] == list(codes)
    rows = [{key: alone[code][key] for key in alone[code] if key != "new_class"} for code in codes]
    assert rows[0] == rows[1] == rows[2]
    # 2 Mb/s, less headers, and what TCP loses by the first overflow of a large queue.
    assert 1.4e6 < rows[0]["throughput_bps"]["old"] < 1.95e6


def test_more_classes_than_runs_drain_between_turns() -> None:
    names = [str(number) for number in range(230)]
    runs = list(_turns(names, 10))
    assert len(runs) <= MOST_ALONE
    assert [name for turns, _ in runs for name in turns] == names
    for turns, end in runs:
        times = list(turns.values())
        assert [stop - start for start, stop in times] == [10] * len(times)
        assert [b[0] - a[1] for a, b in itertools.pairwise(times)] == [10] * (len(times) - 1)
        assert end == times[-1][1]
    assert list(_turns(["a", "b"], 10)) == [({"a": (0, 10)}, 10), ({"b": (0, 10)}, 10)]


SITE = """\
perhop: 1
name: site
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, s], rate: 2 Mbps, egress: {r: wan}}
  - {ends: [s, b], rate: 100 Mbps}
policies:
  wan: {classes: {web: {match: {destination_port: 80}, bandwidth: 30%}, rest: {match: any}}}
flows:
  web: {from: a, to: b, port: 80}
  other: {from: a, to: b}
duration: 20 s
expect:
  - {throughput: web, at_least: 100 Mbps}
"""


@SLOW
def test_scenarios_run_with_the_traffic_of_the_first(
    perhop: Callable[..., Outcome], place: Path
) -> None:
    (place / "old.yaml").write_text(SITE)
    new = SITE.replace("30%", "60%").replace("other", "another").replace("20 s", "30 s")
    (place / "new.yaml").write_text(new)
    found = perhop("diff", "old.yaml", "new.yaml", "--json", "--out", "page")
    assert (found.code, found.err) == (0, "")
    [load] = json.loads(found.out)["loads"].values()
    web = load["web"]["throughput_bps"]
    assert (web["old"], web["new"]) == pytest.approx((0.58e6, 1.17e6), rel=0.05)
    assert load["web"]["old_class"] is None
    page = (place / "page/diff.html").read_text()
    assert "The scenario&#x27;s own traffic" in page
    assert "bandwidth" in page
    shown = perhop("diff", "old.yaml", "new.yaml").out
    assert shown.startswith("With the scenario's own traffic, web gets 1.1")


def test_scenarios_that_do_not_fit_are_refused(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "old.yaml").write_text(SITE)
    text = SITE.replace("{a:", "{c:").replace("[a,", "[c,").replace("from: a", "from: c")
    (place / "new.yaml").write_text(text)
    found = perhop("diff", "old.yaml", "new.yaml")
    assert found.code == 2
    assert found.err.startswith("perhop: new.yaml does not run with the traffic of old.yaml: ")
    assert "`a` is not a node" in found.err
    found = perhop("diff", "old.yaml", "old.yaml", "--rate", "1 Mbps")
    assert found.code == 2
    assert "--rate: old.yaml is not the configuration of a router" in found.err


def test_a_configuration_takes_the_place_of_a_policy(
    files: Callable[..., tuple[Side, Side]], tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    scenario = Side(str(tmp_path / "site.yaml"))
    web = {"match": {"destination_port": 80}, "bandwidth": "60%"}
    _, new = files(OLD, {"classes": {"web": web, "rest": {"match": "any"}}})
    found = compare(scenario, new)
    assert throughput(found, 0, "web") == pytest.approx((0.58e6, 1.17e6), rel=0.05)
    # Notes and `unused` change no result.
    differences = {each.path for each in found.loads[0].compared.differences}
    assert differences == {"policies.wan.classes.web.bandwidth"}
    back = compare(new, scenario)
    assert throughput(back, 0, "web") == throughput(found, 0, "web")[::-1]
    (tmp_path / "site.yaml").write_text(
        SITE.replace(", egress: {r: wan}", "").replace("wan: {", "wan: {unused: true, ")
    )
    with pytest.raises(UsageError, match=r"site\.yaml: 0 policies are at its links; expected one"):
        compare(scenario, new)


def test_names_of_files_are_told_apart(files: Callable[..., tuple[Side, Side]]) -> None:
    same, _ = files(OLD, OLD)
    found = compare(same, same)
    assert found.names == (f"{same.file} (old)", f"{same.file} (new)")
