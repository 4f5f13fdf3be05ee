"""Metrics of `expect`: what each means, on tables with known values and on runs."""

from pathlib import Path

import pytest

import perhop
from datasets import dataset
from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.scenario import METRICS, Metric, parse
from perhop.scenario.model.metrics import RADIO, metric_hint
from perhop.search import parse_condition

SCENARIO = """
perhop: 1
name: metrics
title: Two classes on a narrow link
nodes: {a: host, b: host, r1: router, r2: router}
links:
  - {ends: [a, r1], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 5 ms, egress: {r1: wan}}
  - {ends: [r2, b], rate: 100 Mbps, delay: 1 ms}
policies:
  wan:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 3 kB}}
      data: {match: any, policy: inner}
  inner:
    classes:
      web: {match: {dscp: af21}, bandwidth: 70%, queue: {limit: 30 packets}}
      rest: {match: any, queue: {limit: 30 packets}}
flows:
  call: {from: a, to: b, dscp: ef, udp: {rate: 1500 kbps, size: 472 B, layer: ip}, stop: 10 s}
  site: {from: a, to: b, dscp: af21, streams: 3, stop: 10 s}
  bulk: {from: a, to: b, stop: 10 s}
  file: {from: a, to: b, volume: 100 kB}
  spoken: {from: a, to: b, voice: g711}
  calls: {from: a, to: b, rpc: {every: 1 s}}
  pages: {from: a, to: b, web: {objects: {html: {size: 1 kB}}, think: 1 s}}
  movie: {from: a, to: b, video: {bitrates: [10 kbps], segment: 1 s}}
pings:
  echo: {from: a, to: b, every: 50 ms}
  urgent: {from: a, to: b, dscp: ef, every: 50 ms}
duration: 10 s
"""


def run(*expectations: str) -> Dataset:
    listed = "".join(f"  - {{{each}}}\n" for each in expectations)
    return perhop.run(parse(SCENARIO + (f"expect:\n{listed}" if listed else "")))


@pytest.fixture(scope="module")
def plain() -> Dataset:
    return run()


TARGETS = {"flow": "site", "ping": "echo", "link": "r1>r2", "total": "total"}
OF_ONE = [
    metric
    for metric in METRICS.values()
    # The ping of `bufferbloat` begins before all flows: `test_responsiveness.py`. Radio channels
    # and tunnels are in `test_stations.py`.
    if metric.several[0] == 1 and metric.name not in ("bufferbloat", *RADIO)
    if metric.targets != ("tunnel",)
]


@pytest.mark.parametrize("metric", OF_ONE, ids=lambda metric: metric.name)
def test_every_metric_has_a_value(plain: Dataset, metric: Metric) -> None:
    target = TARGETS[metric.targets[0]]
    if "tcp" not in metric.kinds:
        target = "call"
    if metric.name == "completion":
        target = "file"
    if metric.kinds == ("voice",):
        target = "spoken"
    if metric.applications:
        applications = {"transfers": "calls", "web": "pages", "video": "movie"}
        target = applications[metric.applications[0]]
    value = analysis.measure(plain, metric.name, target, class_="data" if metric.needs else None)
    assert value is not None
    assert value >= 0


def test_a_policed_class(plain: Dataset) -> None:
    """1.5 Mb/s of packets of 472 B at a policer of 1 Mb/s: the rest is dropped by it alone."""

    def measure(metric: str, **more: str) -> float:
        value = analysis.measure(plain, metric, "r1>r2", (1, 10), class_="voice", **more)
        assert value is not None
        return value

    # The echoes of 84 B in this class conform: a few tokens are always left.
    assert measure("sent_rate") == pytest.approx(1e6, rel=0.01)
    echoes = 20 * 84 * 8
    assert measure("drops") == pytest.approx(9 * (1.5e6 + echoes - 1e6) / 8 / 472, rel=0.01)
    offered = 9 * (1.5e6 / 8 / 472 + 20)
    assert measure("drops", cause="policer") == measure("drops")
    assert measure("drops", cause="full queue") == 0
    assert measure("drop_share") == pytest.approx(measure("drops") / offered, rel=0.01)
    assert measure("share") == pytest.approx(0.1, abs=0.002)


def test_classes_and_nested_classes_add_up(plain: Dataset) -> None:
    """Packets of a nested class count in the outer one, and once in the link."""

    def sent(class_: str | None) -> float:
        value = analysis.measure(plain, "sent_rate", "r1>r2", class_=class_)
        assert value is not None
        return value

    assert sent("data") == pytest.approx(sent("data/web") + sent("data/rest"))
    assert sent(None) == pytest.approx(sent("voice") + sent("data"))
    assert analysis.measure(plain, "utilisation", "r1>r2") == pytest.approx(sent(None) / 10e6)


def test_backlogs_are_those_at_the_ends_of_intervals() -> None:
    rows = [
        {"link": "r1>r2", "class": name, "start_s": float(at), "end_s": at + 1.0}
        | {"backlog_bytes": amount, "backlog_packets": 1}
        for name, amounts in {"voice": [0, 100, 300], "data": [500, 500, 0]}.items()
        for at, amount in enumerate(amounts)
    ]
    found = dataset(parse(SCENARIO), queues=rows, duration_s=10.0)

    def measure(metric: str, class_: str | None, window: tuple[float, float]) -> float | None:
        return analysis.measure(found, metric, "r1>r2", window, class_=class_)

    assert measure("backlog_max", None, (0, 3)) == 600
    assert measure("backlog_mean", None, (0, 3)) == pytest.approx(1400 / 3)
    assert measure("backlog_max", "voice", (0, 2)) == 100
    assert measure("backlog_mean", "data", (1, 3)) == 250
    assert measure("backlog_max", "data", (5, 6)) is None


def test_ratios_and_fairness() -> None:
    found = run(
        "ratio: [site, bulk], at_least: 2, during: 2 s..10 s",
        "ratio: [bulk, site], at_least: 2, during: 2 s..10 s",
        "ratio: [echo, urgent], of: rtt_median, at_least: 1.5",
        "fairness: [site, bulk, call], at_least: 99%",
        "fairness: site, at_least: 0%",
    )
    one, two, three, four, five = analysis.verdicts(found)
    site, bulk = (analysis.throughput(found, name, (2, 10)) for name in ("site", "bulk"))
    assert site is not None
    assert bulk is not None
    assert (one.measured, one.unit) == (pytest.approx(site / bulk), "ratio")
    assert (one.ok, two.ok) == (site / bulk >= 2, bulk / site >= 2)
    slow, fast = (analysis.rtt(found, name) for name in ("echo", "urgent"))
    assert slow is not None
    assert fast is not None
    assert three.measured == pytest.approx(slow.median / fast.median)
    rates = [analysis.throughput(found, name) or 0.0 for name in ("site", "bulk", "call")]
    jain = sum(rates) ** 2 / (3 * sum(rate**2 for rate in rates))
    assert (four.measured, four.ok) == (pytest.approx(jain), False)
    assert five.measured == pytest.approx(analysis.fairness(analysis.stream_rates(found, "site")))
    assert three.text == "ratio of the median RTT of echo to urgent is at least 1.5"


def test_smoothed_round_trips_of_a_window() -> None:
    """Histograms are cut at the window's edges, and their parts are those of the whole run."""
    found = run("srtt_p95: site, during: 2 s..6 s, at_most: 1 s")
    parts = [(0, 2), (2, 6), (6, 10)]
    each = [analysis.flow_srtt(found, "site", window) for window in parts]
    whole = analysis.flow_srtt(found, "site")
    assert whole is not None
    assert sum(part.samples for part in each if part) == whole.samples
    assert [one.measured for one in analysis.verdicts(found)] == [each[1].p95 if each[1] else None]
    plain = run()
    assert analysis.flow_srtt(plain, "site") == whole


def test_queueing_delay_is_that_above_the_smallest() -> None:
    found = run("queueing_p95: bulk, during: 2 s..6 s, at_most: 1 s")
    whole, part = (analysis.owd(found, "bulk", window) for window in (None, (2, 6)))
    assert whole is not None
    assert part is not None
    call = analysis.owd(found, "call")
    assert call is not None
    # Propagation, and the transmission by each of three links.
    assert call.min == pytest.approx(7e-3 + 472 * 8 * (2 / 100e6 + 1 / 10e6), rel=1e-3)
    [verdict] = analysis.verdicts(found)
    assert verdict.measured == pytest.approx(part.p95 - whole.min)


def test_completion_is_that_of_the_last_stream(plain: Dataset) -> None:
    assert analysis.measure(plain, "completion", "file") == analysis.completion(plain, "file")


@pytest.mark.parametrize(
    ("metric", "target", "more", "message"),
    [
        (
            "drops",
            "r1>r3",
            {},
            "`r1>r3` is not a directed link of this run; .*did you mean `r1>r2`",
        ),
        ("drops", "r1>r2", {"class_": "void"}, "`void` is not a class of r1>r2 in this run"),
        ("ratio", "site", {}, "`ratio` is a metric of two targets"),
        ("rtt_p96", "echo", {}, "did you mean `rtt_p9"),
    ],
)
def test_unknown_names(
    plain: Dataset, metric: str, target: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        analysis.measure(plain, metric, target, **more)


def test_a_scenario_with_every_form_is_written_as_it_was_read(tmp_path: Path) -> None:
    forms = [
        "ratio: [site, bulk], of: srtt_mean, about: 0.25, within: 5%",
        "fairness: [site, bulk, call], at_least: 50%",
        "drops: r1>r2, class: data/web, cause: full queue, at_most: 3",
        "backlog_max: r1>r2, at_most: 64 KiB",
    ]
    scenario = run(*forms).scenario
    path = tmp_path / "again.yaml"
    path.write_text(perhop.dump(scenario), "utf-8")
    assert perhop.load(path).expect == scenario.expect


def test_an_unknown_metric_gets_the_nearest_ones() -> None:
    said = metric_hint("page_load")
    assert said.startswith("did you mean `page_load_min`, `page_load_mean`, `page_load_median`, ")
    assert "`page_load_max`? docs/scenario.md" in said
    assert metric_hint("thruput").startswith("did you mean `throughput`? docs/scenario.md")
    assert metric_hint("rtt_p90").count("`") == 6
    assert metric_hint("goodness").startswith("there are metrics such as `throughput`")
    assert "`ratio`" not in metric_hint("ratio", beside=["ratio"])
    for name in ("page_load", "goodness", "rtt_p90"):
        with pytest.raises(UsageError) as refused:
            parse_condition(f"{name}(web) > 1")
        with pytest.raises(AttributeError) as missing:
            getattr(perhop.metrics, name)
        for error in (refused, missing):
            assert str(error.value).endswith(metric_hint(name))
    # What the hint says of the documentation is true.
    text = (Path(__file__).parent.parent / "docs/scenario.md").read_text("utf-8")
    assert "\n## Results\n" in text
