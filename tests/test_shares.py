"""Guarantees of classes, by hand."""

from __future__ import annotations

import pytest

from perhop.scenario import parse
from perhop.scenario.resolve.shares import rates

TEXT = """\
perhop: 1
name: shares
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, b], rate: 100 Mbps, egress: {{r: p}}}}
policies:
  p: {{classes: {classes}}}
flows:
  web: {{from: a, to: b, stop: 1 s}}
"""
SHAPED = "shape: {rate: 20 Mbps, burst: 10 kB}"


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (f"{{all: {{match: any, {SHAPED}}}}}", [20]),
        ("{all: {match: any, limit: 30%}}", [30]),
        # 100 - 40 are for the rest: 30 each, of which the shaped class takes 20 and the last 40.
        (
            "{web: {match: {dscp: af11}, unused: true, bandwidth: 40%}, "
            f"shaped: {{match: {{dscp: af21}}, unused: true, {SHAPED}}}, rest: {{match: any}}}}",
            [40, 20, 40],
        ),
        # Ceilings are met from the lowest up: 5 of 33, 47 of 47, and 48 are left.
        (
            "{low: {match: {dscp: af11}, unused: true, limit: 5 Mbps}, "
            "high: {match: {dscp: af21}, unused: true, limit: 47 Mbps}, rest: {match: any}}",
            [5, 47, 48],
        ),
        # A ceiling above the equal part changes nothing.
        (
            "{one: {match: {dscp: af11}, unused: true, limit: 60 Mbps}, rest: {match: any}}",
            [50, 50],
        ),
    ],
)
def test_classes_without_a_bandwidth_share_the_rest_below_their_ceilings(
    classes: str, expected: list[int]
) -> None:
    policy = parse(TEXT.format(classes=classes), "x").policies["p"]
    assert [*rates(policy, 100_000_000).values()] == [each * 1_000_000 for each in expected]
