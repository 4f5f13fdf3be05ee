"""Published experiments between real hosts: minutes in seconds, beside theory and simulator.

Times are shortened as `--set` would. Windows are large enough that a class always has something to
send: a machine with more to do than it can changes rates then, but not who gets them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, Literal

import pytest

from conftest import MEASURES, Outcome
from perhop import analysis, experiments, gallery, linux
from perhop.dataset import Dataset
from perhop.engines import check
from perhop.errors import UnsupportedError
from perhop.experiments import Case, Reproduction
from tools import unable

pytestmark = MEASURES

ENGINES: Final = ("emu", "kernel")

_WIDE: Final = "tcp: {congestion_control: reno, sack: false, window: 64 KiB}"
_QBSS: Final = "from: evagore, to: pharlap"

SHORT: Final = {
    "shares": Case(
        "qbss-1-70",
        (
            "flows={"
            f"scavenger: {{{_QBSS}, dscp: cs1, {_WIDE}, stop: 6 s}}, "
            f"best_effort: {{{_QBSS}, {_WIDE}, start: 1 s, stop: 6 s}}, "
            f"priority: {{{_QBSS}, dscp: af11, {_WIDE}, start: 3 s, stop: 6 s}}}}",
            "expect=[]",
            "published=[{label: priority, throughput: priority, during: 4 s..6 s, value: 7 Mbps}]",
        ),
    ),
    "streams": Case(
        "qbss-10-streams",
        (
            f"flows={{scavenger: {{{_QBSS}, dscp: cs1, {_WIDE}, stop: 4 s}}, "
            f"best_effort: {{{_QBSS}, {_WIDE}, streams: 10, start: 1 s, stop: 4 s}}}}",
            "policies.qbss.classes.priority.unused=true",
            "expect=[]",
            "published=[]",
        ),
    ),
    "pings": Case(
        "qbss-ping",
        (
            "flows.bulk.dscp=cs1",
            "flows.bulk.stop=4 s",
            "pings={same: {from: antonia, to: pharlap, dscp: cs1, every: 50 ms, start: 1 s, "
            "stop: 4 s}, other: {from: antonia, to: pharlap, dscp: af11, every: 50 ms, "
            "start: 1 s, stop: 4 s}}",
            "expect=[]",
            "published=[]",
        ),
    ),
    "turns": Case(
        "load-balancing",
        (
            "flows={udp: {from: pcgiga, to: lxusa, udp: {rate: 20971520 bps, size: 1470 B}, "
            "stop: 3 s}}",
            "duration=4 s",
            "expect=[]",
            "published=[{label: out of order, reordered: udp, value: 49.824%}]",
        ),
    ),
    "burst": Case(
        "oscars-1M",
        (
            "flows={reserved: {from: slac, to: pcgiga, port: 5011, stop: 5 s, "
            "tcp: {stack: linux-2.4, window: 196606 B}}}",
            "policies.oscars.classes.best_effort.unused=true",
            "policies.oscars.classes.reserved.police.rate=1 Mbps",
            "links.1.loss=0%",
            "changes=[]",
            "duration=5500 ms",
            "expect=[]",
            "published=[]",
        ),
    ),
}
"""Experiments that both engines can run."""

CBQ: Final = Case("altq-cbq", ("duration=6 s",))


@cache
def _able(engine: str) -> str:
    """Why an engine cannot be had on this machine; "" if it can."""
    shares = SHORT["shares"]
    try:
        check(gallery.load(shares.scenario, overrides=shares.settings), engine)
    except UnsupportedError as error:
        return str(error)
    return ""


@pytest.fixture(params=ENGINES)
def done(
    request: pytest.FixtureRequest, attempt: int, tmp_path_factory: pytest.TempPathFactory
) -> Reproduction:
    if reason := _able(request.param):
        unable(reason)
    made = (request.param, attempt)
    if made not in _MADE:
        _MADE[made] = _reproduced(request.param, tmp_path_factory.mktemp(request.param))
    return _MADE[made]


_MADE: Final[dict[tuple[str, int], Reproduction]] = {}


def _reproduced(engine: str, folder: Path) -> Reproduction:
    cases = {**SHORT, "cbq": CBQ} if engine == "emu" else SHORT
    experiment = replace(
        experiments.get("load-balancing"),
        cases=cases,
        values=(),
        tables=lambda _: (),
        pictures=lambda _: {},
    )
    (found,) = experiments.reproduce([experiment], folder, engine=engine, jobs=2)
    experiments.write([found], folder)
    return found


def mbps(run: Dataset, flow: str, start: float, end: float) -> float:
    return (analysis.throughput(run, flow, (start, end)) or 0.0) / 1e6


def test_each_run_has_the_simulators_beside_it(done: Reproduction) -> None:
    engine = done.runs["shares"].manifest.engine
    assert engine in ENGINES
    for name in SHORT:
        assert done.runs[name].manifest.engine == engine
        assert done.runs[f"{name}-sim"].manifest.engine == "sim"
        tcps = [flow.tcp for flow in done.runs[f"{name}-sim-6"].scenario.flows.values()]
        assert all(tcp is None or tcp.initial_window == 10 for tcp in tcps)
        assert done.runs[name].manifest.complete
    main = [name for name in done.runs if "-sim" not in name]
    assert [each.of for each in done.variants] == [name for name in main for _ in range(2)]
    assert [len(each.values) for each in done.variants[:2]] == [1, 1]


def test_classes_share_a_link_as_they_are_guaranteed(done: Reproduction) -> None:
    """1% to 29%, and then 1% to 70% to 29%."""
    run = done.runs["shares"]
    total = mbps(run, "best_effort", 1.5, 3) + mbps(run, "scavenger", 1.5, 3)
    assert mbps(run, "best_effort", 1.5, 3) / total == pytest.approx(29 / 30, abs=0.04)
    flows = ("scavenger", "best_effort", "priority")
    rates = [mbps(run, flow, 4, 6) for flow in flows]
    for rate, share in zip(rates, (0.01, 0.29, 0.70), strict=True):
        assert rate / sum(rates) == pytest.approx(share, abs=0.06)
    # What headers leave of 10 Mb/s.
    assert sum(rates) <= 10 * 1460 / 1538 * 1.02
    assert mbps(done.runs["shares-sim"], "priority", 4, 6) == pytest.approx(6.64, rel=0.02)


def test_a_class_gets_its_share_however_many_streams_it_has(done: Reproduction) -> None:
    run = done.runs["streams"]
    total = mbps(run, "best_effort", 1.5, 4) + mbps(run, "scavenger", 1.5, 4)
    assert mbps(run, "best_effort", 1.5, 4) / total == pytest.approx(29 / 30, abs=0.04)
    assert len(analysis.stream_rates(run, "best_effort", (1.5, 4.0))) == 10


def test_pings_wait_in_their_class_and_come_back_unmarked(done: Reproduction) -> None:
    run = done.runs["pings"]
    same, other = (analysis.rtt(run, name) for name in ("same", "other"))
    assert same is not None
    assert other is not None
    # Each waits at least for the way there and back, and the same class for its queue, too.
    assert other.min > 2 * 150e-6
    assert same.median > other.median
    # What headers and timestamps leave of 100 Mb/s, and what is in the queue.
    assert 20 < mbps(run, "bulk", 1, 4) <= 100 * 1448 / 1538 * 1.02
    arrived = run.pings.filter(run.pings["rtt_s"].is_not_null())
    assert set(arrived["dscp_arrived"]) == {0}
    assert set(arrived["dscp_echoed"]) == {0}
    assert len(arrived) > 80


def test_half_of_what_takes_turns_is_late_and_none_is_lost(done: Reproduction) -> None:
    run = done.runs["turns"]
    assert analysis.loss(run, "udp") == 0.0
    received = analysis.count(run, "udp", "packets")
    assert received == analysis.count(done.runs["turns-sim"], "udp", "packets")
    assert analysis.count(run, "udp", "reordered") / received == pytest.approx(0.5, abs=0.1)
    loads = {row["link"]: row["sent_packets"] for row in analysis.link_loads(run).to_dicts()}
    first, second = (loads[f"cernh9>ar1-chicago#circuit{number}"] for number in (1, 2))
    assert abs(first - second) <= 2


def test_a_policer_lets_a_burst_and_its_rate_pass(done: Reproduction) -> None:
    run = done.runs["burst"]
    queues = run.queues.filter(
        (run.queues["link"] == "edge>esnet") & (run.queues["class"] == "reserved")
    )
    conformed = queues["conformed_bytes"].sum()
    assert conformed <= 1e6 + 1e6 / 8 * run.covered_s * 1.02
    # The burst is used up in the second second; each segment of 1448 bytes is one of 1500.
    assert analysis.count(run, "reserved", "bytes") >= 0.9 * 1e6
    assert queues["exceeded_packets"].sum() > 0
    assert analysis.count(run, "reserved", "retransmits") > 0
    # A first window of ten segments has more of the burst gone after a second than one of three.
    first, then = (analysis.rates(run, "reserved", (at, at + 1.0), 1.0)[0] for at in (0.0, 1.0))
    modelled = done.runs["burst-sim-6"]
    assert first == pytest.approx(mbps(modelled, "reserved", 0, 1) * 1e6, rel=0.25)
    assert then > first


def test_cbq_keeps_classes_apart(done: Reproduction) -> None:
    if done.runs["shares"].manifest.engine == "kernel":
        return  # Linux has no such scheduler, as the next test says
    run, simulated = done.runs["cbq"], done.runs["cbq-sim"]
    for flow in ("slow", "fast"):
        assert mbps(run, flow, 1, 6) == pytest.approx(mbps(simulated, flow, 1, 6), rel=0.05)


def test_what_linux_cannot_express_is_refused_with_its_place(
    perhop: Callable[..., Outcome], place: Path
) -> None:
    if reason := _able("kernel"):
        unable(reason)
    # Nothing is run, though the first could be.
    done = perhop("reproduce", "qbss-1-70", "altq-cbq", "--engine", "kernel")
    assert done.code == 3
    assert "policies.edge.scheduler: " in done.err
    assert not list(place.glob("runs/reproduced/*/runs/*"))


@pytest.mark.parametrize("name", ["qbss-1-70", "qbss-10-streams", "qbss-30-1", "qbss-ping"])
@pytest.mark.parametrize("police", ["tc", "nft"])
def test_linux_expresses_the_scavenger_experiments(name: str, police: Literal["tc", "nft"]) -> None:
    assert linux.mapping(gallery.load(name), police=police).gaps == ()


def test_linux_expresses_a_reservation_of_ten_megabits_by_tc_only() -> None:
    """A megabyte is less than what comes in a second."""
    scenario = gallery.load("oscars-1M")
    assert linux.mapping(scenario).gaps == ()
    (gap,) = linux.mapping(scenario, police="nft").gaps
    assert gap.path == "policies.oscars.classes.reserved.police.burst"
    assert "1250000 B" in gap.reason
    slower = gallery.load(
        "oscars-1M", overrides=("policies.oscars.classes.reserved.police.rate=1 Mbps",)
    )
    assert linux.mapping(slower, police="nft").gaps == ()
