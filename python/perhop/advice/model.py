"""Questions about policers, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from perhop.hints import did_you_mean
from perhop.scenario.model.tcp import Tcp
from perhop.units import MILLISECOND, SECOND, WHOLE, format_duration, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKET: Final = 1500
"""Length of a full IP packet, in bytes."""

LEAST_RATE: Final = 100_000
MOST_RATE: Final = 10_000_000_000
LEAST_RTT: Final = MILLISECOND
MOST_RTT: Final = SECOND
"""Limits of a question: runs of hours answer slower or longer ones."""

_INTERFACES: Final = tuple(10**power for power in (8, 9, 10, 11))


@dataclass(frozen=True, slots=True)
class PolicerQuestion:
    """A policer whose burst is wanted, and the TCP flow through it.

    Attributes:
        rate: Rate of the policer, in bit/s.
        rtt: Round-trip time of the path without queues, in picoseconds.
        controls: Congestion controls of the senders.
        streams: Number of connections that share the policer.
        interface: Rate of the interfaces before and behind the policer, in bit/s.
        goals: Shares of the rate that TCP is to get, in parts per billion.
    """

    rate: int
    rtt: int
    controls: tuple[str, ...]
    streams: int
    interface: int
    goals: tuple[int, ...]

    @property
    def product(self) -> float:
        """Rate times round-trip time, in bytes."""
        return self.rate * self.rtt / (8 * SECOND)

    def __post_init__(self) -> None:
        """Refuse a question that the simulator cannot answer.

        Raises:
            ValueError: The policer does not limit the interface, or the runs would be too long.
        """
        if self.rate >= self.interface:
            raise ValueError(
                f"the policer's {format_rate(self.rate)} do not limit an interface of "
                f"{format_rate(self.interface)}; expected a faster interface"
            )
        if not LEAST_RATE <= self.rate <= MOST_RATE:
            raise ValueError(
                f"the policer's rate of {format_rate(self.rate)} is out of range; expected "
                f"{format_rate(LEAST_RATE)} to {format_rate(MOST_RATE)}"
            )
        if not LEAST_RTT <= self.rtt <= MOST_RTT:
            raise ValueError(
                f"the round-trip time of {format_duration(self.rtt)} is out of range; expected "
                f"{format_duration(LEAST_RTT)} to {format_duration(MOST_RTT)}"
            )


def usual_interface(rate: int) -> int:
    """Return the rate of the slowest usual interface with ten times a policer's rate."""
    return next((usual for usual in _INTERFACES if usual >= 10 * rate), 10 * rate)


def congestion_controls(text: str) -> tuple[str, ...]:
    """Return the congestion controls that a list names.

    Raises:
        ValueError: One is unknown, or is given twice.
    """
    known = get_args(Tcp.model_fields["congestion_control"].annotation)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            expected = hint or f"expected one of {', '.join(known)}"
            raise ValueError(f"{quote(name)} is not a congestion control; {expected}")
        if names.count(name) > 1:
            raise ValueError(f"{quote(name)} is given twice")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class PolicerPoint:
    """What TCP gets through a policer with one burst.

    Attributes:
        control: Congestion control of the senders.
        burst: Burst of the policer, in bytes.
        share: Mean share of the policer's rate that goodput takes, in IP packets, 0 to 1.
        least: Least share of all runs.
        most: Greatest share of all runs.
        loss: Mean share of packets that are lost, 0 to 1.
    """

    control: str
    burst: int
    share: float
    least: float
    most: float
    loss: float


@dataclass(frozen=True, slots=True)
class SmallestBurst:
    """The smallest burst with which TCP reaches a goal.

    Attributes:
        control: Congestion control.
        goal: The share of the rate, in parts per billion.
        burst: The smallest simulated burst from which on every larger one reaches the goal, in
            bytes; None if the largest does not.
        below: The next smaller simulated burst, which does not; None if there is none.
    """

    control: str
    goal: int
    burst: int | None
    below: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of thumb for the burst of a policer.

    Attributes:
        name: Short name.
        formula: Formula in words.
        source: Document that states it.
        burst: Its burst for this question, in bytes.
    """

    name: str
    formula: str
    source: str
    burst: int


@dataclass(frozen=True, slots=True)
class PolicerAdvice:
    """An answer to a question about a policer.

    Attributes:
        question: The question.
        points: What TCP gets, by congestion control and then by burst.
        rules: Rules of thumb.
        duration_s: Duration of each run, of which the first third does not count.
        seeds: Number of runs of each point.
    """

    question: PolicerQuestion
    points: Sequence[PolicerPoint]
    rules: Sequence[Rule]
    duration_s: int
    seeds: int

    def of(self, control: str) -> list[PolicerPoint]:
        """Return the points of a congestion control, by burst."""
        return [point for point in self.points if point.control == control]

    def share(self, control: str, burst: int) -> float:
        """Return the share of the rate with a simulated burst."""
        return next(point.share for point in self.of(control) if point.burst == burst)

    @property
    def smallest(self) -> list[SmallestBurst]:
        """The smallest burst for each goal and congestion control."""
        return [
            _smallest(self.of(control), control, goal)
            for goal in self.question.goals
            for control in self.question.controls
        ]

    def for_all(self, goal: int) -> int | None:
        """Return the smallest burst with which every congestion control reaches a goal."""
        bursts = [each.burst for each in self.smallest if each.goal == goal]
        known = [burst for burst in bursts if burst is not None]
        return max(known) if len(known) == len(bursts) else None

    def as_object(self) -> dict[str, Any]:
        """Return the advice as an object of JSON."""
        asked = self.question
        return {
            "rate_bps": asked.rate,
            "rtt_s": asked.rtt / SECOND,
            "interface_bps": asked.interface,
            "streams": asked.streams,
            "congestion_controls": list(asked.controls),
            "goals": [goal / WHOLE for goal in asked.goals],
            "duration_s": self.duration_s,
            "seeds": self.seeds,
            "rate_rtt_bytes": round(asked.product),
            "points": [
                {
                    "congestion_control": point.control,
                    "burst_bytes": point.burst,
                    "share": point.share,
                    "share_min": point.least,
                    "share_max": point.most,
                    "loss": point.loss,
                }
                for point in self.points
            ],
            "smallest": [
                {
                    "congestion_control": each.control,
                    "goal": each.goal / WHOLE,
                    "burst_bytes": each.burst,
                    "below_bytes": each.below,
                }
                for each in self.smallest
            ],
            "rules": [
                {
                    "name": rule.name,
                    "formula": rule.formula,
                    "source": rule.source,
                    "burst_bytes": rule.burst,
                    "share": {each: self.share(each, rule.burst) for each in asked.controls},
                }
                for rule in self.rules
            ],
        }


def _smallest(points: list[PolicerPoint], control: str, goal: int) -> SmallestBurst:
    burst, below = None, None
    for point in reversed(points):
        if point.share * WHOLE < goal:
            below = point.burst
            break
        burst = point.burst
    return SmallestBurst(control, goal, burst, below)
