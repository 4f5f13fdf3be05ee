"""Measure a run between many agents: how fast it starts, how exactly, and what it takes.

    python bench/live.py [HOSTS]

The hosts of a lab, 200 unless told otherwise, send to each other in pairs across one router, each
by an agent of its own. The program perhop-agent is built first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from perhop.dataset import Dataset
from perhop.lab import Lab, up
from perhop.scenario import Scenario, dump, parse

ROOT = Path(__file__).parent.parent
PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
RATE = 100_000
"""Rate at which each flow sends, in bit/s."""


def star(hosts: int) -> Scenario:
    """Pairs of hosts around a router, and a host for the controller."""
    names = [f"h{number}" for number in range(hosts)]
    pairs = list(zip(names[::2], names[1::2], strict=True))
    scenario: dict[str, Any] = {
        "perhop": 1,
        "name": "star",
        "nodes": {"control": "host", "r": "router", **dict.fromkeys(names, "host")},
        "links": [{"ends": [name, "r"], "rate": "100 Mbps"} for name in ("control", *names)],
        "flows": {
            f"f{number}": {
                "from": one,
                "to": other,
                "udp": {"rate": f"{RATE} bps", "size": "500 B"},
                "stop": "10 s",
            }
            for number, (one, other) in enumerate(pairs)
        },
    }
    return parse(json.dumps(scenario))


def serve(lab: Lab, scenario: Scenario, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start an agent on each host, and write down where it is."""
    program = ROOT / "target/release/perhop-agent"
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--package", "perhop-agent"],
        cwd=ROOT,
        check=True,
    )
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder)}
    made = subprocess.run([program, "key"], env=environment, check=True, stdout=subprocess.PIPE)
    (folder / "controller.pub").write_bytes(made.stdout)
    agents: dict[str, subprocess.Popen[bytes]] = {}
    for name in (each for each in scenario.nodes if each.startswith("h")):
        listen = f"{scenario.addresses[name]}:4861"
        options = ("--key", f"{name}.key", "--allow", "controller.pub", "--listen", listen)
        agents[name] = lab.start(
            name, [str(program), "serve", *options], cwd=folder, stdout=subprocess.PIPE
        )
    written = {}
    for name, agent in agents.items():
        assert agent.stdout is not None
        agent.stdout.readline()
        key = agent.stdout.readline().decode().removeprefix("key: ").strip()
        written[name] = {"address": str(scenario.addresses[name]), "key": key}
    (folder / "agents.yaml").write_text(json.dumps(written))
    return list(agents.values())


def resident(processes: list[subprocess.Popen[bytes]]) -> float:
    """The memory of some processes, in MB."""
    found = 0
    for each in processes:
        for line in Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines():
            found += int(line.split()[1]) if line.startswith("Pss:") else 0
    return found / 1000


def main(hosts: int) -> None:
    """Run the scenario, and print what it took."""
    scenario = star(hosts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lab = up(scenario)
        try:
            agents = serve(lab, scenario, folder)
            (folder / "star.yaml").write_text(dump(scenario))
            began = time.perf_counter()
            options = ("--engine", "live", "--agents", "agents.yaml", "--out", "run", "--json")
            run = lab.start(
                "control",
                [str(PERHOP), "run", "star.yaml", *options],
                cwd=folder,
                env={**os.environ, "XDG_CONFIG_HOME": str(folder)},
                stdout=subprocess.PIPE,
            )
            memory = 0.0
            while run.poll() is None and time.perf_counter() - began < 12:
                memory = max(memory, resident(agents))
                time.sleep(1)
            said = json.loads(run.communicate(timeout=120)[0])
            wall = time.perf_counter() - began
        finally:
            lab.down()
        live = Dataset.read(folder / "run").manifest.live
    assert live is not None
    bounds = [each.start_bound_us or 0 for each in live.agents.values()]
    rates = [flow["throughput_bps"] for flow in said["flows"].values()]
    print(f"{len(live.agents)} agents, {len(rates)} flows of {RATE // 1000} kb/s for 10 s")
    print(f"wall time of the whole command: {wall:.1f} s")
    print(f"all hosts started within {max(bounds)} µs of the agreed instant")
    print(f"goodput of a flow: {min(rates) / 1000:.1f} to {max(rates) / 1000:.1f} kb/s")
    print(f"memory of all agents: {memory:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
