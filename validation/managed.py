"""Active queue management against the arithmetic of its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

import perhop
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop import Dataset


def overload(queue: dict[str, Any], kilobits: int, seconds: int, interval_us: int) -> Dataset:
    """Constant datagrams of 1250 B through 10 Mb/s, a packet a millisecond, and echo requests."""
    return perhop.run(
        Scenario.model_validate(
            {
                "perhop": 1,
                "name": "managed",
                "nodes": {"a": "host", "r": "router", "b": "host"},
                "links": [
                    {"ends": ["a", "r"], "rate": "10 Gbps"},
                    {"ends": ["r", "b"], "rate": "10 Mbps", "queue": queue},
                ],
                "flows": {
                    "f": {
                        "from": "a",
                        "to": "b",
                        "udp": {"rate": f"{kilobits} kbps", "size": "1250 B", "layer": "ip"},
                    }
                },
                "duration": f"{seconds} s",
                "report": {"interval": f"{interval_us} us"},
            }
        )
    )


def codel() -> Iterator[Row]:
    """Yield rows with the times of some of CoDel's drops."""
    dataset = overload({"limit": "10000 packets", "codel": {}}, 10_500, 8, 1000)
    rows = dataset.queues.filter((pl.col("link") == "r>b") & (pl.col("dropped_early") > 0))
    drops = [
        float(end) * 1e3
        for end, count in zip(rows["end_s"], rows["dropped_early"], strict=True)
        for _ in range(count)
    ]
    due = drops[0]
    for number in range(1, 60):
        due += 100.0 / number**0.5
        if number in (1, 2, 3, 5, 10, 20, 40, 59):
            yield Row(
                f"drop {number + 1} after drop 1",
                due - drops[0],
                drops[number] - drops[0],
                0,
                slack=1.5,
            )


def pie() -> Iterator[Row]:
    """Yield rows with PIE's drops and its queue, with unresponsive sources."""
    for percent in (102, 105, 108):
        dataset = overload(
            {"limit": "10000 packets", "pie": {"burst": "0 s"}}, 100 * percent, 300, 10_000
        )
        rows = dataset.queues.filter((pl.col("link") == "r>b") & (pl.col("start_s") >= 100.0))
        dropped, sent = (int(rows[name].sum()) for name in ("dropped_early", "sent_packets"))
        share = dropped / (dropped + sent)
        expected = 1 - 100 / percent
        yield Row(f"share dropped of {percent}%, in %", 100 * expected, 100 * share, 0.01)
        mean = rows["backlog_packets"].mean()
        assert isinstance(mean, float)
        # A packet takes a millisecond.
        yield Row(f"mean delay of {percent}%, in ms", 15.0, mean, 0.1)


CODEL = Table(
    name="codel",
    title="When CoDel drops",
    unit="ms",
    source="RFC 8289, section 5: the next drop comes interval/√count after the last",
    notes="105% of a link of a packet a millisecond. The times of drops are read every millisecond "
    "and fall on ends of transmissions.",
    rows=codel,
)

PIE = Table(
    name="pie",
    title="PIE in balance with sources that do not answer",
    unit="see the setting",
    source="RFC 8033, section 4.2: the probability settles where the delay is the target, which is "
    "where what is let in is what the link sends",
    notes="The last 200 of 300 s. (`cargo test -p perhop-queue` follows every step of an update.)",
    rows=pie,
)
