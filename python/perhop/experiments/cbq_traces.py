"""ALTQ Package - CBQ Testing (about 1999), its traces: two flows below a root of 10 Mb/s."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.cbq import CLOCK_AND_DRIVER, QUEUES
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.report.charts import throughput_chart

if TYPE_CHECKING:
    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SCENARIO: Final = "altq-cbq-traces"

_BOTH: Final = (25.0, 60.0)
_FAST_ALONE: Final = (5.0, 20.0)
_SLOW_ALONE: Final = (65.0, 80.0)

_SECOND_TCP: Final = (
    "flows.slow={from: sender, to: receiver, port: 2000, start: 20 s, stop: 80 s, "
    "tcp: {congestion_control: reno, sack: false, mss: 8192 B, window: 16 KiB, "
    "window_scaling: false, delayed_ack: 200 ms, rto_rule: rfc6298, initial_window: 1 packets, "
    "limited_transmit: false}}",
)
_SECOND_UDP: Final = (
    "flows.fast={from: sender, to: receiver, port: 3000, stop: 60 s, "
    "udp: {rate: 20 Mbps, size: 8192 B, when_full: 18 ms}}",
)
_BY_PORT: Final = ("policies.edge.classes.slow.match={destination_port: 2000}",)

TESTS: Final = {
    "tcp-tcp-one-class": (*_SECOND_TCP, "policies.edge.classes.slow.unused=true"),
    "udp-tcp-by-protocol": (),
    "tcp-tcp-by-port": (*_SECOND_TCP, *_BY_PORT),
    "udp-udp-by-port": (*_SECOND_UDP, *_BY_PORT),
    "udp-tcp-root-1M": ("policies.edge.cbq.rate=1 Mbps",),
}
"""The document's four tests, and one of them with the root class at 1 Mb/s."""

_CHANGES: Final = {
    "circuit-2M": ("a circuit of 2 Mb/s below CBQ", ("links.1.rate=2 Mbps",)),
    "tick-20ms": ("a tick of 20 ms", ("policies.edge.cbq.tick=20 ms",)),
    "tick-1ms": ("a tick of 1 ms", ("policies.edge.cbq.tick=1 ms",)),
    "packet-1500": ("a CBQ told of packets of 1500 B", ("policies.edge.cbq.packet=1500 B",)),
    "starved": (
        "a driver that is not asked again, two packets at once",
        (
            "policies.edge.cbq.token_bucket=false",
            "policies.edge.cbq.kick=false",
            "policies.edge.cbq.maxburst=2",
        ),
    ),
}


_UNKNOWNS: Final = (
    *CLOCK_AND_DRIVER,
    Unknown(
        "driver",
        "not in the document: whether it asks CBQ for the next packet when it has sent one",
        choices={
            "asks for the next packet": ("policies.edge.cbq.kick=true",),
            "takes what it is given": ("policies.edge.cbq.kick=false",),
        },
    ),
    QUEUES,
)


def _cases() -> dict[str, Case]:
    cases = {}
    for name, settings in TESTS.items():
        cases[name] = Case(_SCENARIO, settings)
        for change, (words, more) in _CHANGES.items():
            cases[f"{name}-{change}"] = Case(_SCENARIO, (*settings, *more), name, words)
    return cases


def _halves(dataset: Dataset) -> float | None:
    """Return the slower flow's throughput divided by that of the faster one."""
    got = [analysis.throughput(dataset, flow, _BOTH) or 0.0 for flow in ("slow", "fast")]
    return min(got) / max(got) if max(got) > 0 else None


def _udp_over_tcp(dataset: Dataset) -> float | None:
    tcp = analysis.throughput(dataset, "fast", _BOTH)
    udp = analysis.throughput(dataset, "slow", _BOTH)
    return None if udp is None or not tcp else udp / tcp


def _alone(dataset: Dataset, flow: str) -> float | None:
    """Return a flow's throughput while it is alone divided by the total of both."""
    window = _FAST_ALONE if flow == "fast" else _SLOW_ALONE
    alone = analysis.throughput(dataset, flow, window)
    both = analysis.throughput(dataset, "total", _BOTH)
    return None if alone is None or not both else alone / both


def _complement(dataset: Dataset) -> float | None:
    """Return the correlation of two flows' throughputs per half second."""
    slow, fast = (analysis.rates(dataset, flow, _BOTH, 0.5) for flow in ("slow", "fast"))
    return analysis.correlation(slow, fast)


def _kept(dataset: Dataset) -> float | None:
    """Return a flow's throughput while it is alone divided by its own beside the other."""
    alone = analysis.throughput(dataset, "fast", _FAST_ALONE)
    beside = analysis.throughput(dataset, "fast", _BOTH)
    return None if alone is None or not beside else alone / beside


def _total(name: str, published: float | None, note: str) -> Value:
    return Value(
        f"{name.replace('-', ' ')}: total",
        name,
        published,
        "bps",
        partial(analysis.throughput, flow="total", window=_BOTH),
        during=_BOTH,
        within=0.05,
        precision=0.05 * published if published else None,
        note=note,
    )


def _values() -> tuple[Value, ...]:
    values = [
        _total("tcp-tcp-one-class", 1.8e6, "nearly 1.8 Mb/s, of a root of 10 Mb/s"),
        _total("udp-tcp-by-protocol", 1.8e6, "near 1.8 Mb/s, of a root of 10 Mb/s"),
        _total("tcp-tcp-by-port", None, "a picture"),
        _total("udp-udp-by-port", None, "a picture"),
        Value(
            "tcp tcp one class: the slower flow, times the faster",
            "tcp-tcp-one-class",
            1.0,
            "ratio",
            _halves,
            during=_BOTH,
            within=0.1,
            precision=0.1,
            note="they share correctly 50%: read as 10%",
        ),
        Value(
            "udp tcp by protocol: UDP (20%), times TCP (80%)",
            "udp-tcp-by-protocol",
            1.0,
            "ratio",
            _udp_over_tcp,
            during=_BOTH,
            qualifier="above",
            precision=0.0,
            note="UDP is more than TCP",
        ),
        *(
            Value(
                f"udp tcp by protocol: {kind} alone, times the total of both",
                "udp-tcp-by-protocol",
                1.0,
                "ratio",
                partial(_alone, flow=flow),
                during=window,
                within=0.1,
                precision=0.1,
                note="alone it occupies all the bandwidth: read as 10%",
            )
            for kind, flow, window in (("TCP", "fast", _FAST_ALONE), ("UDP", "slow", _SLOW_ALONE))
        ),
        Value(
            "udp tcp by protocol: correlation of the two by half second",
            "udp-tcp-by-protocol",
            0.0,
            "ratio",
            _complement,
            during=_BOTH,
            qualifier="below",
            note="if one increases the other decreases",
        ),
        _total("udp-tcp-root-1M", 1e6, "the bandwidth used is 1 Mb/s"),
        Value(
            "udp tcp root 1M: UDP's share of the total",
            "udp-tcp-root-1M",
            0.2,
            "share",
            _share_of_udp,
            during=_BOTH,
            within=0.05,
            precision=0.01,
            note="the share is quite good: read as 1% of the root",
        ),
        Value(
            "udp tcp root 1M: TCP alone, times itself beside UDP",
            "udp-tcp-root-1M",
            1.0,
            "ratio",
            _kept,
            during=_FAST_ALONE,
            within=0.05,
            precision=0.05,
            note="classes do not influence each other",
        ),
    ]
    return tuple(values)


def _share_of_udp(dataset: Dataset) -> float | None:
    total = analysis.throughput(dataset, "total", _BOTH)
    udp = analysis.throughput(dataset, "slow", _BOTH)
    return None if udp is None or not total else udp / total


def _charts(runs: Runs) -> Pictures:
    shown = [*TESTS, "udp-tcp-by-protocol-circuit-2M"]
    return {name: throughput_chart(runs[name], interval_s=0.5, capacity=False) for name in shown}


_ACCOUNT: Final = """\
With the packets of the ATM link the clock does not explain 1.8 Mb/s: with ticks of 1, 10 and 20 ms
TCP has 7.9 Mb/s of its class's 8, and UDP all of its class's 2. Nor does a driver that is not asked
again. A CBQ that is told of packets of 1500 B, shorter than those that come, takes a sixth off two
TCP flows in one class.

A hypothesis with the pattern of all tests is a slower hop below CBQ, such as a circuit shaped to
2 Mb/s. That is as much as the slow class may send. So whichever flow is alone takes everything, UDP
comes above TCP, the curves complement each other, two TCP flows halve the rate, and below a root of
1 Mb/s all is right. The rate of the circuit is put in: 2 Mb/s of cells are 1.8 Mb/s of payload. The
document does not say that the circuit was shaped. The same circuit cannot have been below the tests
with borrowing, where two flows had 2.3 Mb/s together.
"""


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load(_SCENARIO)
    return (
        Experiment.of_scenario(
            base,
            cases=_cases(),
            values=_values(),
            unknowns=_UNKNOWNS,
            account=_ACCOUNT,
            pictures=_charts,
        ),
    )
