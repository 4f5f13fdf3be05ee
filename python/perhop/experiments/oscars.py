"""OSCARS Results (SLAC and ESnet, 2006): reservations enforced by a policer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import gallery
from perhop.experiments.model import Case, Experiment, Value
from perhop.experiments.oscars_measures import (
    FIRST,
    SECOND,
    burst_correlation,
    less,
    longer,
    per_stream,
    policed,
    ratio,
    spread,
    start_up,
)
from perhop.experiments.oscars_shown import (
    burst_charts,
    burst_tables,
    one_charts,
    ping_charts,
    ping_tables,
    ten_charts,
    ten_tables,
)
from perhop.experiments.oscars_unknowns import hosts, path, ping_unknowns, slow
from perhop.experiments.windows import granted
from perhop.report import class_tables, phase_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.analysis import Window
    from perhop.dataset import Dataset


_FLOWS: Final = {
    "oscars-10M": ("best_effort", "reserved", "best_effort_20", "reserved_20"),
    "oscars-1M": ("best_effort", "reserved", "thrulay_best_effort", "thrulay_reserved"),
    "oscars-burst": ("burst_1MB", "burst_100kB"),
}


def _all(name: str, setting: str) -> tuple[str, ...]:
    """Return a setting of the TCP of every flow of a scenario."""
    return tuple(f"flows.{flow}.tcp.{setting}" for flow in _FLOWS[name])


def _of(part: str, flow: str, window: Window) -> Callable[[Dataset], float | None]:
    return partial(spread, part=part, flow=flow, window=window)


def _spreads() -> tuple[Value, ...]:
    """Return the document's table, with the more precise figures of its text."""
    rows = (
        ("1 MB", "burst_1MB", FIRST, (0.944, 0.26, 0.332, 1.654)),
        ("100 kB", "burst_100kB", SECOND, (0.93, 0.26, 0.31, 1.389)),
    )
    return tuple(
        Value(
            label=f"{label} with a burst of {burst}",
            case="main",
            published=1e6 * published,
            unit="bps",
            measure=_of(part, flow, window),
            during=window,
            qualifier="exactly",
            within=0.05 if part == "median" else 0.2,
        )
        for burst, flow, window, values in rows
        for (part, label), published in zip(
            (("median", "median"), ("iqr", "IQR"), ("min", "least"), ("max", "most")),
            values,
            strict=True,
        )
    )


_PINGS: Final = ("reserved", "best_effort")

_BURST_VARIANTS: Final = {
    "a sender with 161500 B": "send_window=161500 B",
    "acknowledges each segment": "delayed_ack=0 s",
    "CUBIC": "congestion_control=cubic",
    "without SACK": "sack=false",
    "without limited transmit": "limited_transmit=false",
}


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    return (
        Experiment.of_scenario(
            gallery.load("oscars-10M"),
            cases={
                "main": Case("oscars-10M"),
                "sender": Case(
                    "oscars-10M",
                    ("links.1.loss=0%", *_all("oscars-10M", "send_window=161500 B")),
                    "main",
                    "no loss, and a sender with 161500 B, which are 7.6 Mb/s in 170 ms",
                ),
                "no-sack": Case(
                    "oscars-10M", _all("oscars-10M", "sack=false"), "main", "without SACK"
                ),
            },
            unknowns=(
                *path("oscars"),
                granted(dict(zip(_FLOWS["oscars-10M"], (10e6, 10e6, 262144, 262144), strict=True))),
                slow(_FLOWS["oscars-10M"]),
                *hosts(dict(zip(_FLOWS["oscars-10M"], (0.0, 70.0, 140.0, 210.0), strict=True))),
            ),
            effort=0.5,
            values=(
                Value(
                    "packets policed with one stream",
                    "main",
                    0.0,
                    "packets",
                    partial(policed, window=(70.0, 140.0)),
                    during=(70.0, 130.0),
                    qualifier="exactly",
                ),
                Value(
                    "reserved, part of best effort, with one stream",
                    "main",
                    1.0,
                    "share",
                    partial(
                        ratio,
                        over="reserved",
                        under="best_effort",
                        window=(70.0, 130.0),
                        other=(0.0, 60.0),
                    ),
                    during=(0.0, 130.0),
                    precision=0.02,
                    within=0.05,
                    note="the document: about 7.6 Mb/s in both cases",
                ),
                Value(
                    "best effort with 20 streams, times that with one",
                    "main",
                    150 / 7.6,
                    "ratio",
                    partial(
                        ratio,
                        over="best_effort_20",
                        under="best_effort",
                        window=(140.0, 200.0),
                        other=(0.0, 60.0),
                    ),
                    during=(0.0, 200.0),
                    precision=0.8,
                    within=0.05,
                    note="150 ± 5 by 7.6 ± 0.05",
                ),
                Value(
                    "each of the 20 reserved streams",
                    "main",
                    0.5e6,
                    "bps",
                    per_stream,
                    during=(210.0, 270.0),
                    within=0.2,
                ),
                Value(
                    "packets policed with 20 streams",
                    "main",
                    1.0,
                    "packets",
                    partial(policed, window=(210.0, 275.0)),
                    during=(210.0, 270.0),
                    qualifier="above",
                    note="the document: a considerable number",
                ),
            ),
            account="""\
That twenty streams got twenty times what one got is what a limit of each stream does, by loss or
by the sender; it does not say which. With loss, one stream of one minute says little: it gets 7
to 50 Mb/s with selective acknowledgements and 0.6 to 18 without. Behind the policer, 9.45 Mb/s
are what TCP without selective acknowledgements leaves; with them it gets 9.66 Mb/s and more.
""",
            tables=ten_tables,
            pictures=ten_charts,
        ),
        Experiment.of_scenario(
            gallery.load("oscars-1M"),
            account="""\
Whether the hosts acknowledged selectively decides nearly all. With selective acknowledgements
the stream gets 1.56 Mb/s and more in ten seconds, which is what the burst of 1 MB and 1 Mb/s
allow; the document's 0.961 Mb/s, and its seconds of 0.064 Mb/s (a segment a round-trip time),
come only from a TCP without them, which mends one loss a round-trip time. But in the ten minutes
of oscars-burst the same hosts had no second below 0.33 Mb/s, which TCP without them has here and
TCP with them has not. One stack does not explain both. That best effort got 8.2 Mb/s in ten
seconds and 7.6 in sixty speaks for a sender that had no more under way: a loss that makes 7.6
Mb/s of a minute leaves much more in the first ten seconds here. No queue makes round-trip times
of the first second visibly longer.
""",
            between_hosts="""\
Measured with windows of 196606 B and no loss: a connection that begins with ten segments has spent
more of its burst after a second, so that the second second has 5.7 to 5.8 Mb/s instead of 8;
modelled hosts with an initial window of ten have as much. After the burst Linux mends in a
round-trip time what the document's stream took many for. Through Linux's own queues, a burst of
1 MB at 10 Mb/s takes tc's police action.
""",
            cases={
                "main": Case("oscars-1M"),
                "no-sack": Case(
                    "oscars-1M", _all("oscars-1M", "sack=false"), "main", "without SACK"
                ),
                "sender": Case(
                    "oscars-1M",
                    ("links.1.loss=0%", *_all("oscars-1M", "send_window=161500 B")),
                    "main",
                    "no loss, and a sender with 161500 B, which are 7.6 Mb/s in 170 ms",
                ),
                "small-burst": Case(
                    "oscars-1M",
                    ("policies.oscars.classes.reserved.police.burst=100 kB",),
                    "main",
                    "a burst of 100 kB",
                ),
            },
            unknowns=(
                *path("oscars"),
                granted(dict.fromkeys(_FLOWS["oscars-1M"], 10e6)),
                slow(_FLOWS["oscars-1M"]),
                *hosts(dict(zip(_FLOWS["oscars-1M"], (10.0, 80.0, 150.0, 170.0), strict=True))),
            ),
            values=(
                Value(
                    "the least of its seconds 3 to 10",
                    "main",
                    0.064e6,
                    "bps",
                    _of("min", "thrulay_reserved", (172.0, 180.0)),
                    during=(172.0, 180.0),
                    qualifier="exactly",
                    within=0.2,
                ),
                Value(
                    "the most of its seconds 3 to 10",
                    "main",
                    0.6e6,
                    "bps",
                    _of("max", "thrulay_reserved", (172.0, 180.0)),
                    during=(172.0, 180.0),
                    qualifier="exactly",
                    within=0.2,
                ),
                Value(
                    "best effort (thrulay), first second, part of seconds 2 to 10",
                    "main",
                    1.0,
                    "share",
                    partial(
                        ratio,
                        over="thrulay_best_effort",
                        under="thrulay_best_effort",
                        window=(150.0, 151.0),
                        other=(151.0, 160.0),
                    ),
                    during=(150.0, 160.0),
                    qualifier="below",
                    note="the document: less than in the following 9 seconds",
                ),
                Value(
                    "best effort (thrulay), RTT of the first second, times that of seconds 2 to 10",
                    "main",
                    1.01,
                    "ratio",
                    partial(
                        longer,
                        flow="thrulay_best_effort",
                        first=(150.0, 151.0),
                        later=(151.0, 160.0),
                    ),
                    during=(150.0, 160.0),
                    qualifier="above",
                    note="the document: longer during the first second only; 1% would be seen",
                ),
            ),
            tables=lambda runs: [phase_table(runs["main"]), *class_tables(runs["main"])[:1]],
            pictures=one_charts,
        ),
        Experiment.of_scenario(
            gallery.load("oscars-burst"),
            cases={
                "main": Case("oscars-burst"),
                **{
                    f"variant-{number}": Case(
                        "oscars-burst", _all("oscars-burst", setting), "main", change
                    )
                    for number, (change, setting) in enumerate(_BURST_VARIANTS.items(), 1)
                },
                "short-path": Case(
                    "oscars-burst", ("links.1.delay=42 ms",), "main", "half the round-trip time"
                ),
            },
            unknowns=(
                *path("oscars"),
                granted(dict.fromkeys(_FLOWS["oscars-burst"], 10e6)),
                slow(_FLOWS["oscars-burst"]),
                *hosts({"burst_1MB": 0.0, "burst_100kB": 660.0}),
            ),
            values=(
                *_spreads(),
                Value(
                    "most of the first ten seconds with 100 kB, part of that with 1 MB",
                    "main",
                    1.0,
                    "share",
                    start_up,
                    during=(0.0, 670.0),
                    qualifier="below",
                    note="the document: start-up is much better behaved",
                ),
                Value(
                    "correlation of throughput and RTT",
                    "main",
                    0.0,
                    "ratio",
                    burst_correlation,
                    during=FIRST,
                    qualifier="below",
                    note="published as a scatter plot",
                ),
            ),
            account="""\
Median and start-up follow from the policer, whatever the hosts were. Spread, least and most are
the hosts': with selective acknowledgements those of the burst of 1 MB are in reach, without them
the least second has a segment a round-trip time, and the most several Mb/s; see oscars-1M, whose
ten seconds say the opposite. The document's greatest second with 100 kB is less than any here.
""",
            tables=burst_tables,
            pictures=burst_charts,
        ),
        Experiment.of_scenario(
            gallery.load("oscars-ping"),
            cases={
                "main": Case(
                    "oscars-ping",
                    # Pings of 30 s beside the load, five a second, say as much as those of ten
                    # minutes.
                    member=(
                        "flows.iperf.stop=110 s",
                        *(f"pings.{name}.every=200 ms" for name in _PINGS),
                        *(f"pings.{name}.stop=120 s" for name in _PINGS),
                        "duration=121 s",
                        "report.interval=1 s",
                    ),
                )
            },
            unknowns=ping_unknowns(),
            effort=0.4,
            values=tuple(
                Value(
                    f"{label} of the reserved pings' RTT, part of best effort's",
                    "main",
                    bound,
                    "share",
                    partial(less, part=part),
                    during=(80.0, 680.0),
                    qualifier="below",
                    # The document says each of these once, of one pair of distributions.
                    number="floor" if bound < 1 else "jitter",
                    note=note,
                )
                for part, label, bound, note in (
                    ("iqr", "IQR", 1.0, "published as pictures"),
                    ("stdev", "standard deviation", 1.0, "published as pictures"),
                    ("p95", "95th percentile", 1.0, "published as pictures"),
                    ("max", "most", 1.0, "published as pictures"),
                    (
                        "p5",
                        "5th percentile",
                        0.999,
                        "published as pictures; 0.1% is what ping prints",
                    ),
                    ("min", "least", 0.999, "published as pictures; 0.1% is what ping prints"),
                )
            ),
            tables=ping_tables,
            pictures=ping_charts,
        ),
    )
