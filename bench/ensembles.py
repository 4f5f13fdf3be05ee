"""What clients of applications get beside bulk transfers in `sim` and `emu`, over many starts.

Queues that others fill make one run a sample of a wide distribution, so that this compares
medians. Prints them with the difference and its 95% interval by bootstrap; `make bench-emu` runs
it. The argument is the number of runs in `emu`, 20 s each.
"""

from __future__ import annotations

import random
import sys
from statistics import median
from typing import TYPE_CHECKING, Final

import perhop
from perhop import analysis, templates
from perhop.scenario import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.dataset import Dataset
    from perhop.scenario import Scenario

VIDEO: Final = """
perhop: 1
name: video
nodes: {server: host, r1: router, client: host}
links:
  - {ends: [server, r1], rate: 100 Mbps}
  - {ends: [r1, client], rate: 20 Mbps, delay: 10 ms, queue: {limit: 100 kB}}
flows:
  bulk: {from: server, to: client, tcp: {stack: linux-6}}
  film:
    from: server
    to: client
    start: {at: 3 s, jitter: 2 s}
    tcp: {stack: linux-6}
    video: {bitrates: [500 kbps, 2 Mbps, 4 Mbps, 8 Mbps], segment: 2 s, buffer: 10 s}
duration: 20 s
"""
RPM: Final = templates.text("rpm").replace("start: 5 s", "start: {at: 5 s, jitter: 1 s}")
FIFO: Final = RPM.replace("fq-codel: {}", "limit: 256 kB")

SIMULATED: Final = 100
RESAMPLES: Final = 4000


def video(dataset: Dataset) -> dict[str, float]:
    """What a viewer got, and the transfer beside it."""
    found = analysis.video(dataset, "film")
    bulk = analysis.throughput(dataset, "bulk", (6.0, 20.0))
    assert found.startup is not None and found.bitrate is not None and bulk is not None
    return {
        "start-up, s": found.startup,
        "bit rate, Mb/s": found.bitrate / 1e6,
        "bulk transfer, Mb/s": bulk / 1e6,
    }


def responsiveness(dataset: Dataset) -> dict[str, float]:
    """Responsiveness, and the increase of a ping's round-trip time."""
    window = (10.0, 25.0)
    answer = analysis.responsiveness(dataset, "probes", ["down", "up"], window)
    bloat = analysis.bufferbloat(dataset, "icmp", window)
    assert answer is not None and bloat is not None
    return {"responsiveness, RPM": answer.rpm, "increase, ms": 1000 * bloat.increase}


def samples(
    scenario: Scenario, engine: str, count: int, measure: Callable[[Dataset], dict[str, float]]
) -> dict[str, list[float]]:
    """Return the values of runs with seeds from 1."""
    runs = [measure(perhop.run(scenario, seed=n + 1, engine=engine)) for n in range(count)]
    return {name: [run[name] for run in runs] for name in runs[0]}


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return how much larger the median of `other` is, as a share, and a 95% interval of that."""
    drawn = random.Random(1)

    def resampled(values: Sequence[float]) -> float:
        return median(drawn.choices(values, k=len(values)))

    ratios = sorted(resampled(other) / resampled(one) - 1 for _ in range(RESAMPLES))
    low, high = ratios[RESAMPLES // 40], ratios[-RESAMPLES // 40]
    return median(other) / median(one) - 1, low, high


def main(count: int) -> None:
    """Compare the engines."""
    tried: Mapping[str, tuple[str, Callable[[Dataset], dict[str, float]]]] = {
        "video beside a bulk transfer": (VIDEO, video),
        "RPM, FQ-CoDel": (RPM, responsiveness),
        "RPM, a queue of 256 kB": (FIFO, responsiveness),
    }
    for title, (text, measure) in tried.items():
        scenario = parse(text)
        sim = samples(scenario, "sim", SIMULATED, measure)
        emu = samples(scenario, "emu", count, measure)
        print(f"{title}: {SIMULATED} runs in sim, {count} in emu")
        for name, values in sim.items():
            away, low, high = difference(values, emu[name])
            print(
                f"  {name:22} {median(values):8.4g} {median(emu[name]):8.4g}  "
                f"{away:+.1%} ({low:+.1%} to {high:+.1%})"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
