"""Captures as files: what they consist of, when they are written, and what goes wrong."""

import ipaddress
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import perhop as library
from conftest import SLOW, Outcome, Start, ended
from perhop.scenario import parse

SCENARIO = """\
perhop: 1
name: small
title: A small one
nodes: {a: host, r1: router, r2: router, b: host, lonely: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 5 ms, name: upper}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 5 ms, name: lower}
  - {ends: [r2, b], rate: 100 Mbps}
flows:
  data: {from: a, to: b, streams: 4}
duration: 2 s
"""

LONG = SCENARIO.replace("duration: 2 s", "duration: 100 h")


@pytest.fixture
def small(place: Path) -> Path:
    """The folder of commands, with the scenario in it."""
    (place / "small.yaml").write_text(SCENARIO)
    (place / "long.yaml").write_text(LONG)
    return place


def blocks(file: bytes) -> Iterator[tuple[int, bytes]]:
    """The blocks of a pcapng file, which is whole: their types and bodies."""
    place = 0
    while place < len(file):
        kind, length = struct.unpack_from("<II", file, place)
        assert length % 4 == 0
        assert struct.unpack_from("<I", file, place + length - 4) == (length,)
        yield kind, file[place + 8 : place + length - 4]
        place += length


def options(body: bytes) -> dict[int, bytes]:
    """A block's options by code."""
    found, place = {}, 0
    while True:
        code, length = struct.unpack_from("<HH", body, place)
        if code == 0:
            assert place + 4 == len(body)
            return found
        found[code] = body[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4


def packets(file: bytes) -> list[tuple[int, int, int, bytes]]:
    """Each packet's interface, time in nanoseconds, length, and what is kept of it."""
    found = []
    for kind, body in blocks(file):
        if kind == 6:
            interface, high, low, kept, length = struct.unpack_from("<5I", body)
            found.append((interface, high << 32 | low, length, body[20 : 20 + kept]))
    return found


def test_a_file_says_where_it_is_from(tmp_path: Path) -> None:
    both = tmp_path / "both.pcapng"
    run = library.run(parse(SCENARIO), captures={"r1>r2#upper": both, "a": both}, seed=7)
    section, *interfaces = list(blocks(both.read_bytes()))[:3]
    said = options(section[1][16:])
    assert said[4].decode() == f"perhop {library.__version__}"
    assert said[1].decode() == "small: A small one, seed 7"
    described = [options(body[8:]) for _, body in interfaces]
    assert [name[2].decode() for name in described] == ["r1>r2#upper", "a>r1"]
    assert described[0][3].decode() == "r1's end of its link to r2, 10 Mbps"
    assert [struct.unpack("<Q", speed[8])[0] for speed in described] == [10**7, 10**8]

    found = packets(both.read_bytes())
    assert {interface for interface, *_ in found} == {0, 1}
    assert [when for _, when, *_ in found] == sorted(when for _, when, *_ in found)
    assert all(len(kept) == min(length, 128) for *_, length, kept in found)
    sent = dict(run.links.group_by("link").agg(pl.sum("sent_packets")).iter_rows())
    here = ipaddress.ip_address("10.0.0.1").packed  # a's
    assert sum(number == 1 and kept[12:16] == here for number, *_, kept in found) == sent["a>r1"]
    assert (
        sum(number == 0 and kept[12:16] == here for number, *_, kept in found)
        == (sent["r1>r2#upper"])
    )


def test_a_run_and_its_captures_are_the_same_every_time(tmp_path: Path) -> None:
    def run(captures: dict[str, Path]) -> tuple[list[bytes], library.Dataset]:
        dataset = library.run(parse(SCENARIO), captures=captures, snaplen=0)
        return [path.read_bytes() for path in captures.values()], dataset

    files = {"r1>r2#upper": tmp_path / "upper.pcapng", "b": tmp_path / "b.pcapng"}
    first, dataset = run(files)
    again, _ = run(files)
    _, without = run({})
    assert first == again
    assert without.intervals.equals(dataset.intervals)
    # To be watched, a transmission needs an event of its own.
    hops = [run.manifest.counters["packet_hops"] for run in (without, dataset)]
    assert hops[0] == hops[1]


# On the command line


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("r1>r3=x", "there is no link `r1>r3`; did you mean `r1>a`?"),
        ("r1>r2#uper=x", "there is no link `r1>r2#uper`; did you mean `r1>r2#upper`?"),
        ("far=x", "there is no link `far`; expected one of `a>r1`, `r1>a`, `r1>r2#upper`, "),
        ("r2=x", "`r2` has 3 links; say which: `r2>r1#upper`, `r2>r1#lower`, `r2>b`"),
        ("lonely=x", "`lonely` has no links; there is nothing to capture"),
        ("r1", "--pcap r1: expected LINK=FILE such as 'r1>r2=r1.pcapng', in quotes, as shells"),
        ("a=", "--pcap a=: expected LINK=FILE"),
        ("a=small.yaml", "small.yaml exists and is not a capture; give another name"),
        ("a=out/a.pcapng", "out/a.pcapng is in the folder of the results, which is perhop's"),
        ("a=no/a.pcapng", "cannot write no/a.pcapng: No such file or directory; give another"),
        ("a=/dev/full", "cannot write /dev/full: No space left on device; give another file"),
    ],
)
def test_what_cannot_be_captured_is_refused(
    perhop: Callable[..., Outcome], place: Path, said: str, message: str
) -> None:
    code, out, err = perhop("run", "small.yaml", "--out", "out", "--pcap", said)
    assert (code, out) == (2, "")
    assert err.startswith(f"perhop: {message}")
    assert sorted(path.name for path in place.iterdir()) == ["long.yaml", "small.yaml"]
    assert (place / "small.yaml").read_text() == SCENARIO


def test_a_link_has_one_file(perhop: Callable[..., Outcome], small: Path) -> None:
    twice = ("--pcap", "a=one.pcapng", "--pcap", "a=two.pcapng")
    code, _, err = perhop("run", "small.yaml", *twice)
    assert (code, err) == (2, "perhop: --pcap a=two.pcapng: a is captured to one.pcapng already\n")
    assert not (small / "one.pcapng").exists()


def test_a_capture_is_replaced_by_another(perhop: Callable[..., Outcome], small: Path) -> None:
    sizes = []
    for snaplen in ("0", "60"):
        snap = ("--pcap-snaplen", snaplen)
        code, *_ = perhop("run", "small.yaml", "--out", "out", "--pcap", "a=a.pcapng", *snap)
        assert code == 0
        file = (small / "a.pcapng").read_bytes()
        assert packets(file)
        sizes.append(len(file))
    assert sizes[1] < sizes[0] / 5
    # What the file was stays if the scenario is wrong.
    assert perhop("run", "small.yaml", "--set", "duration=no", "--pcap", "a=a.pcapng")[0] == 2
    assert (small / "a.pcapng").read_bytes() == file


@SLOW
@pytest.mark.usefixtures("small")
def test_a_pipe_is_written_as_it_goes(start: Start, place: Path) -> None:
    os.mkfifo(place / "pipe")
    process = start("run", "small.yaml", "--out", "out", "--pcap", "a=pipe")
    file = (place / "pipe").read_bytes()
    assert ended(process).code == 0
    assert len(packets(file)) > 1000


# Runs that end early


@SLOW
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_whole_packets(
    start: Start, place: Path, number: signal.Signals
) -> None:
    process = start("run", "long.yaml", "--out", "out", "--pcap", "a=a.pcapng")
    capture = place / "a.pcapng"
    deadline = time.monotonic() + 60
    while not (capture.exists() and capture.stat().st_size > 500_000):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    assert ended(process).code == 128 + number
    found = packets(capture.read_bytes())
    # They go as far as the results do.
    covered = library.Dataset.read(place / "out").covered_s
    assert covered - 0.1 < found[-1][1] / 1e9 <= covered


FULL = """\
import resource, signal
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
"""
"""No file grows beyond this: as if the disk were full."""


@SLOW
@pytest.mark.usefixtures("small")
def test_a_full_disk_leaves_whole_packets(start: Start, place: Path) -> None:
    process = start("run", "long.yaml", "--out", "out", "--pcap", "a=a.pcapng", prelude=FULL)
    code, out, err = ended(process)
    assert (code, out) == (2, "")
    assert err == "perhop: cannot write a.pcapng: File too large; give another file\n"
    file = (place / "a.pcapng").read_bytes()
    assert 200_000 < len(file) <= 300_000
    assert len(packets(file)) > 500
