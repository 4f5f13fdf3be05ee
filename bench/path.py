"""Measure how accurate `perhop path` is: random paths in labs, whose truth is known.

    python bench/path.py [FIRST [LAST [FILE [policers]]]]

With `policers`, only policers are looked for, of the paths that have one. Each number from FIRST
to LAST (1 to 100 unless given) is the seed of a path of 2 to 8 hops. What is found of each goes
into FILE as a line of JSON, if given; the table is of all lines of FILE, so that the paths can be
measured in several slices.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from slices import measured

from perhop.lab import Lab, up
from perhop.scenario import parse

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")

DSCPS = {"ef": 46, "af11": 10, "cs1": 8}

RATES = (5, 10, 20, 34, 50, 80, 100, 155, 200, 300, 400, 622, 800, 1000)


@dataclass
class Truth:
    """A random path and what should be found of it."""

    text: str
    hops: list[list[str]]
    """The nodes at each hop."""
    rates: dict[tuple[str, str], int]
    """The rate of each link in Mb/s."""
    mtus: dict[tuple[str, str], int]
    rewrites: list[tuple[str, str, str]]
    """The router, the code point before and after."""
    limited: set[str]
    silent: set[str]
    police: tuple[int, int] | None
    """Rate in kb/s and burst in bytes of a policer of CS2 before the last host."""
    names: list[str] = field(default_factory=list)

    def address(self, node: str) -> str | None:
        """The address of a node that answers."""
        return None if node in self.silent else f"10.0.0.{self.names.index(node) + 1}"


def draw(seed: int) -> Truth:
    """Draw a path."""
    chance = random.Random(seed)
    count = chance.randint(1, 7)
    hops, limited, silent = [], set(), set()
    for number in range(1, count + 1):
        width = chance.choices((1, 2, 3, 4), (7, 1, 1, 1))[0]
        width = 1 if number in (1, count) else width
        hops.append([f"r{number}" + "abcd"[way] * (width > 1) for way in range(width)])
        if width == 1 and number < count:
            fate = chance.random()
            limited |= {f"r{number}"} if fate < 0.1 else set()
            silent |= {f"r{number}"} if 0.1 <= fate < 0.15 else set()
    stages = [["a"], *hops, ["b"]]
    rates, mtus, lines = {}, {}, []
    for near, far in pairwise(stages):
        mtu = chance.choice((1400, 1300)) if chance.random() < 0.1 and near != ["a"] else 1500
        for one in near:
            for other in far:
                rates[one, other] = chance.choice(RATES)
                mtus[one, other] = mtu
                lines.append([one, other, {}])
    remarks = {}
    rewrites = []
    if chance.random() < 0.6:
        number = chance.randrange(count)
        old, new = chance.sample(sorted(DSCPS), 2)
        for router in hops[number]:
            remarks[router] = f", remark: {{{old}: {new}}}"
            rewrites.append((router, old, new))
    police = None
    policy = ""
    if chance.random() < 0.5:
        narrow = min(rates.values())
        rate = chance.randint(500, int(narrow * 1000 * 0.6))
        police = (rate, chance.choice((10, 20, 30, 60, 100)) * 1000)
        policy = (
            "policies: {edge: {classes: {voice: {match: {dscp: cs2}, police: "
            f"{{rate: {rate} kbps, burst: {police[1]} B}}}}, rest: {{match: any}}}}}}}}"
        )
    names = ["a", *(router for hop in hops for router in hop), "b"]
    text = ["perhop: 1", f"name: path-{seed}", "nodes:", "  a: host", "  b: host"]
    for name in names[1:-1]:
        if name in limited:
            more = ", icmp_interval: 500 ms"
        elif name in silent:
            more = ", icmp_errors: false"
        else:
            more = ""
        text.append(f"  {name}: {{kind: router{more}{remarks.get(name, '')}}}")
    text.append("links:")
    for one, other, _ in lines:
        mtu = f", mtu: {mtus[one, other]} B" if mtus[one, other] < 1500 else ""
        egress = f", egress: {{{one}: edge}}" if policy and other == "b" else ""
        rate = f"rate: {rates[one, other]} Mbps"
        text.append(f"  - {{ends: [{one}, {other}], {rate}, delay: 500 us{mtu}{egress}}}")
    # The order in which nodes get their addresses.
    order = ["a", "b", *names[1:-1]]
    return Truth(
        "\n".join([*text, policy]),
        [*hops, ["b"]],
        rates,
        mtus,
        rewrites,
        limited,
        silent,
        police,
        order,
    )


def probe(lab: Lab, *arguments: str) -> dict[str, Any]:
    """Return the object that `perhop path --json` prints in the first host."""
    command = [str(PERHOP), "path", *arguments, "--json"]
    with lab.start("a", command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=300)
    if process.returncode:
        raise SystemExit(err.decode())
    report: dict[str, Any] = json.loads(out)
    return report


def judge(truth: Truth, report: dict[str, Any]) -> dict[str, Any]:
    """Compare a report with the truth."""
    stages = [["a"], *truth.hops]
    links = {
        (ttl, truth.address(one), truth.address(other))
        for ttl, (near, far) in enumerate(pairwise(stages), 1)
        for one in near
        for other in far
    }
    ways = {(link["ttl"], link["from"], link["to"]) for link in report["links"]}
    codes = {value: name for name, value in DSCPS.items()}
    changes = {
        (
            each["after_hop"],
            each["by_hop"],
            codes.get(each["before"]["dscp"]),
            codes.get(each["after"]["dscp"]),
        )
        for each in report["rewrites"]
    }
    expected = set()
    answering = [0, *(n for n, hop in enumerate(truth.hops, 1) if not set(hop) & truth.silent)]
    for router, old, new in truth.rewrites:
        by = next(n for n, hop in enumerate(truth.hops, 1) if router in hop)
        by = min(n for n in answering if n >= by)
        expected.add((max(n for n in answering if n < by), by, old, new))
    silence = [
        "limited" if set(hop) & truth.limited else "silent" if set(hop) & truth.silent else "none"
        for hop in truth.hops
    ]
    nodes = {truth.address(name): name for name in truth.names if truth.address(name)}
    at = [
        "a",
        *(
            nodes.get(hop["addresses"][0]["address"]) if hop["addresses"] else None
            for hop in report["hops"]
        ),
    ]
    mtu = min(value for value in truth.mtus.values())
    capacities = []
    narrowest = float("inf")
    for number, hop in enumerate(report["hops"], 1):
        near, far = at[number - 1], at[number]
        rate = truth.rates.get((near, far)) if near and far else None
        if rate is None:
            narrowest = min(
                narrowest,
                *(
                    truth.rates[link]
                    for link in truth.rates
                    if link[1] in truth.hops[number - 1] or link[0] in truth.hops[number - 1]
                ),
            )
            continue
        found = hop["capacity"] or {}
        if found.get("from_hop") != number - 1 or not found:
            narrowest = min(narrowest, rate)
            continue
        bps = found["bps"] and found["bps"]["value"]
        interval = found["bps"] and [found["bps"]["low"], found["bps"]["high"]]
        capacities.append(
            {
                "true": rate * 1e6,
                "found": bps,
                "interval": interval,
                "method": found["method"],
                "narrower": rate < narrowest,
                "least": found["at_least_bps"],
                "limited": bool(set(truth.hops[number - 1]) & truth.limited),
            }
        )
        narrowest = min(narrowest, rate)
    return {
        "hops": len(truth.hops),
        "parallel": any(len(hop) > 1 for hop in truth.hops),
        "ways": ways == links,
        "rewritten": bool(truth.rewrites),
        "rewrites": changes == expected,
        "silence": [hop["silence"] for hop in report["hops"]] == silence,
        "mtu": report["path_mtu"] == mtu,
        "capacities": capacities,
    }


def police(lab: Lab, truth: Truth) -> dict[str, Any] | None:
    """Return the estimates of a path's policer, with the true values."""
    if truth.police is None:
        return None
    answering = [str(PERHOP), "path", "--respond", "--listen", "0.0.0.0"]
    with lab.start("b", answering) as responder:
        try:
            options = ("--buckets", "--no-multipath", "--count=2", "--rate=500")
            report = probe(lab, "b", "-4", "--dscp=cs2", "--dscp=be", *options)
        finally:
            responder.terminate()
    policed, rest = (found["bucket"] for found in report["buckets"])
    rate, burst = truth.police
    return {"bps": rate * 1e3, "burst": burst, "found": policed, "elsewhere": rest}


def measure(seed: int, *, only_policers: bool = False) -> dict[str, Any]:
    """Measure a random path."""
    truth = draw(seed)
    if only_policers and truth.police is None:
        return {"seed": seed, "policer": None}
    begun = time.monotonic()
    lab = up(parse(truth.text, f"path-{seed}.yaml"), f"path-{os.getpid()}")
    try:
        dscps = [f"--dscp={name}" for name in DSCPS]
        probes = (*dscps, "--count=5", "--rate=500", "--capacity")
        judged = {} if only_policers else judge(truth, probe(lab, "b", "-4", *probes))
        policer = police(lab, truth)
    finally:
        lab.down()
    seconds = time.monotonic() - begun
    return {"seed": seed, **judged, "policer": policer, "seconds": seconds}


def share(found: list[bool]) -> str:
    """Return the number of right ones, of all."""
    return f"{sum(found)} of {len(found)}"


def table(results: list[dict[str, Any]]) -> None:
    """Print how much was right."""
    everything, results = results, [one for one in results if "ways" in one]
    print(f"{len(results)} random paths of 2 to 8 hops")
    print(
        f"  rewriting hop exact             {share([r['rewrites'] for r in results])}"
        f" ({sum(r['rewritten'] for r in results)} with one)"
    )
    print(
        f"  every parallel path exact        {share([r['ways'] for r in results])}"
        f" ({sum(r['parallel'] for r in results)} with some)"
    )
    print(f"  limits and silence exact        {share([r['silence'] for r in results])}")
    print(f"  path MTU exact                  {share([r['mtu'] for r in results])}")
    links = [link for r in results for link in r["capacities"]]
    near = [link for link in links if link["narrower"] and not link["limited"]]
    behind = [link for link in links if not link["narrower"] and not link["limited"]]
    for name, group in (("narrower than all before", near), ("behind a narrower one", behind)):
        known = [link for link in group if link["found"]]
        errors = sorted(abs(link["found"] / link["true"] - 1) for link in known)
        print(f"  capacity of links {name}")
        print(f"    known                         {len(known)} of {len(group)}")
        if errors:
            print(f"    within 10%                    {share([e <= 0.1 for e in errors])}")
            middle, worst = errors[len(errors) // 2], errors[-1]
            print(f"    median and largest error      {middle:.2%}, {worst:.2%}")
        inside = [
            low * 0.995 <= link["true"] <= high * 1.005
            for link in known
            for low, high in [link["interval"]]
        ]
        print(f"    interval true                 {share(inside)}")
        unknown = [link for link in group if not link["found"] and link["least"]]
        right = [link["least"] <= 1.03 * link["true"] for link in unknown]
        print(f"    unknown, least rate true      {share(right)}")
    policers(everything)


def policers(results: list[dict[str, Any]]) -> None:
    """Print how policers were found."""
    drawn = [found["policer"] for found in results if found["policer"]]
    known = [one for one in drawn if one["found"]]
    print("  policers")
    print(f"    found                         {len(known)} of {len(drawn)}")
    print(f"    said to be a policer          {share([is_policer(one) for one in known])}")
    for name, key, most in (("rate within 2%", "bps", 0.02), ("burst within 10%", "burst", 0.1)):
        said = [one for one in known if one["found"][key]]
        errors = sorted(abs(one["found"][key]["value"] / one[key] - 1) for one in said)
        print(f"    {f'{key} known':<29} {len(said)} of {len(known)}")
        if errors:
            middle, worst = errors[len(errors) // 2], errors[-1]
            print(f"    {name:<29} {share([error <= most for error in errors])}")
            print(f"    median and largest error      {middle:.2%}, {worst:.2%}")
            print(f"    interval true                 {share([holds(one, key) for one in said])}")
    print(f"    none of another DSCP          {share([not one['elsewhere'] for one in drawn])}")


def holds(one: dict[str, Any], key: str) -> bool:
    """Return whether the interval of a policer's rate or burst contains the truth, within 0.5%."""
    found = one["found"][key]
    return bool(found["low"] * 0.995 <= one[key] <= found["high"] * 1.005)


def is_policer(one: dict[str, Any]) -> bool:
    """Return whether the bucket that was found is a policer."""
    return bool(one["found"]["kind"] == "policer")


if __name__ == "__main__":
    given = sys.argv[1:]
    first = int(given[0]) if given else 1
    last = int(given[1]) if len(given) > 1 else 100
    found = partial(measure, only_policers="policers" in given[3:])
    table(measured(range(first, last + 1), found, Path(given[2]) if len(given) > 2 else None))
