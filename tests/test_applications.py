"""Applications in the simulator: transfers, calls and video, from scenario to report."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import perhop
from conftest import SLOW
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.errors import ScenarioError
from perhop.report.applications import video_chart
from perhop.scenario import Scenario, dump, parse
from perhop.scenario.model.applications import TABLES, VIDEOS
from perhop.scenario.resolve import empty_path, mean_gap
from perhop.sweep import Sweep
from perhop.units import SECOND

RATE = 10e6
ONE_WAY = 0.02


def scenario(flow: str, duration: str = "20 s", more: str = "") -> Scenario:
    """A server and a client, 40 ms and 10 Mb/s apart."""
    return parse(f"""
perhop: 1
name: clients
nodes: {{server: host, r1: router, client: host}}
links:
  - {{ends: [server, r1], rate: 1 Gbps, delay: 1 us}}
  - {{ends: [r1, client], rate: 10 Mbps, delay: 19999 us, queue: {{limit: 1 MB}}}}
flows:
  app: {{from: server, to: client, {flow}}}
duration: {duration}
{more}
""")


def run(flow: str, duration: str = "20 s", more: str = "", seed: int = 1) -> Dataset:
    return perhop.run(scenario(flow, duration, more), seed=seed)


def measured(dataset: Dataset, metric: str, **window: Any) -> float:
    value = analysis.measure(dataset, metric, "app", **window)
    assert value is not None, metric
    return value


def test_a_transfer_on_an_empty_path_takes_its_round_trips_and_its_bytes() -> None:
    # 14.6 kB are one initial window. The headers of 40 B and the smaller packets before take time,
    # too, that the ideal does not have.
    flow = "transfers: {size: 14600 B, every: 2 s, connections: %s}, tcp: {delayed_ack: 0 s}"
    for connections, trips in (("new", 2), ("reused", 1)):
        dataset = run(flow % connections)
        bare = trips * 2 * ONE_WAY + 8 * 14600 / RATE
        headers = 8 * (10 * 40 + 240 + 40 + (trips - 1) * 2 * 52) / RATE
        took = measured(dataset, "completion_median")
        assert bare < took < bare + headers + 1e-4
        assert measured(dataset, "slowdown_median") == pytest.approx(took / bare, rel=1e-9)
        ended = analysis.exchanges(dataset, "app")
        assert ended["opened"].sum() == (10 if connections == "new" else 1)
        assert ended["bytes"].to_list() == [14600] * 10


def test_completions_count_in_the_window_in_which_they_end() -> None:
    dataset = run("rpc: {response: 100 kB, every: 1 s}")
    windows = [(float(start), start + 2.0) for start in range(0, 20, 2)]
    parts = [analysis.exchanges(dataset, "app", window).height for window in windows]
    assert sum(parts) == analysis.exchanges(dataset, "app").height == 20
    assert analysis.unfinished(dataset, "app") == 0


@pytest.mark.parametrize("sizes", ["equal", "exponential", "lognormal", "pareto"])
def test_a_load_is_a_share_of_the_bottleneck(sizes: str) -> None:
    shape = {"pareto": ", shape: 5", "lognormal": ", sigma: 0.5"}.get(sizes, "")
    flow = f"transfers: {{size: 20 kB, sizes: {sizes}{shape}, load: 40%}}, streams: 4"
    dataset = run(flow, "100 s")
    # Four standard deviations of the sum of a Poisson number of sizes (their second moment is at
    # most 2): √(2 n) / n of 2500.
    assert measured(dataset, "throughput") == pytest.approx(0.4 * RATE, rel=4 * (2 / 2500) ** 0.5)


def test_a_load_of_a_shaper_whose_share_rounds_to_nothing_is_refused_for_the_shaper() -> None:
    shaped = "rate: 1 bps, shape: {server: {rate: 10%}}"
    text = dump(scenario("rpc: {load: 50%}")).replace("rate: 1 Gbps", shaped.replace(", ", "\n  "))
    with pytest.raises(ScenarioError, match=r"shape\.server\.rate: .* less than 1 bps"):
        parse(text)


def test_published_sizes_have_the_means_of_their_papers() -> None:
    """Halfway between the lower and the upper bound that sums over the points give."""
    for name, points in TABLES.items():
        flow = scenario(f"transfers: {{sizes: {name}, load: 50%}}")
        transfers = flow.flows["app"].transfers
        assert transfers is not None
        steps = [*pairwise([(0, 0), *points])]
        low = sum((b[1] - a[1]) / 1e9 * a[0] for a, b in steps)
        high = sum((b[1] - a[1]) / 1e9 * b[0] for a, b in steps)
        assert transfers.mean_size == pytest.approx((low + high) / 2)
        gap = mean_gap(flow, flow.flows["app"])
        assert gap == pytest.approx(8 * transfers.mean_size / (0.5 * RATE) * SECOND)


def test_completion_times_are_between_those_of_two_queues() -> None:
    """M/D/1 at half load: 1.5 transmission times served in order, 2 with processor sharing.

    (Pollaczek and Khinchine; Kleinrock, Queueing Systems II, section 4.4.) TCP over an equally slow
    link without delay serves neither in order nor alike, and headers take a few percent.
    """
    text = scenario("transfers: {size: 100 kB, load: 50%}", "400 s")
    near = [link.model_copy(update={"delay": 0}) for link in text.links]
    dataset = perhop.run(text.model_copy(update={"links": tuple(near)}), seed=3)
    assert analysis.exchanges(dataset, "app").height > 2000
    assert 1.4 < measured(dataset, "slowdown_mean") < 2.3


def test_video_chooses_the_highest_bit_rate_that_the_link_carries() -> None:
    ladder = "bitrates: [1 Mbps, 3 Mbps, 8 Mbps, 20 Mbps]"
    dataset = run(f"video: {{{ladder}, segment: 4 s, buffer: 20 s}}", "120 s")
    assert measured(dataset, "stalls") == measured(dataset, "stall_time") == 0
    # The first segment of 4 s is the lowest and shows the rate of the link: 8 Mb/s are next.
    segments = dataset.completions.filter(dataset.completions["kind"] == "segment")
    rates = segments.drop_nulls("end_s")["bitrate_bps"].to_list()
    assert rates[0] == 1_000_000
    assert set(rates[2:]) == {8_000_000}
    assert measured(dataset, "bitrate") == pytest.approx(sum(rates) / len(rates))
    assert measured(dataset, "switches") == sum(a != b for a, b in pairwise(rates))
    # 500 kB in 40 ms of handshake, 40 ms for the first byte, and slow start at 10 Mb/s.
    assert 0.48 < measured(dataset, "startup") < 0.8


def test_video_stalls_if_the_link_is_slower_than_the_lowest_bit_rate() -> None:
    dataset = run("video: {bitrates: [20 Mbps, 40 Mbps], segment: 2 s, buffer: 20 s}", "100 s")
    # The link carries half of a second's video in a second, less the share of headers.
    assert measured(dataset, "stall_time") == pytest.approx(50 * (2 - 1460 / 1500), abs=3)
    assert measured(dataset, "bitrate") == 20e6
    assert measured(dataset, "switches") == 0
    within = measured(dataset, "stall_time", window=(50.0, 60.0))
    assert 3 <= within <= 7


@pytest.mark.parametrize("connections", ["multiplexed", "http1"])
def test_pages_on_an_empty_path(connections: str) -> None:
    """A page of 9 kB fits into the initial window; its pictures take a round trip."""
    objects = "{html: {size: 9 kB}, images: {count: 6, size: 1 kB, after: html}}"
    dataset = run(f"web: {{objects: {objects}, connections: {connections}, think: 1 s}}")
    # Two round trips and the page; one for pictures, another one for connections to carry them.
    trips = 3 if connections == "multiplexed" else 4
    took = measured(dataset, "page_load_median")
    assert 0 < took - (trips * 2 * ONE_WAY + 8 * 10_000 / RATE) < 0.01
    pages = dataset.completions.filter(dataset.completions["kind"] == "page").drop_nulls("end_s")
    assert set(pages["bytes"]) == {15_000}
    assert set(pages["exchanges"]) == {7}
    assert set(pages["opened"]) == {1 if connections == "multiplexed" else 6}


def test_a_page_of_the_almanac_is_the_sum_of_its_parts() -> None:
    web = scenario("web: desktop").flows["app"].web
    assert web is not None
    weight = sum(group.count * group.size for group in web.objects.values())
    assert weight == pytest.approx((18 + 78 + 613 + 1054 + 131) * 1000, rel=1e-4)
    assert web.number == 2 + 8 + 24 + 18 + 4
    dataset = run("web: desktop", "30 s", "expect: [{page_load_p95: app, at_most: 5 s}]")
    # At least the bytes at the rate of the link.
    assert 8 * weight / RATE < measured(dataset, "page_load_mean") < 8 * weight / RATE + 0.7
    assert analysis.verdicts(dataset)[0].ok
    (table,) = report.application_tables(dataset)
    assert table.title == "Page load times"
    assert analysis.summary(dataset)["flows"]["app"]["page_loads_s"]["samples"] == int(
        table.rows[0][1]
    )


def test_presets_are_published_settings() -> None:
    for name, settings in VIDEOS.items():
        video = scenario(f"video: {name}").flows["app"].video
        assert video is not None
        assert len(video.bitrates) == len(settings["bitrates"])
        assert video.effective_startup == video.segment
    own = scenario("video: {preset: netflix, algorithm: throughput}").flows["app"].video
    assert own is not None
    assert (own.algorithm, own.buffer) == ("throughput", 240 * SECOND)
    assert scenario("video: {}").flows["app"].video == scenario("video: hls").flows["app"].video


def test_a_scenario_with_applications_is_written_and_read_alike() -> None:
    for flow in (
        "transfers: {size: 10 kB, sizes: pareto, shape: 1.2, think: 1 s}",
        "rpc: {every: 10 ms, pattern: poisson, server_time: 1 ms}",
        "video: netflix",
        "video: {preset: netflix, segment: 6 s, algorithm: throughput}",
        "web: desktop",
        "web: {objects: {html: {size: 9 kB}}, connections: http1}",
    ):
        first = scenario(flow)
        assert parse(perhop.scenario.dump(first)) == first


@SLOW
def test_results_are_in_tables_and_in_json() -> None:
    more = "expect:\n  - {completion_p95: app, at_most: 1 s}\n  - {slowdown_p99: app, at_most: 5}"
    sizes = "transfers: {sizes: web-search, load: 30%}"
    dataset = run(sizes, "60 s", more)
    verdicts = analysis.verdicts(dataset)
    assert [verdict.unit for verdict in verdicts] == ["s", "ratio"]
    assert verdicts[1].text == "99th percentile of the slowdown of app is at most 5"
    found = json.loads(json.dumps(analysis.summary(dataset)))["flows"]["app"]
    assert found["completions_s"]["samples"] == sum(
        part["completions_s"]["samples"] for part in found["sizes"]
    )
    (table,) = report.application_tables(dataset)
    assert table.title == "Completion times"
    assert len(table.rows) == 1 + len(found["sizes"])
    page = report.page(dataset)
    assert "Completion times" in page


def test_video_is_in_tables_and_in_json() -> None:
    dataset = run("video: hls, streams: 2", "30 s")
    found = analysis.summary(dataset)["flows"]["app"]
    assert found["stalls"] == 0
    assert found["startup_s"] > 0
    (table,) = report.application_tables(dataset)
    assert table.rows[0][:2] == ("app", "2")


def test_the_chart_of_a_video_has_what_its_viewer_sees() -> None:
    """The link carries half of the lowest bit rate, so that each stall is a segment long."""
    dataset = run("video: {bitrates: [20 Mbps, 40 Mbps], segment: 2 s, buffer: 20 s}", "60 s")
    spec = video_chart(dataset)
    assert spec is not None
    points = [(each["t"], each["y"]) for each in spec["layer"][0]["data"]["values"]]
    assert points[0] == (0, 0)
    assert points[-1][0] == 60
    played = dict.fromkeys((0, 20), 0.0)
    for (t, rate), (until, _) in pairwise(points):
        played[rate] += until - t
    found = analysis.video(dataset, "app")
    assert found.startup is not None
    assert played[0] == pytest.approx(found.startup + found.stall_time)
    assert played[20] == pytest.approx(60 - played[0])
    # A stall begins when all that has arrived is played.
    stalls = dataset.completions.filter(kind="stall")["start_s"].to_list()
    assert len(stalls) > 10
    assert [t for t, rate in points[1:] if rate == 0] == pytest.approx(stalls)


def test_the_chart_shows_the_worst_viewer_and_no_one_who_has_left() -> None:
    shared = run("video: {bitrates: [2 Mbps], segment: 2 s, buffer: 8 s}, streams: 6", "30 s")
    spec = video_chart(shared)
    assert spec is not None
    rates = [each["y"] for each in spec["layer"][0]["data"]["values"]]
    assert {0, 2} == set(rates)
    left = video_chart(run("video: {bitrates: [2 Mbps], segment: 2 s}, stop: 9 s", "20 s"))
    assert left is not None
    assert left["layer"][0]["data"]["values"][-1]["t"] == 9
    over = video_chart(run("video: {bitrates: [2 Mbps], segment: 2 s, length: 6 s}", "20 s"))
    assert over is not None
    *_, last, end = over["layer"][0]["data"]["values"]
    assert (last["y"], end["t"]) == (0, 20)
    waiting = video_chart(run("video: {bitrates: [90 Mbps], segment: 10 s}", "5 s"))
    assert waiting is not None
    assert {each["y"] for each in waiting["layer"][0]["data"]["values"]} == {0}
    assert video_chart(run("web: {}", "2 s")) is None


def test_a_page_begins_with_what_people_notice() -> None:
    video = run("video: {bitrates: [20 Mbps], segment: 2 s, buffer: 20 s}", "60 s")
    found = analysis.video(video, "app")
    stalls = f"{found.stalls} stalls, {report.text.duration(found.stall_time)} in all"
    said = f"The video of app has {stalls}, and a mean bit rate of 20.0 Mb/s."
    assert said in report.lead(video)
    whole = report.page(video)
    assert whole.index('id="video"') < whole.index("<h2>Video</h2>") < whole.index('id="throughput')
    good = report.lead(run("video: {bitrates: [1 Mbps]}, streams: 2", "20 s"))
    assert "has 0 stalls, over 2 viewers, and a mean bit rate of 1.00 Mb/s." in good
    pages = report.lead(run("web: {}"))
    assert "The median load time of the pages of app is 1." in pages


def test_a_seed_gives_the_same_tables() -> None:
    flow = "transfers: {size: 10 kB, sizes: exponential, load: 60%}, streams: 2"
    first, again, other = (run(flow, "5 s", seed=seed) for seed in (1, 1, 2))
    assert first.completions.equals(again.completions)
    assert not first.completions.equals(other.completions)


def test_a_path_that_forks_has_no_ideal() -> None:
    text = """
perhop: 1
name: fork
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r2, b], rate: 10 Mbps, delay: 1 ms}
flows: {app: {from: a, to: b, rpc: {every: 1 s}}}
duration: 3 s
"""
    forked = parse(text)
    assert empty_path(forked, forked.flows["app"]) is None
    dataset = perhop.run(forked)
    assert analysis.measure(dataset, "slowdown_mean", "app") is None
    assert analysis.measure(dataset, "completion_mean", "app") == pytest.approx(0.01, rel=0.3)
    with pytest.raises(perhop.ScenarioError, match="the paths of the flow fork"):
        parse(text.replace("every: 1 s", "load: 1%"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("egress: {}", "egress: {r1: nothing}"), "nothing"),
        (("ends: [r1, b]", "ends: [r1, c]"), "`c`"),
        (("[a, r1]", "[r1, b]"), "cannot be reached"),
    ],
)
def test_a_load_over_a_broken_network_says_what_is_broken(
    change: tuple[str, str], said: str
) -> None:
    text = """
perhop: 1
name: broken
nodes: {a: host, r1: router, b: host}
links:
  - {ends: [a, r1], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r1, b], rate: 10 Mbps, delay: 1 ms, egress: {}}
flows: {app: {from: a, to: b, rpc: {load: 10%}}}
duration: 3 s
"""
    parse(text)
    with pytest.raises(perhop.ScenarioError, match=said):
        parse(text.replace(*change))


@SLOW
def test_many_connections_go_over_one_bottleneck() -> None:
    """Data mining at half load: small transfers beside 1 GB ones, all of them accounted for."""
    dataset = run("transfers: {sizes: data-mining, load: 50%}, streams: 3", "60 s")
    ended = analysis.exchanges(dataset, "app")
    delivered = dataset.intervals["bytes"].sum()
    assert ended["bytes"].sum() <= delivered
    assert (ended["slowdown"] > 1).all()


def test_sweeps_have_the_metrics_of_applications(tmp_path: Path) -> None:
    path = tmp_path / "clients.yaml"
    path.write_text(perhop.scenario.dump(scenario("rpc: {think: 100 ms}", "2 s")), "utf-8")
    swept = Sweep(str(path), {"flows.app.rpc.response": ["1 kB", "20 kB"]}, tmp_path / "out")
    swept.check_metric("completion_p95", "app")
    with pytest.raises(perhop.errors.UsageError):
        swept.check_metric("stalls", "app")
