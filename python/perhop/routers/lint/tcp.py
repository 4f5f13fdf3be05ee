"""Throughput of TCP through a policer, from the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.units import SECOND, format_duration, format_rate, format_size

if TYPE_CHECKING:
    from perhop.scenario.model.classes import Police

MAX_PACKETS: Final = 3_000_000
"""Packets that the simulations of one command may send at most: about a second of computing."""

_RUN_PACKETS: Final = 60_000
"""Packets that take as long as the preparation of a run."""

_PACKET_BITS: Final = 12_000
_LEAST_ROUNDS: Final = 150
_LEAST_PACKETS: Final = 1000
_LEAST_S: Final = 15
_MOST_S: Final = 1000


@dataclass(slots=True)
class Simulations:
    """Runs of one TCP connection through policers; each is run once.

    Attributes:
        packets: The packets that further runs may send.
    """

    packets: int = MAX_PACKETS
    _done: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def goodput(self, police: Police, rate: int, link: int, rtt: int) -> float | None:
        """Return the goodput of a long transfer through a policer in bit/s.

        One connection of CUBIC with time stamps, packets of 1500 bytes and a window that does not
        limit it. The policer is where two links of one rate meet. The first third of the run does
        not count.

        Args:
            police: The policer; its rates may be shares of `link`.
            rate: Its rate in bit/s.
            link: The rate of the links in bit/s.
            rtt: The round-trip time of the path without queues in ps.

        Returns:
            None if the run would send more packets than are left, or take more than 1000 s, as at
            less than 12 kb/s.
        """
        key = (police, link, rtt)
        if key not in self._done:
            seconds = max(
                _LEAST_S,
                -(-_LEAST_ROUNDS * rtt // SECOND),
                -(-_LEAST_PACKETS * _PACKET_BITS // rate),
            )
            cost = rate * seconds // _PACKET_BITS + _RUN_PACKETS
            if cost > self.packets or seconds > _MOST_S:
                return None
            self.packets -= cost
            self._done[key] = _run(police, link, rtt, seconds, 4 * rate * rtt // (8 * SECOND))
        return self._done[key]


def _run(police: Police, link: int, rtt: int, seconds: int, window: int) -> float:
    # Simulations are needed for some findings only, and take time to import.
    from perhop.analysis import throughput
    from perhop.engines import run
    from perhop.scenario import Scenario

    policed = {
        **police.model_dump(mode="json", exclude_defaults=True),
        "rate": format_rate(police.rate.of(link)),
    }
    if police.peak_rate is not None:
        policed["peak_rate"] = format_rate(police.peak_rate.of(link))
    ends = {"rate": format_rate(link), "delay": format_duration(rtt // 4)}
    size = format_size(min(max(window, 2**20), 2**30))
    dataset = run(
        Scenario.model_validate(
            {
                "perhop": 1,
                "name": "policed",
                "duration": f"{seconds} s",
                "report": {"interval": f"{SECOND * seconds // 3} ps"},
                "nodes": {"sender": "host", "router": "router", "receiver": "host"},
                "links": [
                    {"ends": ["sender", "router"], **ends},
                    {"ends": ["router", "receiver"], **ends, "egress": {"router": "policed"}},
                ],
                "policies": {"policed": {"classes": {"all": {"match": "any", "police": policed}}}},
                "flows": {
                    "transfer": {
                        "from": "sender",
                        "to": "receiver",
                        "tcp": {
                            "mss": "1448 B",
                            "timestamps": True,
                            "send_window": size,
                            "receive_window": size,
                        },
                    }
                },
            }
        )
    )
    return throughput(dataset, "transfer", (seconds / 3, seconds)) or 0.0
