"""Try a random sample of faults in each area, and list those that no test sees."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from math import sqrt
from pathlib import Path

from mutants.areas import AREAS
from mutants.equivalents import equivalents
from mutants.trial import ROOT, Outcome, Trials


def interval(killed: int, tried: int) -> tuple[float, float]:
    """Return the bounds of a share with a confidence of 95% (E. B. Wilson, 1927)."""
    z, share = 1.96, killed / tried
    middle = share + z * z / (2 * tried)
    half = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return (middle - half) / (1 + z * z / tried), (middle + half) / (1 + z * z / tried)


def report(name: str, sample: int, seed: int, file: str) -> bool:
    """Try faults of an area; return whether the tests see nine of ten."""
    area, reasons = AREAS[name], equivalents()
    everything = list(dict.fromkeys(area.mutations(ROOT)))
    chosen = [mutation for mutation in everything if file in mutation.path]
    random.Random(seed).shuffle(chosen)
    counts = dict.fromkeys(Outcome, 0)
    alike = 0
    with tempfile.TemporaryDirectory(prefix="perhop-mutants-") as folder:
        trials = Trials(area, Path(folder))
        print(f"{name}: {len(chosen)} faults; the tests take {trials.usual_s:.0f} s", flush=True)
        tried = 0
        for mutation in chosen:
            if tried == sample:
                break
            if mutation.key in reasons:
                alike += 1
                continue
            outcome = trials.of(mutation)
            counts[outcome] += 1
            tried += outcome is not Outcome.NO_CODE
            if outcome is Outcome.ALIVE:
                print(f"alive: {mutation}", flush=True)
    if not tried:
        print(f"{name}: no fault to try")
        return True
    killed = counts[Outcome.KILLED] + counts[Outcome.HUNG]
    low, high = interval(killed, tried)
    print(
        f"{name}: {killed} of {tried} killed ({killed / tried:.0%}; 95%: {low:.0%} to {high:.0%}),"
        f" {counts[Outcome.HUNG]} of them hung; left out: {counts[Outcome.NO_CODE]} that do not"
        f" compile, {alike} that change nothing (equivalents.txt); seed {seed}",
        flush=True,
    )
    return killed >= 0.9 * tried


def main() -> int:
    """Try areas, all by default; 1 if the tests of one see less than nine of ten faults."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="all by default")
    parser.add_argument("--sample", type=int, default=60, help="faults of each area")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--file", default="", help="only files with this in their path")
    given = parser.parse_args()
    # Ends the tests that run, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = given.areas or list(AREAS)
    results = [report(name, given.sample, given.seed, given.file) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
