"""Findings of random scenarios: each as the smallest scenario that shows it."""

import os
from pathlib import Path

import polars as pl
import pytest

import perhop
from perhop import linux
from perhop.dataset import TABLES, Dataset
from perhop.errors import OutputError, ScenarioError, UnsupportedError
from perhop.scenario import Scenario, dump, parse
from perhop.sweep import Sweep


def scenario(link: str = "rate: 10 Mbps", flow: str = "tcp: {}", more: str = "") -> Scenario:
    return parse(f"""
perhop: 1
name: found
nodes: {{a: host, b: host}}
links: [{{ends: [a, b], {link}}}]
flows: {{f: {{from: a, to: b, {flow}}}}}
{more or "duration: 2 s"}
""")


def test_a_sender_that_was_held_up_stops_when_it_is_to() -> None:
    """Its next datagram was long due: a timer in the past turned the clock back."""
    dataset = perhop.run(scenario(flow="udp: {rate: 100 Mbps}, stop: 1 s"))
    late = dataset.links.filter(pl.col("link") == "a>b", pl.col("start_s") >= 1)["sent_packets"]
    # What its socket holds: 212,992 B of memory, of which a datagram takes 2,304 at least.
    assert late.sum() <= 212_992 // 2_304 + 1
    assert dataset.intervals["owd_max_s"].max() < 0.5  # type: ignore[operator]


def test_who_captures_changes_nothing_where_a_host_keeps_its_queue_short(tmp_path: Path) -> None:
    """Waiting packets are charged from the first one on, or else from the limit on."""
    found = scenario("rate: 4389914 bps", "tcp: {}, start: 335 ms", "duration: 1 s")
    plain = perhop.run(found)
    watched = perhop.run(found, captures={"a": tmp_path / "a.pcapng"})
    for name in TABLES:
        assert getattr(plain, name).equals(getattr(watched, name)), name


def test_a_grid_that_ends_next_to_the_end_makes_no_stretch_of_no_length() -> None:
    more = "duration: 1000000 s\nreport: {interval: 43478.260869565216 s}"
    found = scenario(flow="udp: {rate: 1 bps}", more=more)
    assert 43478260869565216 * 23 == 10**18 - 32
    assert found.marks_ps[-2:] == [43478260869565216 * 22, 10**18]
    assert perhop.run(found).intervals.height == 23


def test_a_paced_sender_behind_a_full_queue_waits_without_a_timer() -> None:
    """Its time to send came while its host's queue was full, again and again: the run stood."""
    found = parse("""
perhop: 1
name: found
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 300 Mbps, delay: 2 ms, egress: {b: f}}]
policies: {f: {classes: {all: {match: any}}}}
flows:
  c: {from: b, to: a, tcp: {}}
  e: {from: b, to: a, tcp: {congestion_control: bbr1}}
duration: 200 ms
""")
    sent = perhop.run(found).links.filter(pl.col("link") == "b>a")["sent_bytes"].sum()
    assert 0.5 < sent / (300e6 / 8 * 0.2) <= 1


def test_instants_that_results_cannot_tell_apart_are_refused() -> None:
    changes = "changes: [{at: T, on: a>b, loss: 1%}, {at: T, on: a>b, loss: 2%}]\nduration: 4000 h"
    changes = changes.replace("T", "10000000 s", 1).replace("T", "10000000.000000000001 s")
    said = r"changes.1.at: 10000000.000000000001 s cannot be told from changes.0.at, 10000000 s"
    with pytest.raises(ScenarioError, match=said):
        scenario(more=changes)


@pytest.mark.parametrize("key", ["window", "send_window", "receive_window"])
def test_windows_are_no_larger_than_tcp_can_say(key: str) -> None:
    assert scenario(flow=f"tcp: {{{key}: 1073725440 B}}").flows["f"].tcp is not None
    with pytest.raises(ScenarioError, match=f"tcp.{key}: `1 GiB` is more than 1073725440 B"):
        scenario(flow=f"tcp: {{{key}: 1 GiB}}")


def test_policies_divide_no_more_than_schedulers_can() -> None:
    policy = "policies: {p: {classes: {all: {match: any}}}}\nduration: 1 ms"
    perhop.run(scenario("rate: 281474 Gbps, egress: {a: p}", "volume: 1 kB", policy))
    said = r"links.0.egress.a: `p` divides the 281475 Gbps .*; expected at most 281474.976710656 Gb"
    with pytest.raises(ScenarioError, match=said):
        scenario("rate: 281475 Gbps, egress: {a: p}", "volume: 1 kB", policy)


def test_a_policer_that_changes_in_what_linux_lacks_is_a_gap_like_the_rest() -> None:
    found = parse("""
perhop: 1
name: found
nodes: {a: host, r: router, b: host}
links: [{ends: [a, r], rate: 10 Mbps}, {ends: [r, b], rate: 1 Mbps, egress: {r: p}}]
policies:
  p:
    scheduler: altq-cbq
    classes: {all: {match: any, police: {rate: 10%, burst: 10 kB}}}
flows: {f: {from: a, to: b}}
changes: [{at: 1 s, on: r>b, class: all, police: {rate: 5%}}]
duration: 2 s
""")
    mapped = linux.mapping(found, police="nft")
    with pytest.raises(UnsupportedError, match="class-based queueing is not its HTB"):
        linux.refuse(mapped.gaps, found.name)


# Simulation


def test_a_packet_that_comes_with_the_last_reported_departure_follows_it() -> None:
    """It was queued behind packets that came later, which could arrive in the past."""
    found = parse("""
perhop: 1
name: found
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps, delay: 25 ms}
  - {ends: [r, b], rate: 10 Mbps, delay: 25 ms, egress: {r: p}}
policies: {p: {classes: {all: {match: any, police: {rate: 1 Mbps, burst: 8 kB}}}}}
flows: {f: {from: a, to: b, tcp: {stack: linux-6}}}
duration: 5 s
""")
    intervals = perhop.run(found).intervals
    assert intervals["bytes"].sum() > 200_000
    assert intervals["reordered"].sum() == 0


# Files


def test_a_table_that_is_a_pipe_or_has_no_end_is_refused(tmp_path: Path) -> None:
    perhop.run(scenario(flow="volume: 1 kB"), out=tmp_path / "run")
    table = tmp_path / "run" / "pings.parquet"
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
        table.unlink()
        make(table)
        with pytest.raises(OutputError, match=r"is damaged: pings\.parquet is not a file"):
            Dataset.read(tmp_path / "run")
        if table.is_dir():
            table.rmdir()


def test_a_sweep_whose_definition_is_not_text_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "found.yaml").write_text(dump(scenario(flow="volume: 1 kB")))
    (tmp_path / "swept").mkdir()
    (tmp_path / "swept" / "sweep.json").write_bytes(b"\xff")
    vary = {"links.0.rate": ["1 Mbps"]}
    kept = Sweep(source=str(tmp_path / "found.yaml"), vary=vary, folder=tmp_path / "swept")
    assert not kept.fits()
    with pytest.raises(OutputError, match="holds another sweep"):
        kept.run()


def test_a_sweep_whose_points_are_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "found.yaml").write_text(dump(scenario(flow="volume: 1 kB")))
    vary = {"links.0.rate": ["1 Mbps"]}
    kept = Sweep(source=str(tmp_path / "found.yaml"), vary=vary, folder=tmp_path / "swept")
    kept._claim()
    (tmp_path / "swept" / "points").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*points: File exists"):
        kept.run()


@pytest.mark.parametrize("start", ["0 s", "1 s"])
def test_a_load_on_the_slowest_link_asks_for_nothing_in_time(start: str) -> None:
    """The mean time between two requests was longer than any time that the core has."""
    flow = f"transfers: {{load: 1%, sizes: data-mining}}, start: {start}"
    for seed in (1, 2, 3):
        dataset = perhop.run(scenario("rate: 1 bps", flow), seed=seed)
        assert dataset.completions.is_empty()
