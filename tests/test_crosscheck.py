"""Engines beside each other: how far apart they are, and how that is said."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import perhop
from conftest import Outcome
from datasets import LEVELS, scavenger
from perhop import analysis
from perhop import crosscheck as module
from perhop.analysis import TOLERANCES
from perhop.crosscheck import crosscheck
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError, UsageError
from perhop.report.comparison import comparison_tables
from perhop.scenario import parse

Perhop = Callable[..., Outcome]

ABSENT = {"call", "application", "codepoint", "ecn", "order", "queueing"}
"""The kinds that the synthetic run of transfers over TCP has nothing of."""


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return scavenger(noise=0, ramp=1)


def moved(points: float) -> Dataset:
    """The same, but that the priority flow has so many points of its phase more."""
    levels: dict[tuple[int, int], dict[str, float]]
    levels = {phase: dict(rates) for phase, rates in LEVELS.items()}
    total = sum(levels[60, 90].values())
    levels[60, 90]["priority"] += points / 100 * total
    levels[60, 90]["best_effort"] -= points / 100 * total
    return scavenger(levels, noise=0, ramp=1)


def scaled(factor: float) -> Dataset:
    levels = {p: {f: bps * factor for f, bps in rates.items()} for p, rates in LEVELS.items()}
    return scavenger(levels, noise=0, ramp=1)


def worst(kind: str, other: Dataset, whole: Dataset) -> float:
    found = analysis.agreement(analysis.compare([whole, other]))
    return max(each.difference or 0 for each in found if each.kind == kind)


def test_a_run_agrees_with_itself(whole: Dataset) -> None:
    found = analysis.agreement(analysis.compare([whole, whole]))
    assert {each.kind for each in found} == set(TOLERANCES) - ABSENT
    assert all(each.ok and each.difference == 0 for each in found)


def test_what_arrives_after_all_flows_have_stopped_is_not_judged() -> None:
    """In the templates `rrul` and `tcp-nup`, real hosts had more to send than modelled ones."""
    run = perhop.run(
        parse("""
perhop: 1
name: rest
nodes: {a: host, b: host, c: host}
links:
  - {ends: [a, b], rate: 10 Mbps, delay: 20 ms}
  - {ends: [c, b], rate: 10 Mbps, delay: 20 ms}
flows: {one: {from: a, to: b, stop: 2 s}, two: {from: c, to: b, start: 1 s, stop: 2 s}}
duration: 3 s
""")
    )
    after = pl.col("start_s") >= 2
    double = pl.when(after).then(2 * pl.col("bytes")).otherwise(pl.col("bytes")).alias("bytes")
    other = replace(run, intervals=run.intervals.with_columns(double))
    assert run.intervals.filter(after)["bytes"].sum() > 0
    found = analysis.agreement(analysis.compare([run, other]))
    assert [each.name for each in found if each.kind == "goodput"] == [
        "total, 0\N{EN DASH}1 s",
        "total, 1\N{EN DASH}2 s",
    ]
    assert all(each.ok for each in found)


@pytest.mark.parametrize("points", [4.9, 5.1])
def test_shares_are_apart_by_points(whole: Dataset, points: float) -> None:
    other = moved(points)
    assert worst("share", other, whole) == pytest.approx(points / 100, abs=1e-4)
    found = analysis.agreement(analysis.compare([whole, other]))
    assert all(each.ok for each in found) == (points < 5)
    differing = {each.name for each in found if not each.ok}
    assert not differing or differing == {
        "best_effort, 60\N{EN DASH}90 s",
        "priority, 60\N{EN DASH}90 s",
    }


@pytest.mark.parametrize("factor", [0.96, 0.94, 1.06])
def test_goodput_is_apart_by_parts_of_the_first(whole: Dataset, factor: float) -> None:
    other = scaled(factor)
    assert worst("goodput", other, whole) == pytest.approx(abs(1 - factor), abs=1e-4)
    assert worst("share", other, whole) == pytest.approx(0, abs=1e-4)
    found = analysis.agreement(analysis.compare([whole, other]), {"goodput": 0.05})
    assert all(each.ok for each in found) == (abs(1 - factor) < 0.05)


def test_of_three_runs_the_extremes_count(whole: Dataset) -> None:
    found = analysis.agreement(analysis.compare([whole, scaled(0.97), scaled(1.04)]))
    apart = {each.difference for each in found if each.kind == "goodput"}
    assert all(each == pytest.approx(0.07, abs=1e-3) for each in apart)


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.2, False)])
def test_round_trip_times_of_flows_are_the_smoothed_ones(
    whole: Dataset, factor: float, ok: bool
) -> None:
    """A real host does not say what single segments measured."""
    real = replace(
        whole,
        rtts=whole.rtts.clear(),
        srtts=whole.srtts.with_columns(pl.col("low_s", "high_s") * factor),
        intervals=whole.intervals.with_columns(
            pl.col("srtt_s", "srtt_min_s", "srtt_max_s") * factor,
            pl.lit(None, pl.Float64).alias("rtt_s"),
            pl.lit(0, pl.Int64).alias("rtt_samples"),
        ),
    )
    compared = analysis.compare([whole, real])
    found = [each for each in analysis.agreement(compared) if each.kind == "rtt"]
    flows = [each for each in found if each.name in whole.scenario.flows]
    assert len(flows) == 3
    assert all(None not in each.beside.values for each in flows)
    assert {each.ok for each in flows} == {ok}
    for quantities in compared.flows.values():
        median, absent = quantities["rtt_median"].values
        assert median is not None
        assert absent is None


def fake(monkeypatch: pytest.MonkeyPatch, **outcomes: Dataset | str) -> list[dict[str, Any]]:
    """Engines that give a dataset, or that lack something."""
    calls = []

    def run(_scenario: object, *, engine: str, **options: Any) -> Dataset:
        calls.append({"engine": engine, **options})
        outcome = outcomes[engine]
        if isinstance(outcome, str):
            raise UnsupportedError(outcome)
        return outcome

    monkeypatch.setattr(module, "run", run)
    return calls


def test_engines_that_can_run_and_the_others_are_named(
    monkeypatch: pytest.MonkeyPatch, whole: Dataset
) -> None:
    calls = fake(monkeypatch, sim=whole, emu=scaled(0.99), kernel="there is no tc")
    found = crosscheck(whole.scenario, engines=["sim", "emu", "kernel"], seed=7, out="x")
    assert list(found.runs) == ["sim", "emu"]
    assert found.lacking == {"kernel": "there is no tc"}
    assert found.compared is not None
    assert found.compared.names == ("sim", "emu")
    assert found.ok
    assert [str(call["out"]) for call in calls] == ["x/sim", "x/emu", "x/kernel"]
    assert {call["seed"] for call in calls} == {7}


def test_one_engine_compares_with_nothing(monkeypatch: pytest.MonkeyPatch, whole: Dataset) -> None:
    fake(monkeypatch, sim=whole, emu="no /dev/net/tun")
    found = crosscheck(whole.scenario, engines=["sim", "emu"])
    assert found.compared is None
    assert not found.ok


def test_an_engine_that_there_is_not_is_an_error(whole: Dataset) -> None:
    with pytest.raises(UsageError, match="not an engine"):
        crosscheck(whole.scenario, engines=["sin"])


def test_the_command_says_who_differs(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, whole: Dataset
) -> None:
    fake(monkeypatch, sim=whole, emu=moved(20), kernel="there is no tc")
    arguments = ("crosscheck", "qbss-1-70", "--engines", "sim,emu,kernel")
    code, out, _ = perhop(*arguments)
    assert code == 1
    assert "kernel cannot run it: there is no tc" in out
    rows = [line for line in out.splitlines() if line.startswith("DIFFER")]
    assert len(rows) == 2
    assert all("20.0 points" in row and "5.0 points" in row for row in rows)
    code, out, _ = perhop(*arguments, "--tolerance", "share=21", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["engines"] == ["sim", "emu"]
    assert found["ok"]
    assert {each["kind"] for each in found["deviations"]} == set(TOLERANCES) - ABSENT


def test_the_command_needs_two_engines(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, whole: Dataset
) -> None:
    fake(monkeypatch, sim=whole, emu="no /dev/net/tun")
    code, out, err = perhop("crosscheck", "qbss-1-70", "--engines", "sim,emu")
    assert code == 3
    assert "emu cannot run it: no /dev/net/tun" in out
    assert "fewer than two engines can run it" in err


@pytest.mark.parametrize("given", ["speed=3", "rtt", "rtt=x", "rtt=-1", "rtt=nan"])
def test_tolerances_are_numbers_of_a_kind(perhop: Perhop, given: str) -> None:
    code, _, err = perhop("crosscheck", "qbss-1-70", "--tolerance", given)
    assert code == 2
    assert given in err


DEPLOYED = """
perhop: 1
name: deployed
nodes: {lan: host, edge: router, isp: router, cloud: host}
links:
  - {ends: [lan, edge], rate: 1 Gbps, delay: 100 us}
  - {ends: [edge, isp], rate: 5 Mbps, delay: 8 ms, egress: {edge: uplink, isp: uplink}}
  - {ends: [isp, cloud], rate: 1 Gbps, delay: 2 ms}
policies:
  uplink:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 2 Mbps, burst: 10 kB}}
      rest: {match: any, queue: {limit: 100 ms}}
flows:
  call: {from: lan, to: cloud, udp: {rate: 500 kbps, size: 160 B}, dscp: ef, stop: 6 s}
  back: {from: cloud, to: lan, udp: {rate: 500 kbps, size: 160 B}, dscp: ef, stop: 6 s}
  web: {from: lan, to: cloud, tcp: {}, streams: 2, start: 2 s, stop: 4 s}
pings:
  voice: {from: lan, to: cloud, dscp: ef, every: 100 ms, stop: 6 s}
report: {interval: 500 ms}
"""


LAST = "rate: 1 Gbps, delay: 2 ms"
BLEACH = "[{match: {dscp: ef}, dscp: be}]"


def deployed(*changes: tuple[str, str], seed: int = 1) -> Dataset:
    """The run of a network that is not quite what was designed."""
    text = DEPLOYED
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return perhop.run(parse(text, "deployed.yaml"), seed=seed)


@pytest.fixture(scope="module")
def designed() -> Dataset:
    return deployed()


def differing(designed: Dataset, real: Dataset) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in analysis.agreement(analysis.compare([designed, real])):
        if not each.ok:
            found.setdefault(each.kind, set()).add(each.name)
    return found


def test_a_network_as_designed_agrees(designed: Dataset) -> None:
    for seed in range(2, 6):
        assert differing(designed, deployed(seed=seed)) == {}
    found = analysis.agreement(analysis.compare([designed, deployed(seed=2)]))
    assert {each.kind for each in found} == set(TOLERANCES) - {"call", "application", "ecn"}


def test_code_points_are_compared_by_flow_and_direction(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, designed: Dataset, tmp_path: Path
) -> None:
    """What a provider does: all EF arrives as best effort, in one direction, behind the queue."""
    real = deployed((LAST, f"{LAST}, remark: {{cloud: {BLEACH}}}"))
    assert differing(designed, real) == {
        "codepoint": {
            "call, ef as ef at cloud",
            "call, ef as be at cloud",
            "voice, ef as ef at cloud",
            "voice, ef as be at cloud",
        }
    }
    (tmp_path / "deployed.yaml").write_text(DEPLOYED)
    fake(monkeypatch, sim=designed, live=real)
    arguments = ("crosscheck", str(tmp_path / "deployed.yaml"), "--engines", "sim,live")
    code, out, _ = perhop(*arguments)
    assert code == 1
    [row] = [line for line in out.splitlines() if "call, ef as be at cloud" in line]
    assert row.split()[0] == "DIFFER"
    assert "100.0 points" in row
    assert "1.0 points" in row
    code, out, _ = perhop(*arguments, "--tolerance", "codepoint=100")
    assert code == 0


@pytest.mark.parametrize(("first", "other", "ok"), [(5, 6, True), (5, 7, False), (0, 1, False)])
def test_one_of_few_packets_is_no_difference_of_code_points(
    designed: Dataset, first: int, other: int, ok: bool
) -> None:
    """Of fifty packets, each is two points."""

    def remarked(count: int) -> Dataset:
        row = designed.codepoints.filter(flow="call").head(1)
        rows = [row.with_columns(packets=pl.lit(50 - count, pl.Int64))]
        if count:
            rows.append(
                row.with_columns(packets=pl.lit(count, pl.Int64), dscp_arrived=pl.lit(8, pl.Int32))
            )
        return replace(designed, codepoints=pl.concat(rows))

    found = analysis.agreement(analysis.compare([remarked(first), remarked(other)]))
    judged = [each.ok for each in found if each.kind == "codepoint" and "call, ef" in each.name]
    assert judged == [ok, ok]


def test_answers_without_their_code_point_differ(designed: Dataset) -> None:
    first = "rate: 1 Gbps, delay: 100 us"
    marks = "[{match: {dscp: ef}, dscp: af41}]"
    assert differing(designed, deployed((first, f"{first}, remark: {{lan: {marks}}}"))) == {
        "codepoint": {
            "back, ef as ef at lan",
            "back, ef as af41 at lan",
            "voice, ef as ef at lan",
            "voice, ef as af41 at lan",
        }
    }


def test_code_points_that_nobody_saw_are_unknown(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, designed: Dataset, tmp_path: Path
) -> None:
    blind = replace(designed, codepoints=designed.codepoints.clear())
    assert differing(designed, blind) == {}
    (tmp_path / "deployed.yaml").write_text(DEPLOYED)
    fake(monkeypatch, sim=designed, live=blind)
    code, out, _ = perhop("crosscheck", str(tmp_path / "deployed.yaml"), "--engines", "sim,live")
    assert code == 0
    [row] = [line for line in out.splitlines() if "call, ef as ef at cloud" in line]
    assert row.split()[0] == "unknown"


CAPABLE = (
    ("size: 160 B}, dscp: ef, stop: 6 s}\n  back", "size: 160 B, ecn: ect0}, stop: 6 s}\n  back"),
    ("tcp: {}", "tcp: {ecn: classic}"),
    ("{limit: 100 ms}", "{codel: {}}"),
    ("dscp: ef, every", "ecn: ect0, every"),
)
"""Datagrams, a ping and connections with ECN in one queue that marks."""


@pytest.fixture(scope="module")
def capable() -> Dataset:
    return deployed(*CAPABLE)


def with_fields(dataset: Dataset, field: pl.Expr) -> Dataset:
    """The same run with other ECN fields of packets on arrival."""
    rows = dataset.codepoints.with_columns(ecn_arrived=field.cast(pl.Int32))
    return replace(dataset, codepoints=rows)


def test_marks_of_other_seeds_agree(capable: Dataset) -> None:
    marked = analysis.ecn_fields(capable, "web").filter(ecn_arrived=3)
    assert marked["packets"].sum() > 10
    for seed in range(2, 6):
        other = differing(capable, deployed(*CAPABLE, seed=seed))
        assert "ecn" not in other, seed
    found = analysis.agreement(analysis.compare([capable, deployed(*CAPABLE, seed=2)]))
    names = {each.name for each in found if each.kind == "ecn"}
    assert {"call, ECT(0) as ECT(0) at cloud", "voice, ECT(0) as ECT(0) at lan"} < names
    assert {"web, ECT(0) at cloud", "web, CE at cloud", "web, Not-ECT at lan"} < names
    assert not [name for name in names if name.startswith("back")]


def test_a_hop_that_clears_ecn_differs(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, capable: Dataset, tmp_path: Path
) -> None:
    """It clears the whole octet of what it forwards to one host, as RFC 9435 describes."""
    there = pl.col("node") == "cloud"
    real = with_fields(capable, pl.when(there).then(0).otherwise("ecn_arrived"))
    assert differing(capable, real) == {
        "ecn": {
            "call, ECT(0) as ECT(0) at cloud",
            "call, ECT(0) as Not-ECT at cloud",
            "web, ECT(0) at cloud",
            "web, Not-ECT at cloud",
        }
    }
    requests = capable.pings.with_columns(
        ecn_arrived=pl.when(pl.col("ecn_arrived").is_not_null()).then(0).cast(pl.Int32)
    )
    assert differing(capable, replace(capable, pings=requests))["ecn"] >= {
        "voice, ECT(0) as Not-ECT at cloud"
    }
    whole = DEPLOYED
    for old, new in CAPABLE:
        whole = whole.replace(old, new)
    (tmp_path / "deployed.yaml").write_text(whole)
    fake(monkeypatch, sim=capable, live=real)
    arguments = ("crosscheck", str(tmp_path / "deployed.yaml"), "--engines", "sim,live")
    code, out, _ = perhop(*arguments)
    assert code == 1
    [row] = [line for line in out.splitlines() if "call, ECT(0) as Not-ECT at cloud" in line]
    assert row.split()[:2] == ["DIFFER", "ECN"]
    compared = analysis.compare([capable, real], ["one", "two"])
    [table] = [each for each in comparison_tables(compared) if "ECN" in each.title]
    assert any(row[:2] == ("web", "Not-ECT at cloud") for row in table.rows)
    assert analysis.compared(compared)["ecn"]["web"][0]["sent"] is None
    # Engines that did not see any packet say nothing.
    blind = replace(capable, codepoints=capable.codepoints.clear())
    assert "ecn" not in differing(capable, blind)


@pytest.mark.parametrize(("share", "differs"), [(0.002, False), (0.05, True)])
def test_marks_where_there_are_none_differ(designed: Dataset, share: float, differs: bool) -> None:
    """A hop that marks datagrams without ECN, which RFC 3168 forbids."""
    few = designed.codepoints.filter(flow="call").with_columns(
        packets=(pl.col("packets") * share).round().cast(pl.Int64),
        ecn_arrived=pl.lit(3, pl.Int32),
    )
    real = replace(designed, codepoints=pl.concat([designed.codepoints, few]))
    names = differing(designed, real).get("ecn", set())
    assert ("call, Not-ECT as CE at cloud" in names) is differs


@pytest.mark.parametrize(("lost", "differs"), [("0.2%", False), ("3%", True)])
def test_losses_are_compared(designed: Dataset, lost: str, differs: bool) -> None:
    found = differing(designed, deployed((LAST, f"{LAST}, loss: {lost}")))
    names = found.get("loss", set())
    assert ({"call", "back"} <= names) is differs
    assert ("call" in names) is differs
    assert set(found) <= {"loss", "share", "goodput", "rtt"}
    if not differs:
        assert not {"call", "back", "voice"} & names


def test_one_lost_ping_of_sixty_is_chance(designed: Dataset) -> None:
    """Of 60 requests one is 1.7%: three standard errors of that difference are 5 points."""
    assert designed.pings["rtt_s"].null_count() == 0

    def losing(number: int) -> Dataset:
        gone = pl.col("sequence") < number
        columns = ("rtt_s", "node", "answer", "dscp_arrived", "dscp_echoed")
        columns = (*columns, "ecn_arrived", "ecn_echoed")
        lost = designed.pings.with_columns(
            pl.when(gone).then(None).otherwise(column).alias(column) for column in columns
        )
        return replace(designed, pings=lost)

    assert differing(designed, losing(1)) == {}
    assert differing(designed, losing(30)) == {"loss": {"voice"}}


def test_order_is_compared(designed: Dataset) -> None:
    """Packets that take 5 ms longer are overtaken by one or two: one comes each 3 ms."""
    found = differing(designed, deployed((LAST, f"{LAST}, reorder: {{share: 3%, by: 8 ms}}")))
    assert found["order"] == {"call", "back"}


def test_queueing_is_compared_where_there_is_some(designed: Dataset) -> None:
    """Without the policy the call waits behind the web: up to 100 ms, while that sends."""
    plain = "egress: {isp: uplink}, queue: {limit: 100 ms}"
    found = differing(designed, deployed(("egress: {edge: uplink, isp: uplink}", plain)))
    assert found["queueing"] == {"call, 2\N{EN DASH}4 s"}


@pytest.mark.parametrize("offset", [0.25, 20.0])
def test_clocks_need_not_agree(designed: Dataset, offset: float) -> None:
    delays = ("owd_s", "owd_min_s", "owd_max_s")
    real = replace(
        designed,
        intervals=designed.intervals.with_columns(pl.col(*delays) + offset),
        delays=designed.delays.with_columns(pl.col("low_s", "high_s") + offset),
    )
    assert differing(designed, real) == {}


def test_hosts_that_stall_for_a_while_agree(designed: Dataset) -> None:
    """In two of twelve intervals packets are 60 ms late: a busy host, not a queue."""
    late = pl.col("start_s").is_in([0.5, 2.5])
    delays = ("owd_s", "owd_max_s")
    rows = designed.intervals.with_columns(
        pl.when(late).then(pl.col(delay) + 0.06).otherwise(delay).alias(delay) for delay in delays
    )
    assert differing(designed, replace(designed, intervals=rows)) == {}


def test_comparisons_show_code_points_that_differ(designed: Dataset) -> None:
    real = deployed((LAST, f"{LAST}, remark: {{cloud: {BLEACH}}}"))
    compared = analysis.compare([designed, real], ["one", "two"])
    [table] = [each for each in comparison_tables(compared) if "Code points" in each.title]
    assert ("call", "ef as be at cloud", "0%", "100%") in table.rows
    assert not any(row[0] == "back" for row in table.rows)
    same = analysis.compare([designed, designed])
    assert not [each for each in comparison_tables(same) if "Code points" in each.title]
    written = analysis.compared(compared)["codepoints"]["call"]
    assert {"node": "cloud", "sent": 46, "arrived": 0, "values": [0.0, 1.0]} in written
