"""Datasets of tests of iperf3 clients."""

import json
from pathlib import Path
from typing import Any

import pytest

from perhop.analysis import throughput
from perhop.dataset import Dataset
from perhop.errors import OutputError
from perhop.records import dataset, read


def counts(**known: int | None) -> dict[str, Any]:
    none = dict.fromkeys(("lost", "reordered", "duplicates", "marked", "retransmits"))
    return {"bytes": 0, "packets": 0, **none, **known}


def interval(start: float, end: float, **known: Any) -> dict[str, Any]:
    none = dict.fromkeys(("srtt_s", "cwnd", "jitter_s", "variation_s"))
    return {"start_s": start, "end_s": end, "samples": 0, **none, **counts(), **known}


def stream(received: bool, *intervals: dict[str, Any], **known: Any) -> dict[str, Any]:
    none = dict.fromkeys(("arrived", "malformed", "delay_minimum_s"))
    usual = {"id": 1, "client": "192.0.2.7:40000", "dscp_sent": 46, "client_result": None}
    return {**usual, "received": received, **none, "total": counts(), **known} | {
        "intervals": list(intervals)
    }


def record(started: int, *streams: dict[str, Any], **known: Any) -> dict[str, Any]:
    return {
        "format": 2,
        "perhop": "0.1.0",
        "started_unix_ms": started,
        "client": "192.0.2.7:39999",
        "server": "192.0.2.1:5201",
        "parameters": {"udp": True, "time": 2, "bandwidth": 800_000, "len": 1000, "TOS": 184},
        "length": 1000,
        "ended": "by the client",
        "complete": True,
        "omitted_s": 0.0,
        "duration_s": 2.0,
        "same_clock": True,
        "streams": list(streams),
        **known,
    }


def udp(**known: Any) -> dict[str, Any]:
    first: dict[str, Any] = {
        "bytes": 100_000,
        "packets": 100,
        "lost": 3,
        "reordered": 2,
        "duplicates": 1,
    }
    first |= {"marked": 4, "jitter_s": 0.0004, "variation_s": [0.0, 0.001, 0.003], "samples": 100}
    second: dict[str, Any] = {"bytes": 90_000, "packets": 90, "lost": 0, "jitter_s": 0.0003}
    return stream(
        True,
        interval(0.0, 1.0, **first),
        interval(1.0, 2.0, **second),
        **{"arrived": [[0, 0, 10], [46, 2, 180]], **known},
    )


def keep(folder: Path, *records: dict[str, Any]) -> Path:
    for number, each in enumerate(records):
        name = f"iperf3-{each['started_unix_ms']}-1-{number}.json"
        (folder / name).write_text(json.dumps(each))
    return folder


def test_records_become_a_dataset_with_the_flows_as_they_were(tmp_path: Path) -> None:
    tcp = stream(False, interval(0.0, 1.0, bytes=5000, packets=4, retransmits=2, srtt_s=0.01))
    reverse = record(1_700_000_003_500, tcp, parameters={"tcp": True, "time": 1, "reverse": True})
    first = record(1_700_000_000_000, udp(delay_minimum_s=0.02))
    found = dataset(read(keep(tmp_path, reverse, first)))

    assert list(found.scenario.flows) == ["test_1_up", "test_2_down"]
    up, down = found.scenario.flows.values()
    assert (up.source, up.destination, up.dscp) == ("client_1", "server", 46)
    assert up.udp is not None
    assert (up.udp.rate, up.udp.size) == (800_000, 1000)
    assert (down.source, down.destination) == ("server", "client_1")
    assert down.start == 3_500 * 10**9
    assert throughput(found, "test_1_up", (0, 2)) == pytest.approx(190_000 * 8 / 2)

    rows = found.intervals.to_dicts()
    assert [row["lost"] for row in rows] == [3, 0, None]
    assert rows[0]["owd_min_s"] == pytest.approx(0.02)
    assert rows[0]["owd_s"] == pytest.approx(0.021)
    assert (rows[0]["retransmits"], rows[2]["retransmits"]) == (None, 2)
    assert rows[2]["start_s"] == pytest.approx(3.5)
    columns = ("dscp_arrived", "ecn_arrived", "packets")
    assert set(found.codepoints.select(columns).iter_rows()) == {(0, 0, 10), (46, 2, 180)}
    found.write(tmp_path / "run")
    assert Dataset.read(tmp_path / "run").intervals.equals(found.intervals)


def test_without_a_common_clock_one_way_delays_are_absent(tmp_path: Path) -> None:
    found = dataset(read(keep(tmp_path, record(1, udp(), same_clock=False))))
    assert found.intervals["owd_s"].null_count() == 2
    assert "clocks of both ends differ" in found.warnings[0].message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no records"),
        ("{", "is not a record"),
        ('{"format": 3}', "format"),
        (json.dumps(record(1, udp(id="x"))), "streams.0.id"),
        (json.dumps(record(1, udp(arrived=[[1, 4, 1]]))), "arrived"),
        (json.dumps(record(1, duration_s=-1)), "duration_s"),
    ],
)
def test_what_is_no_record_is_refused(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "iperf3-1-1-1.json").write_text(content)
    with pytest.raises(OutputError, match=message):
        read(tmp_path)
