"""Bursts of policers: what TCP gets for each, by the simulator."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perhop.advice.model import PACKET, PolicerAdvice, PolicerPoint
from perhop.advice.rules import LEAST, rules_of_thumb, sawtooth_burst
from perhop.analysis import loss, throughput
from perhop.engines import run
from perhop.scenario import Scenario
from perhop.units import SECOND, format_duration, format_rate, format_size
from perhop.workers import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.advice.model import PolicerQuestion, Rule

MSS: Final = 1448
"""Payload of a full packet with time stamps, in bytes."""

_PACKETS: Final = 12_000_000
"""Packets that all runs together may send, if that is enough for one run of each point: some
seconds of computing."""

_MOST_SEEDS: Final = 3
_EFFORTS: Final = ((2**0.25, 6), (2**0.5, 6), (2**0.5, 3))
"""Ratio of a burst to the next smaller one where the share rises, and cycles of Reno's window in a
run."""

_LEAST_S: Final = 30
_MOST_S: Final = 600
_WARM_UP: Final = 1 / 3
"""The part of each run that does not count: the first slow start and the full bucket."""

_RISING: Final = 5
"""Up to this multiple of the rate times the round-trip time, and up to that at which Reno gets the
whole rate, bursts are close together."""

_NEAR: Final = 0.05
"""Closer than this part to the burst of a rule, a step says nothing more."""

_JITTER: Final = 100
"""The part of the round-trip time that is random."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """The runs of one congestion control with one seed: all bursts, side by side."""

    question: PolicerQuestion
    control: str
    bursts: tuple[int, ...]
    duration_s: int


def advise_policer(
    question: PolicerQuestion,
    *,
    jobs: int | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> PolicerAdvice:
    """Simulate TCP through a policer with bursts from two packets to 1.5 s of the rate.

    Each point is a long transfer in a network of its own: a sender, a router with the policer, and
    a receiver. The delay of each packet is random by a hundredth of the round-trip time, so that
    seeds differ.

    Args:
        question: The policer, and the TCP flow.
        jobs: Number of processes; one per core by default.
        watch: Called with the number of runs that are done, and of all.
    """
    rules = rules_of_thumb(question)
    bursts, duration, cost = _effort(question, rules)
    seeds = max(1, min(_MOST_SEEDS, _PACKETS // max(cost, 1)))
    asked = [
        (_Setting(question, control, bursts, duration), seed)
        for control in question.controls
        for seed in range(1, seeds + 1)
    ]
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    if watch is not None:
        watch(0, len(asked))
    results: list[list[tuple[float, float]]] = [[] for _ in asked]
    with closing(pool_of(jobs, None, len(asked)).call(_measure, asked)) as made:
        for done, (number, result) in enumerate(made, 1):
            results[number] = result
            if watch is not None:
                watch(done, len(asked))
    for (setting, _), result in zip(asked, results, strict=True):
        for burst, measured in zip(bursts, result, strict=True):
            found.setdefault((setting.control, burst), []).append(measured)
    points = [_point(control, burst, runs) for (control, burst), runs in found.items()]
    return PolicerAdvice(question, points, rules, duration, seeds)


def _effort(question: PolicerQuestion, rules: tuple[Rule, ...]) -> tuple[tuple[int, ...], int, int]:
    """Return the bursts, the duration of each run in seconds, and the packets of one seed.

    They are the first that are not too costly, or the cheapest.
    """
    for step, cycles in _EFFORTS:
        bursts = _bursts(question, rules, step)
        duration = _duration(question, cycles)
        cost = question.rate * duration // (8 * PACKET) * len(bursts) * len(question.controls)
        if cost <= _PACKETS:
            break
    return bursts, duration, cost


def _bursts(question: PolicerQuestion, rules: tuple[Rule, ...], step: float) -> tuple[int, ...]:
    """Return the bursts to simulate: those of the rules, and others in steps."""
    largest = max(rule.burst for rule in rules)
    rising = max(_RISING * question.product, sawtooth_burst(question))
    steps: list[int] = []
    burst = max(2.0 * PACKET, question.product / 16)
    while burst < largest:
        steps.append(round(burst))
        # Where the share rises, and farther apart where it is known to be high.
        burst *= step if burst < rising else 2
    apart = [step for step in steps if all(abs(step / r.burst - 1) > _NEAR for r in rules)]
    return tuple(sorted({*apart, *(rule.burst for rule in rules), LEAST}))


def _duration(question: PolicerQuestion, wanted: int) -> int:
    """Return the duration of each run in seconds: some cycles of Reno's window, and no less."""
    rounds = 2 / 3 * question.product / PACKET / question.streams
    cycles = wanted * rounds * question.rtt / SECOND
    return round(min(max(_LEAST_S, 100 * question.rtt / SECOND, cycles), _MOST_S))


def _measure(setting: _Setting, seed: int) -> list[tuple[float, float]]:
    """Return the share of the rate and the loss for each burst."""
    asked = setting.question
    dataset = run(Scenario.model_validate(_scenario(setting)), seed=seed)
    counted = (setting.duration_s * _WARM_UP, float(setting.duration_s))
    found = []
    for number in range(len(setting.bursts)):
        flow = f"transfer{number}"
        goodput = throughput(dataset, flow, counted) or 0.0
        found.append((goodput * PACKET / MSS / asked.rate, loss(dataset, flow, counted) or 0.0))
    return found


def _scenario(setting: _Setting) -> dict[str, Any]:
    """Return a scenario with a network for each burst."""
    asked = setting.question
    jitter = asked.rtt // _JITTER // 2
    window = format_size(min(max(2**22, round(4 * asked.product)), 2**30 - 2**20))
    tcp = {
        "stack": "linux-6",
        "congestion_control": setting.control,
        "mss": f"{MSS} B",
        "send_window": window,
        "receive_window": window,
    }
    nodes: dict[str, str] = {}
    links, policies, flows = [], {}, {}
    for number, burst in enumerate(setting.bursts):
        sender, router, receiver = (f"{name}{number}" for name in ("sender", "router", "receiver"))
        nodes |= {sender: "host", router: "router", receiver: "host"}
        rate = format_rate(asked.interface)
        # A mean of a quarter of the round-trip time for each link and direction.
        near = {"delay": format_duration(asked.rtt // 4 - jitter // 2)}
        links += [
            {"ends": [sender, router], "rate": rate, "jitter": format_duration(jitter), **near},
            {
                "ends": [router, receiver],
                "rate": rate,
                "delay": format_duration(asked.rtt // 4),
                "egress": {router: f"policer{number}"},
            },
        ]
        police = {"rate": format_rate(asked.rate), "burst": format_size(burst)}
        policies[f"policer{number}"] = {"classes": {"all": {"match": "any", "police": police}}}
        ends = {"from": sender, "to": receiver, "streams": asked.streams}
        flows[f"transfer{number}"] = {**ends, "tcp": tcp}
    third = SECOND * setting.duration_s // 3
    return {
        "perhop": 1,
        "name": "policers",
        "nodes": nodes,
        "links": links,
        "policies": policies,
        "flows": flows,
        "duration": f"{setting.duration_s} s",
        "report": {"interval": format_duration(third)},
    }


def _point(control: str, burst: int, runs: list[tuple[float, float]]) -> PolicerPoint:
    shares = [share for share, _ in runs]
    losses = [lost for _, lost in runs]
    return PolicerPoint(
        control,
        burst,
        sum(shares) / len(shares),
        min(shares),
        max(shares),
        sum(losses) / len(losses),
    )
