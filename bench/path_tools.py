"""Compare `perhop path` with traceroute, mtr and tracepath on random paths of bench/path.py.

    python bench/path_tools.py [FILE [SEED...]]

Each tool runs as its manual suggests. What each finds goes into FILE as a line of JSON, if given;
the table is of all lines of FILE.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from path import DSCPS, PERHOP, Truth, draw, judge
from slices import measured

from perhop.lab import Lab, up
from perhop.scenario import parse

SEEDS = (2, 6, 12, 20, 23, 29, 36, 42, 56, 83)
"""Paths that have at least three of parallel paths, a short MTU, a router that limits its errors or
sends none, and a change of DSCP."""

TOOLS = {
    "traceroute": ["traceroute", "-4", "-n", "b"],
    "traceroute --mtu": ["traceroute", "-4", "-n", "--mtu", "b"],
    "mtr": ["mtr", "-4", "-n", "--report", "--report-cycles", "10", "b"],
    "tracepath": ["tracepath", "-4", "-n", "b"],
    "perhop path": [
        *(str(PERHOP), "path", "b", "-4", "--json", "--count=5", "--rate=500"),
        *(f"--dscp={name}" for name in DSCPS),
    ],
}

ADDRESS = re.compile(r"\b10\.0\.0\.\d+\b")
HOP = re.compile(r"^\s*(\d+)[:.?]")
NUMBER = re.compile(r"^\s*(\d+)\s")
LOSS = re.compile(r"^\s*(\d+)\.\|--\s+(\S+)\s+([0-9.]+)%")


def sent(lab: Lab) -> int:
    """Packets that the first host has sent."""
    with lab.start("a", ["cat", "/proc/net/dev"], stdout=subprocess.PIPE, text=True) as process:
        lines = process.communicate(timeout=30)[0].splitlines()[2:]
    counters = dict(line.split(":", 1) for line in lines)
    return sum(int(text.split()[9]) for name, text in counters.items() if name.strip() != "lo")


def hops_of(tool: str, out: str) -> dict[int, set[str]]:
    """The addresses that a tool's output has for each hop."""
    found: dict[int, set[str]] = {}
    if tool == "perhop path":
        return {
            hop["ttl"]: {node["address"] for node in hop["addresses"]}
            for hop in json.loads(out)["hops"]
        }
    for line in out.splitlines():
        number = HOP.match(line) or NUMBER.match(line)
        if number is not None and "LOCALHOST" not in line:
            found.setdefault(int(number[1]), set()).update(ADDRESS.findall(line))
    return found


def mtu_of(tool: str, out: str) -> int | None:
    """The path MTU that a tool's output has."""
    if tool == "perhop path":
        mtu: int | None = json.loads(out)["path_mtu"]
        return mtu
    said = re.findall(r"pmtu (\d+)" if tool == "tracepath" else r"F=(\d+)", out)
    return int(said[-1]) if said else None


def compare(truth: Truth, tool: str, out: str) -> dict[str, Any]:
    """Compare a tool's output with the truth."""
    found = hops_of(tool, out)
    stages = [{address for node in hop if (address := truth.address(node))} for hop in truth.hops]
    wanted = [(ttl, stage) for ttl, stage in enumerate(stages, 1) if stage]
    limited = {ttl for ttl, hop in enumerate(truth.hops, 1) if set(hop) & truth.limited}
    result: dict[str, Any] = {
        "hops": (sum(bool(found.get(ttl, set()) & stage) for ttl, stage in wanted), len(wanted)),
        "nodes": (
            sum(len(found.get(ttl, set()) & stage) for ttl, stage in wanted),
            sum(len(stage) for _, stage in wanted),
        ),
        "mtu": mtu_of(tool, out) == min(truth.mtus.values()),
        "limited": len(limited),
        "limited_as_loss": 0,
        "rewrites": None,
    }
    if tool == "mtr":
        losses = {int(m[1]): float(m[3]) for line in out.splitlines() if (m := LOSS.match(line))}
        result["limited_as_loss"] = sum(losses.get(ttl, 0) > 0 for ttl in limited)
    if tool == "perhop path":
        judged = judge(truth, {**json.loads(out)})
        result["rewrites"] = judged["rewrites"]
        result["limited_told"] = judged["silence"]
    return result


def measure(seed: int) -> dict[str, Any]:
    """Run every tool on a path."""
    truth = draw(seed)
    lab = up(parse(truth.text, f"path-{seed}.yaml"), f"tools-{os.getpid()}")
    found = {}
    try:
        for tool, command in TOOLS.items():
            before, begun = sent(lab), time.monotonic()
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with lab.start("a", command, **streams) as process:
                out, err = process.communicate(timeout=200)
            seconds, packets = time.monotonic() - begun, sent(lab) - before
            if process.returncode:
                raise SystemExit(f"{tool}: {err}")
            result = compare(truth, tool, out)
            found[tool] = {**result, "seconds": seconds, "packets": packets}
    finally:
        lab.down()
    return {"seed": seed, "rewritten": bool(truth.rewrites), "found": found}


def table(results: list[dict[str, Any]]) -> None:
    """Print what each tool found."""
    print(f"{len(results)} paths, {sum(one['rewritten'] for one in results)} change a DSCP")
    print(
        f"{'':17} {'hops':>9} {'routers':>9} {'MTU':>9} {'limits as loss':>15}"
        f" {'rewrites':>9} {'seconds':>8} {'packets':>8}"
    )
    for tool in TOOLS:
        rows = [one["found"][tool] for one in results]

        def total(name: str, rows: list[dict[str, Any]] = rows) -> str:
            return f"{sum(row[name][0] for row in rows)}/{sum(row[name][1] for row in rows)}"

        rewrites = [row["rewrites"] for row in rows if row["rewrites"] is not None]
        told = f"{sum(rewrites)}/{len(rewrites)}" if rewrites else "-"
        as_loss = sum(row["limited_as_loss"] for row in rows)
        shows = tool in {"mtr", "perhop path"}
        limits = f"{as_loss}/{sum(row['limited'] for row in rows)}" if shows else "-"
        mtus = f"{sum(row['mtu'] for row in rows)}/{len(rows)}"
        seconds, packets = (median(row[name] for row in rows) for name in ("seconds", "packets"))
        print(
            f"{tool:17} {total('hops'):>9} {total('nodes'):>9} {mtus:>9} {limits:>15}"
            f" {told:>9} {seconds:8.1f} {packets:8.0f}"
        )


if __name__ == "__main__":
    given = sys.argv[1:]
    seeds = tuple(map(int, given[1:])) or SEEDS
    table(measured(seeds, measure, Path(given[0]) if given else None))
