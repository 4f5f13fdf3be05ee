"""Invariants of all runs, whatever their scenarios."""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from fuzzing.cost import changed, shortest
from perhop import analysis, report
from perhop.cli.run import print_tables, summarised
from perhop.dataset import TABLES
from perhop.scenario.resolve import next_hops, only_path, packet_size
from perhop.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perhop.dataset import Dataset
    from perhop.scenario import Scenario
    from perhop.scenario.model.topology import Medium

_HEADERS: Final = 60 + 12 + 38
"""Greatest number of bytes beside a packet's payload: headers, and layer 2 without ATM's."""


def check(dataset: Dataset) -> None:
    """Everything that must hold of a whole run; the dataset itself refuses NaN and the like."""
    assert dataset.manifest.complete
    _rows(dataset)
    _classes(dataset)
    _links(dataset)
    _stations(dataset)
    _tunnels(dataset)
    _routers(dataset)
    _goodput(dataset)
    _delays(dataset)
    _calls(dataset)


def _rows(dataset: Dataset) -> None:
    """Every flow, link and class has a row for every stretch between two marks."""
    scenario = dataset.scenario
    marks = [mark / 1e12 for mark in scenario.marks_ps]
    stretches = len(marks) - 1
    streams = sum(flow.all_streams for flow in scenario.flows.values())
    assert dataset.intervals.height == stretches * streams
    assert dataset.links.height == stretches * len(scenario.directions)
    for table in (dataset.intervals, dataset.links):
        assert table["start_s"].unique().sort().to_list() in ([], marks[:-1])
        assert table["end_s"].unique().sort().to_list() in ([], marks[1:])


def _classes(dataset: Dataset) -> None:
    """Drops have a cause; what a class sent and holds is what those inside it sent and hold."""
    queues = dataset.queues
    causes = queues["dropped_limit"] + queues["dropped_policer"] + queues["dropped_early"]
    assert (queues["dropped_packets"] == causes).all()
    assert (queues["marked_packets"] <= queues["sent_packets"] + _waiting(queues)).all()
    inner = queues.with_columns(parent=pl.col("class").str.replace(r"/?[^/]*$", ""))
    sums = inner.filter(pl.col("parent") != "").group_by("link", "parent", "start_s")
    both = sums.agg(
        pl.sum("sent_packets", "sent_bytes", "dropped_packets", "backlog_packets")
    ).join(
        queues,
        left_on=["link", "parent", "start_s"],
        right_on=["link", "class", "start_s"],
        suffix="_outer",
    )
    over = both.group_by("link", "parent").agg(pl.selectors.integer().sum())
    for counter in ("sent_packets", "sent_bytes"):
        assert (over[counter] == over[f"{counter}_outer"]).all(), over
    assert (over["dropped_packets"] <= over["dropped_packets_outer"]).all(), over
    last = both.filter(pl.col("start_s") == pl.col("start_s").max())
    assert (last["backlog_packets"] == last["backlog_packets_outer"]).all(), last


def _waiting(queues: pl.DataFrame) -> pl.Series:
    """Return the backlogs of classes before and after an interval: arrivals may be marked."""
    return queues["backlog_packets"] + 1


def _roots(dataset: Dataset) -> pl.DataFrame:
    """Return the counters and the last backlog of each link's queue, all classes together."""
    outer = dataset.queues.filter(~pl.col("class").str.contains("/"))
    end = dataset.queues["end_s"].max()
    return outer.group_by("link").agg(
        pl.sum("sent_packets", "dropped_packets"),
        pl.col("backlog_packets").filter(pl.col("end_s") == end).sum(),
    )


def _links(dataset: Dataset) -> None:
    """A link carries what its queue sent, and is never busy for longer than there is time."""
    scenario = dataset.scenario
    links = dataset.links.group_by("link").agg(
        pl.sum("sent_packets", "sent_bytes", "lost_packets", "duplicated_packets")
    )
    both = links.join(_roots(dataset), on="link", suffix="_queue")
    assert both.height == len(scenario.directions)
    held = any(policy.cbq and not policy.cbq.kick for policy in scenario.policies.values())
    for row in both.iter_rows(named=True):
        # A driver that is not asked to go on holds what it has taken.
        assert row["sent_packets"] <= row["sent_packets_queue"], row
        assert row["sent_packets"] == row["sent_packets_queue"] or held, row
    assert (both["lost_packets"] <= both["sent_packets"]).all()
    assert (both["duplicated_packets"] <= both["sent_packets"]).all()
    for row in dataset.links.iter_rows(named=True):
        link, node = scenario.directions[row["link"]]
        medium = link.medium(node)
        length = row["end_s"] - row["start_s"]
        rate = max([medium.rate, *changed(scenario, row["link"], "rate")])
        least = min([medium.rate, *changed(scenario, row["link"], "rate")])
        longest = 8 * (longest_packet(scenario) + _overhead(medium)) * 1.2
        if node in link.trace or link.channel is not None:
            longest += rate / 1000  # opportunities, or a transport block, at one instant
        if link.channel is not None:  # an aggregate counts as it begins
            longest += 8 * 256 * (longest_packet(scenario) + _overhead(medium))
        assert not least or row["utilisation"] <= 1 + longest / least / length + 1e-9, row
        assert 8 * row["sent_bytes"] <= rate * length * (1 + 1e-9) + longest, row


def _stations(dataset: Dataset) -> None:
    """Each frame that failed was sent again, given up or waits; no time is used twice."""
    stations, channels = dataset.stations, dataset.scenario.channels
    on_air = [name for name, (link, _) in dataset.scenario.directions.items() if link.channel]
    assert set(stations["link"]) <= {*on_air}
    for row in _sums(stations):
        link, _ = dataset.scenario.directions[row["link"]]
        wifi = channels[link.channel].wifi if link.channel else None
        waiting = row["failed_frames"] - row["retransmissions"]
        waiting -= row["abandoned_frames"] if wifi else 0
        assert 0 <= waiting <= ((wifi.frames or wifi.timing.frames) if wifi else 512), row
        assert row["transmissions"] <= row["frames"], row
        assert row["failed_frames"] <= row["frames"], row
    for name, channel in channels.items():
        ends = {each: dataset.scenario.directions[each] for each in on_air}
        for way in (True, False) if channel.lte else (None,):
            own = [
                each
                for each, (link, node) in ends.items()
                if link.channel == name
                and (channel.lte is None or (node == channel.lte.base_station) == way)
            ]
            used = stations.filter(pl.col("link").is_in(own)).group_by("start_s")
            assert (used.agg(pl.sum("utilisation"))["utilisation"] <= 1 + 1e-9).all(), name


def _tunnels(dataset: Dataset) -> None:
    """A tunnel adds its headers to each packet, and nothing leaves that did not enter."""
    copies = dataset.links["duplicated_packets"].sum()
    for row in analysis.tunnel_counters(dataset).iter_rows(named=True):
        headers = dataset.scenario.tunnels[row["tunnel"]].headers
        added = row["outer_bytes"] - row["encapsulated_bytes"]
        least = headers.overhead * row["encapsulated_packets"]
        padding = (headers.trailer + headers.multiple - 1) * row["encapsulated_packets"]
        assert least <= added <= least + padding, row
        out = row["decapsulated_packets"] + row["dropped_ecn"]
        assert out <= row["encapsulated_packets"] or copies, row


def _calls(dataset: Dataset) -> None:
    """Packets of calls are played or not; what was not played is lost or late."""
    calls = dataset.calls
    assert (calls["packets"] >= calls["played"]).all()
    assert calls.filter((pl.col("played") == 0) & (pl.col("delay_s") != 0)).is_empty()
    for name, flow in dataset.scenario.flows.items():
        found = analysis.calls(dataset, name)
        assert len(found) <= (flow.all_streams if flow.voice is not None else 0)
        for call in found:
            assert 0 <= call.lost <= 1
            assert 0 <= call.late <= 1
            assert call.burst_ratio >= 1
            assert call.mos is None or 1 <= call.mos <= 4.5


def longest_packet(scenario: Scenario) -> int:
    """Return the length of the longest packet in a scenario, in bytes."""
    sizes = [576]
    for flow in scenario.flows.values():
        if flow.tcp is not None:
            sizes.append(flow.tcp.mss)
        elif flow.quic is not None:
            sizes.append(max(flow.quic.datagram, flow.quic.max_datagram))
        elif flow.udp is not None and flow.udp.replay is not None:
            sizes += [size for _, size in flow.udp.replay.packets]
        elif flow.udp is None:
            # A game draws sizes without a limit, of which few are this long.
            sizes.append(2 * packet_size(flow, scenario.ip_of(flow)))
        else:
            sizes.append(flow.udp.size if flow.udp.sizes == "equal" else 65507)
    sizes += [ping.size for ping in scenario.pings.values()]
    around = sum(tunnel.headers.overhead + 16 for tunnel in scenario.tunnels.values())
    return max(sizes) + _HEADERS + around


def _overhead(medium: Medium) -> int:
    return medium.overhead.size + 53


def _routers(dataset: Dataset) -> None:
    """Packets that left a router, were dropped there or wait there had arrived at it."""
    scenario = dataset.scenario
    carried = {row["link"]: row for row in _sums(dataset.links)}
    roots = {row["link"]: row for row in _roots(dataset).iter_rows(named=True)}
    consumed = _consumed(scenario)
    for node, kind in ((name, node.kind) for name, node in scenario.nodes.items()):
        came = gone = flying = 0
        for name, (link, sender) in scenario.directions.items():
            if sender == node:
                root = roots[name]
                gone += root["sent_packets"] + root["dropped_packets"] + root["backlog_packets"]
            elif node in link.ends:
                row = carried[name]
                came += row["sent_packets"] - row["lost_packets"] + row["duplicated_packets"]
                flying += in_flight(scenario, name)
        if any(node in tunnel.ends for tunnel in scenario.tunnels.values()):
            continue  # fragments that are too long enter in pieces
        if kind == "router":
            assert gone <= came, f"{node}: {gone} packets of {came}"
            if not consumed:
                assert came - gone <= flying, f"{node}: {gone} of {came}, {flying} in flight"
        else:
            flows = [name for name, flow in scenario.flows.items() if flow.destination == node]
            got = dataset.intervals.filter(pl.col("flow").is_in(flows))["packets"].sum()
            assert got <= came, f"{node}: {got} packets arrived of {came}"


def _sums(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    yield from table.group_by("link").agg(pl.selectors.integer().sum()).iter_rows(named=True)


def in_flight(scenario: Scenario, name: str) -> float:
    """Return the number of packets that may be on a link at once, copies included."""
    link, node = scenario.directions[name]
    medium = link.medium(node)
    jitter = max([medium.jitter, *changed(scenario, name, "jitter")])
    delay = max([medium.delay, *changed(scenario, name, "delay")]) + jitter
    delay += medium.reorder.by or 0 if medium.reorder is not None else 0
    rate = max([medium.rate, *changed(scenario, name, "rate")])
    delay += 0 if link.channel is None else SECOND
    return 2 * (delay / SECOND * rate / (8 * 20) + 2)


def _consumed(scenario: Scenario) -> bool:
    """Return whether routers may keep packets: to answer them, or because they go no further."""
    return (
        any(
            ping.ttl[0] < 16 or scenario.nodes[ping.destination].kind == "router"
            for ping in scenario.pings.values()
        )
        or any(link.mtu is not None for link in scenario.links)
        or any(change.state == "down" for change in scenario.changes)
    )


def _goodput(dataset: Dataset) -> None:
    """Flows get no more over a link than it carried, and no more than they were to send."""
    scenario = dataset.scenario
    rows = dataset.intervals.group_by("flow").agg(pl.sum("bytes")).iter_rows()
    got: dict[str, int] = dict(rows)  # type: ignore[arg-type]
    for name, flow in scenario.flows.items():
        if flow.volume is not None:
            assert got[name] <= flow.volume * flow.all_streams, name
    if any(change.state is not None for change in scenario.changes):
        return  # paths change
    carried = {row["link"]: row["sent_bytes"] for row in _sums(dataset.links)}
    copied = {row["link"]: row["duplicated_packets"] for row in _sums(dataset.links)}
    found = next_hops(scenario)
    over: dict[str, int] = dict.fromkeys(scenario.directions, 0)
    for name, flow in scenario.flows.items():
        for link in only_path(scenario, found, flow.source, flow.destination) or ():
            over[link] += got[name]
    for link, amount in over.items():
        assert amount <= carried[link] + copied[link] * longest_packet(scenario), link


def _delays(dataset: Dataset) -> None:
    """Nothing arrives sooner than light would."""
    scenario = dataset.scenario
    least = {
        name: min([link.medium(node).delay, *changed(scenario, name, "delay")])
        for name, (link, node) in scenario.directions.items()
    }
    tables = dataset.intervals.group_by("flow").agg(
        pl.min("owd_min_s", "rtt_min_s"), pl.max("owd_max_s", "rtt_max_s")
    )
    end = scenario.end_ps / SECOND * (1 + 1e-9)
    for row in tables.iter_rows(named=True):
        flow = scenario.flows[row["flow"]]
        far, back = (
            shortest(scenario, least, *ends) / SECOND * (1 - 1e-9)
            for ends in ((flow.source, flow.destination), (flow.destination, flow.source))
        )
        for column, bound in (("owd", far), ("rtt", far + back)):
            low, high = row[f"{column}_min_s"], row[f"{column}_max_s"]
            assert low is None or bound <= low <= high <= end, (row, bound)
    for ping, probe in scenario.pings.items():
        replies = dataset.pings.filter(pl.col("ping") == ping)
        assert replies.height == replies.select("sequence", "ttl").n_unique(), ping
        whole = replies.filter(pl.col("answer") == "echo reply")
        both = sum(
            shortest(scenario, least, *ends)
            for ends in ((probe.source, probe.destination), (probe.destination, probe.source))
        )
        assert (whole["rtt_s"].drop_nulls() >= both / SECOND * (1 - 1e-9)).all(), ping
        assert ((whole["sent_s"] + whole["rtt_s"]).drop_nulls() <= end).all(), ping


# What is made of a dataset


def render(dataset: Dataset, folder: Path) -> None:
    """Make all that is made of a dataset: the tables of the terminal, `--json`, and the page."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        print_tables(dataset, folder)
    assert "nan" not in shown.getvalue().split(), shown.getvalue()
    told = strict(json.dumps(summarised(dataset, folder)))
    for section in ("flows", "links", "pings", "phases"):
        _not_negative(told[section], section)
    assert len(analysis.verdicts(dataset)) == len(dataset.scenario.expect)
    page = report.page(dataset)
    for chart in re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S):
        strict(chart)


def strict(text: str) -> Any:
    """JSON without what Python adds to it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


_SIGNED: Final = ("correlation", "r_factor")


def _not_negative(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _SIGNED:
                _not_negative(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _not_negative(inner, f"{place}.{index}")
    elif isinstance(value, (int, float)):
        assert value >= 0, f"{place} is {value}"


def contents(dataset: Dataset) -> dict[str, bytes]:
    """The bytes of every table, as a dataset's folder has them."""
    found = {}
    for name in TABLES:
        buffer = io.BytesIO()
        getattr(dataset, name).write_parquet(buffer)
        found[name] = buffer.getvalue()
    return found


def captured(file: bytes) -> dict[str, tuple[int, int]]:
    """Return the packets out and in of a capture, by interface; its structure is checked."""
    names: list[str] = []
    found: dict[str, tuple[int, int]] = {}
    place, latest = 0, 0
    while place < len(file):
        kind, length = struct.unpack_from("<II", file, place)
        assert length % 4 == 0 and length >= 12, length
        assert struct.unpack_from("<I", file, place + length - 4) == (length,)
        body = file[place + 8 : place + length - 4]
        if kind == 1:
            names.append(_options(body[8:])[2].decode())
            found[names[-1]] = (0, 0)
        elif kind == 6:
            interface, high, low, kept, whole = struct.unpack_from("<5I", body)
            assert kept <= whole
            assert high << 32 | low >= latest, "packets go back in time"
            latest = high << 32 | low
            direction = struct.unpack("<I", _options(body[20 + (kept + 3) // 4 * 4 :])[2])[0] & 3
            out, into = found[names[interface]]
            found[names[interface]] = (out + (direction == 2), into + (direction == 1))
        place += length
    assert place == len(file)
    return found


def _options(body: bytes) -> dict[int, bytes]:
    found, place = {}, 0
    while place < len(body):
        code, length = struct.unpack_from("<HH", body, place)
        if code == 0:
            break
        found[code] = body[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4
    return found


__all__ = ["captured", "check", "contents", "render", "strict"]
