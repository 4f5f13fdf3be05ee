"""Service curves from scenario to result, and as Linux's HFSC."""

from typing import Any

import pytest

import perhop
from perhop import analysis, linux
from perhop.scenario import dump, parse
from perhop.scenario.model.hfsc import Curve, Slopes
from perhop.units import MILLISECOND

CALLS = """
perhop: 1
name: calls
duration: 6 s
report: {{interval: 1 s}}
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 100 Mbps}}
  - {{ends: [r, b], rate: 10 Mbps, egress: {{r: edge}}}}
policies:
  edge:
    scheduler: hfsc
    classes:
      call: {{match: {{dscp: ef}}, linkshare: {{rate: 64 kbps}}, realtime: {call}}}
      video: {{match: {{dscp: af41}}, bandwidth: 1 Mbps, realtime: {{rate: 9.6 Mbps}}}}
      rest:
        match: any
        bandwidth: 8 Mbps
        classes:
          web: {{match: {{dscp: af11}}, bandwidth: 75%}}
          bulk: {{match: any, bandwidth: 25%, upperlimit: {{rate: {limit}}}}}
flows:
  call: {{from: a, to: b, dscp: ef, udp: {{rate: 52800 bps, size: 132 B}}}}
  video: {{from: a, to: b, dscp: af41, udp: {{rate: {video} Mbps, size: 1472 B}}}}
  web: {{from: a, to: b, dscp: af11, udp: {{rate: 12 Mbps, size: 1472 B}}}}
  bulk: {{from: a, to: b, udp: {{rate: 12 Mbps, size: 1472 B}}}}
"""


def run(call: str, video: int = 12, limit: str = "10 Mbps") -> dict[str, Any]:
    text = CALLS.format(call=call, video=video, limit=limit)
    return analysis.summary(perhop.run(parse(text, "x")))


def sent(summary: dict[str, Any], name: str) -> float:
    """Return the IP bytes that a class has sent, as a rate in Mb/s."""
    return float(summary["links"]["r>b"]["classes"][name]["sent_bytes"] * 8 / 6e6)


def test_a_concave_curve_gives_a_call_less_delay_for_the_same_rate() -> None:
    """Packets of 160 bytes at 64 kb/s, beside a guarantee that takes nearly the whole link."""
    concave = run("{umax: 160 B, dmax: 5 ms, rate: 64 kbps}")
    linear = run("{rate: 64 kbps}")
    packet_ms = 1.2
    delays = [1000 * each["flows"]["call"]["owd_s"]["max"] for each in (concave, linear)]
    assert delays[0] <= 5 + packet_ms + 0.2  # and the first link
    assert 10 < delays[1] <= 20 + packet_ms + 0.2
    for name in ("video", "rest/web", "rest/bulk"):
        assert sent(concave, name) == pytest.approx(sent(linear, name), rel=0.01)


def test_link_sharing_and_upper_limits_go_down_the_tree() -> None:
    shared = run("{rate: 64 kbps}", video=1)
    # The video gets what it sends, 1 Mb/s of payload; the rest is shared 3 to 1.
    rest = 10 - sent(shared, "call") - sent(shared, "video")
    assert sent(shared, "rest") == pytest.approx(rest, rel=0.01)
    assert sent(shared, "rest/web") == pytest.approx(0.75 * rest, rel=0.01)
    limited = run("{rate: 64 kbps}", video=1, limit="1 Mbps")
    assert sent(limited, "rest/bulk") == pytest.approx(1, rel=0.01)
    assert sent(limited, "rest/web") == pytest.approx(rest - 1, rel=0.01)


@pytest.mark.parametrize(
    ("curve", "slopes"),
    [
        ({"rate": "2 Mbps"}, Slopes(2_000_000, 0, 2_000_000)),
        ({"rate": "20%"}, Slopes(2_000_000, 0, 2_000_000)),
        ({"d": "3 ms", "m2": "1 Mbps"}, Slopes(0, 3 * MILLISECOND, 1_000_000)),
        (
            {"m1": "50%", "d": "3 ms", "m2": "1 Mbps"},
            Slopes(5_000_000, 3 * MILLISECOND, 1_000_000),
        ),
        # tc-hfsc(7): 1500 bytes in 30 ms at 100 kb/s are 400 kb/s for 30 ms, …
        (
            {"umax": "1500 B", "dmax": "30 ms", "rate": "100 kbps"},
            Slopes(400_000, 30 * MILLISECOND, 100_000),
        ),
        # … and in 200 ms nothing until 1500 bytes at that rate end in time.
        (
            {"umax": "1500 B", "dmax": "200 ms", "rate": "100 kbps"},
            Slopes(0, 80 * MILLISECOND, 100_000),
        ),
    ],
)
def test_curves_have_two_slopes(curve: dict[str, str], slopes: Slopes) -> None:
    assert Curve.model_validate(curve).slopes(10_000_000) == slopes


def test_curves_are_written_as_they_were_read() -> None:
    text = CALLS.format(call="{m1: 2.5%, d: 5 ms, m2: 64 kbps}", video=1, limit="50%")
    scenario = parse(text, "x")
    assert parse(dump(scenario), "x") == scenario


def test_curves_are_classes_of_linux() -> None:
    call = "{umax: 160 B, dmax: 5 ms, rate: 64 kbps}"
    found = linux.mapping(parse(CALLS.format(call=call, video=1, limit="1 Mbps"), "x"))
    assert found.gaps == ()
    lines = [line for line in found.interfaces["r>b"].tc if " hfsc " in line]
    device = lines[0].split()[3]
    assert [line.replace(f"dev {device} ", "") for line in lines] == [
        "qdisc add root handle 1: stab overhead -14 hfsc default 14",
        "class add parent 1: classid 1:1 hfsc ls m2 10000000bit ul m2 10000000bit",
        "class add parent 1:1 classid 1:10 hfsc rt m1 256000bit d 5000us m2 64000bit "
        "ls m2 64000bit",
        "class add parent 1:1 classid 1:11 hfsc rt m2 9600000bit ls m2 1000000bit",
        "class add parent 1:1 classid 1:12 hfsc ls m2 8000000bit",
        "class add parent 1:12 classid 1:13 hfsc ls m2 6000000bit",
        "class add parent 1:12 classid 1:14 hfsc ls m2 2000000bit ul m2 1000000bit",
    ]
