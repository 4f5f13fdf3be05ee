"""Try a random sample of faults in each area, and list those that no test sees."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from math import sqrt

from mutants.areas import AREAS
from mutants.reasons import EQUIVALENTS, Key, keep_survivors, reasons
from mutants.trial import ROOT, TREES, Outcome, Trials


def interval(killed: int, tried: int) -> tuple[float, float]:
    """Return the bounds of a share with a confidence of 95% (E. B. Wilson, 1927)."""
    z, share = 1.96, killed / tried
    middle = share + z * z / (2 * tried)
    half = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return (middle - half) / (1 + z * z / tried), (middle + half) / (1 + z * z / tried)


def report(name: str, sample: int, seed: int, file: str, *, keep: bool) -> bool:
    """Try faults of an area; return whether the tests see nine of ten."""
    area, alike_keys = AREAS[name], reasons(EQUIVALENTS)
    everything = list(dict.fromkeys(area.mutations(ROOT)))
    chosen = [mutation for mutation in everything if file in mutation.path]
    random.Random(seed).shuffle(chosen)
    found: dict[Outcome, set[Key]] = {outcome: set() for outcome in Outcome}
    counts = dict.fromkeys(Outcome, 0)
    trials = Trials(area, TREES / name)
    print(f"{name}: {len(chosen)} faults; tried in random order", flush=True)
    tried = alike = 0
    stopped = False
    for mutation in chosen:
        if tried == sample:
            break
        if mutation.key in alike_keys:
            alike += 1
            continue
        try:
            outcome = trials.of(mutation)
        except KeyboardInterrupt:
            stopped = True
            break
        counts[outcome] += 1
        found[outcome].add(mutation.key)
        tried += outcome is not Outcome.NO_CODE
        if outcome is Outcome.ALIVE:
            print(f"alive: {mutation}", flush=True)
    if keep:
        keep_survivors(found[Outcome.ALIVE], found[Outcome.KILLED] | found[Outcome.HUNG])
    if not tried:
        print(f"{name}: no fault was tried")
        if stopped:
            raise KeyboardInterrupt
        return True
    killed = counts[Outcome.KILLED] + counts[Outcome.HUNG]
    low, high = interval(killed, tried)
    print(
        f"{name}: {killed} of {tried} killed ({killed / tried:.0%}; 95%: {low:.0%} to {high:.0%}),"
        f" {counts[Outcome.HUNG]} of them hung; left out: {counts[Outcome.NO_CODE]} that do not"
        f" compile, {alike} that change nothing (equivalents.txt); seed {seed}",
        flush=True,
    )
    if stopped:
        raise KeyboardInterrupt
    return killed >= 0.9 * tried


def main() -> int:
    """Try areas, all by default; 1 if the tests of one see less than nine of ten faults."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="all by default")
    parser.add_argument("--sample", type=int, default=60, help="faults of each area")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--file", default="", help="only files with this in their path")
    parser.add_argument("--keep", action="store_true", help="survivors, in survivors.txt")
    given = parser.parse_args()
    # Ends the tests that run, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = given.areas or list(AREAS)
    results = [
        report(name, given.sample, given.seed, given.file, keep=given.keep) for name in names
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
