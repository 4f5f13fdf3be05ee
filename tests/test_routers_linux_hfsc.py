"""HFSC of tc: guarantees in real time beside link sharing.

`hfsc_dequeue` (net/sched/sch_hfsc.c) serves real time first, whatever the classes around have;
upper limits bound link sharing alone (`vttree_get_minvt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perhop
from linux_scripts import notes, policies
from perhop.cli.loading import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QDISC = "qdisc add dev v0 root handle 1: hfsc default 20"
DNS = "filter add dev v0 parent 1: protocol ip prio 1 u32 match ip dport 53 0xffff flowid 1:10"
WHOLE = "class add dev v0 parent 1: classid 1:1 hfsc ls m2 10mbit ul m2 10mbit"
A, B = (f"class add dev v0 parent 1:1 classid 1:{number} hfsc" for number in (10, 20))
TOP_A, TOP_B = (each.replace("parent 1:1", "parent 1:") for each in (A, B))


def script(*lines: str) -> Sequence[str]:
    return (QDISC, *lines, DNS)


def keys(*lines: str) -> dict[str, dict[str, Any]]:
    """Return the classes of a script without their matches and queues."""
    ((_, _, policy, _, _),) = policies(script(*lines))
    return {
        name: {key: value for key, value in each.items() if key not in ("match", "queue")}
        for name, each in policy["classes"].items()
    }


def rate(text: str) -> dict[str, str]:
    return {"rate": text}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # The part of link sharing, 2 of 10 Mb/s, is below the guarantee.
        (
            (WHOLE, f"{A} sc m2 5mbit", f"{B} ls m2 20mbit"),
            {
                "c10": {"bandwidth": "20%", "realtime": rate("5 Mbps")},
                "c20": {"bandwidth": "80%"},
            },
        ),
        (
            (WHOLE, f"{A} rt m2 1mbit", f"{B} ls m2 99mbit"),
            {
                "c10": {
                    "bandwidth": "1%",
                    "realtime": rate("1 Mbps"),
                    "upperlimit": rate("1 Mbps"),
                },
                "c20": {"bandwidth": "99%"},
            },
        ),
        # An upper limit below the guarantee.
        (
            (WHOLE, f"{A} sc m2 5mbit ul m2 2mbit", f"{B} sc m2 5mbit"),
            {
                "c10": {
                    "bandwidth": "5 Mbps",
                    "realtime": rate("5 Mbps"),
                    "upperlimit": rate("2 Mbps"),
                },
                "c20": {"bandwidth": "5 Mbps", "realtime": rate("5 Mbps")},
            },
        ),
        # Guarantees within link sharing are shares.
        (
            (WHOLE, f"{A} sc m2 5mbit", f"{B} ls m2 5mbit"),
            {"c10": {"bandwidth": "5 Mbps"}, "c20": {"bandwidth": "5 Mbps"}},
        ),
        (
            (WHOLE, f"{A} sc m2 5mbit ul m2 5mbit", f"{B} ls m2 5mbit"),
            {"c10": {"bandwidth": "5 Mbps", "borrow": False}, "c20": {"bandwidth": "5 Mbps"}},
        ),
        # Link sharing has proportions: of an interface of 1 Gb/s here.
        (
            (f"{TOP_A} ls m2 1gbit", f"{TOP_B} ls m2 3gbit"),
            {"c10": {"bandwidth": "25%"}, "c20": {"bandwidth": "75%"}},
        ),
    ],
)
def test_curves_are_kept_where_shares_say_less(
    lines: Sequence[str], expected: dict[str, dict[str, Any]]
) -> None:
    assert keys(*lines) == expected


def test_guarantees_exceed_the_upper_limit_of_the_class_above(tmp_path: Path) -> None:
    lines = script(WHOLE, f"{A} sc m2 12mbit", f"{B} sc m2 8mbit")
    ((_, _, policy, shape, _),) = policies(lines)
    assert shape is None
    assert policy["classes"]["c1"]["upperlimit"] == rate("10 Mbps")
    path = tmp_path / "wan.sh"
    path.write_text("".join(f"tc {line}\n" for line in lines), "utf-8")
    made = load(str(path), rate=10**8, overrides={"duration": "4 s", "report.interval": "1 s"})
    late = perhop.run(made).intervals.to_dicts()
    sent = {
        name: sum(row["bytes"] for row in late if row["flow"] == name and row["start_s"] >= 1)
        for name in ("c1-c10", "c1-c20")
    }
    # 12 and 8 Mb/s of frames, of which some 96% are TCP's data.
    assert sent["c1-c10"] * 8 / 3 / 1e6 == pytest.approx(12 * 0.96, rel=0.03)
    assert sent["c1-c20"] * 8 / 3 / 1e6 == pytest.approx(8 * 0.96, rel=0.03)


def test_a_class_around_others_without_link_sharing_is_told() -> None:
    lines = script(
        "class add dev v0 parent 1: classid 1:1 hfsc rt m2 5mbit",
        f"{A} ls m2 1mbit",
        f"{B} ls m2 1mbit",
    )
    assert any("without `ls`" in note for note in notes(lines))
