"""`python -m demo FOLDER`: the session with reservations, its table and its picture."""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.session import RESERVED, Session, story
from perhop.errors import PerhopError
from perhop.report.drawing import svg
from perhop.report.output import write_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.session import Run
    from perhop_services.reservations.messages import CountersMessage

SECONDS = 10.0
"""Duration of each run, in seconds."""


def table(runs: Sequence[Run]) -> str:
    """Results of the runs, and the counters of the policer."""
    lines = [
        "| reservation | port | received | let through | at both ends | difference | dropped |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for run in runs:
        cells = [run.what, str(run.port), f"{run.rate / 1e6:.2f} Mb/s"]
        if run.counters is None:
            cells += [""] * 4
        else:
            passed, dropped = (run.counters[f"{what}_bytes"] for what in ("conformed", "exceeded"))
            cells += [f"{passed:,} B", f"{run.expected_bytes:,} B", f"{run.difference:+.3%}"]
            cells += [f"{dropped:,} B"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def chart(series: Sequence[CountersMessage]) -> dict[str, Any]:
    """Chart the packets that the policer passed and dropped, by time, in Vega-Lite."""
    points = []
    zero = series[0].at_ms
    for before, after in pairwise(series):
        if before.epoch != after.epoch:
            continue  # cleared in between
        seconds = (after.at_ms - before.at_ms) / 1000
        for what in ("conformed", "exceeded"):
            grown = getattr(after, f"{what}_bytes") - getattr(before, f"{what}_bytes")
            at = (before.at_ms - zero) / 1000
            points.append({"at": at, "rate": grown * 8e-6 / seconds, "packets": what})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": f"What the policer of port {RESERVED} counted",
        "width": 720,
        "height": 260,
        "data": {"values": points},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "title": "seconds"},
            "y": {"field": "rate", "type": "quantitative", "title": "Mb/s of IP packets"},
            "color": {"field": "packets", "type": "nominal", "title": None},
        },
    }


def main() -> int:
    """Run the session; exit with 1 if counters and throughput differ by more than 1%."""
    folder = Path(sys.argv[1])
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory() as place:
        session = Session(Path(place), say)
        try:
            with session.running():
                number, runs = story(session, SECONDS, both=True)
                series = session.series(number)
        except PerhopError as error:
            print(f"perhop: {error}", file=sys.stderr)
            return error.exit_code
    found = table(runs)
    print(f"\n{found}")
    folder.mkdir(parents=True, exist_ok=True)
    picture = svg(chart(series)).encode()
    for path in write_all(folder, {"session.md": found.encode(), "counters.svg": picture}):
        print(path)
    return int(any(abs(run.difference) > 0.01 for run in runs if run.counters is not None))


if __name__ == "__main__":
    sys.exit(main())
