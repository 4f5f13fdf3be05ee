"""Policers before the classes of a policy: one bucket for packets of any class."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import yaml

import perhop
from perhop.errors import ScenarioError
from perhop.routers.writing import write

RATE = 1_000_000


def scenario(
    policers: str, classes: str = "{ef: {match: {dscp: ef}}, rest: {match: any}}", size: int = 1250
) -> Any:
    """Return a scenario of two flows of 2 Mb/s, EF and not, behind policers."""
    flows = {
        name: {
            "from": "a",
            "to": "b",
            "dscp": dscp,
            "udp": {"rate": "2 Mbps", "size": f"{size - 28} B"},
        }
        for name, dscp in (("voice", "ef"), ("data", "be"))
    }
    return perhop.parse(
        yaml.safe_dump(
            {
                "perhop": 1,
                "name": "policers",
                "nodes": {"a": {"kind": "host"}, "r": {"kind": "router"}, "b": {"kind": "host"}},
                "links": [
                    {"ends": ["a", "r"], "rate": "100 Mbps"},
                    {"ends": ["r", "b"], "rate": "10 Mbps", "egress": {"r": "wan"}},
                ],
                "policies": {
                    "wan": {
                        "policers": yaml.safe_load(policers),
                        "classes": yaml.safe_load(classes),
                    }
                },
                "flows": flows,
                "duration": "10 s",
            }
        )
    )


def sent(run: Any) -> dict[str, int]:
    """Return the bytes that each flow received."""
    flows = run.intervals.group_by("flow").agg(pl.col("bytes").sum())
    return dict(zip(flows["flow"], flows["bytes"], strict=True))


def test_policers_before_classes_have_one_bucket_for_all_of_them() -> None:
    """Two flows in two classes get 1 Mb/s and the burst together: 1,250,000 + 5,000 B in 10 s."""
    run = perhop.run(scenario("{both: {match: any, police: {rate: 1 Mbps, burst: 5 kB}}}"))
    received = sent(run)
    total = sum(received.values()) / (1250 - 28) * 1250
    assert total == pytest.approx(RATE / 8 * 10 + 5000, abs=2 * 1250)
    assert min(received.values()) > 0
    counters = run.queues.group_by("class").agg(pl.col("dropped_policer").sum())
    dropped = dict(zip(counters["class"], counters["dropped_policer"], strict=True))
    lost = 2 * 2_000_000 * 10 / 8 / (1250 - 28) - total / 1250
    assert dropped["both"] == pytest.approx(lost, abs=4)
    assert dropped["ef"] == dropped["rest"] == 0


def test_framed_policers_count_bytes_of_layer_2() -> None:
    """Packets of 100 B count as 114 B: 1 Mb/s of frames is 877 kb/s of IP."""
    classes = (
        "{ef: {match: {dscp: ef}, police: {rate: 1 Mbps, burst: 5 kB, overhead: 14 B}}, "
        "rest: {match: any}}"
    )
    run = perhop.run(scenario("{}", classes, size=100))
    ip = sent(run)["voice"] / (100 - 28) * 100
    assert ip == pytest.approx((RATE / 8 * 10 + 5000) / 114 * 100, abs=250)


def test_names_of_policers_differ_from_those_of_classes() -> None:
    with pytest.raises(ScenarioError, match=r"policers\.ef: has the name of a class"):
        scenario("{ef: {match: any, police: {rate: 1 Mbps, burst: 5 kB}}}")


def test_rules_on_policers_hold_before_classes_too() -> None:
    with pytest.raises(ScenarioError, match=r"policers\.x\.police\.peak_rate: is given without"):
        scenario("{x: {match: any, police: {rate: 1 Mbps, burst: 5 kB, peak_rate: 2 Mbps}}}")
    with pytest.raises(ScenarioError, match=r"policers\.x\.match.*nowhere"):
        scenario("{x: {match: {source: nowhere}, police: {rate: 1 Mbps, burst: 5 kB}}}")


@pytest.mark.parametrize("family", ["ios", "junos", "vyos", "pf"])
def test_other_families_have_no_policers_before_classes(family: Any) -> None:
    made = scenario("{both: {match: any, police: {rate: 1 Mbps, burst: 5 kB}}}")
    _, gaps = write(made, family)
    assert "policies.wan.policers" in [gap.path for gap in gaps]


def test_policers_before_classes_are_written_as_limits_of_nftables() -> None:
    """Packets jump to the limit first, and come back to be classified."""
    made = scenario("{both: {match: {dscp: ef}, police: {rate: 1 Mbps, burst: 500 kB}}}")
    text, gaps = write(made, "tc")
    assert not gaps
    assert "limit rate over 125000 bytes/second burst 375000 bytes" in text
    lines = [line.strip() for line in text.splitlines()]
    jump = next(n for n, line in enumerate(lines) if line.startswith("jump ") and "before0" in line)
    assert lines[jump + 1].startswith(("ip dscp", "ip6 dscp", "goto", "meta"))
