"""Damaged texts for the readers of routers' configurations and counters, and for `perhop lint`.

`python -m fuzzing.routers --seconds 60 --corpus linux=FOLDER` runs for a time in one process, and
prints a line for each reader. Findings stay in `runs/fuzz/routers`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import test_routers_ipv6 as ipv6
from altq import ALTQ_CONF, CURVES, OPENBSD, PF_CONF
from fuzzing.damage import damaged
from fuzzing.running import FOUND
from ios import GROUPS, LISTS, TEXT, TRANSATLANTIC
from junos import AS_COMMANDS, EDGE, OSCARS, SWITCH
from junos import GROUPS as GROUPS_OF_JUNOS
from perhop.errors import PerhopError
from perhop.routers.counters.counted import READERS as COUNTERS
from perhop.routers.lint import lint
from perhop.routers.reading import Configuration, Source, Treatment, source
from test_routers_counters import TEXTS as OUTPUTS
from test_routers_link_classes import IOS as LINK_CLASSES
from test_routers_link_classes import junos_text
from test_routers_linux import SCRIPT
from test_routers_linux_output import CLASSES, FILTERS, QDISCS
from test_routers_vyos import BRACES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

TEXTS: Final[dict[str, Sequence[str]]] = {
    "altq": [ALTQ_CONF, PF_CONF, OPENBSD, CURVES, ipv6.PF],
    "ios": [GROUPS + LISTS + TEXT, TRANSATLANTIC, ipv6.IOS, LINK_CLASSES],
    "junos": [
        *(EDGE + OSCARS, AS_COMMANDS, GROUPS_OF_JUNOS, SWITCH),
        junos_text("ieee-802.1 vlan; exp labels;", "ieee-802.1 out; exp labels-out;"),
    ],
    "linux": [SCRIPT, QDISCS + CLASSES + FILTERS, ipv6.TC],
    "vyos": [BRACES, ipv6.VYOS],
}
"""Texts of each family."""

FILE: Final = "fuzz.cfg"
"""The name of every input."""

SLOW_S: Final = 1.0
"""An input that takes more CPU time than this is a finding."""

HANGS_S: Final = 20.0
"""An input that takes more CPU time than this is interrupted."""

GROWTH_MB: Final = 150
"""Inputs that need more memory than this, beside the process and its texts, are a finding."""

_ROUND: Final = 200
_REPORT_S: Final = 30.0
_MOST_FILES: Final = 3000
_MOST_SEED: Final = 2**18
_MOST_KEPT: Final = 200


class HangsError(Exception):
    """An input takes too long."""


@dataclass(slots=True)
class Tally:
    """What one reader did so far.

    Attributes:
        inputs: The number of inputs.
        cpu_s: The CPU time that they took.
        slowest_s: The CPU time of the slowest input.
        slowest: Its text.
        findings: The number of different findings.
    """

    inputs: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    slowest: str = ""
    findings: int = 0


@dataclass(slots=True)
class Target:
    """A reader, with the texts of which its inputs are parts.

    Attributes:
        name: Its name.
        check: Reads an input, and checks what must hold; errors of perhop are answers.
        seeds: The lines of its texts.
        weight: It gets one input while one of weight 1 gets so many.
        tally: What it did.
    """

    name: str
    check: Callable[[Source, Random], None]
    seeds: list[list[str]]
    weight: int = 1
    tally: Tally = field(default_factory=Tally)


def targets(corpus: dict[str, Sequence[str]] | None = None) -> list[Target]:
    """Return all readers.

    Args:
        corpus: More texts of each family, and of `counters`.
    """
    texts = {**TEXTS, "counters": OUTPUTS}
    texts = {name: [*some, *(corpus or {}).get(name, ())] for name, some in texts.items()}
    seeds = {name: [text.split("\n") for text in some] for name, some in texts.items()}
    found = [Target(name, _reads(name), seeds[name]) for name in TEXTS]
    found.append(Target("counters", _counts, seeds["counters"]))
    found += [Target(f"lint {name}", _lints(name), seeds[name], 4 * len(TEXTS)) for name in TEXTS]
    return found


def _reads(family: str) -> Callable[[Source, Random], None]:
    read = import_module(f"perhop.routers.reading.{family}").read

    def check(file: Source, _: Random) -> None:
        sound(read([file]), file.text)

    return check


def _counts(file: Source, _: Random) -> None:
    for applies, of in COUNTERS:
        if applies(file.text):
            for reading in of(file):
                assert 1 <= reading.place.line <= file.text.count("\n") + 1
                for counts in reading.classes.values():
                    assert all(isinstance(each, int) and each >= 0 for each in counts.values())


def _lints(family: str) -> Callable[[Source, Random], None]:
    def check(file: Source, _: Random) -> None:
        for finding in lint([file], family=family):
            assert 0 <= finding.place.line <= file.text.count("\n") + 1
            assert finding.message

    return check


def sound(found: Configuration, text: str) -> None:
    """Check what holds for every configuration."""
    told = text.split("\n")
    places = [line.place for line in found.lines]
    assert places == sorted(set(places))
    for line in found.lines:
        whole = told[line.place.line - 1]
        if whole.isprintable() and "More" not in whole:  # not from a terminal
            assert line.text in whole or line.text.startswith("{")  # JSON of several lines
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    assert all(each.setting and each.value and each.source for each in found.defaults)
    for attachment in found.attachments:
        classes = attachment.policy["classes"]
        assert list(classes.values())[-1]["match"] == "any"
        assert all(attachment.place(("classes", name)).file == FILE for name in classes)


def attempt(target: Target, text: str, random: Random) -> str | None:
    """Give an input to a reader; its traceback if it fails.

    The input is a text, or, one time in sixteen, bytes.
    """
    try:
        file = (
            source(text.encode("latin-1", "replace"), FILE)
            if not random.getrandbits(4)
            else (source(text, FILE))
        )
        target.check(file, random)
    except PerhopError:
        pass
    except Exception:
        return traceback.format_exc(limit=-12)
    return None


def run(all_: Sequence[Target], random: Random, *, inputs: int = 0, seconds: float = 0.0) -> int:
    """Give damaged inputs to readers; return the number of findings.

    Args:
        all_: The readers.
        random: The source of randomness.
        inputs: The number of inputs for each reader of weight 1.
        seconds: The time for all of them, if `inputs` is 0.
    """
    ends = time.monotonic() + seconds
    reported = time.monotonic()
    known: set[str] = set()
    before = signal.signal(signal.SIGPROF, _interrupt)
    most_mb = _peak_mb() + GROWTH_MB
    try:
        while True:
            target = min(all_, key=lambda each: each.tally.inputs * each.weight)
            done = target.tally.inputs * target.weight
            if done >= inputs > 0 or (not inputs and time.monotonic() > ends):
                break
            _round(target, random, min(_ROUND, inputs - done) if inputs else _ROUND, known)
            if _peak_mb() > most_mb:
                most_mb = _peak_mb()
                _keep(target, "", f"memory\n{most_mb} MB", known)
            if time.monotonic() > reported + _REPORT_S:
                reported = time.monotonic()
                _report(all_)
    finally:
        signal.signal(signal.SIGPROF, before)
    return sum(each.tally.findings for each in all_)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise HangsError(f"takes more than {HANGS_S:.0f} s")


def _round(target: Target, random: Random, inputs: int, known: set[str]) -> None:
    tally = target.tally
    for _ in range(-(-inputs // target.weight)):
        text = damaged(target.seeds, random)
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, HANGS_S)
        said = attempt(target, text, random)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        took = time.process_time() - started
        tally.inputs += 1
        tally.cpu_s += took
        if took > tally.slowest_s:
            tally.slowest_s, tally.slowest = took, text
        if said is None and took > SLOW_S:
            said = f"slow\n{took:.1f} s"
        if said is not None:
            _keep(target, text, said, known)


def _peak_mb() -> int:
    """Return the most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _keep(target: Target, text: str, said: str, known: set[str]) -> None:
    """Keep an input that fails, unless another one fails in the same line."""
    frames = [line.strip() for line in said.split("\n") if line.lstrip().startswith("File ")]
    key = f"{target.name} {frames[-1] if frames else said.split(chr(10))[0]}"
    if key in known or len(known) >= _MOST_KEPT:
        return
    known.add(key)
    target.tally.findings += 1
    folder = FOUND / "routers"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(key.encode()).hexdigest()[:8]
    (folder / f"{target.name.replace(' ', '-')}-{name}.cfg").write_text(text, errors="replace")
    (folder / f"{target.name.replace(' ', '-')}-{name}.txt").write_text(said)
    print(f"{target.name}: {said}", flush=True)


def _report(all_: Sequence[Target]) -> dict[str, Any]:
    """Write, and return, the tallies."""
    tallies = {each.name: asdict(each.tally) for each in all_}
    FOUND.mkdir(parents=True, exist_ok=True)
    report = {"peak_mb": _peak_mb(), "targets": tallies}
    (FOUND / f"routers-{os.getpid()}.json").write_text(json.dumps(report, indent=1))
    return report


def _texts(folder: Path) -> list[str]:
    """Return the texts in a folder, without those that are too long."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())[:_MOST_FILES]
    found = [each.read_bytes()[:_MOST_SEED].decode("utf-8", "replace") for each in files]
    return [text for text in found if text and "\0" not in text]


def main() -> int:
    """Run for a time; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing.routers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], help="the name of a reader")
    parser.add_argument(
        "--corpus", action="append", default=[], help="FAMILY=FOLDER with more texts"
    )
    given = parser.parse_args()
    corpus: dict[str, list[str]] = {}
    for each in given.corpus:
        family, _, folder = each.partition("=")
        corpus.setdefault(family, []).extend(_texts(Path(folder)))
    some = [each for each in targets(corpus) if not given.only or each.name in given.only]
    base = _peak_mb()
    findings = run(some, Random(given.seed), seconds=given.seconds)
    report = _report(some)
    for each in some:
        tally = each.tally
        print(
            f"{each.name:12} {tally.inputs:9,} inputs  {tally.cpu_s:7.0f} s  "
            f"slowest {1000 * tally.slowest_s:6.0f} ms  {tally.findings} findings"
        )
    print(f"memory: {base} MB with all texts, {report['peak_mb']} MB at most")
    return min(findings, 1)


if __name__ == "__main__":
    sys.exit(main())
